"""The trace: the line of each effect, and the names that a scenario gives to calls and messages."""

from typing import get_args

import pytest
from loopkernel.data import effects, events
from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import Effect, Request
from loopkernel.data.foreign import Repair, RepairKind
from loopkernel.data.hook_calls import HookContext
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
    ReceiptId,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.thread_deltas import Created
from loopkernel.data.threads import Thread
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import ChangeMode, RememberTool
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
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
from loopkernel.testing.scenarios.player.call_names import NO_CALL, NO_MESSAGE, CallNames
from loopkernel.testing.scenarios.player.trace_lines import lines_of

SEVEN = ModelOperation(7)
CALL = CallId(SEVEN, 1)
RUN = RunOperation(1)
NOTHING = Json.of({})
MESSAGE = UserMessage(id=MessageId(5), content=(TextBlock("hi"),))
REQUEST = Request(
    number=SEVEN,
    reason=RequestReason.USER,
    model="m",
    instructions="",
    tools=(),
    thread=Thread(),
    max_output_tokens=None,
)
ABOUT_HOOK = HookContext(point=HookPoint.BEFORE_TOOL, name="n", thread=Thread())
LINES: list[tuple[Effect, str | None]] = [
    (effects.CallModel(SEVEN, REQUEST), "request 7"),
    (effects.AbortModel(SEVEN), None),
    (effects.CheckCall(operation=CheckOperation(1), call=CALL, tool="t", input=NOTHING), None),
    (effects.StartTool(operation=RUN, call=CALL, run=1, tool="t", input=NOTHING, key="k"), "tool c1 started"),
    (effects.AbortTool(RUN, CancelReason.SIBLING), None),
    (effects.AnswerTool(operation=RUN, value=None), None),
    (effects.StartTimer(operation=TimerOperation(1), purpose=TimerPurpose.RETRY, deadline_ms=5), None),
    (effects.CancelTimer(TimerOperation(1)), None),
    (effects.AskHook(HookOperation(1), ABOUT_HOOK), "hook before_tool"),
    (effects.TellHook(ABOUT_HOOK), None),
    (effects.CheckCorrection(CorrectionOperation(1), Thread()), None),
    (effects.Summarise(operation=SummaryOperation(1), thread=Thread(), cut=Cut(1)), None),
    (effects.StartChild(operation=RUN, call=CALL, run=1, tool="t", input=NOTHING, created=Created(session_id="t"),
                        task="do it"), None),
    (effects.TellChild(RUN, ChangeMode(ApprovalMode.PLAN)), None),
    (effects.HandOff(operation=HandoffOperation(1), goal="g", thread=Thread()), None),
    (effects.AbortOther(OperationKind.HOOK, 1), None),
    (events.ReplyGrew(SEVEN, "a"), None),
    (events.MessageAdded(MESSAGE), None),
    (events.CallAppeared(CALL, "c1", "t"), None),
    (events.ReplyEnded(SEVEN, StopReason.TOOL_USE), "reply 7 tool_use"),
    (events.ToolEnded(ToolResult(call=CALL, provider_id="c1", tool="t", status=CallStatus.REJECTED_BY_USER)),
     "tool c1 ended rejected-by-user"),
    (events.ToolProgressed(CALL, RUN, "half"), None),
    (events.TurnEnded(TurnEndReason.MODEL_STOP, NO_USAGE), "turn ended model_stop"),
    (events.InputSettled(ReceiptId(1), InputFate.QUEUED), None),
    (events.Refused(UserAction.AFTER_CRASH, RefusalReason.NOT_NOW), "refused after_crash not-now"),
    (events.RunStarted("s"), None),
    (events.ReplyFailed(SEVEN, ErrorClass.PROMPT_TOO_LONG), "reply 7 failed prompt_too_long"),
    (events.ReplyAborted(SEVEN), "reply 7 aborted"),
    (events.ReplyRetracted(SEVEN), "reply 7 retracted"),
    (events.OpaqueDropped(SEVEN, ("m",)), None),
    (events.ApprovalAsked(CALL), "ask c1"),
    (events.ApprovalRemembered(CALL, RememberTool()), None),
    (events.ApprovalForgotten(RememberedTool("read")), None),
    (events.QuestionAsked(CALL, "which?"), "question c1"),
    (events.LeaseBroken(CALL), "lease broken c1"),
    (events.EditRefused(CALL, UserAction.SWAP, RefusalReason.DENIED), "refused swap denied"),
    (events.Queued(QueueNumber(3)), "queued 3"),
    (events.Dequeued(QueueNumber(3)), "dequeued 3"),
    (events.Discarded(QueueNumber(3)), "discarded 3"),
    (events.Steered(2), "steered 2"),
    (events.Edited(MessageId(5)), "edited 1"),
    (events.RetryScheduled(5_000, 1), "retry in 5000"),
    (events.ErrorShown(ErrorClass.MAX_TOKENS, ""), "error shown max_tokens"),
    (events.ErrorCleared(), "error cleared"),
    (events.CompactionStarted(), "compaction started"),
    (events.CompactionEnded(True), "compaction ended done"),
    (events.CompactionEnded(False), "compaction ended failed"),
    (events.ThreadCompacted(opening=None, note=None, first=None), None),
    (events.ThreadRewritten(()), None),
    (events.ThreadCut(3), None),
    (events.MessageReplaced(MESSAGE), None),
    (events.ResultsCleared((CALL,)), "results cleared"),
    (events.ChildStarted(CALL), "child c1 started"),
    (events.ChildAsked(CALL, ChildCall((CallId(SEVEN, 1), CallId(SEVEN, 9)))), "ask c1/k1/7.9"),
    (events.ChildFinished(CALL, TurnEndReason.BUDGET_EXCEEDED), "child c1 ended budget_exceeded"),
    (events.CorrectionChecked(), "correction checked"),
    (events.CorrectionInjected(), "correction injected"),
    (events.HandoffStarted(), "handoff started"),
    (events.HandoffEnded("t"), "handoff ended done"),
    (events.HandoffEnded(None), "handoff ended failed"),
    (events.LoopNoted("t"), "loop note"),
    (events.ToolDisabled("t"), "loop disable t"),
    (events.LoopStopped("t"), "loop stop"),
    (events.LimitReached(LimitName.WALL_TIME), "limit wall_time"),
    (events.ThreadRepaired((Repair(RepairKind.EMPTY, 0),) * 4), "repaired 4"),
    (events.WorkCancelled(CancelReason.EDITED), "cancelled system:edited"),
    (events.LineageForked("s"), "forked"),
    (events.SessionResumed(), "resumed"),
    (events.ClockJumped(5), None),
]  # fmt: skip


def known_names() -> CallNames:
    names = CallNames()
    names.expect_calls(SEVEN, ["c1", "c2"])
    names.learn([events.MessageAdded(MESSAGE)])
    names.children[CALL] = CallNames()
    names.children[CALL].expect_calls(SEVEN, ["k1"])
    return names


@pytest.mark.parametrize(("effect", "line"), LINES)
def test_an_effect_has_its_line(effect: Effect, line: str | None) -> None:
    assert lines_of([effect], known_names()) == (() if line is None else (line,))


def test_every_effect_is_tried() -> None:
    assert {type(effect) for effect, _ in LINES} == set(get_args(Effect))


def test_the_lines_of_a_step_keep_their_order() -> None:
    tried = [effect for effect, _ in LINES]
    assert lines_of(tried, known_names()) == tuple(line for _, line in LINES if line is not None)


def test_a_call_without_a_name_is_shown_by_its_id() -> None:
    assert lines_of([events.ApprovalAsked(CallId(SEVEN, 9))], known_names()) == ("ask 7.9",)


def test_a_name_is_the_latest_call_of_that_name() -> None:
    names = known_names()
    assert names.call_named("c2") == CallId(SEVEN, 2)
    names.expect_calls(ModelOperation(8), ["c2"])
    assert names.call_named("c2") == CallId(ModelOperation(8), 1)
    assert names.name_of(CallId(SEVEN, 2)) == "c2"
    assert names.call_named("nobody") == NO_CALL


def test_only_what_the_user_sent_is_counted_and_an_edit_drops_what_follows() -> None:
    names = known_names()
    for number, origin in enumerate((UserOrigin.NUDGE, UserOrigin.QUEUED, UserOrigin.STEERED), 6):
        names.learn([events.MessageAdded(UserMessage(id=MessageId(number), content=(), origin=origin))])
    assert [names.message_sent(number) for number in range(5)] == [NO_MESSAGE, 5, 7, 8, NO_MESSAGE]
    edit: list[Effect] = [events.Edited(MessageId(7)), events.MessageAdded(UserMessage(id=MessageId(9), content=()))]
    assert lines_of(edit, names) == ("edited 2",)
    names.learn(edit)
    assert [names.message_sent(number) for number in range(1, 4)] == [5, 9, NO_MESSAGE]
