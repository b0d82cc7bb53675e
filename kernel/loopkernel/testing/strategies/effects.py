"""Strategies for effects: each command and each event."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopkernel.data import effects, events
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import Command, Effect, Request
from loopkernel.data.events import Event
from loopkernel.data.hook_calls import HookContext, RunEnd
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.sessions import QueuedInput
from loopkernel.data.user_deltas import ChangeMode, ChangePolicy, Forget, Permit, Remember
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    ErrorClass,
    HookPoint,
    InputFate,
    LimitName,
    RefusalReason,
    RequestReason,
    StopReason,
    TimerPurpose,
    TurnEndReason,
    UserAction,
)
from loopkernel.testing.strategies.conversation import (
    call_inputs,
    cancel_reasons,
    contents,
    messages,
    raw_inputs,
    repairs,
    terminal_statuses,
    threads,
    tool_outputs,
    tool_results,
    tool_sets,
    user_messages,
)
from loopkernel.testing.strategies.deltas import child_calls, creations, remembrances, session_ids
from loopkernel.testing.strategies.policies import approval_rules, policies, remembered
from loopkernel.testing.strategies.values import (
    call_ids,
    check_operations,
    correction_operations,
    counts,
    handoff_operations,
    hook_operations,
    id_numbers,
    json_texts,
    message_ids,
    model_operations,
    models,
    provider_ids,
    queue_numbers,
    receipt_ids,
    run_operations,
    safe_keys,
    safe_names,
    summary_operations,
    texts,
    timer_operations,
    times_ms,
    usages,
)

errors: SearchStrategy[ErrorClass] = st.sampled_from(ErrorClass)
requests: SearchStrategy[Request] = st.builds(
    Request,
    number=model_operations,
    reason=st.sampled_from(RequestReason),
    model=models,
    instructions=texts,
    tools=tool_sets,
    thread=threads(),
    max_output_tokens=st.none() | counts,
    forced_tool=st.none() | safe_names,
)

hook_contexts: SearchStrategy[HookContext] = st.builds(
    HookContext,
    point=st.sampled_from(HookPoint),
    name=safe_names,
    thread=threads(),
    call=st.none() | call_ids,
    tool=st.none() | safe_names,
    input=st.none() | json_texts | raw_inputs,
    end=st.none() | st.builds(RunEnd, status=terminal_statuses, output=tool_outputs),
    pieces=st.lists(st.builds(ModelText, model_operations, texts), max_size=1).map(Vector.of),
    stop=st.none() | st.sampled_from(StopReason),
    error=st.none() | errors,
    reason=st.none() | st.sampled_from(TurnEndReason),
    stop_hook_active=st.booleans(),
    message=st.none() | messages,
)
cuts: SearchStrategy[Cut] = st.builds(Cut, counts, st.none() | counts)
queued_inputs: SearchStrategy[QueuedInput] = st.builds(
    QueuedInput, number=queue_numbers, receipt=receipt_ids, content=contents
)

commands: SearchStrategy[Command] = st.one_of(
    st.builds(effects.CallModel, model_operations, requests),
    st.builds(effects.AbortModel, model_operations),
    st.builds(effects.CheckCall, operation=check_operations, call=call_ids, tool=safe_names, input=call_inputs),
    st.builds(
        effects.StartTool,
        operation=run_operations,
        call=call_ids,
        run=counts,
        tool=safe_names,
        input=call_inputs,
        key=texts,
    ),
    st.builds(effects.AbortTool, run_operations, cancel_reasons),
    st.builds(effects.AnswerTool, operation=run_operations, value=st.none() | json_texts),
    st.builds(
        effects.StartTimer,
        operation=timer_operations,
        purpose=st.sampled_from(TimerPurpose),
        deadline_ms=times_ms,
    ),
    st.builds(effects.CancelTimer, timer_operations),
    st.builds(
        effects.AskHook,
        operation=hook_operations,
        context=hook_contexts,
    ),
    st.builds(effects.TellHook, hook_contexts),
    st.builds(effects.CheckCorrection, correction_operations, threads()),
    st.builds(effects.Summarise, operation=summary_operations, thread=threads(), cut=cuts),
    st.builds(
        effects.StartChild,
        operation=run_operations,
        call=call_ids,
        run=counts,
        tool=safe_names,
        input=call_inputs,
        created=creations,
        task=texts,
        resumed=st.booleans(),
    ),
    st.builds(
        effects.TellChild,
        run_operations,
        st.one_of(
            st.builds(ChangeMode, st.sampled_from(ApprovalMode)),
            st.builds(Permit, approval_rules),
            st.builds(Remember, remembered),
            st.builds(Forget, st.none() | remembered),
            st.builds(ChangePolicy, policies()),
        ),
    ),
    st.builds(
        effects.HandOff,
        operation=handoff_operations,
        goal=texts,
        thread=threads(),
        queue=st.lists(queued_inputs, max_size=1).map(tuple),
    ),
    st.builds(effects.AbortOther, st.sampled_from(OperationKind), id_numbers),
)

_run_events: SearchStrategy[Event] = st.one_of(
    st.builds(events.RunStarted, session_ids),
    st.builds(events.Refused, st.sampled_from(UserAction), st.sampled_from(RefusalReason), safe_keys),
    st.builds(events.InputSettled, receipt_ids, st.sampled_from(InputFate), safe_keys),
    st.builds(events.MessageAdded, messages),
    st.builds(
        events.ThreadCompacted,
        opening=st.none() | message_ids,
        note=st.none() | user_messages,
        first=st.none() | message_ids,
    ),
    st.builds(events.ThreadRewritten, st.lists(messages, max_size=2).map(tuple)),
    st.builds(events.Edited, message_ids),
    st.builds(events.ThreadCut, counts),
    st.builds(events.MessageReplaced, messages),
    st.builds(events.LimitReached, st.sampled_from(LimitName)),
    st.builds(events.ThreadRepaired, st.lists(repairs, max_size=2).map(tuple)),
    st.builds(events.WorkCancelled, cancel_reasons),
    st.builds(events.LineageForked, session_ids),
    st.just(events.SessionResumed()),
    st.builds(events.ClockJumped, st.integers(-(10**9), 10**9)),
    st.builds(events.TurnEnded, st.sampled_from(TurnEndReason), usages),
)
_reply_events: SearchStrategy[Event] = st.one_of(
    st.builds(events.ReplyGrew, model_operations, texts, st.booleans()),
    st.builds(events.CallAppeared, call_ids, provider_ids, safe_names),
    st.builds(events.ReplyEnded, model_operations, st.sampled_from(StopReason)),
    st.builds(events.ReplyFailed, model_operations, errors),
    st.builds(events.ReplyAborted, model_operations),
    st.builds(events.ReplyRetracted, model_operations),
    st.builds(events.OpaqueDropped, model_operations, st.lists(models, max_size=2).map(tuple)),
    st.builds(events.RetryScheduled, counts, counts),
    st.builds(events.ErrorShown, errors, texts),
    st.just(events.ErrorCleared()),
)
_call_events: SearchStrategy[Event] = st.one_of(
    st.builds(events.ToolProgressed, call_ids, run_operations, texts),
    st.builds(events.ToolEnded, tool_results),
    st.builds(events.ApprovalAsked, call_ids),
    st.builds(events.ApprovalRemembered, call_ids, remembrances),
    st.builds(events.ApprovalForgotten, remembered),
    st.builds(
        events.EditRefused,
        call_ids,
        st.sampled_from((UserAction.CORRECT, UserAction.SWAP)),
        st.sampled_from((RefusalReason.INVALID, RefusalReason.DENIED)),
    ),
    st.builds(events.QuestionAsked, call_ids, texts),
    st.builds(events.LeaseBroken, call_ids),
    st.builds(events.ResultsCleared, st.lists(call_ids, max_size=2).map(tuple)),
    st.builds(events.ChildStarted, call_ids),
    st.builds(events.ChildAsked, call_ids, child_calls),
    st.builds(events.ChildFinished, call_ids, st.sampled_from(TurnEndReason)),
    st.builds(events.LoopNoted, safe_names),
    st.builds(events.ToolDisabled, safe_names),
    st.builds(events.LoopStopped, safe_names),
)
_side_events: SearchStrategy[Event] = st.one_of(
    st.builds(events.Queued, queue_numbers),
    st.builds(events.Dequeued, queue_numbers),
    st.builds(events.Discarded, queue_numbers),
    st.builds(events.Steered, counts),
    st.just(events.CompactionStarted()),
    st.builds(events.CompactionEnded, st.booleans()),
    st.just(events.CorrectionChecked()),
    st.just(events.CorrectionInjected()),
    st.just(events.HandoffStarted()),
    st.builds(events.HandoffEnded, st.none() | texts),
)
all_events: SearchStrategy[Event] = st.one_of(_run_events, _reply_events, _call_events, _side_events)
effects_of_any_kind: SearchStrategy[Effect] = st.one_of(commands, all_events)
