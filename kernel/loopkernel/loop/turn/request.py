"""The beginning of turns and of requests."""

from attrs import evolve, frozen

from loopkernel.data.blocks import UserBlock
from loopkernel.data.effects import CallModel, Effect, Request
from loopkernel.data.events import OpaqueDropped
from loopkernel.data.ids import ModelOperation, OperationKind, ReceiptId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.operations import Operations
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import OpenReply, Session, Turn
from loopkernel.data.timers import Timer
from loopkernel.data.words import RequestReason, TimerPurpose
from loopkernel.loop.algorithms.loop_detection import is_disabled
from loopkernel.loop.algorithms.retry import model_at
from loopkernel.loop.gates.timers import start_timer
from loopkernel.loop.history.thread import add_input


def open_turn(session: Session, now_ms: int, reason: RequestReason) -> tuple[Session, Turn]:
    """A new turn; its first request is made for `reason`."""
    number = session.counters.turns + 1
    session = evolve(session, counters=evolve(session.counters, turns=number))
    return session, Turn(number=number, opened_ms=now_ms, reason=reason)


def open_turn_with(
    session: Session,
    now_ms: int,
    content: tuple[UserBlock, ...],
    receipt: ReceiptId,
    *,
    origin: UserOrigin = UserOrigin.SAID,
    key: str | None = None,
) -> tuple[Session, Turn, tuple[Effect, ...]]:
    """A new turn that begins with what the user sent."""
    session, added = add_input(session, content, origin, receipt, key)
    session, turn = open_turn(session, now_ms, RequestReason.USER)
    return session, turn, added


def output_limit(policy: Policy, turn: Turn) -> int | None:
    """How many tokens the next reply may have: the highest limit that truncated replies have led to (rule INFER-7)."""
    raised = turn.recovery.raised
    limits = policy.on_truncation.escalate_to
    return limits[min(raised, len(limits)) - 1] if raised and limits else policy.max_output_tokens


@frozen(kw_only=True)
class Asked:
    """A model call that has been made: its open reply, an empty ledger for its calls, and the timers that bound it."""

    session: Session
    reply: OpenReply
    ledger: Ledger
    silence: Timer | None
    time_limit: Timer | None
    effects: tuple[Effect, ...]


def begin_request(session: Session, turn: Turn, now_ms: int) -> Asked:
    """The model is asked (rule INFER-1)."""
    settings = session.settings
    policy = settings.policy
    model = model_at(policy, turn.recovery.model)
    tools = settings.tools
    if session.watch.disabled:
        tools = tuple(tool for tool in tools if not is_disabled(session.watch, tool.name))
    operations, number = session.operations.mint(OperationKind.MODEL)
    operation = ModelOperation(number)
    request = Request(
        number=operation,
        reason=turn.reason,
        model=model,
        instructions=settings.instructions,
        tools=tools,
        thread=session.thread,
        max_output_tokens=output_limit(policy, turn),
        forced_tool=policy.output_tool if turn.forcing else None,
    )
    effects: tuple[Effect, ...] = (CallModel(operation, request),)
    operations, silence, timed = watch_silence(operations, policy, now_ms)
    effects = (*effects, *timed)
    operations, time_limit, timed = watch_time(operations, policy, turn)
    effects = (*effects, *timed)
    if session.last_model != model:
        foreign = tuple(name for name in session.thread.opaque_models if name != model)
        if foreign:
            effects = (OpaqueDropped(operation, foreign), *effects)
    ledger = Ledger(
        reply=operation,
        opened_ms=turn.opened_ms,
        nonce=settings.nonce,
        first_check=operations.minted[OperationKind.CHECK] + 1,
        first_run=operations.minted[OperationKind.RUN] + 1,
        first_timer=operations.minted[OperationKind.TIMER] + 1,
        first_hook=operations.minted[OperationKind.HOOK] + 1,
    )
    session = session.updated(operations=operations, last_model=model)
    reply = OpenReply(operation, model, limit=request.max_output_tokens)
    return Asked(session=session, reply=reply, ledger=ledger, silence=silence, time_limit=time_limit, effects=effects)


def watch_silence(
    operations: Operations, policy: Policy, heard_ms: int
) -> tuple[Operations, Timer | None, tuple[Effect, ...]]:
    """When the stream, last heard of at that time, has been silent for too long, that is looked at (rule INFER-11)."""
    if policy.silence_ms is None:
        return operations, None, ()
    operations, timer, started = start_timer(operations, TimerPurpose.SILENCE, heard_ms + policy.silence_ms)
    return operations, timer, (started,)


def watch_time(
    operations: Operations, policy: Policy, turn: Turn
) -> tuple[Operations, Timer | None, tuple[Effect, ...]]:
    """When the turn has no more time, its reply under way is ended (rule LIMIT-4)."""
    if policy.max_wall_ms is None:
        return operations, None, ()
    operations, timer, started = start_timer(operations, TimerPurpose.WALL_TIME, turn.opened_ms + policy.max_wall_ms)
    return operations, timer, (started,)
