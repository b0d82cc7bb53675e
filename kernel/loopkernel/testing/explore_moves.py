"""The deltas that the outside could send in a state: what is owed, what the user may want, and what comes ill-timed.

A scope bounds them, so that all runs within it can be explored. Every text is one letter, and no usage is reported,
so that runs which differ in nothing that matters meet in one state.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import frozen

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    OperationKind,
    QueueNumber,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    HookBlock,
    HookContinue,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
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
)
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import InvalidCall, ToolOutput, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import (
    Approve,
    CancelAll,
    CancelCall,
    CompactNow,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
    UserDelta,
)
from loopkernel.data.words import CallStatus, ErrorClass, StopReason
from loopkernel.laws.views import ledger_in

A = (TextBlock("a"),)
OUTPUT = ToolOutput(content=A)
RESTS = (Idle, Cancelled, Done, Initial)


class MoveKind(enum.Enum):
    """Who sends a delta, and whether it is due."""

    REPORT = "report"  # owed by the outside for what is open
    USER = "user"
    ILL_TIMED = "ill-timed"  # late, sent twice, about nothing, or not for this phase


@frozen
class Move:
    """A delta that may come in a state."""

    kind: MoveKind
    delta: Delta


@frozen(kw_only=True)
class Scope:
    """How far runs go: `calls` a reply, `rounds` with calls a turn, `turns` in all (None: any number).

    At most `waiting` messages wait, queued or as steers, and of the latter one at a time. The call at place n
    names `tools[n]`, the first again after the last. `also` is what else the user may want at any time.
    """

    calls: int = 2
    rounds: int = 2
    turns: int | None = None
    waiting: int = 2
    tools: tuple[str, ...] = ("r", "w")
    verdicts: tuple[Verdict, ...] = (ValidCall(), UnknownTool())
    stops: tuple[StopReason, ...] = (StopReason.END_TURN,)
    texts: bool = True
    progress: bool = False
    lives: bool = False  # the thread is released and taken up again
    crashes: bool = False  # the process is restarted
    also: tuple[UserDelta, ...] = ()


def moves(state: State, scope: Scope) -> Iterator[Move]:
    """Everything that may come in this state, within the scope."""
    for delta in reports(state, scope):
        yield Move(MoveKind.REPORT, delta)
    for delta in wishes(state, scope):
        yield Move(MoveKind.USER, delta)
    for delta in strays(state):
        yield Move(MoveKind.ILL_TIMED, delta)


# --- what is owed ---------------------------------------------------------------------------------------


def reports(state: State, scope: Scope) -> Iterable[Delta]:
    """What the outside may report on the operations that are open in the state."""
    match state:
        case Streaming():
            return (*_model_reports(state, scope), *_tool_reports(state.ledger, scope))
        case Executing() | Confirming() | Dispatching():
            return _tool_reports(state.ledger, scope)
        case Thinking():
            return () if state.gate is None else _hook_reports(state.gate)
        case Compacting():
            return (SummaryReady(state.operation, "a"), SummaryFailed(state.operation, "a"))
        case Backoff():
            return (TimerFired(state.timer),)
        case Finishing():
            if state.correction is not None:
                return (CorrectionAnswered(state.correction, None), CorrectionAnswered(state.correction, "a"))
            return () if state.hook is None else _hook_reports(state.hook)
        case HandingOff():
            return (HandoffDone(state.operation, "t"), HandoffFailed(state.operation, "a"))
        case Initial() | Idle() | Cancelled() | Done():
            return ()
        case _:
            assert_never(state)


def _hook_reports(hook: HookOperation) -> tuple[Delta, ...]:
    return (HookAnswered(hook, HookContinue()), HookAnswered(hook, HookBlock("a")))


def _model_reports(state: Streaming, scope: Scope) -> Iterator[Delta]:
    operation, calls = state.reply.operation, state.ledger.entries.size
    if scope.texts and not state.pieces.size:
        yield ModelText(operation, "a")
    if calls < scope.calls and state.turn.replies < scope.rounds:
        tool = scope.tools[calls % len(scope.tools)]
        name = f"c{operation}{calls + 1}"
        yield ModelCall(operation, provider_id=name, tool=tool, input=Json.of({"path": "a"}))
    for stop in scope.stops:
        yield ModelCompleted(operation, stop)
    yield ModelFailed(operation, error=ErrorClass.NETWORK)


def _tool_reports(ledger: Ledger, scope: Scope) -> Iterator[Delta]:
    for entry in ledger.entries:
        if entry.check is not None:
            for verdict in scope.verdicts:
                yield ToolChecked(entry.check, verdict)
        if entry.status is CallStatus.IN_PROGRESS and entry.operation is not None:
            yield ToolSucceeded(entry.operation, OUTPUT)
            yield ToolFailed(entry.operation, OUTPUT)
            yield ToolStopped(entry.operation)
            if scope.progress and not entry.progress.size:
                yield ToolProgress(entry.operation, "a")


# --- what the user may want -----------------------------------------------------------------------------


def wishes(state: State, scope: Scope) -> Iterator[Delta]:
    """What the user, and the owner of the thread, may want."""
    session = state.session
    if session is None:
        return
    if isinstance(state, Initial):
        yield from (Acquired(), Resumed())
        return
    inbox = session.inbox
    waiting = len(inbox.queue) + len(inbox.steers)
    key = None if inbox.keys else "k1"
    full = len(inbox.queue) >= session.settings.policy.queue_limit
    if scope.turns is None or session.counters.turns + waiting < scope.turns:
        if waiting < scope.waiting or full:
            yield Say(content=A, key=key)
            yield Enqueue(content=A, key=key)
        if waiting < scope.waiting and not inbox.steers:
            yield Steer(content=A, key=key)
        if isinstance(state, RESTS):
            yield RetryNow()
    if inbox.queue:
        yield Discard(None)
    if not isinstance(state, RESTS):
        yield CancelAll()
    for call in open_calls(state):
        yield CancelCall(call)
    if scope.lives:
        yield Disposed()
    if scope.crashes:
        yield Resumed()
    yield from scope.also


def open_calls(state: State) -> tuple[CallId, ...]:
    """The calls that are not answered yet."""
    ledger = ledger_in(state)
    return () if ledger is None else tuple(entry.call.id for entry in ledger.entries if entry.is_open)


# --- what comes ill-timed -------------------------------------------------------------------------------

UNKNOWN_CALL = CallId(ModelOperation(99), 1)
_WRONG_PHASE: tuple[Delta, ...] = (
    Approve(call=UNKNOWN_CALL),
    CancelCall(UNKNOWN_CALL),
    Discard(QueueNumber(99)),
    EditMessage(message=MessageId(1), content=A),
    DismissError(),
    CompactNow(),
    StartHandoff("a"),
    Created(session_id="t"),
    Forked(session_id="t"),
    TimerFired(TimerOperation(1)),
    HookAnswered(HookOperation(1), HookContinue()),
    SummaryReady(SummaryOperation(1), "a"),
)


def strays(state: State) -> Iterator[Delta]:
    """Deltas that do not apply in the state: reports on what is closed or was never begun, input sent twice."""
    session = state.session
    if not isinstance(state, Compacting | Backoff | HandingOff | Finishing | Thinking):
        yield from _WRONG_PHASE
    if session is None:
        yield from _stray_reports(ModelOperation(1), CheckOperation(1), RunOperation(1))
        yield from (Acquired(), Resumed(), Say(content=A), CancelAll())
        return
    yield from _late_reports(state, session)
    if session.inbox.keys:
        yield Say(content=A, key="k1")  # the first message, once more
    if not isinstance(state, Initial):
        yield Acquired()
    if isinstance(state, RESTS):
        yield CancelAll()
    if isinstance(state, Streaming):
        yield RetryNow()


def _late_reports(state: State, session: Session) -> Iterator[Delta]:
    """Reports on operations that are closed, and on the next one of each kind, which is not begun."""
    ledger = ledger_in(state)
    entries = () if ledger is None else tuple(ledger.entries)
    model = state.reply.operation if isinstance(state, Streaming) else None
    checks = {entry.check for entry in entries}
    runs = {entry.operation for entry in entries if entry.is_open}
    minted = session.operations.minted
    for number in _around(minted[OperationKind.MODEL]):
        if number != model:
            yield ModelText(ModelOperation(number), "b")
            yield ModelCompleted(ModelOperation(number), StopReason.END_TURN)
    for number in _around(minted[OperationKind.CHECK]):
        if number not in checks:
            yield ToolChecked(CheckOperation(number), InvalidCall("b"))
    for number in _around(minted[OperationKind.RUN]):
        if number not in runs:
            yield ToolSucceeded(RunOperation(number))
            yield ToolStopped(RunOperation(number))


def _around(newest: int) -> tuple[int, ...]:
    """The first number, the two newest, and the one after them."""
    return tuple(sorted({1, max(newest - 1, 1), newest, newest + 1}))


def _stray_reports(model: ModelOperation, check: CheckOperation, run: RunOperation) -> tuple[Delta, ...]:
    return (
        ModelText(model, "b"),
        ModelFailed(model, error=ErrorClass.SERVER),
        ToolChecked(check, ValidCall()),
        ToolFailed(run),
        ToolProgress(run, "b"),
        ToolAsked(run, "b"),
    )
