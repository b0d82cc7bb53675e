"""Strategies for runs: random deltas folded through `transition`, and the states that they reach.

A run is drawn delta by delta, mostly from what the state before it can expect, so that it gets far; the rest is
anything at all. Shrinking drops deltas from the end, and makes what is left plainer.
"""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import (
    CallId,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, Redaction
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookFault,
    HookModify,
    HookRetry,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.policy import Compaction, FieldPattern, Hook, Policy
from loopkernel.data.states import State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    Tool,
    ToolProfile,
    ValidCall,
)
from loopkernel.data.user_deltas import (
    Approve,
    CallAnswer,
    CompactNow,
    Correct,
    EditMessage,
    Reject,
    RememberCall,
    RememberPattern,
    RememberTool,
    StartHandoff,
    Swap,
)
from loopkernel.data.words import ErrorClass, HookPoint, StopReason, TurnEndReason
from loopkernel.laws.gates import asked_outside
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explorer.moves import wishes
from loopkernel.testing.explorer.reports import answers, reports
from loopkernel.testing.explorer.scope import ANY_CALL, ANY_REPLY, Answer, EndOfRun, Scope
from loopkernel.testing.explorer.strays import strays
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.conversation import access_modes, contents, tool_sets, verdicts
from loopkernel.testing.strategies.deltas import (
    WAITS_MS,
    ChildDelta,
    RunDelta,
    answer_deltas,
    child_deltas,
    deltas,
    hook_answers,
    model_deltas,
    run_deltas,
    session_ids,
    user_deltas,
)
from loopkernel.testing.strategies.policies import running_policies
from loopkernel.testing.strategies.values import keys, resource_keys, texts, times_ms, usages

# Tools whose calls really run: some that touch what they name (two of them at once, while the reply still streams), one
# that a person is asked about, one that goes alone and may take only so long, one without a profile, one for
# commands, and a sub-agent.
AGENT = Tool(name="agent", profile=ToolProfile(effect=EffectClass.READ_ONLY, child=True, early=True))
OFFERED = (
    Tool(
        name="read",
        profile=ToolProfile(
            effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),), early=True
        ),
    ),
    Tool(
        name="write",
        profile=ToolProfile(
            effect=EffectClass.IDEMPOTENT, resources=(FieldResource("path", AccessMode.WRITE),), early=True
        ),
    ),
    Tool(
        name="edit",
        profile=ToolProfile(resources=(FieldResource("path", AccessMode.WRITE),), approval=Decision.ASK),
    ),
    Tool(name="build", profile=ToolProfile(serial=True, timeout_ms=3)),
    Tool(name="shell"),
    Tool(name="run", profile=ToolProfile(commands=("path",), approval=Decision.ALLOW)),
    AGENT,
)
ANSWERS: tuple[Answer, ...] = (
    Approve(call=ANY_CALL),
    Approve(call=ANY_CALL),
    Approve(call=ANY_CALL, remember=RememberCall()),
    Approve(call=ANY_CALL, remember=RememberTool()),
    Approve(call=ANY_CALL, remember=RememberPattern((FieldPattern("path", "a*"),))),
    Reject(call=ANY_CALL),
    Correct(call=ANY_CALL, input=Json.of({"path": "b"})),
    Swap(call=ANY_CALL, tool="write", input=Json.of({"path": "b"})),
)
WIDE = Scope(
    calls=3,
    rounds=9,
    tools=tuple(tool.name for tool in OFFERED),
    stops=(StopReason.END_TURN, StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.PAUSE),
    completions=(
        ModelCompleted(ANY_REPLY, StopReason.MAX_TOKENS, cut_call=True),
        ModelCompleted(ANY_REPLY, StopReason.TOOL_USE),
        ModelCompleted(ANY_REPLY, StopReason.GUARDRAIL_INTERVENED, redaction=Redaction("x", "y")),
    ),
    failures=tuple(ModelFailed(ANY_REPLY, error=error) for error in ErrorClass)
    + tuple(ModelFailed(ANY_REPLY, error=ErrorClass.OVERLOADED, retry_after_ms=wait_ms) for wait_ms in WAITS_MS)
    + tuple(ModelFailed(ANY_REPLY, error=ErrorClass.NETWORK, unfinished=chars) for chars in (0, 1)),
    progress=True,
    questions=True,
    times=True,
    edits=True,
    forks=True,
    ends=tuple(EndOfRun),
    answers=ANSWERS,
    held=9,
    hook_answers=(
        *(HookContinue(), HookContinue(), HookBlock("a"), HookRetry(), HookFault("a")),
        *(HookModify(input=Json.of({"path": "b"})), HookModify(result="b"), HookModify(message="b")),
    ),
    child_ends=tuple(TurnEndReason),
    child_asks=True,
    also=(CompactNow(), StartHandoff("a")),
)


def _offered_or_any(offered: tuple[Tool, ...] | None) -> SearchStrategy[tuple[Tool, ...]]:
    return tool_sets if offered is None else st.just(offered)


creations_that_run: SearchStrategy[Created] = st.builds(
    Created,
    session_id=session_ids,
    policy=running_policies,
    tools=st.sampled_from((OFFERED, OFFERED, OFFERED, OFFERED, None)).flatmap(_offered_or_any),
    instructions=texts,
)


def _beginning_with(policy: Policy, tools: tuple[Tool, ...] = OFFERED) -> SearchStrategy[Created]:
    return st.builds(Created, session_id=session_ids, policy=st.just(policy), tools=st.just(tools), instructions=texts)


# Beginnings of runs that soon come to the phases which others seldom reach.
EVENTFUL = (
    _beginning_with(Policy(hooks=(Hook(point=HookPoint.BEFORE_INVOCATION, name="h", gated=True),))),
    _beginning_with(Policy(hooks=(Hook(point=HookPoint.AFTER_INVOCATION, name="h", gated=True),))),
    _beginning_with(
        Policy(compaction=Compaction(trigger_ratio=None, trigger_tokens=1, keep_turns=None, keep_messages=1))
    ),
    _beginning_with(Policy(), (AGENT,)),
)


@st.composite
def aimed_deltas(draw: DrawFn, state: State) -> Delta:
    """Any report, or any answer, about what is open in the state; any delta where nothing is."""
    if isinstance(state, Streaming) and draw(st.booleans()):
        return evolve(draw(model_deltas), operation=state.reply.operation)
    ledger, session = ledger_in(state), state.session
    entries = () if ledger is None else tuple(ledger.entries)
    held = () if session is None else session.held
    checks = [entry.check for entry in entries if entry.check is not None]
    runs = [entry.operation for entry in entries if entry.operation is not None and entry.has_run]
    children = [entry.operation for entry in entries if entry.operation is not None and entry.child is not None]
    runs += [run.operation for run in held]
    timers = [timer.operation for timer in pending_timers(state)]
    waiting = [entry.call.id for entry in entries if entry.person.wait is not None]
    said = [] if session is None else [message.id for message in session.thread if isinstance(message, UserMessage)]
    sources: list[SearchStrategy[Delta]] = []
    if checks:
        sources.append(st.builds(ToolChecked, st.sampled_from(checks), verdicts))
    if runs:
        sources.append(st.builds(_aimed_report, run_deltas, st.sampled_from(runs)))
    if children:
        sources.append(st.builds(_aimed_report, child_deltas, st.sampled_from(children)))
    for kind, number in asked_outside(state):
        sources.append(_answers_from_outside(kind, number))
    if timers:
        sources.append(st.builds(TimerFired, st.sampled_from(timers)))
    if waiting:
        sources.append(st.builds(_aimed_answer, answer_deltas, st.sampled_from(waiting)))
    if said:
        sources.append(st.builds(EditMessage, message=st.sampled_from(said), content=contents, key=keys))
    return draw(st.one_of(sources) if sources else deltas)


def _aimed_report(report: RunDelta | ChildDelta, operation: RunOperation) -> Delta:
    return evolve(report, operation=operation)


def _answers_from_outside(kind: OperationKind, number: int) -> SearchStrategy[Delta]:
    """Anything that a hook, correction, summary or handoff may come to."""
    match kind:
        case OperationKind.CORRECTION:
            return st.builds(CorrectionAnswered, st.just(CorrectionOperation(number)), st.none() | texts, usages)
        case OperationKind.SUMMARY:
            operation = st.just(SummaryOperation(number))
            return st.builds(SummaryReady, operation, texts, usages) | st.builds(
                SummaryFailed, operation, texts, usages
            )
        case OperationKind.HANDOFF:
            handoff = st.just(HandoffOperation(number))
            return st.builds(HandoffDone, handoff, texts) | st.builds(HandoffFailed, handoff, texts)
        case _:
            return st.builds(HookAnswered, st.just(HookOperation(number)), hook_answers)


def _aimed_answer(answer: CallAnswer, call: CallId) -> Delta:
    return evolve(answer, call=call)


# Weights: most often what is owed, so that replies are completed and calls run.
_SOURCES = (
    *["due"] * 5,
    "call",
    "call",
    "whole",
    "whole",
    "aimed",
    "aimed",
    "wanted",
    "wanted",
    "user",
    "stray",
    "any",
)


@st.composite
def next_deltas(draw: DrawFn, state: State) -> Delta:
    """What may come in a state: due, wanted, ill-timed, or anything."""
    source = draw(st.sampled_from(_SOURCES))
    plain: tuple[Delta, ...] = ()
    if source == "call" and isinstance(state, Streaming):
        return draw(_next_calls(state))
    if source == "whole" and isinstance(state, Streaming) and len(state.ledger.entries):
        return ModelCompleted(state.reply.operation, StopReason.TOOL_USE)
    if source in ("due", "call", "whole"):
        plain = (*reports(state, WIDE), *answers(state, WIDE))
    if source in ("due", "call", "whole") and not plain:
        plain = tuple(wishes(state, WIDE))
    if source == "wanted":
        plain = (Resumed(), *wishes(state, evolve(WIDE, lives=True)))
    if source == "stray":
        plain = tuple(strays(state))
    if plain:
        return draw(st.sampled_from(plain))
    if source == "aimed":
        return draw(aimed_deltas(state))
    return draw(user_deltas if source == "user" else deltas)


def _claiming(resource: str, mode: AccessMode) -> ValidCall:
    return ValidCall((Claim(resource, mode),))


@st.composite
def _next_calls(draw: DrawFn, state: Streaming) -> ModelCall:
    """One more call of the reply, of an offered tool, which may depend on those before it."""
    tool, resource = draw(st.sampled_from(OFFERED)), draw(resource_keys)
    verdict = draw(st.none() | st.builds(_claiming, st.just(resource), access_modes))
    place = len(state.ledger.entries)
    earlier = st.sampled_from([f"c{number}" for number in range(1, place + 1)] or ["c1"])
    given, after = Json.of({"path": resource}), draw(st.just(()) | st.tuples(earlier))
    if draw(st.integers(0, 3)) == 0:
        given, verdict = Json.of({"path": {"$result": draw(earlier)}}), None
    return ModelCall(
        state.reply.operation,
        provider_id=f"c{place + 1}",
        tool=tool.name,
        input=given,
        after=after if place else (),
        verdict=verdict,
    )


@st.composite
def _moments(draw: DrawFn, state: State, now_ms: int) -> Context | None:
    """The next thing that happens, in one piece, so that shrinking can take it out; None: nothing more.

    A delay mostly passes at its deadline; the clock may jump, and go back.
    """
    if draw(st.integers(0, 25)) == 0:
        return None
    delta = draw(next_deltas(state))
    moments = [st.just(now_ms + 1), times_ms]
    if isinstance(delta, TimerFired):
        due = [timer.deadline_ms for timer in pending_timers(state) if timer.operation == delta.operation]
        moments = [*map(st.just, due), *moments]
    return Context(delta, draw(st.one_of(moments)))


@st.composite
def runs(draw: DrawFn, most: int = 40, creations: SearchStrategy[Created] = creations_that_run) -> Run:
    """A run of up to `most` deltas after the creation and the acquisition of its session."""
    run = Run()
    run.take(draw(creations))
    run.take(Acquired())
    for _ in range(most):
        moment = draw(_moments(run.state, run.steps[-1].context.now_ms))
        if moment is None:
            break
        run.take(moment.delta, moment.now_ms)
    return run


def reachable_states(most: int = 40) -> SearchStrategy[State]:
    """A state that a run of up to `most` deltas reaches."""
    return runs(most).map(lambda run: run.state)
