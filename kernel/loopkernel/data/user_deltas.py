"""Deltas of the user family: messages, answers, cancels and settings (rule DELTA-4).

They name messages, calls and queued inputs by their ids.
"""

import enum
from typing import final

from attrs import field

from loopkernel.data.blocks import UserBlock, content_of
from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.ids import CallId, MessageId, QueueNumber
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.tools import Tool, named_once
from loopkernel.data.value_classes import frozen


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
@frozen(field_transformer=checked_fields)
class Say(FromUser):
    """A user message. `key`, if given, makes sending it twice harmless (rule DELTA-6)."""

    content: tuple[UserBlock, ...] = field(converter=content_of)
    key: str | None = field(default=None, kw_only=True)


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class EditMessage(FromUser):
    """Replace an earlier user message; what follows it is dropped (rule INPUT-4)."""

    message: MessageId
    content: tuple[UserBlock, ...] = field(converter=content_of)
    key: str | None = None


@final
@frozen(field_transformer=checked_fields)
class Enqueue(FromUser):
    """A message for the end of the turn (rule INPUT-2)."""

    content: tuple[UserBlock, ...] = field(converter=content_of)
    key: str | None = field(default=None, kw_only=True)


@final
@frozen(field_transformer=checked_fields)
class Steer(FromUser):
    """A message for the next request (rule INPUT-3)."""

    content: tuple[UserBlock, ...] = field(converter=content_of)
    key: str | None = field(default=None, kw_only=True)


@final
@frozen(field_transformer=checked_fields)
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
@frozen(field_transformer=checked_fields)
class RememberPattern:
    """Remember the approval for the calls of the tool whose input matches."""

    fields: tuple[FieldPattern, ...]


Remembrance = RememberCall | RememberTool | RememberPattern


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Approve(AnswersCall):
    """Let a call that waits for a person run."""

    remember: Remembrance | None = None


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Reject(AnswersCall):
    """Do not let a call that waits for a person run; `why` is told to the model."""

    why: str = ""


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Correct(AnswersCall):
    """Run a waiting call with another input."""

    input: Json


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Swap(AnswersCall):
    """Run another call in a waiting call's place."""

    tool: str
    input: Json


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class AnswerQuestion(AnswersCall):
    """The answer to a question that a running tool asked; None declines it (rule TOOL-19)."""

    value: Json | None


class CrashAnswerKind(enum.Enum):
    """A person's word on a dangerous run that a restart found in flight."""

    DONE = "done"
    RERUN = "rerun"
    CANCEL = "cancel"


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class AnswerAfterCrash(AnswersCall):
    """What to do with a call that waits after a restart (rule RESUME-3)."""

    kind: CrashAnswerKind
    text: str = ""


@final
@frozen
class CancelAll(FromUser):
    """Stop everything."""


@final
@frozen(field_transformer=checked_fields)
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
@frozen(field_transformer=checked_fields)
class ChangeMode(ChangesSettings):
    """Another approval mode."""

    mode: ApprovalMode


@final
@frozen(field_transformer=checked_fields)
class Permit(ChangesSettings):
    """One more approval rule."""

    rule: ApprovalRule


@final
@frozen(field_transformer=checked_fields)
class Remember(ChangesSettings):
    """One more approval that holds for later calls: a parent's word, told to its sub-agents (rule ASK-5)."""

    remembered: Remembered


@final
@frozen(field_transformer=checked_fields)
class Forget(ChangesSettings):
    """Take back an approval that is remembered; None takes all (rule ASK-3)."""

    remembered: Remembered | None = None


@final
@frozen(field_transformer=checked_fields)
class ChangePolicy(ChangesSettings):
    """Another policy, from the next decision on."""

    policy: Policy


@final
@frozen(field_transformer=checked_fields)
class ChangeTools(ChangesSettings):
    """These tools, and no others, are offered from the next request on."""

    tools: tuple[Tool, ...] = field(validator=named_once)


@final
@frozen(field_transformer=checked_fields)
class ChangeInstructions(ChangesSettings):
    """Other instructions, from the next request on."""

    instructions: str


@final
@frozen
class CompactNow(FromUser):
    """Make the thread smaller now."""


@final
@frozen(field_transformer=checked_fields)
class StartHandoff(FromUser):
    """Carry the work over to a new thread (rule HANDOFF-1)."""

    goal: str


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
