"""Events of the work within a turn: tool calls, approvals, compaction, sub-agents, corrections, loops, handoffs."""

from typing import final

from attrs import frozen

from loopkernel.data.blocks import ToolResult
from loopkernel.data.children import ChildCall
from loopkernel.data.ids import CallId, MessageId, RunOperation
from loopkernel.data.messages import Message
from loopkernel.data.remembered import Remembered
from loopkernel.data.user_deltas import Remembrance
from loopkernel.data.words import RefusalReason, TurnEndReason, UserAction


@final
@frozen
class ToolProgressed:
    """A running tool says how far it is."""

    call: CallId
    operation: RunOperation
    text: str


@final
@frozen
class ToolEnded:
    """A call is answered, whether it ran or not."""

    result: ToolResult


@final
@frozen
class ApprovalAsked:
    """A call waits for a person."""

    call: CallId


@final
@frozen
class ApprovalRemembered:
    """An approval holds for later calls too."""

    call: CallId
    remembrance: Remembrance


@final
@frozen
class ApprovalForgotten:
    """An approval that was remembered is taken back, and holds no more (rule ASK-3)."""

    remembered: Remembered


@final
@frozen
class EditRefused:
    """An edit of a waiting call was checked and is not taken: the call keeps waiting (rule ASK-3)."""

    call: CallId
    action: UserAction
    reason: RefusalReason


@final
@frozen
class QuestionAsked:
    """A running tool waits for a person's answer."""

    call: CallId
    question: str


@final
@frozen
class LeaseBroken:
    """An aborted run did not stop in time; its resources are taken from it (rule TOOL-17)."""

    call: CallId


@final
@frozen
class CompactionStarted:
    """The thread is being made smaller."""


@final
@frozen
class CompactionEnded:
    """It is done, or failed."""

    done: bool


@final
@frozen(kw_only=True)
class ThreadCompacted:
    """The thread now is the messages `opening` and `note`, if any, then those from `first` on, if any."""

    opening: MessageId | None
    note: Message | None
    first: MessageId | None


@final
@frozen
class ResultsCleared:
    """Old result bodies were taken out of the thread."""

    calls: tuple[CallId, ...]


@final
@frozen
class ChildStarted:
    """A sub-agent runs in the place of a tool."""

    call: CallId


@final
@frozen
class ChildAsked:
    """A call of a sub-agent waits for a person."""

    call: CallId
    asked: ChildCall


@final
@frozen
class ChildFinished:
    """A sub-agent's run ended."""

    call: CallId
    reason: TurnEndReason


@final
@frozen
class CorrectionChecked:
    """The course correction has answered."""


@final
@frozen
class CorrectionInjected:
    """Its correction went into the thread."""


@final
@frozen
class HandoffStarted:
    """The work is being carried over to a new thread."""


@final
@frozen
class HandoffEnded:
    """The new thread exists; None: it failed."""

    thread: str | None


@final
@frozen
class LoopNoted:
    """The model was told that it repeats itself."""

    tool: str


@final
@frozen
class ToolDisabled:
    """A tool is not offered for some rounds, since the model repeats itself."""

    tool: str


@final
@frozen
class LoopStopped:
    """The turn ends, since the model repeats itself."""

    tool: str
