"""Runs in which calls are made, checked, asked about, run, edited, cut, forked and left behind, in any order.

Nearly everything that comes is about something that is open, so that a short play reaches far.
"""

from collections.abc import Iterator

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import (
    ApprovalMode,
    EarlyStart,
    NoProfile,
    NoProfileApproval,
    OnReject,
    OnToolFailure,
    OutputCalls,
    RestartDangerous,
    Schedule,
    WriteConflict,
)
from loopkernel.data.deltas import Delta
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import MessageId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, LedgerEntry, QuestionWait
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.outside_deltas import HookAnswer, HookAnswered, HookBlock, HookFault, HookModify, HookRetry
from loopkernel.data.policy import ApprovalRule, OnRestart, Policy
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import Confirming, Dispatching, Executing, Finishing, Initial, State, Streaming, Thinking
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolProgress
from loopkernel.data.tools import AccessMode, Claim, Decision, InvalidCall, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Correct,
    CrashAnswerKind,
    EditMessage,
    Forget,
    Permit,
    Reject,
    Remember,
    RememberTool,
    Swap,
)
from loopkernel.data.words import StopReason, TurnEndReason
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ALL_TOOLS,
    TOOLS,
    broken,
    call_id,
    completed,
    created,
    failed,
    fired,
    pending_timers,
    say,
    stopped,
    succeeded,
    text,
)
from tests.kernel.gates import (
    AFTER_MODEL,
    AFTER_TOOL,
    BEFORE_TOOL,
    GO_ON,
    STOP,
    child_asks,
    child_ended,
    gated,
    observed,
)

TOOL_NAMES = st.sampled_from(
    ("read", "write", "bare", "danger", "asks", "serial", "early_read", "early_write", "denied")
)
keys = st.sampled_from(("a", "a/b", "b", "."))
claims = st.lists(st.builds(Claim, keys, st.sampled_from(AccessMode)), max_size=2).map(tuple)
valid: SearchStrategy[Verdict] = st.builds(ValidCall, claims | claims | claims | claims | st.none())
verdicts: SearchStrategy[Verdict] = st.integers(0, 9).flatmap(
    lambda number: valid if number else st.sampled_from((UnknownTool(), InvalidCall("no")))
)
policies = st.builds(
    Policy,
    schedule=st.sampled_from((*Schedule, Schedule.GRAPH, Schedule.GRAPH)),
    max_parallel=st.sampled_from((None, None, 1, 2)),
    early_start=st.sampled_from(EarlyStart),
    no_profile=st.sampled_from(NoProfile),
    no_profile_approval=st.sampled_from(NoProfileApproval),
    approval_rules=st.sampled_from(((), (ApprovalRule(decision=Decision.ASK, tool="write"),))),
    write_conflict=st.sampled_from(WriteConflict),
    on_reject=st.sampled_from(OnReject),
    on_tool_failure=st.sampled_from(OnToolFailure),
    approval_timeout_ms=st.sampled_from((None, 50)),
    tool_timeout_ms=st.sampled_from((None, 70)),
    output_tool=st.sampled_from((None, None, None, "danger")),
    output_calls=st.sampled_from(OutputCalls),
    on_restart=st.builds(OnRestart, dangerous=st.sampled_from(RestartDangerous)),
)

hooks = st.lists(
    st.sampled_from((gated(BEFORE_TOOL), gated(AFTER_TOOL), gated(AFTER_MODEL), gated(STOP), observed(AFTER_TOOL))),
    max_size=2,
).map(tuple)
plain_answers: tuple[HookAnswer, ...] = (GO_ON, GO_ON, HookBlock("no"), HookRetry(), HookFault("oh"))
answers: SearchStrategy[HookAnswer] = st.one_of(
    st.sampled_from(plain_answers),
    st.builds(HookModify, input=st.none() | keys.map(lambda key: Json.of({"path": key})), result=st.none() | keys),
)


def open_entries(state: State) -> list[LedgerEntry]:
    """The open calls of the last reply."""
    if not isinstance(state, Streaming | Executing | Confirming | Dispatching) or state.ledger is None:
        return []
    return [entry for entry in state.ledger.entries if entry.is_open]


@st.composite
def calls(draw: DrawFn, state: Streaming) -> ModelCall:
    """One more call of the reply; it may depend on earlier calls, rarely on itself or on none that there is."""
    size = state.ledger.entries.size
    names = st.sampled_from([f"c{place}" for place in range(size)] or ["c0"])
    kind = draw(st.integers(0, 14))
    refers = kind == 0 and (size > 0 or draw(st.booleans()))
    return ModelCall(
        state.reply.operation,
        provider_id=draw(names) if kind == 1 else f"c{size}",
        tool=draw(TOOL_NAMES),
        input=RawInput("{") if kind == 4 else Json.of({"path": {"$result": draw(names)} if refers else draw(keys)}),
        after=(draw(names),) if kind in (2, 3) and size else (),
        verdict=draw(st.none() | verdicts | verdicts),
    )


def on_the_way(draw: DrawFn, state: State) -> Iterator[Delta]:
    """What brings the open calls on, the reply to its end, and the session to its next reply."""
    for entry in open_entries(state):
        if entry.check is not None:
            yield ToolChecked(entry.check, draw(verdicts))
        if entry.is_running and entry.operation is not None:
            yield succeeded(entry.operation)
        match entry.person.wait:
            case ApprovalWait():
                yield Approve(call=entry.call.id)
            case QuestionWait():
                yield AnswerQuestion(call=entry.call.id, value=None)
            case CrashWait():
                yield AnswerAfterCrash(call=entry.call.id, kind=draw(st.sampled_from(CrashAnswerKind)))
            case ChildWait() | None:
                pass
    if isinstance(state, Streaming):
        made = state.ledger.entries.size
        yield draw(calls(state))
        yield from [completed(StopReason.TOOL_USE, reply=state.reply.operation)] * made
    elif isinstance(state, Initial):
        yield Resumed()
    elif not isinstance(state, Executing | Confirming | Dispatching):
        yield say()


def about_calls(draw: DrawFn, state: State) -> Iterator[Delta]:
    """What goes otherwise with a call: failures, questions, cancels, edits, rejections, background runs."""
    edited = Json.of({"path": draw(keys)})
    for entry in open_entries(state):
        call = entry.call.id
        if not isinstance(state, Streaming) or entry.is_running:
            yield CancelCall(call)
        if entry.is_running and entry.operation is not None:
            run = entry.operation
            yield from (broken(run), stopped(run), ToolAsked(run, "?"), ToolProgress(run, "..."))
            yield from [succeeded(run, background=True)] * 2
        if entry.person.wait is not None:
            edits = (Correct(call=call, input=edited), Swap(call=call, tool=draw(TOOL_NAMES), input=edited))
            yield from (*edits, *edits, Reject(call=call), Approve(call=call, remember=RememberTool()))


def about_time(_: DrawFn, state: State) -> Iterator[Delta]:
    """Time that has run out, and runs that have stopped at last."""
    yield from (fired(timer.operation) for timer in pending_timers(state))
    for held in () if state.session is None else state.session.held:
        yield from (stopped(held.operation), succeeded(held.operation), CancelCall(held.call))


def about_settings(draw: DrawFn, _: State) -> Iterator[Delta]:
    """What the calls run under changes."""
    yield ChangeMode(draw(st.sampled_from(ApprovalMode)))
    yield Permit(ApprovalRule(decision=draw(st.sampled_from(Decision)), tool=draw(TOOL_NAMES)))
    yield Remember(RememberedTool(draw(TOOL_NAMES)))
    yield Forget(draw(st.none() | st.builds(RememberedTool, TOOL_NAMES)))
    yield ChangePolicy(draw(policies))
    yield ChangeTools(draw(st.sampled_from((TOOLS, ALL_TOOLS))))


def about_all(draw: DrawFn, state: State) -> Iterator[Delta]:
    """Everything is cut, released or restarted; and what comes for nothing that is there."""
    yield from (Resumed(), Resumed(), Disposed(), CancelAll(), fired(1), succeeded(1), Approve(call=call_id(1)))
    if isinstance(state, Streaming):
        yield from [failed(reply=state.reply.operation)] * 2
        yield completed(draw(st.sampled_from(StopReason)), reply=state.reply.operation)


def about_history(draw: DrawFn, state: State) -> Iterator[Delta]:
    """What was said is said otherwise, or a lineage of its own begins, whatever is open."""
    if state.session is not None:
        said = [message.id for message in state.session.thread if isinstance(message, UserMessage)]
        yield EditMessage(message=draw(st.sampled_from(said or [MessageId(1)])), content=text("otherwise"))
    yield Forked(session_id="t")


def about_outside(draw: DrawFn, state: State) -> Iterator[Delta]:
    """What hooks say, about calls, the reply and the end of the turn; and how sub-agents fare."""
    entries = open_entries(state)
    gates = [entry.hooks.open for entry in entries]
    if isinstance(state, Streaming) and state.after is not None:
        gates.append(state.after.gate)
    if isinstance(state, Thinking | Finishing) and isinstance(state.gate, OpenHook):
        gates.append(state.gate)
    yield from (HookAnswered(gate.operation, draw(answers)) for gate in gates if gate is not None)
    for entry in entries:
        if entry.child is not None and entry.operation is not None:
            run = entry.operation
            yield from (child_ended(run), child_ended(run, TurnEndReason.ERROR), child_asks(run, 1), child_asks(run))


# Most often what is owed; of the rest what concerns single calls.
_KINDS = (*[on_the_way] * 9, *[about_calls] * 4, *[about_time] * 2, about_settings, about_all, about_history)


@st.composite
def plays(draw: DrawFn, most: int = 60, *, outside: bool = False) -> Run:
    """The steps of a run, from its creation on. Most replies have a few calls before anything else happens.

    With `outside` there are hooks and sub-agents.
    """
    run = Run()
    policy = draw(policies)
    if outside:
        policy = evolve(policy, hooks=draw(hooks), hook_timeout_ms=draw(st.sampled_from((None, 90))))
    kinds = (*_KINDS, *[about_outside] * 9) if outside else _KINDS
    coming: list[Delta] = [created(policy, ALL_TOOLS), Acquired(), say()]
    calls_to_come = 0
    for _ in range(len(coming) + draw(st.integers(4, most))):
        state = run.state
        if isinstance(state, Streaming) and not state.ledger.entries.size and not state.pieces:
            calls_to_come = draw(st.integers(0, 5))
        if coming:
            delta = coming.pop(0)
        elif calls_to_come and isinstance(state, Streaming):
            delta = draw(calls(state))
            calls_to_come -= 1
            if not calls_to_come and draw(st.booleans()):
                coming = [completed(StopReason.TOOL_USE, reply=state.reply.operation)]
        else:
            kind = draw(st.sampled_from(kinds))
            found = list(kind(draw, state)) or list(on_the_way(draw, state)) or [say()]
            delta = draw(st.sampled_from(found))
        if outside and isinstance(delta, ModelCall) and draw(st.integers(0, 2)) == 0:
            delta = evolve(delta, tool="child")
        run.take(delta, state.stamp.now_ms + draw(st.sampled_from((0, 1, 10))))
    return run
