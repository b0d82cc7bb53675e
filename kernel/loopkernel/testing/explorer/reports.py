"""What is owed in a state: reports of the outside on what is open, and a person's answers to calls that wait."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import evolve

from loopkernel.data.deltas import Delta
from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import CallId, HookOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, Ledger, LedgerEntry, QuestionWait
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
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
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import Claim, FixedResource, InvalidCall, ValidCall, Verdict
from loopkernel.data.user_deltas import AnswerAfterCrash, AnswerQuestion, CallAnswer, CrashAnswerKind, Reject
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explorer.scope import ASKED_BY_CHILD, OUTPUT, EndOfRun, Scope

ASIDE = evolve(OUTPUT, background=True)  # the run goes on in the background


def reports(state: State, scope: Scope) -> Iterable[Delta]:
    """What the outside may report on the operations that are open in the state."""
    held = () if state.session is None else tuple(_held_reports(state.session, scope))
    match state:
        case Streaming():
            model = _model_reports(state, scope) if state.after is None else _gate_reports(state.after.gate, scope)
            return (*model, *_tool_reports(state.ledger, state.session, scope), *held)
        case Executing() | Confirming() | Dispatching():
            return (*_tool_reports(state.ledger, state.session, scope), *held)
        case Thinking() | Finishing():
            return (*_gate_reports(state.gate, scope), *held)
        case Compacting():
            return (SummaryReady(state.operation, "a"), SummaryFailed(state.operation, "a"), *held)
        case Backoff():
            return (TimerFired(state.timer.operation), *held)
        case HandingOff():
            return (HandoffDone(state.operation, "t"), HandoffFailed(state.operation, "a"), *held)
        case Initial() | Idle() | Cancelled() | Done():
            return held
        case _:
            assert_never(state)


def _gate_reports(gate: OpenHook | OpenCorrection | None, scope: Scope) -> Iterator[Delta]:
    """What a hook, or the course correction, may say."""
    if isinstance(gate, OpenCorrection):
        yield from (CorrectionAnswered(gate.operation, None), CorrectionAnswered(gate.operation, "a"))
    elif gate is not None:
        yield from _hook_reports(gate.operation, scope)
    if gate is not None and gate.timer is not None and scope.times:
        yield TimerFired(gate.timer.operation)


def _hook_reports(hook: HookOperation, scope: Scope) -> Iterator[Delta]:
    return (HookAnswered(hook, answer) for answer in scope.hook_answers)


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
        if entry.hooks.open is not None:
            yield from _gate_reports(entry.hooks.open, scope)
        if entry.operation is not None and entry.child is not None and entry.has_run:
            yield from _child_reports(entry, entry.operation, scope)
        elif entry.operation is not None and entry.has_run:
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


def _child_reports(entry: LedgerEntry, operation: RunOperation, scope: Scope) -> Iterator[Delta]:
    """A sub-agent ends, says something, and waits for a person, or no more."""
    for reason in scope.child_ends:
        yield ChildEnded(operation=operation, reason=reason, text="a")
    if isinstance(entry.person.wait, ChildWait):
        yield ChildAsks(operation)
    elif scope.child_asks:
        yield ChildAsks(operation, (ASKED_BY_CHILD,))
    if scope.progress and entry.child is not None and not entry.child.text:
        yield ChildProgress(operation, "a")


def _end(operation: RunOperation, end: EndOfRun) -> Delta:
    match end:
        case EndOfRun.RETURNS:
            return ToolSucceeded(operation, OUTPUT)
        case EndOfRun.FAILS:
            return ToolFailed(operation, OUTPUT)
        case EndOfRun.STOPS:
            return ToolStopped(operation)
        case EndOfRun.LOST:
            return ToolLost(operation)
        case EndOfRun.GOES_ON:
            return ToolSucceeded(operation, ASIDE)
        case _:
            assert_never(end)


def _held_reports(session: Session, scope: Scope) -> Iterator[Delta]:
    """Aborted runs have still to stop, or report late; those in the background have still to end."""
    for run in session.held:
        if run.grace is None:
            yield from (_end(run.operation, end) for end in scope.ends if end is not EndOfRun.GOES_ON)
            continue
        yield ToolStopped(run.operation)
        if EndOfRun.LOST in scope.ends:
            yield ToolLost(run.operation)
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
            case None | ChildWait():
                pass  # a person's word about a call of a sub-agent goes to that
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
