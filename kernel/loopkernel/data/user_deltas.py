"""Deltas of the user family: messages, answers, cancels and settings (rule DELTA-4).

They name messages, calls and queued inputs by their ids.
"""

import enum
from typing import final

from attrs import field, frozen

from loopkernel.data.blocks import UserBlock
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.ids import CallId, MessageId, QueueNumber
from loopkernel.data.json_text import Json, safe_text
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.texts import safe_optional_text
from loopkernel.data.tools import Tool


@frozen
class FromUser:
    """Family: what the person, or the program in the person's place, wants."""


@frozen
class AnswersCall(FromUser):
    """A person's word on the call `call`."""

    call: CallId


@frozen
class ChangesSettings(FromUser):
    """A change of what the session runs under."""


@final
@frozen(kw_only=True)
class Say(FromUser):
    """A user message. `key`, if given, makes sending it twice harmless (rule DELTA-6)."""

    content: tuple[UserBlock, ...]
    key: str | None = field(default=None, converter=safe_optional_text)


@final
@frozen(kw_only=True)
class EditMessage(FromUser):
    """Replace an earlier user message; what follows it is dropped (rule INPUT-4)."""

    message: MessageId
    content: tuple[UserBlock, ...]
    key: str | None = field(default=None, converter=safe_optional_text)


@final
@frozen(kw_only=True)
class Enqueue(FromUser):
    """A message for the end of the turn (rule INPUT-2)."""

    content: tuple[UserBlock, ...]
    key: str | None = field(default=None, converter=safe_optional_text)


@final
@frozen(kw_only=True)
class Steer(FromUser):
    """A message for the next request (rule INPUT-3)."""

    content: tuple[UserBlock, ...]
    key: str | None = field(default=None, converter=safe_optional_text)


@final
@frozen
class Discard(FromUser):
    """Take one queued input out of the queue, by its number; None takes all."""

    queued: QueueNumber | None = None


@final
@frozen
class RememberCall:
    """Remember the approval for this exact tool and input."""


@final
@frozen
class RememberTool:
    """Remember the approval for every call of the tool."""


@final
@frozen
class RememberPattern:
    """Remember the approval for the calls of the tool whose input matches."""

    fields: tuple[FieldPattern, ...]


Remembrance = RememberCall | RememberTool | RememberPattern


@final
@frozen(kw_only=True)
class Approve(AnswersCall):
    """Let a call that waits for a person run."""

    remember: Remembrance | None = None


@final
@frozen(kw_only=True)
class Reject(AnswersCall):
    """Do not let a call that waits for a person run; `why` is told to the model."""

    why: str = field(default="", converter=safe_text)


@final
@frozen(kw_only=True)
class Correct(AnswersCall):
    """Run a waiting call with another input."""

    input: Json


@final
@frozen(kw_only=True)
class Swap(AnswersCall):
    """Run another call in a waiting call's place."""

    tool: str = field(converter=safe_text)
    input: Json


@final
@frozen(kw_only=True)
class AnswerQuestion(AnswersCall):
    """The answer to a question that a running tool asked; None declines it (rule TOOL-19)."""

    value: Json | None


class CrashAnswerKind(enum.Enum):
    """A person's word on a dangerous run that a restart found in flight."""

    DONE = "done"
    RERUN = "rerun"
    CANCEL = "cancel"


@final
@frozen(kw_only=True)
class AnswerAfterCrash(AnswersCall):
    """What to do with a call that waits after a restart (rule RESUME-3)."""

    kind: CrashAnswerKind
    text: str = field(default="", converter=safe_text)


@final
@frozen
class CancelAll(FromUser):
    """Stop everything."""


@final
@frozen
class CancelCall(FromUser):
    """Stop one tool call."""

    call: CallId


@final
@frozen
class RetryNow(FromUser):
    """Fire a pending retry now; at rest, ask again from the same thread."""


@final
@frozen
class DismissError(FromUser):
    """Take the shown error away."""


@final
@frozen
class ChangeMode(ChangesSettings):
    """Another approval mode."""

    mode: ApprovalMode


@final
@frozen
class Permit(ChangesSettings):
    """One more approval rule."""

    rule: ApprovalRule


@final
@frozen
class Remember(ChangesSettings):
    """One more approval that holds for later calls: a parent's word, told to its sub-agents (rule ASK-5)."""

    remembered: Remembered


@final
@frozen
class Forget(ChangesSettings):
    """Take back an approval that is remembered; None takes all (rule ASK-3)."""

    remembered: Remembered | None = None


@final
@frozen
class ChangePolicy(ChangesSettings):
    """Another policy, from the next decision on."""

    policy: Policy


@final
@frozen
class ChangeTools(ChangesSettings):
    """These tools, and no others, are offered from the next request on."""

    tools: tuple[Tool, ...]


@final
@frozen
class ChangeInstructions(ChangesSettings):
    """Other instructions, from the next request on."""

    instructions: str = field(converter=safe_text)


@final
@frozen
class CompactNow(FromUser):
    """Make the thread smaller now."""


@final
@frozen
class StartHandoff(FromUser):
    """Carry the work over to a new thread (rule HANDOFF-1)."""

    goal: str = field(converter=safe_text)


CallAnswer = Approve | Reject | Correct | Swap | AnswerQuestion | AnswerAfterCrash
SettingsChange = ChangeMode | Permit | Remember | Forget | ChangePolicy | ChangeTools | ChangeInstructions

UserDelta = (
    Say
    | EditMessage
    | Enqueue
    | Steer
    | Discard
    | Approve
    | Reject
    | Correct
    | Swap
    | AnswerQuestion
    | AnswerAfterCrash
    | CancelAll
    | CancelCall
    | RetryNow
    | DismissError
    | ChangeMode
    | Permit
    | Remember
    | Forget
    | ChangePolicy
    | ChangeTools
    | ChangeInstructions
    | CompactNow
    | StartHandoff
)
