"""What comes ill-timed in a state: reports on what is closed or was never begun, answers that nobody asked for."""

from collections.abc import Iterator
from typing import assert_never

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
from loopkernel.data.ledgers import ApprovalWait, CrashWait, LedgerEntry, QuestionWait
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import HookAnswered, HookContinue, SummaryReady, TimerFired
from loopkernel.data.sessions import Session
from loopkernel.data.states import Backoff, Compacting, Finishing, HandingOff, Initial, State, Streaming, Thinking
from loopkernel.data.thread_deltas import Acquired, Created, Forked, Resumed
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import InvalidCall, ValidCall
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    CancelAll,
    CancelCall,
    CompactNow,
    Correct,
    CrashAnswerKind,
    Discard,
    DismissError,
    EditMessage,
    Reject,
    RetryNow,
    Say,
    StartHandoff,
    Swap,
)
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explore_scope import RESTS, A

UNKNOWN_CALL = CallId(ModelOperation(99), 1)
_WRONG_PHASE: tuple[Delta, ...] = (
    Approve(call=UNKNOWN_CALL),
    CancelCall(UNKNOWN_CALL),
    Discard(QueueNumber(99)),
    EditMessage(message=MessageId(99), content=A),
    CompactNow(),
    StartHandoff("a"),
    Created(session_id="t"),
    HookAnswered(HookOperation(1), HookContinue()),
    SummaryReady(SummaryOperation(1), "a"),
)


def strays(state: State) -> Iterator[Delta]:
    """Deltas that do not apply in the state, or come a second time."""
    session = state.session
    if not isinstance(state, Compacting | HandingOff | Finishing | Thinking):
        yield from _WRONG_PHASE
    if session is None:
        yield Forked(session_id="t")
        yield from _reports_on_nothing(ModelOperation(1), CheckOperation(1), RunOperation(1))
        yield from (TimerFired(TimerOperation(1)), Acquired(), Resumed(), Say(content=A), CancelAll())
        return
    yield from _late_reports(state, session)
    yield from _vain_answers(state)
    if session.inbox.keys:
        yield Say(content=A, key="k1")  # the first message, once more
        yield from _edits_in_vain(session)
    yield Forked(session_id="t") if isinstance(state, Initial) else Acquired()
    if isinstance(state, RESTS):
        yield CancelAll()
    elif not isinstance(state, Backoff):
        yield RetryNow()
    if session.error is None and not isinstance(state, Backoff):
        yield DismissError()


def _edits_in_vain(session: Session) -> Iterator[EditMessage]:
    """An edit that was sent before, and one of a message that is not the user's."""
    yield EditMessage(message=MessageId(1), content=A, key="k1")
    others = [message.id for message in session.thread if not isinstance(message, UserMessage)]
    if others:
        yield EditMessage(message=others[-1], content=A)


# --- reports --------------------------------------------------------------------------------------------


def _late_reports(state: State, session: Session) -> Iterator[Delta]:
    """Reports on operations that are closed, and on the next one of each kind, which is not begun."""
    ledger = ledger_in(state)
    entries = () if ledger is None else tuple(ledger.entries)
    minted = session.operations.minted
    model = state.reply.operation if isinstance(state, Streaming) else None
    for number in _around(minted[OperationKind.MODEL]):
        if number != model:
            yield ModelText(ModelOperation(number), "b")
            yield ModelCompleted(ModelOperation(number), StopReason.END_TURN)
    checks = {entry.check for entry in entries}
    for number in _around(minted[OperationKind.CHECK]):
        if number not in checks:
            yield ToolChecked(CheckOperation(number), InvalidCall("b"))
    going_on = {entry.operation for entry in entries if entry.is_running}
    going_on.update(run.operation for run in session.held)
    for number in _around(minted[OperationKind.RUN]):
        if number not in going_on:
            yield ToolSucceeded(RunOperation(number))
            yield ToolStopped(RunOperation(number))
    pending = {timer.operation for timer in pending_timers(state)}
    for number in _around(minted[OperationKind.TIMER]):
        if number not in pending:
            yield TimerFired(TimerOperation(number))


def _around(newest: int) -> tuple[int, ...]:
    """The first number, the two newest, and the one after them."""
    return tuple(sorted({1, max(newest - 1, 1), newest, newest + 1} - {0}))


def _reports_on_nothing(model: ModelOperation, check: CheckOperation, run: RunOperation) -> tuple[Delta, ...]:
    return (
        ModelText(model, "b"),
        ModelFailed(model, error=ErrorClass.SERVER),
        ToolChecked(check, ValidCall()),
        ToolFailed(run),
        ToolProgress(run, "b"),
        ToolAsked(run, "b"),
    )


# --- answers --------------------------------------------------------------------------------------------


def _vain_answers(state: State) -> Iterator[CallAnswer]:
    """A person's word that the calls of the state do not wait for."""
    ledger = ledger_in(state)
    for entry in () if ledger is None else ledger.entries:
        yield from _vain_answers_to(entry)


def _vain_answers_to(entry: LedgerEntry) -> Iterator[CallAnswer]:
    call, wait = entry.call.id, entry.person.wait
    approvals = (
        Approve(call=call),
        Correct(call=call, input=Json.of({})),
        Swap(call=call, tool="r", input=Json.of({})),
    )
    answer = AnswerQuestion(call=call, value=None)
    after_crash = AnswerAfterCrash(call=call, kind=CrashAnswerKind.RERUN)
    match wait:
        case None:
            yield from (approvals[0], answer, after_crash)
        case ApprovalWait():
            yield from (answer, after_crash)
            if wait.edit is not None:  # which is being checked
                yield from (*approvals, Reject(call=call))
        case QuestionWait():
            yield from (*approvals, after_crash)
        case CrashWait():
            yield from (*approvals, answer, Reject(call=call))
        case _:
            assert_never(wait)
