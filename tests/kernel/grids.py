"""The grid of what a state does with one delta of each class, and those deltas."""

from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.events import Refused
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
from loopkernel.data.model_deltas import (
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import (
    ChildAsks,
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
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import Decision
from loopkernel.data.usage import Usage
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
    Forget,
    FromUser,
    Permit,
    Reject,
    Remember,
    RetryNow,
    StartHandoff,
    Swap,
)
from loopkernel.data.words import RefusalReason, TurnEndReason, UserAction
from loopkernel.loop.gates.refusals import action_of

from tests.kernel.building import (
    ASKING_NOBODY,
    FREE,
    NOTHING,
    call_id,
    completed,
    created,
    enqueue,
    failed,
    made_call,
    say,
    session_of,
    steer,
    step,
    text,
)


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
        ToolLost(run),
        TimerFired(TimerOperation(number)),
        HookAnswered(HookOperation(number), HookContinue()),
        CorrectionAnswered(CorrectionOperation(number), None),
        SummaryReady(SummaryOperation(number), "a"),
        SummaryFailed(SummaryOperation(number), "a"),
        ChildProgress(run, "a"),
        ChildAsks(run),
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
    Remember(RememberedTool("read")),
    Forget(),
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
    rows["Discard"] = rows["EditMessage"] = answers
    assert others.keys() <= rows.keys()
    return rows | others
