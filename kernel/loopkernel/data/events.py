"""Events: what happened, to be shown or recorded. Folding them gives the visible thread (law MIRROR)."""

from typing import final

from loopkernel.data.blocks import ToolResult
from loopkernel.data.children import ChildCall
from loopkernel.data.foreign import Repair
from loopkernel.data.ids import CallId, MessageId, ModelOperation, QueueNumber, ReceiptId, RunOperation
from loopkernel.data.messages import Message
from loopkernel.data.remembered import Remembered
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Remembrance
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import (
    CancelReason,
    ErrorClass,
    InputFate,
    LimitName,
    RefusalReason,
    StopReason,
    TurnEndReason,
    UserAction,
)


@final
@frozen
class RunStarted:
    """The first event of every run (rule STATE-8)."""

    session_id: str


@final
@frozen
class Refused:
    """An input changed nothing. `key` is the caller's own key of a refused message."""

    action: UserAction
    reason: RefusalReason
    key: str | None = None


@final
@frozen
class InputSettled:
    """What became of a user input, by its receipt (rule DELTA-6)."""

    receipt: ReceiptId
    fate: InputFate
    key: str | None = None


@final
@frozen
class MessageAdded:
    """A message went into the thread, at its end."""

    message: Message


@final
@frozen
class ReplyGrew:
    """A piece of the reply has streamed; `reasoning` tells thought from text."""

    reply: ModelOperation
    text: str
    reasoning: bool = False


@final
@frozen
class CallAppeared:
    """The reply holds one more complete call."""

    call: CallId
    provider_id: str
    tool: str


@final
@frozen
class ReplyEnded:
    """The reply is complete."""

    reply: ModelOperation
    stop: StopReason


@final
@frozen
class ReplyFailed:
    """The model call failed."""

    reply: ModelOperation
    error: ErrorClass


@final
@frozen
class ReplyAborted:
    """The model call was stopped by a cancel."""

    reply: ModelOperation


@final
@frozen
class ReplyRetracted:
    """What had streamed of the reply is void."""

    reply: ModelOperation


@final
@frozen
class OpaqueDropped:
    """Opaque blocks of other models were left out of a request (rule INFER-15)."""

    request: ModelOperation
    models: tuple[str, ...]


@final
@frozen
class Queued:
    """An input waits in the queue."""

    number: QueueNumber


@final
@frozen
class Dequeued:
    """The input leaves the queue and starts a turn."""

    number: QueueNumber


@final
@frozen
class Discarded:
    """The input was taken out of the queue."""

    number: QueueNumber


@final
@frozen
class Steered:
    """The nth steering message of the lineage went into the thread."""

    number: int


@final
@frozen
class Edited:
    """A user message was replaced, and what followed it dropped."""

    message: MessageId


@final
@frozen
class RetryScheduled:
    """The model is asked again after `delay_ms`."""

    delay_ms: int
    attempt: int


@final
@frozen
class ErrorShown:
    """An error the user should see, until it is cleared."""

    error: ErrorClass
    message: str


@final
@frozen
class ErrorCleared:
    """The shown error is gone (rule DELTA-5)."""


@final
@frozen
class ThreadRewritten:
    """The thread is now these messages: what a compaction took out was put back."""

    messages: tuple[Message, ...]


@final
@frozen
class ThreadCut:
    """Of the thread only the first `length` messages are left."""

    length: int


@final
@frozen
class MessageReplaced:
    """The message of that id now reads so."""

    message: Message


@final
@frozen
class LimitReached:
    """A limit ends the turn."""

    limit: LimitName


@final
@frozen
class ThreadRepaired:
    """A thread from elsewhere was repaired: each result or message that was added, moved or dropped."""

    repairs: tuple[Repair, ...]


@final
@frozen
class WorkCancelled:
    """Everything open was stopped, for this reason."""

    reason: CancelReason


@final
@frozen
class LineageForked:
    """A new lineage began."""

    session_id: str


@final
@frozen
class SessionResumed:
    """The session goes on after a restart or a release."""


@final
@frozen
class ClockJumped:
    """The clock of the machine was set: forward by so many milliseconds, or, less than 0, back.

    No delay is longer or shorter for that: time goes on from where it was (rule DELTA-7).
    """

    by_ms: int


@final
@frozen
class TurnEnded:
    """A turn is over; `usage` is the run's total so far (rule STATE-8)."""

    reason: TurnEndReason
    usage: Usage


# --- of the work within a turn: calls, approvals, compaction, sub-agents, corrections, loops, handoffs -------


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


Event = (
    ReplyGrew
    | MessageAdded
    | CallAppeared
    | ReplyEnded
    | ToolEnded
    | ToolProgressed
    | TurnEnded
    | InputSettled
    | Refused
    | RunStarted
    | ReplyFailed
    | ReplyAborted
    | ReplyRetracted
    | OpaqueDropped
    | ApprovalAsked
    | ApprovalRemembered
    | ApprovalForgotten
    | EditRefused
    | QuestionAsked
    | LeaseBroken
    | Queued
    | Dequeued
    | Discarded
    | Steered
    | Edited
    | RetryScheduled
    | ErrorShown
    | ErrorCleared
    | CompactionStarted
    | CompactionEnded
    | ThreadCompacted
    | ThreadRewritten
    | ThreadCut
    | MessageReplaced
    | ResultsCleared
    | ChildStarted
    | ChildAsked
    | ChildFinished
    | CorrectionChecked
    | CorrectionInjected
    | HandoffStarted
    | HandoffEnded
    | LoopNoted
    | ToolDisabled
    | LoopStopped
    | LimitReached
    | ThreadRepaired
    | WorkCancelled
    | LineageForked
    | SessionResumed
    | ClockJumped
)
