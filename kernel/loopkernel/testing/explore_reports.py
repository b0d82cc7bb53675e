"""What is owed in a state: reports of the outside on what is open, and a person's answers to calls that wait."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import evolve

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, HookOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry, QuestionWait
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
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
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import Claim, FixedResource, InvalidCall, ValidCall, Verdict
from loopkernel.data.user_deltas import AnswerAfterCrash, AnswerQuestion, CallAnswer, CrashAnswerKind, Reject
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explore_scope import OUTPUT, RunEnd, Scope

ASIDE = evolve(OUTPUT, background=True)  # the run goes on in the background


def reports(state: State, scope: Scope) -> Iterable[Delta]:
    """What the outside may report on the operations that are open in the state."""
    match state:
        case Streaming():
            calls = _tool_reports(state.ledger, state.session, scope)
            return (*_model_reports(state, scope), *calls, *_held_reports(state.session, scope))
        case Executing() | Confirming() | Dispatching():
            return (*_tool_reports(state.ledger, state.session, scope), *_held_reports(state.session, scope))
        case Thinking():
            return () if state.gate is None else _hook_reports(state.gate)
        case Compacting():
            return (SummaryReady(state.operation, "a"), SummaryFailed(state.operation, "a"))
        case Backoff():
            return (TimerFired(state.timer.operation), *_held_reports(state.session, scope))
        case Finishing():
            if state.correction is not None:
                return (CorrectionAnswered(state.correction, None), CorrectionAnswered(state.correction, "a"))
            return () if state.hook is None else _hook_reports(state.hook)
        case HandingOff():
            return (HandoffDone(state.operation, "t"), HandoffFailed(state.operation, "a"))
        case Initial() | Idle() | Cancelled() | Done():
            return () if state.session is None else tuple(_held_reports(state.session, scope))
        case _:
            assert_never(state)


def _hook_reports(hook: HookOperation) -> tuple[Delta, ...]:
    return (HookAnswered(hook, HookContinue()), HookAnswered(hook, HookBlock("a")))


# --- the model ------------------------------------------------------------------------------------------


def _model_reports(state: Streaming, scope: Scope) -> Iterator[Delta]:
    operation = state.reply.operation
    if scope.texts and not state.pieces.size:
        yield ModelText(operation, "a")
    if state.turn.replies < scope.rounds:
        yield from _calls(state, scope)
    for stop in scope.stops:
        yield ModelCompleted(operation, stop)
    yield from (evolve(completed, operation=operation) for completed in scope.completions)
    yield from (evolve(failed, operation=operation) for failed in scope.failures)
    if scope.times and state.silence is not None:
        yield TimerFired(state.silence.operation)


def _calls(state: Streaming, scope: Scope) -> Iterator[ModelCall]:
    """The calls that the reply may hold next."""
    operation, place = state.reply.operation, state.ledger.entries.size
    if not scope.offers:
        if place < scope.calls:
            tool, name = scope.tools[place % len(scope.tools)], f"c{operation}{place + 1}"
            yield ModelCall(operation, provider_id=name, tool=tool, input=Json.of({"path": "a"}))
        return
    for call in scope.offers[place] if place < len(scope.offers) else ():
        source = None if call.uses is None else f"c{call.uses + 1}"  # the same ids in every reply (rule TOOL-14)
        yield ModelCall(
            operation,
            provider_id=f"c{place + 1}",
            tool=call.tool,
            input=Json.of({"path": "a" if source is None else {"$result": source}}),
            after=tuple(f"c{earlier + 1}" for earlier in call.after),
            verdict=None if call.checked or source is not None else as_profiled(state.session, call.tool),
        )


def as_profiled(session: Session, tool: str) -> Verdict:
    """The call is valid, and uses the fixed resources of the tool's profile."""
    found = next((offered for offered in session.settings.tools if offered.name == tool), None)
    resources = () if found is None or found.profile is None else found.profile.resources
    return ValidCall(tuple(Claim(rule.key, rule.mode) for rule in resources if isinstance(rule, FixedResource)))


# --- tools ----------------------------------------------------------------------------------------------


def _tool_reports(ledger: Ledger, session: Session, scope: Scope) -> Iterator[Delta]:
    for entry in ledger.entries:
        if entry.check is not None:
            for verdict in scope.verdicts or _verdicts(entry, session):
                yield ToolChecked(entry.check, verdict)
        if entry.operation is not None and entry.is_running:
            yield from _run_reports(entry, entry.operation, scope)
        if scope.times and entry.timer is not None:
            yield TimerFired(entry.timer.operation)


def _verdicts(entry: LedgerEntry, session: Session) -> tuple[Verdict, ...]:
    wait = entry.person.wait
    if isinstance(wait, ApprovalWait) and wait.edit is not None:
        return (as_profiled(session, wait.edit.tool), InvalidCall("a"))
    return (as_profiled(session, entry.tool),)


def _run_reports(entry: LedgerEntry, operation: RunOperation, scope: Scope) -> Iterator[Delta]:
    for end in scope.ends:
        yield _end(operation, end)
    if scope.progress and not entry.progress.size:
        yield ToolProgress(operation, "a")
    if scope.questions and not entry.person.asked:
        yield ToolAsked(operation, "a")


def _end(operation: RunOperation, end: RunEnd) -> Delta:
    match end:
        case RunEnd.RETURNS:
            return ToolSucceeded(operation, OUTPUT)
        case RunEnd.FAILS:
            return ToolFailed(operation, OUTPUT)
        case RunEnd.STOPS:
            return ToolStopped(operation)
        case RunEnd.GOES_ON:
            return ToolSucceeded(operation, ASIDE)
        case _:
            assert_never(end)


def _held_reports(session: Session, scope: Scope) -> Iterator[Delta]:
    """Aborted runs have still to stop, or report late; those in the background have still to end."""
    for run in session.held:
        if run.grace is None:
            yield from (_end(run.operation, end) for end in scope.ends if end is not RunEnd.GOES_ON)
            continue
        yield ToolStopped(run.operation)
        if scope.strays:
            yield ToolSucceeded(run.operation, OUTPUT)
        if scope.times:
            yield TimerFired(run.grace.operation)


# --- a person -------------------------------------------------------------------------------------------


def answers(state: State, scope: Scope) -> Iterator[CallAnswer]:
    """What a person may say to the calls that wait for one."""
    ledger = ledger_in(state)
    for entry in () if ledger is None else ledger.entries:
        call, wait = entry.call.id, entry.person.wait
        match wait:
            case None:
                pass
            case ApprovalWait():
                if wait.edit is None:
                    yield from (evolve(answer, call=call) for answer in scope.answers)
            case QuestionWait():
                yield from (AnswerQuestion(call=call, value=Json.of("a")), Reject(call=call))
            case CrashWait():
                yield from _answers_to_crash(call)
            case _:
                assert_never(wait)


def _answers_to_crash(call: CallId) -> Iterator[AnswerAfterCrash]:
    for kind in CrashAnswerKind:
        yield AnswerAfterCrash(call=call, kind=kind, text="a")
