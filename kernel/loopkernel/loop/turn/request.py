"""The beginning of turns and of requests."""

from attrs import evolve

from loopkernel.data.blocks import UserBlock
from loopkernel.data.choices import OutputDemand
from loopkernel.data.effects import CallModel, Effect, new_request
from loopkernel.data.events import OpaqueDropped
from loopkernel.data.ids import ModelOperation, OperationKind, ReceiptId
from loopkernel.data.ledgers import Ledger, new_ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import OpenReply, Session, Turn
from loopkernel.data.timers import Timer
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import RequestReason, TimerPurpose
from loopkernel.loop.algorithms.loop_detection import is_disabled
from loopkernel.loop.algorithms.retry import model_at
from loopkernel.loop.draft import Draft, L, minted_timer
from loopkernel.loop.history.thread import add_input


def open_turn(draft: Draft[L], reason: RequestReason) -> tuple[Draft[L], Turn]:
    """A new turn; its first request is made for `reason`."""
    counters = evolve(draft.session.counters, turns=draft.session.counters.turns + 1)
    draft = draft.with_session(draft.session.updated(counters=counters))
    return draft, Turn(number=counters.turns, opened_ms=draft.stamp.now_ms, reason=reason)


def open_turn_with(
    draft: Draft[L],
    content: tuple[UserBlock, ...],
    receipt: ReceiptId,
    *,
    origin: UserOrigin = UserOrigin.SAID,
    key: str | None = None,
) -> tuple[Draft[L], Turn]:
    """A new turn that begins with what the user sent."""
    return open_turn(add_input(draft, content, origin, receipt, key), RequestReason.USER)


def output_limit(policy: Policy, turn: Turn) -> int | None:
    """How many tokens the next reply may have: the highest limit that truncated replies have led to (rule INFER-7)."""
    raised = turn.recovery.raised
    limits = policy.on_truncation.escalate_to
    return limits[min(raised, len(limits)) - 1] if raised and limits else policy.max_output_tokens


@frozen
class Asked:
    """A model call that has been made, with an empty ledger for its calls; the timers bound it."""

    session: Session
    effects: tuple[Effect, ...]
    ledger: Ledger
    reply: OpenReply
    silence: Timer | None
    time_limit: Timer | None


def begin_request(draft: Draft[L], turn: Turn) -> Asked:
    """The model is asked (rule INFER-1)."""
    session = draft.session
    operations, number = session.operations.mint(OperationKind.MODEL)
    operation = ModelOperation(number)
    settings, policy, thread = session.settings, session.settings.policy, session.thread
    model = model_at(policy, turn.recovery.model)
    tools = settings.tools
    required = policy.output_required and policy.output_tool is not None
    until_given = turn.demanded and required and policy.output_demand is OutputDemand.UNTIL_GIVEN
    forced = policy.output_tool if turn.forcing or until_given else None
    if until_given:
        tools = tuple(tool for tool in tools if tool.name == forced)
    elif session.watch.disabled:
        tools = tuple(tool for tool in tools if not is_disabled(session.watch, tool.name))
    request = new_request(
        number=operation,
        reason=turn.reason,
        model=model,
        instructions=settings.instructions,
        tools=tools,
        thread=thread,
        max_output_tokens=output_limit(policy, turn),
        forced_tool=forced,
        stream=not turn.recovery.unstreamed,
    )
    if session.last_model != model:
        foreign = tuple(name for name in thread.opaque_models if name != model)
        draft = draft.tell(OpaqueDropped(operation, foreign)) if foreign else draft
    effects = [*draft.effects, CallModel(operation, request)]
    silence: Timer | None = None  # as `watch_silence` and `watch_time` set them; at once, since every round comes by
    time_limit: Timer | None = None
    if policy.silence_ms is not None:
        deadline_ms = draft.stamp.now_ms + policy.silence_ms
        operations, silence, command = minted_timer(operations, TimerPurpose.SILENCE, deadline_ms)
        effects.append(command)
    if policy.max_wall_ms is not None:
        deadline_ms = turn.opened_ms + policy.max_wall_ms
        operations, time_limit, command = minted_timer(operations, TimerPurpose.WALL_TIME, deadline_ms)
        effects.append(command)
    session = session.updated(operations=operations, last_model=model)
    minted = operations.minted
    ledger = new_ledger(
        reply=operation,
        opened_ms=turn.opened_ms,
        nonce=settings.nonce,
        first_check=minted[OperationKind.CHECK] + 1,
        first_run=minted[OperationKind.RUN] + 1,
        first_timer=minted[OperationKind.TIMER] + 1,
        first_hook=minted[OperationKind.HOOK] + 1,
    )
    reply = OpenReply(operation, model, limit=request.max_output_tokens)
    return Asked(session, tuple(effects), ledger, reply, silence, time_limit)


def watch_silence(draft: Draft[L], heard_ms: int) -> tuple[Draft[L], Timer | None]:
    """When the stream, last heard of at that time, has been silent for too long, that is looked at (rule INFER-11)."""
    silence_ms = draft.session.settings.policy.silence_ms
    return (draft, None) if silence_ms is None else draft.start_timer(TimerPurpose.SILENCE, heard_ms + silence_ms)


def watch_time(draft: Draft[L], turn: Turn) -> tuple[Draft[L], Timer | None]:
    """When the turn has no more time, its reply under way is ended (rule LIMIT-4)."""
    limit_ms = draft.session.settings.policy.max_wall_ms
    return (draft, None) if limit_ms is None else draft.start_timer(TimerPurpose.WALL_TIME, turn.opened_ms + limit_ms)
