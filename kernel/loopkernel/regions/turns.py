"""The beginning of turns and of requests."""

from attrs import evolve

from loopkernel.data.blocks import UserBlock
from loopkernel.data.effects import CallModel, Effect, Request
from loopkernel.data.events import OpaqueDropped
from loopkernel.data.ids import ModelOperation, OperationKind, ReceiptId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import OpenReply, Session, Turn
from loopkernel.data.words import RequestReason
from loopkernel.regions.conversation import add_input


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


def demands_output(turn: Turn) -> bool:
    """Whether the request is made to get the output that is still missing (rule CALL-5)."""
    return turn.demanded and turn.reason is RequestReason.NUDGE


def begin_request(session: Session, turn: Turn) -> tuple[Session, OpenReply, Ledger, tuple[Effect, ...]]:
    """The model is asked: the operation, the open reply, an empty ledger for its calls (rule INFER-1)."""
    settings = session.settings
    model = settings.policy.model
    operations, number = session.operations.mint(OperationKind.MODEL)
    operation = ModelOperation(number)
    request = Request(
        number=operation,
        reason=turn.reason,
        model=model,
        instructions=settings.instructions,
        tools=settings.tools,
        thread=session.thread,
        max_output_tokens=settings.policy.max_output_tokens,
        forced_tool=settings.policy.output_tool if demands_output(turn) else None,
    )
    effects: tuple[Effect, ...] = (CallModel(operation, request),)
    if session.last_model != model:
        foreign = tuple(name for name in session.thread.opaque_models if name != model)
        if foreign:
            effects = (OpaqueDropped(operation, foreign), *effects)
    ledger = Ledger(
        reply=operation,
        first_check=operations.minted[OperationKind.CHECK] + 1,
        first_run=operations.minted[OperationKind.RUN] + 1,
        first_timer=operations.minted[OperationKind.TIMER] + 1,
    )
    session = evolve(session, operations=operations, last_model=model)
    return session, OpenReply(operation, model), ledger, effects
