"""Builders of small runs, states and deltas for the tests of the kernel, and the grid of what a state does with each.

Runs go through `transition`, so that the states are ones that the kernel really reaches. Operations, messages and
calls are numbered from 1, as the kernel numbers them.
"""

from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.data.blocks import RawInput, ReasoningBlock, TextBlock, ToolCall, ToolResult
from loopkernel.data.choices import ApprovalMode, Lifetime, NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect, StartTool
from loopkernel.data.events import Refused, ToolEnded
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    QueueNumber,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import (
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    HookContinue,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.sessions import Session
from loopkernel.data.states import Confirming, Executing, Idle, Initial, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Forked, FromThread, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    Tool,
    ToolOutput,
    ToolProfile,
    ValidCall,
    Verdict,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    CompactNow,
    Correct,
    CrashAnswerKind,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    FromUser,
    Permit,
    Reject,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
    Swap,
)
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    RefusalReason,
    StopReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.regions.refusals import action_of
from loopkernel.transition import transition

S = TypeVar("S")
E = TypeVar("E", bound=Effect)

READ = Tool(name="read", profile=ToolProfile(effect=EffectClass.READ_ONLY))
WRITE = Tool(name="write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT))
BARE = Tool(name="bare")
DANGER = Tool(name="danger", profile=ToolProfile(effect=EffectClass.DANGEROUS))
ASKS = Tool(name="asks", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, approval=Decision.ASK))
DENIED = Tool(name="denied", profile=ToolProfile(approval=Decision.DENY))
SERIAL = Tool(name="serial", profile=ToolProfile(effect=EffectClass.READ_ONLY, serial=True))
CHILD = Tool(name="child", profile=ToolProfile(child=True))
EARLY_READ = Tool(name="early_read", profile=ToolProfile(effect=EffectClass.READ_ONLY, early=True))
EARLY_WRITE = Tool(name="early_write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, early=True))
TOOLS = (READ, WRITE, BARE)
ALL_TOOLS = (*TOOLS, DANGER, ASKS, DENIED, SERIAL, CHILD, EARLY_READ, EARLY_WRITE)
ASKING_NOBODY = Policy(no_profile_approval=NoProfileApproval.ALLOW)
TASK = Policy(lifetime=Lifetime.TASK)
NOTHING = Json.of({})
FREE = ValidCall()
ONE, TWO, THREE = ModelOperation(1), ModelOperation(2), ModelOperation(3)


# --- parts ----------------------------------------------------------------------------------------------


def text(words: str) -> tuple[TextBlock, ...]:
    """Content that is one text."""
    return (TextBlock(words),)


def say(words: str = "hello", key: str | None = None) -> Say:
    """The user says something."""
    return Say(content=text(words), key=key)


def enqueue(words: str, key: str | None = None) -> Enqueue:
    """A message for the end of the turn."""
    return Enqueue(content=text(words), key=key)


def steer(words: str, key: str | None = None) -> Steer:
    """A message for the next request."""
    return Steer(content=text(words), key=key)


def call_id(position: int, reply: int = 1) -> CallId:
    """The call at that position of a reply."""
    return CallId(ModelOperation(reply), position)


def reads(*keys: str) -> ValidCall:
    """The verdict on a call that reads these resources."""
    return ValidCall(tuple(Claim(key, AccessMode.READ) for key in keys))


def writes(*keys: str) -> ValidCall:
    """The verdict on a call that writes these resources."""
    return ValidCall(tuple(Claim(key, AccessMode.WRITE) for key in keys))


def run(number: int) -> RunOperation:
    """The nth run of the lineage."""
    return RunOperation(number)


def check(number: int) -> CheckOperation:
    """The nth check of the lineage."""
    return CheckOperation(number)


def timer(number: int) -> TimerOperation:
    """The nth timer of the lineage."""
    return TimerOperation(number)


def checked(number: int, verdict: Verdict = FREE) -> ToolChecked:
    """The nth check answers."""
    return ToolChecked(CheckOperation(number), verdict)


def succeeded(
    number: int, words: str = "out", *, final: bool = False, stops_loop: bool = False, background: bool = False
) -> ToolSucceeded:
    """The nth run returns."""
    output = ToolOutput(content=text(words), final=final, stops_loop=stops_loop, background=background)
    return ToolSucceeded(RunOperation(number), output)


def broken(number: int, words: str = "out") -> ToolFailed:
    """The nth run fails."""
    return ToolFailed(RunOperation(number), ToolOutput(content=text(words)))


def stopped(number: int) -> ToolStopped:
    """The nth run has stopped."""
    return ToolStopped(RunOperation(number))


def fired(number: int) -> TimerFired:
    """The nth timer is due."""
    return TimerFired(TimerOperation(number))


def made_call(
    tool: str = "read",
    verdict: Verdict | None = FREE,
    *,
    reply: int = 1,
    provider_id: str = "p",
    call_input: Json | RawInput = NOTHING,
    needs: tuple[str, ...] = (),
) -> ModelCall:
    """The model makes a call; unless `verdict` is None the adapter's verdict comes with it."""
    return ModelCall(
        ModelOperation(reply), provider_id=provider_id, tool=tool, input=call_input, after=needs, verdict=verdict
    )


def recorded_call(
    position: int = 1, reply: int = 1, tool: str = "read", call_input: Json | RawInput = NOTHING
) -> ToolCall:
    """A call as the ledger and the thread hold it."""
    return ToolCall(id=call_id(position, reply), provider_id="p", tool=tool, input=call_input)


def completed(stop: StopReason = StopReason.END_TURN, reply: int = 1, usage: Usage = NO_USAGE) -> ModelCompleted:
    """The reply is complete."""
    return ModelCompleted(ModelOperation(reply), stop, usage)


def failed(error: ErrorClass = ErrorClass.SERVER, reply: int = 1, usage: Usage = NO_USAGE) -> ModelFailed:
    """The model call fails."""
    return ModelFailed(ModelOperation(reply), error=error, usage=usage)


# --- conversations from elsewhere -----------------------------------------------------------------------


def foreign_call(name: str) -> ForeignCall:
    """A recorded call under that id of its provider."""
    return ForeignCall(provider_id=name, tool="read", input=NOTHING)


def foreign_result(name: str, words: str = "out", status: CallStatus = CallStatus.DONE) -> ForeignResult:
    """A recorded result for a call of that id."""
    return ForeignResult(provider_id=name, status=status, content=text(words))


_names = st.sampled_from(("c1", "c2", "c3"))
_words = st.sampled_from(("a", "b", " "))
_blocks = st.one_of(
    _words.map(TextBlock), _words.map(ReasoningBlock), _names.map(foreign_call), _names.map(foreign_call)
)
_messages: SearchStrategy[ForeignMessage] = st.one_of(
    st.builds(ForeignUser, st.lists(_words.map(TextBlock), max_size=2).map(tuple)),
    st.builds(ForeignReply, content=st.lists(_blocks, max_size=3).map(tuple)),
    st.builds(ForeignResults, st.lists(st.builds(foreign_result, _names, _words), max_size=3).map(tuple)),
)
broken_conversations: SearchStrategy[list[ForeignMessage]] = st.lists(_messages, max_size=7)


# --- runs -----------------------------------------------------------------------------------------------


def step(state: State, delta: Delta, now_ms: int | None = None) -> Step[State]:
    """One delta applied, by default a millisecond after the last."""
    return transition(state, Context(delta, state.stamp.now_ms + 1 if now_ms is None else now_ms))


def after(state: State, *deltas: Delta) -> State:
    """The state that the deltas lead to."""
    for delta in deltas:
        state = step(state, delta).next
    return state


def effects_of(state: State, *deltas: Delta) -> tuple[Effect, ...]:
    """The effects of the last of the deltas."""
    return step(after(state, *deltas[:-1]), deltas[-1]).effects


def all_effects(state: State, *deltas: Delta) -> tuple[Effect, ...]:
    """The effects of all the deltas, in order."""
    effects: list[Effect] = []
    for delta in deltas:
        state, caused = step(state, delta)
        effects.extend(caused)
    return tuple(effects)


def a(kind: type[S], state: object) -> S:
    """The state, which must be of that kind."""
    assert isinstance(state, kind), f"{type(state).__name__} instead of {kind.__name__}"
    return state


def session_of(state: State) -> Session:
    """The session record, which must be there."""
    assert state.session is not None
    return state.session


def named(effects: tuple[Effect, ...]) -> list[str]:
    """The effects by the names of their classes."""
    return [type(effect).__name__ for effect in effects]


def of_kind(kind: type[E], effects: tuple[Effect, ...]) -> list[E]:
    """The effects of one class."""
    return [effect for effect in effects if isinstance(effect, kind)]


def created(policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Created:
    """The first record of a log."""
    return Created(session_id="s", policy=policy, tools=tools, instructions="be brief")


def at_rest(policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Idle:
    """A session that the driver has acquired."""
    return a(Idle, after(Initial(), created(policy, tools), Acquired()))


def asked(policy: Policy = ASKING_NOBODY, *deltas: Delta, tools: tuple[Tool, ...] = TOOLS) -> Streaming:
    """The user has said something, the model is asked, and these deltas have come since."""
    return a(Streaming, after(at_rest(policy, tools), say(), *deltas))


def working(*calls: ModelCall, policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Executing:
    """The model has made these calls, and not all of them are answered."""
    return a(Executing, after(asked(policy, tools=tools), *calls, completed(StopReason.TOOL_USE)))


def asking(*calls: ModelCall, policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = ALL_TOOLS) -> Confirming:
    """The model has made these calls, and everything that is under way waits for a person."""
    return a(Confirming, after(asked(policy, tools=tools), *calls, completed(StopReason.TOOL_USE)))


def ledger_of(state: State) -> Ledger:
    """The calls of the last reply, which must not be in the thread yet."""
    assert isinstance(state, Streaming | Executing | Confirming | Initial)
    assert state.ledger is not None
    return state.ledger


def entries_of(state: State) -> tuple[LedgerEntry, ...]:
    """The calls of the last reply, in their order."""
    return tuple(ledger_of(state).entries)


def statuses(state: State) -> list[CallStatus]:
    """Where each call of the last reply stands."""
    return [entry.status for entry in entries_of(state)]


def results_of(state: State) -> tuple[ToolResult, ...]:
    """The answers to the last reply whose calls went into the thread."""
    messages = [message for message in session_of(state).thread if isinstance(message, ResultMessage)]
    return messages[-1].results


def starts(effects: tuple[Effect, ...]) -> list[CallId]:
    """The calls whose runs the effects start, in order."""
    return [effect.call for effect in effects if isinstance(effect, StartTool)]


def ends(effects: tuple[Effect, ...]) -> list[tuple[int, CallStatus, CancelReason | None]]:
    """The positions of the calls that the effects answer, with how and why, in order."""
    results = [effect.result for effect in effects if isinstance(effect, ToolEnded)]
    return [(result.call.position, result.status, result.reason) for result in results]


def pending_timers(state: State) -> list[Timer]:
    """Every timer that is pending, for a call or for the stop of a run, in the order of their minting."""
    timers: list[Timer | None] = [held.grace for held in session_of(state).held]
    if isinstance(state, Streaming | Executing | Confirming | Initial) and state.ledger is not None:
        timers += [entry.timer for entry in state.ledger.entries]
    return sorted((found for found in timers if found is not None), key=lambda found: found.operation)


# --- the grid -------------------------------------------------------------------------------------------


def reports_about(number: int) -> tuple[Delta, ...]:
    """One report of each class, on the operation of that number."""
    model, run = ModelOperation(number), RunOperation(number)
    return (
        ModelStarted(model, "default"),
        ModelText(model, "a"),
        ModelReasoning(model, "a"),
        ModelOpaque(model, NOTHING),
        ModelInput(model, "a"),
        made_call(reply=number),
        ModelServerCall(model, provider_id="p", tool="search", input=NOTHING),
        ModelUsage(model, Usage()),
        completed(reply=number),
        failed(reply=number),
        ToolChecked(CheckOperation(number), FREE),
        ToolProgress(run, "a"),
        ToolSucceeded(run),
        ToolFailed(run),
        ToolAsked(run, "a"),
        ToolStopped(run),
        TimerFired(TimerOperation(number)),
        HookAnswered(HookOperation(number), HookContinue()),
        CorrectionAnswered(CorrectionOperation(number), None),
        SummaryReady(SummaryOperation(number), "a"),
        SummaryFailed(SummaryOperation(number), "a"),
        ChildProgress(run, "a"),
        ChildEnded(operation=run, reason=TurnEndReason.MODEL_STOP),
        HandoffDone(HandoffOperation(number), "t"),
        HandoffFailed(HandoffOperation(number), "a"),
    )


def answers_about(call: CallId) -> tuple[Delta, ...]:
    """One word of each class on the call."""
    return (
        Approve(call=call),
        Reject(call=call),
        Correct(call=call, input=NOTHING),
        Swap(call=call, tool="read", input=NOTHING),
        AnswerQuestion(call=call, value=None),
        AnswerAfterCrash(call=call, kind=CrashAnswerKind.DONE),
    )


SETTINGS: tuple[Delta, ...] = (
    ChangeMode(ApprovalMode.PLAN),
    Permit(ApprovalRule(decision=Decision.ALLOW)),
    ChangePolicy(ASKING_NOBODY),
    ChangeTools(()),
    ChangeInstructions("be long"),
)


def deltas_about(number: int) -> tuple[Delta, ...]:
    """One delta of each class; operations, calls, messages and queued inputs have that number."""
    call = call_id(number)
    return (
        *reports_about(number),
        *answers_about(call),
        *SETTINGS,
        say(),
        enqueue("a"),
        steer("a"),
        EditMessage(message=MessageId(number), content=text("a")),
        Discard(QueueNumber(number)),
        CancelAll(),
        CancelCall(call),
        RetryNow(),
        DismissError(),
        CompactNow(),
        StartHandoff("a"),
        created(),
        Acquired(),
        Resumed(),
        Forked(session_id="t"),
        Disposed(),
    )


def outcome_of(state: State, delta: Delta) -> str:
    """The phase that the delta leads to; or `refused` and the reason, if it changed nothing and said so."""
    following, effects = step(state, delta)
    if effects and isinstance(effects[0], Refused):
        if _frees(state, following):
            assert effects[0].reason is RefusalReason.STALE
            assert following.stamp.version == state.stamp.version, f"{type(delta).__name__} is refused and counts"
        else:
            assert len(effects) == 1, f"{type(delta).__name__} is refused with other effects"
            assert following == state, f"{type(delta).__name__} is refused and changes the state"
        named = action_of(delta) if isinstance(delta, FromUser | FromThread) else UserAction.REPORT
        assert effects[0].action is named, f"{type(delta).__name__} is refused as another input"
        return f"refused {effects[0].reason.value}"
    assert following.stamp.version == state.stamp.version + 1, f"{type(delta).__name__} is accepted without a version"
    return type(following).__name__


def _frees(state: State, following: State) -> bool:
    """Whether a run no longer holds its resources, which a refused report may show too (rule TOOL-17)."""
    return state.session is not None and len(session_of(following).held) < len(state.session.held)


def grid(state: State, number: int = 9) -> dict[str, str]:
    """What the state does with one delta of each class; 9 is a number that these runs never give out."""
    return {type(delta).__name__: outcome_of(state, delta) for delta in deltas_about(number)}


def expected_grid(
    *, reports: str = "refused unknown", answers: str = "refused unknown", settings: str, **others: str
) -> dict[str, str]:
    """A grid by families: `others` names classes; whatever is not named is refused as `not-now`."""
    rows = {type(delta).__name__: "refused not-now" for delta in deltas_about(9)}
    rows |= {type(delta).__name__: reports for delta in reports_about(9)}
    rows |= {type(delta).__name__: answers for delta in (*answers_about(call_id(9)), CancelCall(call_id(9)))}
    rows |= {type(delta).__name__: settings for delta in SETTINGS}
    rows["Discard"] = answers
    assert others.keys() <= rows.keys()
    return rows | others
