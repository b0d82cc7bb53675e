"""The rule behind each kind of effect, and the rule in a sentence; what `explain` tells."""

from collections.abc import Mapping
from types import MappingProxyType

from loopkernel.data import effects as commands
from loopkernel.data import events
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.outside_deltas import HookAnswered
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import CallStatus, CancelReason, LimitName, RefusalReason, TurnEndReason

Rule = tuple[str, str]

_BY_KIND: Mapping[type[Effect], Rule] = MappingProxyType(
    {
        commands.CallModel: ("INFER-1", "every gate before the request is passed, so the model is asked"),
        commands.AbortModel: ("CANCEL-2", "a cancel stops the model first"),
        commands.CheckCall: ("TOOL-18", "a complete call is checked before anything else is done with it"),
        commands.StartTool: ("TOOL-5", "the call is valid, allowed, and nothing that it must wait for is open"),
        commands.AbortTool: ("CANCEL-2", "a call that is answered without its result is stopped"),
        commands.AnswerTool: ("TOOL-19", "the answer goes back to the tool that asked"),
        commands.StartTimer: ("RETRY-4", "a delay is data: a deadline in state and a timer outside"),
        commands.CancelTimer: ("CANCEL-2", "what the timer was for is over"),
        commands.AskHook: ("HOOK-1", "a gated hook is asked at this point"),
        commands.TellHook: ("HOOK-1", "a hook that observes is told at this point"),
        commands.CheckCorrection: ("HOOK-3", "enough has happened since the user spoke to check the course"),
        commands.Summarise: ("COMPACT-2", "the old part of the thread is summarised"),
        commands.StartChild: ("CHILD-1", "the call is one to a sub-agent"),
        commands.TellChild: ("ASK-5", "a change of mode or rules holds for sub-agents too"),
        commands.HandOff: ("HANDOFF-1", "the work goes on in a new thread"),
        commands.AbortOther: ("CANCEL-2", "a cancel stops everything that is under way"),
        events.RunStarted: ("STATE-8", "the first event of a run"),
        events.InputSettled: ("DELTA-6", "every accepted input has one visible fate"),
        events.MessageAdded: ("INFER-2", "history is a log: a message goes to its end"),
        events.ReplyGrew: ("INFER-3", "a reply is visible while it streams"),
        events.CallAppeared: ("TOOL-14", "a call is known by its reply and its place there"),
        events.ReplyEnded: ("INFER-4", "the reply is complete"),
        events.ReplyFailed: ("RETRY-3", "the adapter classified a failure of the model call"),
        events.ReplyAborted: ("INPUT-5", "a reply under way is cut by a cancel"),
        events.ReplyRetracted: ("INFER-11", "a reply that failed is void, and what was seen of it is taken back"),
        events.OpaqueDropped: ("INFER-15", "opaque blocks go to no other model than their own"),
        events.ToolProgressed: ("DELTA-4", "a running tool says how far it is"),
        events.ApprovalAsked: ("ASK-2", "the call needs a person"),
        events.ApprovalRemembered: ("ASK-3", "the approval holds for later calls too"),
        events.ApprovalForgotten: ("ASK-3", "the user took a remembered approval back"),
        events.EditRefused: ("ASK-3", "an edit that is invalid or denied is not taken, and the call keeps waiting"),
        events.QuestionAsked: ("TOOL-19", "a tool asks the user while it runs"),
        events.LeaseBroken: ("TOOL-17", "an aborted run did not stop in time"),
        events.Queued: ("INPUT-2", "input waits for the end of the turn"),
        events.Dequeued: ("INPUT-2", "the oldest waiting input starts a turn"),
        events.Discarded: ("INPUT-2", "the user took the input out of the queue"),
        events.Steered: ("INPUT-3", "a steering message goes in with the next request"),
        events.Edited: ("INPUT-4", "an earlier message was replaced"),
        events.RetryScheduled: ("RETRY-1", "the failure may be tried again after a delay"),
        events.ErrorShown: ("RETRY-5", "an error that nothing recovers is shown"),
        events.ErrorCleared: ("DELTA-5", "an accepted delta clears the shown error"),
        events.CompactionStarted: ("COMPACT-1", "the thread is too large"),
        events.CompactionEnded: ("COMPACT-4", "every compaction that starts also ends"),
        events.ThreadCompacted: ("COMPACT-3", "a part of the thread was replaced, which is announced"),
        events.ThreadRewritten: ("INPUT-4", "what a compaction took out is put back for an edit"),
        events.ResultsCleared: ("TOOL-11", "old result bodies are cleared"),
        events.ChildStarted: ("CHILD-1", "a sub-agent runs"),
        events.ChildAsked: ("CHILD-2", "a call of a sub-agent needs a person"),
        events.ChildFinished: ("CHILD-2", "a sub-agent has ended"),
        events.CorrectionChecked: ("HOOK-3", "the course was checked"),
        events.CorrectionInjected: ("HOOK-3", "the correction is told to the model"),
        events.HandoffStarted: ("HANDOFF-1", "the handoff is open"),
        events.HandoffEnded: ("HANDOFF-1", "the handoff is over"),
        events.LoopNoted: ("LIMIT-3", "the model repeats itself and is told so"),
        events.ToolDisabled: ("LIMIT-3", "the model repeats itself: the tool is taken away for some rounds"),
        events.LoopStopped: ("LIMIT-3", "the model repeats itself: the turn ends"),
        events.ThreadCut: ("INPUT-4", "what followed a message that was replaced, or a refused reply, is dropped"),
        events.MessageReplaced: ("INFER-10", "a guardrail has redacted the message"),
        events.LimitReached: ("LIMIT-1", "a limit is tested before each request"),
        events.ThreadRepaired: ("RESUME-5", "a thread from elsewhere is repaired once"),
        events.WorkCancelled: ("CANCEL-2", "one event says that everything open was cancelled"),
        events.LineageForked: ("RESUME-6", "a fork begins a lineage of its own"),
        events.SessionResumed: ("RESUME-3", "the session goes on"),
        events.ClockJumped: ("DELTA-7", "the clock was set, and time goes on from where it was"),
    }
)

# What a restart causes for a reason of its own.
_REMADE = (
    commands.CheckCall,
    commands.StartTool,
    commands.StartChild,
    commands.AskHook,
    commands.CheckCorrection,
    commands.Summarise,
    events.ReplyRetracted,
)

# What ends a reply under way.
_CUTS = (commands.AbortModel, events.ReplyAborted)

_BY_REFUSAL: Mapping[RefusalReason, str] = MappingProxyType(
    {
        RefusalReason.DUPLICATE: "this was taken once already",
        RefusalReason.STALE: "what it is about was closed otherwise",
        RefusalReason.UNKNOWN: "there is nothing of that name",
        RefusalReason.NOT_NOW: "it does not apply in this phase",
        RefusalReason.FULL: "the queue takes no more",
        RefusalReason.INVALID: "it is not valid",
        RefusalReason.DENIED: "policy denies it",
    }
)

_BY_CANCEL: Mapping[CancelReason, str] = MappingProxyType(
    {
        CancelReason.USER_CANCELLED: "CANCEL-5",
        CancelReason.USER_INTERRUPTED: "INPUT-1",
        CancelReason.EDITED: "INPUT-4",
        CancelReason.DISPOSED: "CANCEL-2",
        CancelReason.SAFETY: "RESUME-3",
        CancelReason.REJECTED: "ASK-7",
        CancelReason.SIBLING: "TOOL-6",
        CancelReason.TIMEOUT: "TOOL-10",
        CancelReason.LIMIT: "LIMIT-2",
        CancelReason.SUPERSEDED: "INFER-5",
    }
)

_BY_END: Mapping[TurnEndReason, str] = MappingProxyType(
    {
        TurnEndReason.MODEL_STOP: "INFER-6",
        TurnEndReason.STOP_SEQUENCE: "INFER-6",
        TurnEndReason.MAX_TURNS: "LIMIT-1",
        TurnEndReason.BUDGET_EXCEEDED: "LIMIT-2",
        TurnEndReason.LOOP_DETECTED: "LIMIT-3",
        TurnEndReason.USER_ABORT: "CANCEL-2",
        TurnEndReason.INTERRUPTED: "INPUT-1",
        TurnEndReason.EDITED: "INPUT-4",
        TurnEndReason.DISPOSED: "CANCEL-2",
        TurnEndReason.ERROR: "RETRY-7",
        TurnEndReason.MAX_TOKENS: "INFER-7",
        TurnEndReason.REFUSAL: "INFER-10",
        TurnEndReason.CONTENT_FILTERED: "INFER-10",
        TurnEndReason.GUARDRAIL: "INFER-10",
        TurnEndReason.TOOL_REJECTED: "ASK-7",
        TurnEndReason.TOOL_FINAL: "TOOL-13",
        TurnEndReason.OUTPUT: "CALL-5",
        TurnEndReason.STUCK: "INFER-13",
        TurnEndReason.HANDED_OFF: "HANDOFF-1",
    }
)


def rule_of(effect: Effect, delta: Delta, beside: tuple[Effect, ...] = ()) -> Rule:
    """The id of the rule that asks for the effect, and the rule in a sentence. `beside` are all effects of the step."""
    if isinstance(effect, _CUTS) and any(isinstance(other, events.LimitReached) for other in beside):
        return "LIMIT-4", "the reply under way has met a limit, so it is stopped, and what it said is kept"
    if isinstance(delta, Resumed) and isinstance(effect, _REMADE):
        return "RESUME-3", "what was in flight when the process died is made again, or taken back"
    if isinstance(effect, events.MessageReplaced) and isinstance(delta, HookAnswered):
        return "HOOK-2", "a hook before the turn gives its opening message other words"
    if isinstance(effect, events.TurnEnded):
        return _BY_END[effect.reason], f"the turn is over: {effect.reason.value}"
    if isinstance(effect, events.LimitReached) and effect.limit is LimitName.REPLY_SIZE:
        return "LIMIT-4", "the reply has become longer than it may"
    if isinstance(effect, events.LimitReached) and effect.limit is not LimitName.MAX_TURNS:
        return "LIMIT-2", f"a budget is spent: {effect.limit.value}"
    if isinstance(effect, events.Refused):
        return "DELTA-2", _BY_REFUSAL[effect.reason]
    if isinstance(effect, events.ToolEnded):
        return _rule_of_answer(effect)
    return _BY_KIND[type(effect)]


def _rule_of_answer(ended: events.ToolEnded) -> Rule:
    result = ended.result
    if result.reason is not None:
        return _BY_CANCEL[result.reason], f"the call is answered as {result.status.value}: {result.reason.value}"
    if result.status is CallStatus.LOST and result.ran:
        return "TOOL-16", "nobody will ever say how the run has ended, so its result is lost"
    if result.status is CallStatus.LOST:
        return "TOOL-16", "a recorded call whose result was never recorded is lost, and never runs"
    if result.ran and result.status is CallStatus.DONE:
        return "TOOL-8", "the run has ended, and its output is the call's answer"
    if result.ran:
        return "TOOL-6", "a run that failed is an observation for the model"
    return "TOOL-5", "a call that may not run is answered with an error"
