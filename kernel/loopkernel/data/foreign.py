"""A conversation as it was recorded elsewhere, however broken: what a session can begin from (rule RESUME-5).

Its calls are known by the ids of their provider alone, which may repeat; its results stand wherever they
were found.
"""

import enum
from typing import Any, final

from attrs import Attribute, field

from loopkernel.data.blocks import OpaqueBlock, RawInput, ReasoningBlock, ServerCall, TextBlock, UserBlock, content_of
from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.json_text import Json
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import OPEN_STATUSES, CallStatus


def _terminal(instance: object, attribute: "Attribute[Any]", status: CallStatus) -> None:  # attrs fixes this shape
    if status in OPEN_STATUSES:
        raise ValueError(f"a recorded result must have ended, and this one is {status.value!r}")


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ForeignCall:
    """A recorded call."""

    provider_id: str
    tool: str
    input: Json | RawInput


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ForeignResult:
    """A recorded result. `status_from_text` says that its status was read from text (rule TOOL-16)."""

    provider_id: str
    status: CallStatus = field(validator=_terminal)
    content: tuple[UserBlock, ...] = field(default=(), converter=content_of)
    status_from_text: bool = False


@final
@frozen(field_transformer=checked_fields)
class ForeignUser:
    """A recorded user message."""

    content: tuple[UserBlock, ...] = field(converter=content_of)


ForeignBlock = TextBlock | ReasoningBlock | OpaqueBlock | ServerCall | ForeignCall


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ForeignReply:
    """A recorded reply of the model `model`, with its calls among its blocks."""

    content: tuple[ForeignBlock, ...]
    model: str = ""

    @property
    def calls(self) -> tuple[ForeignCall, ...]:
        """The calls, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ForeignCall))


@final
@frozen(field_transformer=checked_fields)
class ForeignResults:
    """Recorded results that were found together."""

    results: tuple[ForeignResult, ...]


ForeignMessage = ForeignUser | ForeignReply | ForeignResults


class RepairKind(enum.Enum):
    """What was wrong with a recorded conversation, and is not any more (rule RESUME-5)."""

    LOST = "lost"  # a call without a result: it is answered as lost
    MOVED = "moved"  # a result that did not stand right behind its call: it does now
    ORPHAN = "orphan"  # a result of no call: dropped
    DUPLICATE = "duplicate"  # a second result of a call: dropped
    EMPTY = "empty"  # a message that says nothing: dropped


@final
@frozen(field_transformer=checked_fields)
class Repair:
    """One repair: of the message at `place` of what was given, from 0, and there of the call of that provider's id."""

    kind: RepairKind
    place: int
    provider_id: str = ""
