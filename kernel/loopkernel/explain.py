"""Why: the rule behind each effect of a step, what each open call waits for, and what the user may do now."""

from collections.abc import Iterator
from typing import assert_never

from attrs import frozen

from loopkernel.causes import rule_of
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.sessions import Settings
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context, is_refused
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import (
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    CompactNow,
    Discard,
    DismissError,
    Enqueue,
    Permit,
    Reject,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
    UserDelta,
)
from loopkernel.data.words import CallStatus
from loopkernel.planning.interaction import Interaction, interaction
from loopkernel.regions.ledger import blocker
from loopkernel.transition import transition


@frozen
class Cause:
    """An effect, the delta that caused it, the rule that asks for it, and that rule in a sentence."""

    effect: Effect
    delta: Delta
    rule: str
    because: str


@frozen
class Wait:
    """An open call, and everything it waits for, as sentences for a screen."""

    call: CallId
    reasons: tuple[str, ...]


@frozen
class Explanation:
    """Why each effect of a step, in order; and what each open call waits for after it."""

    causes: tuple[Cause, ...]
    waits: tuple[Wait, ...]


def explain(state: State, ctx: Context) -> Explanation:
    """The same step again, told."""
    step = transition(state, ctx)
    causes = tuple(Cause(effect, ctx.delta, *rule_of(effect, ctx.delta)) for effect in step.effects)
    return Explanation(causes, waits_of(step.next))


def waits_of(state: State) -> tuple[Wait, ...]:
    """What each open call waits for."""
    match state:
        case Streaming():
            return tuple(_waits(state.ledger, state.session.settings, "the end of the reply"))
        case Executing() | Confirming() | Dispatching():
            return tuple(_waits(state.ledger, state.session.settings, None))
        case Initial() | Idle() | Thinking() | Finishing() | Compacting() | Backoff() | HandingOff():
            return ()
        case Cancelled() | Done():
            return ()
        case _:
            assert_never(state)


def _waits(ledger: Ledger, settings: Settings, also: str | None) -> Iterator[Wait]:
    for place, entry in enumerate(ledger.entries):
        if not entry.is_open:
            continue
        reasons = [] if also is None else [also]
        if entry.status is CallStatus.IN_PROGRESS:
            reasons.append("its own result")
        elif entry.status is CallStatus.BLOCKED_ON_USER:
            reasons.append("your approval")
        elif entry.check is not None:
            reasons.append("the check of its input")
        elif also is None:
            reasons.append(_held_back_by(ledger, place, settings))
        yield Wait(entry.call.id, tuple(reasons))


def _held_back_by(ledger: Ledger, place: int, settings: Settings) -> str:
    """Why a checked call has not started: the first earlier call in its way, or the slots."""
    earlier = blocker(ledger, place, settings)
    if earlier is None:
        return f"a free slot: all {settings.policy.max_parallel} are taken"
    entry = ledger.entries[earlier]
    if entry.check is not None:
        return f"the check of call {entry.call.id}, since what that call touches is not known yet"
    return f"call {entry.call.id}, which comes first under the schedule {settings.policy.schedule.value}"


def interaction_of(state: State) -> Interaction:
    """What the user can do now, in one word (rule STATE-6)."""
    match state:
        case Streaming() | Thinking() | Cancelled() | Compacting():
            return _interaction(state, inferring=True)
        case Done():
            return _interaction(state, inferring=state.cancel is not None, resting=True)
        case Idle() | Initial():
            return _interaction(state, resting=True)
        case Executing() | Dispatching():
            return _interaction(state, running=state.ledger.running > 0)
        case Confirming():
            return _interaction(state, asking=True)
        case HandingOff():
            return _interaction(state, handing_off=True)
        case Finishing() | Backoff():
            return _interaction(state)
        case _:
            assert_never(state)


def _interaction(
    state: State,
    *,
    handing_off: bool = False,
    inferring: bool = False,
    resting: bool = False,
    asking: bool = False,
    running: bool = False,
) -> Interaction:
    empty = state.session is None or len(state.session.thread) == 0
    return interaction(
        handing_off=handing_off, inferring=inferring, resting=resting, empty=empty, asking=asking, running=running
    )


def accepted_inputs(state: State) -> tuple[UserDelta, ...]:
    """The inputs that would not be refused now, found by trying each: it can never disagree with the loop."""
    now_ms = state.stamp.now_ms
    return tuple(
        delta for delta in _candidates(state) if not is_refused(transition(state, Context(delta, now_ms)).effects)
    )


def _candidates(state: State) -> Iterator[UserDelta]:
    """One of each input; one for each open call and each queued input where that matters."""
    content = (TextBlock("..."),)
    yield from (Say(content=content), Enqueue(content=content), Steer(content=content))
    yield from (CancelAll(), RetryNow(), DismissError(), CompactNow(), StartHandoff("..."), Discard())
    session = state.session
    if session is None:
        return
    settings = session.settings
    yield from (Discard(waiting.number) for waiting in session.inbox.queue)
    yield from (ChangeMode(ApprovalMode.DEFAULT), Permit(ApprovalRule(decision=Decision.ALLOW)))
    yield from (ChangePolicy(settings.policy), ChangeTools(settings.tools), ChangeInstructions(settings.instructions))
    for wait in waits_of(state):
        yield from (CancelCall(wait.call), Approve(call=wait.call), Reject(call=wait.call))
