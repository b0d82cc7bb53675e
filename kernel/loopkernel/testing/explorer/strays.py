"""What comes ill-timed in a state: reports on what is closed or was never begun, answers that nobody asked for."""

from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
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
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, LedgerEntry, QuestionWait
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HookAnswered,
    HookContinue,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.sessions import Session
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Done,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
)
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
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.laws.gates import asked_outside
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explorer.scope import RESTS, A

UNKNOWN_CALL = CallId(ModelOperation(99), 1)
_WRONG_PHASE: tuple[Delta, ...] = (
    Approve(call=UNKNOWN_CALL),
    CancelCall(UNKNOWN_CALL),
    Discard(QueueNumber(99)),
    EditMessage(message=MessageId(99), content=A),
    Created(session_id="t"),
)


def strays(state: State) -> Iterator[Delta]:
    """Deltas that do not apply in the state, or come a second time."""
    session = state.session
    yield from _WRONG_PHASE
    yield from _wishes_in_vain(state)
    if session is None:
        yield Forked(session_id="t")
        yield from _reports_on_nothing(ModelOperation(1), CheckOperation(1), RunOperation(1))
        yield from (TimerFired(TimerOperation(1)), Acquired(), Resumed(), Say(content=A), CancelAll())
        return
    yield from _late_reports(state, session)
    yield from _late_reports_from_outside(state, session)
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


def _wishes_in_vain(state: State) -> Iterator[Delta]:
    """To compact what may not be compacted, to hand off what is not at rest."""
    session = state.session
    never = isinstance(state, Initial | Done | Compacting | HandingOff)
    if never or session is None or session.settings.policy.compaction is None:
        yield CompactNow()
    if not isinstance(state, Idle | Cancelled):
        yield StartHandoff("a")


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


def _late_reports_from_outside(state: State, session: Session) -> Iterator[Delta]:
    """The same of hooks, corrections, summaries, handoffs and sub-agents; where there were none, of the first hook."""
    minted, going_on = session.operations.minted, set(asked_outside(state))
    for kind in _FROM_OUTSIDE:
        newest = minted[kind]
        for number in (newest, newest + 1) if newest else ():
            if (kind, number) not in going_on:
                yield _report_from_outside(kind, number)
    if not minted[OperationKind.HOOK]:
        yield HookAnswered(HookOperation(1), HookContinue())
    ledger = ledger_in(state)
    entries = [] if ledger is None else [entry for entry in ledger.entries if entry.child is not None]
    for entry in entries:
        if entry.operation is not None and not entry.is_running:
            yield ChildAsks(entry.operation)
            yield ChildEnded(operation=entry.operation, reason=TurnEndReason.ERROR, text="b")


_FROM_OUTSIDE = (OperationKind.HOOK, OperationKind.CORRECTION, OperationKind.SUMMARY, OperationKind.HANDOFF)


def _report_from_outside(kind: OperationKind, number: int) -> Delta:
    match kind:
        case OperationKind.CORRECTION:
            return CorrectionAnswered(CorrectionOperation(number), "b")
        case OperationKind.SUMMARY:
            return SummaryReady(SummaryOperation(number), "b")
        case OperationKind.HANDOFF:
            return HandoffDone(HandoffOperation(number), "b")
        case _:
            return HookAnswered(HookOperation(number), HookContinue())


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
        case ChildWait():
            yield from (*approvals, answer, after_crash, Reject(call=call))
        case CrashWait():
            yield from (*approvals, answer, Reject(call=call))
        case _:
            assert_never(wait)
