"""Strategies for deltas: each class of each family, naming ids that small runs really mint."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopkernel.data.children import ChildCall
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
    Redaction,
)
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookFault,
    HookModify,
    HookRetry,
    OutsideDelta,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.thread_deltas import RULES_VERSION, Acquired, Created, Disposed, Forked, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
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
    Forget,
    Permit,
    Reject,
    Remember,
    RememberCall,
    RememberPattern,
    RememberTool,
    Remembrance,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
    Swap,
    UserDelta,
)
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.testing.strategies.conversation import (
    call_inputs,
    contents,
    dependencies,
    raw_inputs,
    tool_outputs,
    tool_sets,
    verdicts,
)
from loopkernel.testing.strategies.policies import approval_rules, field_patterns, policies, remembered
from loopkernel.testing.strategies.values import (
    call_ids,
    check_operations,
    correction_operations,
    counts,
    handoff_operations,
    hook_operations,
    json_texts,
    keys,
    message_ids,
    model_operations,
    models,
    names,
    provider_ids,
    queue_numbers,
    raw_texts,
    run_operations,
    summary_operations,
    timer_operations,
    usages,
)

# --- the model ------------------------------------------------------------------------------------------

redactions: SearchStrategy[Redaction] = st.builds(
    Redaction, user_text=st.none() | raw_texts, reply_text=st.none() | raw_texts
)
WAITS_MS = (0, 3, 7_000, 300_001, -1)  # none, shorter and longer than a schedule's own, too long, nonsense
stop_reasons: SearchStrategy[StopReason] = st.sampled_from(StopReason)
model_deltas: SearchStrategy[ModelDelta] = st.one_of(
    st.builds(ModelText, model_operations, raw_texts),
    st.builds(ModelReasoning, model_operations, raw_texts),
    st.builds(ModelStarted, model_operations, models),
    st.builds(ModelInput, model_operations, raw_texts),
    st.builds(
        ModelCall,
        model_operations,
        provider_id=provider_ids | raw_texts,
        tool=names,
        input=call_inputs | raw_inputs,
        after=dependencies,
        verdict=st.none() | verdicts,
    ),
    st.builds(
        ModelCompleted,
        model_operations,
        stop_reasons,
        usages,
        redaction=st.none() | redactions,
        cut_call=st.booleans(),
    ),
    st.builds(ModelUsage, model_operations, usages),
    st.builds(ModelOpaque, model_operations, json_texts),
    st.builds(
        ModelServerCall,
        model_operations,
        provider_id=provider_ids,
        tool=names,
        input=json_texts,
        result=st.none() | json_texts,
    ),
    st.builds(
        ModelFailed,
        model_operations,
        error=st.sampled_from(ErrorClass),
        message=raw_texts,
        retry_after_ms=st.none() | st.sampled_from(WAITS_MS),
        usage=usages,
        unfinished=st.none() | st.integers(0, 2),
    ),
)

# --- tools ----------------------------------------------------------------------------------------------

RunDelta = ToolSucceeded | ToolFailed | ToolProgress | ToolAsked | ToolStopped | ToolLost
run_deltas: SearchStrategy[RunDelta] = st.one_of(
    st.builds(ToolSucceeded, run_operations, tool_outputs),
    st.builds(ToolFailed, run_operations, tool_outputs),
    st.builds(ToolProgress, run_operations, raw_texts),
    st.builds(ToolAsked, run_operations, raw_texts),
    st.builds(ToolStopped, run_operations),
    st.builds(ToolLost, run_operations),
)
tool_deltas: SearchStrategy[ToolDelta] = run_deltas | st.builds(ToolChecked, check_operations, verdicts)

# --- the user -------------------------------------------------------------------------------------------

remembrances: SearchStrategy[Remembrance] = st.one_of(
    st.just(RememberCall()),
    st.just(RememberTool()),
    st.builds(RememberPattern, st.lists(field_patterns, max_size=1).map(tuple)),
)
message_deltas: SearchStrategy[Say | Enqueue | Steer | EditMessage] = st.one_of(
    st.builds(Say, content=contents, key=keys),
    st.builds(Enqueue, content=contents, key=keys),
    st.builds(Steer, content=contents, key=keys),
    st.builds(EditMessage, message=message_ids, content=contents, key=keys),
)
answer_deltas: SearchStrategy[Approve | Reject | Correct | Swap | AnswerQuestion | AnswerAfterCrash] = st.one_of(
    st.builds(Approve, call=call_ids, remember=st.none() | remembrances),
    st.builds(Reject, call=call_ids, why=raw_texts),
    st.builds(Correct, call=call_ids, input=call_inputs),
    st.builds(Swap, call=call_ids, tool=names, input=call_inputs),
    st.builds(AnswerQuestion, call=call_ids, value=st.none() | json_texts),
    st.builds(AnswerAfterCrash, call=call_ids, kind=st.sampled_from(CrashAnswerKind), text=raw_texts),
)
SettingsDelta = ChangeMode | Permit | Remember | Forget | ChangePolicy | ChangeTools | ChangeInstructions
settings_deltas: SearchStrategy[SettingsDelta] = st.one_of(
    st.builds(ChangeMode, st.sampled_from(ApprovalMode)),
    st.builds(Permit, approval_rules),
    st.builds(Remember, remembered),
    st.builds(Forget, st.none() | remembered),
    st.builds(ChangePolicy, policies()),
    st.builds(ChangeTools, tool_sets),
    st.builds(ChangeInstructions, raw_texts),
)
user_deltas: SearchStrategy[UserDelta] = st.one_of(
    message_deltas,
    st.builds(Discard, st.none() | queue_numbers),
    st.just(CancelAll()),
    st.builds(CancelCall, call_ids),
    answer_deltas,
    st.sampled_from((RetryNow(), DismissError(), CompactNow())),
    settings_deltas,
    st.builds(StartHandoff, raw_texts),
)

# --- timers, and the rest of the outside ----------------------------------------------------------------

hook_answers: SearchStrategy[HookAnswer] = st.one_of(
    st.just(HookContinue()),
    st.builds(HookBlock, raw_texts),
    st.builds(HookModify, input=st.none() | json_texts, result=st.none() | raw_texts, message=st.none() | raw_texts),
    st.just(HookRetry()),
    st.builds(HookFault, raw_texts),
)
timer_deltas: SearchStrategy[TimerFired] = st.builds(TimerFired, timer_operations)
ChildDelta = ChildProgress | ChildAsks | ChildEnded
child_calls: SearchStrategy[ChildCall] = st.lists(call_ids, min_size=1, max_size=2).map(tuple).map(ChildCall)
child_deltas: SearchStrategy[ChildDelta] = st.one_of(
    st.builds(ChildProgress, run_operations, raw_texts),
    st.builds(ChildAsks, run_operations, st.lists(child_calls, max_size=2, unique=True).map(tuple)),
    st.builds(
        ChildEnded,
        operation=run_operations,
        reason=st.sampled_from(TurnEndReason),
        text=raw_texts,
        usage=usages,
        tool_calls=counts,
    ),
)
outside_deltas: SearchStrategy[OutsideDelta] = st.one_of(
    st.builds(HookAnswered, hook_operations, hook_answers),
    st.builds(CorrectionAnswered, correction_operations, st.none() | raw_texts, usages),
    st.builds(SummaryReady, summary_operations, raw_texts, usages),
    st.builds(SummaryFailed, summary_operations, raw_texts, usages),
    child_deltas,
    st.builds(HandoffDone, handoff_operations, raw_texts),
    st.builds(HandoffFailed, handoff_operations, raw_texts),
)

# --- the session itself ---------------------------------------------------------------------------------

session_ids: SearchStrategy[str] = st.sampled_from(("s", "t"))
creations: SearchStrategy[Created] = st.builds(
    Created,
    session_id=session_ids,
    policy=policies(),
    tools=tool_sets,
    instructions=raw_texts,
    rules_version=st.integers(1, RULES_VERSION),
)
resumptions: SearchStrategy[Resumed] = st.builds(
    Resumed,
    policy=st.none() | policies(),
    tools=st.none() | tool_sets,
    instructions=st.none() | raw_texts,
    remembered=st.none() | st.just(()),
    doubted=st.booleans(),
    nonce=st.sampled_from(("", "n1", "n2")),
)
thread_deltas: SearchStrategy[ThreadDelta] = st.one_of(
    st.just(Acquired()),
    st.just(Disposed()),
    st.builds(Resumed, clock_behind_ms=st.just(0) | st.integers(-2, 10**9)),
    resumptions,
    st.builds(Forked, session_id=session_ids),
    creations,
)

deltas: SearchStrategy[Delta] = st.one_of(
    model_deltas, tool_deltas, user_deltas, thread_deltas, outside_deltas, timer_deltas
)
