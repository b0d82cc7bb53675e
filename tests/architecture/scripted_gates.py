"""Runs written by hand, with hooks, course corrections, compactions, sub-agents and handoffs in them."""

from attrs import evolve
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import CompactionStrategy, OnBusy
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
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
from loopkernel.data.policy import Compaction, CourseCorrection, Hook, Policy
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolStopped, ToolSucceeded
from loopkernel.data.tools import EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage, Enqueue, Say, StartHandoff, Steer
from loopkernel.data.words import ErrorClass, HookPoint, StopReason, TurnEndReason

from tests.architecture.scripted_words import HELLO, WRITES, Log, call, completed, created, running, text

AGENT = Tool(name="agent", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, child=True))


def gate(point: HookPoint) -> Hook:
    """A hook that is waited for."""
    return Hook(point=point, name=f"at {point.value}", gated=True)


def watch(point: HookPoint) -> Hook:
    """A hook that is told."""
    return Hook(point=point, name=f"sees {point.value}")


def says(number: int, answer: HookContinue | HookBlock | HookModify | HookRetry | HookFault) -> HookAnswered:
    """The nth hook that is asked answers."""
    return HookAnswered(HookOperation(number), answer)


def yes(number: int) -> HookAnswered:
    """The nth hook that is asked lets it go on."""
    return says(number, HookContinue())


GATED = tuple(gate(point) for point in HookPoint if point.can_be_gated)
WATCHED = tuple(watch(point) for point in HookPoint)
EVERY_POINT: Log = (
    *created(Policy(hooks=(*WATCHED, *GATED))),
    Say(content=HELLO),
    Steer(content=HELLO),
    yes(1),
    Resumed(),
    yes(2),
    yes(3),
    *running(1),
    yes(4),
    says(5, HookModify(input=Json.of({"path": "b"}))),
    ToolChecked(CheckOperation(1), WRITES),
    ToolSucceeded(RunOperation(1)),
    says(6, HookModify(result="seen")),
    yes(7),
    text(2),
    completed(2),
    yes(8),
    says(9, HookBlock("not yet")),
    yes(10),
    completed(3),
    yes(11),
    TimerFired(TimerOperation(12)),
    Resumed(),
    yes(14),
)
RETRIED: Log = (
    *created(Policy(hooks=(gate(HookPoint.AFTER_MODEL), gate(HookPoint.AFTER_TOOL)), on_busy=OnBusy.INTERRUPT)),
    Say(content=HELLO),
    text(1),
    completed(1),
    Resumed(),
    says(2, HookRetry()),
    ModelFailed(ModelOperation(2), error=ErrorClass.SERVER),
    says(3, HookFault("gone")),
    TimerFired(TimerOperation(6)),
    *running(3),
    yes(4),
    ToolSucceeded(RunOperation(1)),
    says(5, HookRetry()),
    ToolSucceeded(RunOperation(2)),
    Say(content=HELLO),
    completed(4),
    says(7, HookBlock("no")),
    Say(content=HELLO),
    text(5),
    completed(5),
    CancelAll(),
    Say(content=HELLO),
    text(6),
    completed(6),
    Forked(session_id="s2"),
)
CUT_GATES: Log = (
    *created(Policy(hooks=(gate(HookPoint.BEFORE_INVOCATION), gate(HookPoint.STOP)))),
    Say(content=HELLO),
    Forked(session_id="s2"),
    Say(content=HELLO),
    says(2, HookBlock("not today")),
    Say(content=HELLO),
    CancelAll(),
    Say(content=HELLO),
    yes(4),
    completed(1),
    completed(2),
    Forked(session_id="s3"),
    Say(content=HELLO),
    Disposed(),
)
CORRECTED: Log = (
    *created(Policy(course_correction=CourseCorrection(after_calls=1))),
    Say(content=HELLO),
    call(1, "write", "notes", verdict=WRITES),
    completed(1, StopReason.TOOL_USE),
    ToolSucceeded(RunOperation(1)),
    text(2),
    completed(2),
    Resumed(),
    CorrectionAnswered(CorrectionOperation(2), "look again", Usage(output=1)),
    text(3),
    completed(3),
)

# Two messages are kept of each thread, and one token is too many.
KEEP_TWO = Compaction(trigger_ratio=None, trigger_tokens=40, keep_turns=None, keep_messages=2, failures=1)
SMALL = Policy(
    compaction=KEEP_TWO,
    silence_ms=None,
    retry=None,
)
LONG = (*HELLO * 40,)
SUMMARISED: Log = (
    *created(SMALL),
    Say(content=HELLO),
    text(1),
    completed(1),
    CompactNow(),
    Say(content=LONG),
    text(2),
    completed(2),
    Say(content=HELLO),
    Enqueue(content=HELLO),
    Resumed(),
    SummaryReady(SummaryOperation(2), "so far", Usage(output=3)),
    text(2),
    completed(2),
    SummaryFailed(SummaryOperation(3), "busy"),
    text(3),
    completed(3),
    text(4),
    completed(4),
    CompactNow(),
    EditMessage(message=MessageId(1), content=HELLO),
    CancelAll(),
    CompactNow(),
    Forked(session_id="s2"),
)
AT_REST: Log = (
    *created(evolve(SMALL, on_busy=OnBusy.INTERRUPT)),
    Say(content=HELLO),
    text(1),
    completed(1),
    Say(content=HELLO),
    text(2),
    completed(2),
    CompactNow(),
    SummaryFailed(SummaryOperation(1), "busy"),
    CompactNow(),
    Forked(session_id="s2"),
    CompactNow(),
    Enqueue(content=HELLO),
    SummaryFailed(SummaryOperation(3), "busy"),
    text(3),
    completed(3),
    CompactNow(),
    CancelAll(),
    CompactNow(),
    SummaryFailed(SummaryOperation(5), "busy"),
    CompactNow(),
    Say(content=HELLO),
    CancelAll(),
    CompactNow(),
    Disposed(),
)
PRESSED: Log = (
    *created(evolve(SMALL, compaction=evolve(KEEP_TWO, trigger_tokens=None), clear_results=None)),
    Say(content=HELLO),
    call(1, verdict=ValidCall()),
    completed(1, StopReason.TOOL_USE),
    ToolSucceeded(RunOperation(1)),
    ModelFailed(ModelOperation(2), error=ErrorClass.PROMPT_TOO_LONG),
    SummaryFailed(SummaryOperation(1), "busy"),
    Say(content=HELLO),
    ModelFailed(ModelOperation(3), error=ErrorClass.PROMPT_TOO_LONG),
    CancelAll(),
)
WINDOWED: Log = (
    *created(evolve(SMALL, compaction=evolve(KEEP_TWO, strategy=CompactionStrategy.WINDOW))),
    Say(content=HELLO),
    *running(1),
    ToolSucceeded(RunOperation(1)),
    *running(2),
    ToolSucceeded(RunOperation(2)),
)
# A call that has had an effect is answered before the prompt that was too long is made shorter.
PRESSED_EARLY: Log = (
    *created(evolve(SMALL, compaction=evolve(KEEP_TWO, trigger_tokens=None)), early=True),
    Say(content=HELLO),
    call(1, "write", "notes", verdict=WRITES),
    ModelFailed(ModelOperation(1), error=ErrorClass.PROMPT_TOO_LONG),
    ToolSucceeded(RunOperation(1)),
    SummaryReady(SummaryOperation(1), "so far"),
)


def agent(reply: int) -> ModelCall:
    """A call to a sub-agent."""
    return ModelCall(
        ModelOperation(reply),
        provider_id="a",
        tool="agent",
        input=Json.of({"prompt": "look it up"}),
        verdict=ValidCall(),
    )


def with_agent(policy: Policy = SMALL) -> Log:
    """A session with a tool that is a sub-agent."""
    return (Created(session_id="s1", policy=policy, tools=(AGENT,)), Acquired(), Say(content=HELLO))


ASKED = (ChildCall((CallId(ModelOperation(1), 1),)),)
CHILDREN: Log = (
    *with_agent(),
    agent(1),
    agent(1),
    completed(1, StopReason.TOOL_USE),
    ChildProgress(RunOperation(1), "half"),
    ChildAsks(RunOperation(1), ASKED),
    ChildEnded(operation=RunOperation(2), reason=TurnEndReason.MODEL_STOP, text="found"),
    Resumed(),
    ChildAsks(RunOperation(3), ASKED),
    ChildAsks(RunOperation(3)),
    ChildAsks(RunOperation(3), ASKED),
    ChildEnded(operation=RunOperation(3), reason=TurnEndReason.MAX_TURNS, usage=Usage(output=7)),
    SummaryReady(SummaryOperation(1), "so far"),
    agent(2),
    completed(2, StopReason.TOOL_USE),
    Acquired(),
    Steer(content=HELLO),
    CancelAll(),
    ToolStopped(RunOperation(4)),
    ChildEnded(operation=RunOperation(4), reason=TurnEndReason.USER_ABORT, usage=Usage(output=7)),
)
HANDED: Log = (
    *created(SMALL),
    StartHandoff("go on there"),
    Enqueue(content=HELLO),
    HandoffFailed(HandoffOperation(1), "no"),
    text(1),
    completed(1),
    StartHandoff("go on there"),
    CancelAll(),
    StartHandoff("go on there"),
    HandoffFailed(HandoffOperation(3), "no"),
    StartHandoff("go on there"),
    Resumed(),
    StartHandoff("go on there"),
    Forked(session_id="s2"),
    StartHandoff("go on there"),
    HandoffFailed(HandoffOperation(6), "no"),
    StartHandoff("go on there"),
    Disposed(),
    Resumed(),
    StartHandoff("go on there"),
    HandoffDone(HandoffOperation(8), "t2"),
)
GATED_RUNS: dict[str, Log] = {
    "every hook": EVERY_POINT,
    "hooks that want it again": RETRIED,
    "hooks that are cut short": CUT_GATES,
    "correction": CORRECTED,
    "summaries": SUMMARISED,
    "summaries at rest": AT_REST,
    "prompt too long": PRESSED,
    "prompt too long behind a call": PRESSED_EARLY,
    "window": WINDOWED,
    "sub-agents": CHILDREN,
    "handoffs": HANDED,
}
