"""What happens in a run, as the progress of a task: one line of words for each event, each of which is decided on here.

A client shows progress to a person while the task goes on. What counts in the end is in the tool's result.
"""

from typing import assert_never

from loopkernel.data import events
from loopkernel.views.event_text import event_to_text

# Events that are told, in the words that logs have for them.
Told = (
    events.RunStarted
    | events.CallAppeared
    | events.ReplyEnded
    | events.ReplyFailed
    | events.ReplyAborted
    | events.ReplyRetracted
    | events.OpaqueDropped
    | events.Refused
    | events.InputSettled
    | events.Queued
    | events.Dequeued
    | events.Discarded
    | events.Steered
    | events.Edited
    | events.MessageAdded
    | events.MessageReplaced
    | events.ThreadRewritten
    | events.ThreadCut
    | events.ThreadRepaired
    | events.ToolEnded
    | events.ApprovalAsked
    | events.ApprovalRemembered
    | events.ApprovalForgotten
    | events.EditRefused
    | events.QuestionAsked
    | events.LeaseBroken
    | events.ChildStarted
    | events.ChildAsked
    | events.ChildFinished
    | events.RetryScheduled
    | events.ErrorShown
    | events.ErrorCleared
    | events.LimitReached
    | events.WorkCancelled
    | events.TurnEnded
    | events.CompactionStarted
    | events.CompactionEnded
    | events.ThreadCompacted
    | events.ResultsCleared
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
    | events.LineageForked
    | events.SessionResumed
    | events.ClockJumped
)
# Parts of a message or a result, which is told.
Piece = events.ReplyGrew | events.ToolProgressed


def progress_of(event: events.Event) -> str | None:
    """The line; None for a piece of a text, whose whole is told when it is there."""
    if isinstance(event, Told):
        return event_to_text(event)
    if isinstance(event, Piece):
        return None
    assert_never(event)
