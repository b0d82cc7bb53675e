"""The trace: what can be seen of a run from outside, a line for each effect that has one."""

from collections.abc import Iterable
from typing import assert_never

from loopkernel.data import effects as commands
from loopkernel.data import events
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import Event
from loopkernel.testing.scenarios.player.call_names import CallNames

# `crashed` is the one line with no effect behind it: the process that would tell is gone.
CRASHED = "crashed"


def lines_of(effects: Iterable[Effect], names: CallNames) -> tuple[str, ...]:
    """The lines that one step prints, in the order of its effects."""
    lines = (_line_of(effect, names) for effect in effects)
    return tuple(line for line in lines if line is not None)


def _line_of(effect: Effect, names: CallNames) -> str | None:
    if isinstance(effect, Command):
        return _line_of_command(effect, names)
    return _line_of_event(effect, names)


def _line_of_command(command: Command, names: CallNames) -> str | None:
    match command:
        case commands.CallModel():
            return f"request {command.operation}"
        case commands.StartTool():
            return f"tool {names.name_of(command.call)} started"
        case commands.AskHook():
            return f"hook {command.context.point.value}"
        case (
            commands.AbortModel()
            | commands.CheckCall()
            | commands.AbortTool()
            | commands.AnswerTool()
            | commands.StartTimer()
            | commands.CancelTimer()
            | commands.TellHook()
            | commands.CheckCorrection()
            | commands.Summarise()
            | commands.StartChild()
            | commands.TellChild()
            | commands.HandOff()
            | commands.AbortOther()
        ):
            return None
        case _:
            assert_never(command)


def _line_of_event(event: Event, names: CallNames) -> str | None:
    match event:
        case events.ReplyEnded():
            return f"reply {event.reply} {event.stop.value}"
        case events.ReplyFailed():
            return f"reply {event.reply} failed {event.error.value}"
        case events.ReplyAborted():
            return f"reply {event.reply} aborted"
        case events.ReplyRetracted():
            return f"reply {event.reply} retracted"
        case events.ToolEnded():
            return f"tool {names.name_of(event.result.call)} ended {event.result.status.value}"
        case events.ApprovalAsked():
            return f"ask {names.name_of(event.call)}"
        case events.QuestionAsked():
            return f"question {names.name_of(event.call)}"
        case events.EditRefused():
            return f"refused {event.action.value} {event.reason.value}"
        case events.LeaseBroken():
            return f"lease broken {names.name_of(event.call)}"
        case events.ChildStarted():
            return f"child {names.name_of(event.call)} started"
        case events.ChildAsked():
            return f"ask {names.address_of(event.call, event.asked.path)}"
        case events.ChildFinished():
            return f"child {names.name_of(event.call)} ended {event.reason.value}"
        case events.Edited():
            return f"edited {names.number_of(event.message)}"
        case (
            events.RunStarted()
            | events.InputSettled()
            | events.MessageAdded()
            | events.ReplyGrew()
            | events.CallAppeared()
            | events.OpaqueDropped()
            | events.ToolProgressed()
            | events.ApprovalRemembered()
            | events.ApprovalForgotten()
            | events.ThreadCompacted()
            | events.ThreadRewritten()
            | events.ThreadCut()
            | events.MessageReplaced()
            | events.ClockJumped()
        ):
            return None
        case _:
            return _line_of_session_event(event)


SessionEvent = (
    events.Refused
    | events.Queued
    | events.Dequeued
    | events.Discarded
    | events.Steered
    | events.RetryScheduled
    | events.ErrorShown
    | events.ErrorCleared
    | events.CompactionStarted
    | events.CompactionEnded
    | events.ResultsCleared
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
    | events.LimitReached
    | events.ThreadRepaired
    | events.WorkCancelled
    | events.LineageForked
    | events.SessionResumed
    | events.TurnEnded
)


def _line_of_session_event(event: SessionEvent) -> str:
    """The line of an event that is about no single reply, call or message."""
    match event:
        case events.Refused():
            return f"refused {event.action.value} {event.reason.value}"
        case events.Queued():
            return f"queued {event.number}"
        case events.Dequeued():
            return f"dequeued {event.number}"
        case events.Discarded():
            return f"discarded {event.number}"
        case events.Steered():
            return f"steered {event.number}"
        case events.RetryScheduled():
            return f"retry in {event.delay_ms}"
        case events.ErrorShown():
            return f"error shown {event.error.value}"
        case events.ErrorCleared():
            return "error cleared"
        case events.LimitReached():
            return f"limit {event.limit.value}"
        case events.WorkCancelled():
            return f"cancelled {event.reason.value}"
        case events.TurnEnded():
            return f"turn ended {event.reason.value}"
        case events.SessionResumed():
            return "resumed"
        case events.LineageForked():
            return "forked"
        case events.ThreadRepaired():
            return f"repaired {len(event.repairs)}"
        case _:
            return _line_of_upkeep(event)


Upkeep = (
    events.CompactionStarted
    | events.CompactionEnded
    | events.ResultsCleared
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
)


def _line_of_upkeep(event: Upkeep) -> str:
    """The line of an event about the care of the thread, of the course, and of repetition."""
    match event:
        case events.CompactionStarted():
            return "compaction started"
        case events.CompactionEnded():
            return "compaction ended done" if event.done else "compaction ended failed"
        case events.ResultsCleared():
            return "results cleared"
        case events.CorrectionChecked():
            return "correction checked"
        case events.CorrectionInjected():
            return "correction injected"
        case events.HandoffStarted():
            return "handoff started"
        case events.HandoffEnded():
            return "handoff ended failed" if event.thread is None else "handoff ended done"
        case events.LoopNoted():
            return "loop note"
        case events.ToolDisabled():
            return f"loop disable {event.tool}"
        case events.LoopStopped():
            return "loop stop"
        case _:
            assert_never(event)
