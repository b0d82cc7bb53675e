"""Why: the rule behind each effect of a step, with what each open call waits for; and what the user may do now."""

from collections.abc import Callable, Iterator
from typing import assert_never, final

from attrs import frozen

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.causes import Cause
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.errors import demand_kind
from loopkernel.data.ids import MessageId
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.messages import SENT_BY_USER, UserMessage
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.sessions import Session
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
    demand_state,
)
from loopkernel.data.steps import Context, is_refused
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    CompactNow,
    Correct,
    CrashAnswerKind,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    Forget,
    Permit,
    Reject,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
    Swap,
    UserDelta,
)
from loopkernel.data.waits import Wait
from loopkernel.loop.algorithms.interaction import Interaction, interaction
from loopkernel.loop.transition import transition
from loopkernel.views.causes import rule_of
from loopkernel.views.waits import waits_of


@final
@frozen
class Explanation:
    """Why each effect of a step, in order; and what each open call waits for in the state after it.

    The waits are told where they are asked for, since telling them costs as much as the reply has calls.
    """

    causes: tuple[Cause, ...]
    after: State
    tell: Callable[[State], tuple[Wait, ...]] = waits_of

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What each open call waits for, in the order of the calls."""
        return self.tell(self.after)


def explain(state: State, ctx: Context) -> Explanation:
    """The same step again, told."""
    demand_state(state)
    demand_kind(ctx, (Context,), "a step takes a Context: Context(delta, now_ms)")
    step = transition(state, ctx)
    causes = tuple(Cause(effect, ctx.delta, *rule_of(effect, ctx.delta, step.effects)) for effect in step.effects)
    return Explanation(causes, step.next)


def interaction_of(state: State) -> Interaction:
    """What the user can do now, in one word (rule STATE-6)."""
    match state:
        case Streaming() | Thinking() | Cancelled() | Compacting():
            return _interaction(state, inferring=True)
        case Done():
            return _interaction(state, inferring=state.cancel is not None, resting=True)
        case Idle() | Initial():
            return _interaction(state, resting=True)
        case Executing() | Confirming() | Dispatching():
            return _interaction(state, asking=state.ledger.waiting > 0, running=state.ledger.running > 0)
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
    demand_state(state)
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
    if settings.remembered:
        yield from (Forget(), *map(Forget, settings.remembered))
    yield from (ChangePolicy(settings.policy), ChangeTools(settings.tools), ChangeInstructions(settings.instructions))
    yield from (CancelCall(run.call) for run in session.held if run.background)
    sent = _last_input(session)
    if sent is not None:
        yield EditMessage(message=sent, content=content)
    for entry in _open_calls(state):
        call, given = entry.call.id, entry.given
        yield from (CancelCall(call), Approve(call=call), Reject(call=call), AnswerQuestion(call=call, value=None))
        yield from (AnswerAfterCrash(call=call, kind=kind) for kind in CrashAnswerKind)
        if not isinstance(given, RawInput):
            yield from (Correct(call=call, input=given), Swap(call=call, tool=entry.tool, input=given))


def _last_input(session: Session) -> MessageId | None:
    """The last message that the user sent; any before it may be edited exactly when that one may."""
    parts = (*(removal.messages for removal in session.compactions.removals), session.thread.messages)
    backwards = (part[index] for part in reversed(parts) for index in range(len(part) - 1, -1, -1))
    sent = (found for found in backwards if isinstance(found, UserMessage) and found.origin in SENT_BY_USER)
    return next((found.id for found in sent), None)


def _open_calls(state: State) -> tuple[LedgerEntry, ...]:
    match state:
        case Streaming() | Executing() | Confirming() | Dispatching():
            return tuple(entry for entry in state.ledger.entries if entry.is_open)
        case Initial() | Idle() | Thinking() | Finishing() | Compacting() | Backoff() | HandingOff():
            return ()
        case Cancelled() | Done():
            return ()
        case _:
            assert_never(state)
