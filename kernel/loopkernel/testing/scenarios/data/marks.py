"""How the format writes what a type alone does not tell: marks for `Annotated`, and the types that bear them."""

import enum
from typing import Annotated, Literal, TypeAlias, final

from attrs import frozen

from loopkernel.data.words import OPEN_STATUSES, CallStatus, ErrorClass, TurnEndReason


class Mark(enum.Enum):
    """How a value is written, beyond its type."""

    NAME = "one word, since it stands in trace lines"
    LINE = "a trace line, in which `*` stands for one word"
    POSITIVE = "a number from 1"
    NONE = "`none` may stand for nothing, or for an empty list"
    THE_WORD_NONE = "`none` is kept as that word"
    ALL = "`all` may stand for None"
    SCHEMA = "a JSON Schema"
    GROUP = "two or more, which are compared"
    FLAT = "its keys stand among those of its owner"
    ALONE = "may stand alone, in place of the mapping that it belongs to"


@final
@frozen
class WrittenAs:
    """The key that the format has for the field, where it is not the field's name."""

    name: str


@final
@frozen
class Words:
    """The words that are allowed, or the members of an enum."""

    allowed: tuple[str, ...]


# As rule STATE-2 spells them.
STATES = (
    "Initial",
    "Idle",
    "Thinking",
    "Streaming",
    "Executing",
    "Confirming",
    "Dispatching",
    "Compacting",
    "Backoff",
    "Finishing",
    "HandingOff",
    "Cancelled",
    "Done",
)
# The labels of rule STATE-6.
INTERACTIONS = (
    "handoff",
    "busy",
    "user-message-initial",
    "user-message-reply",
    "user-tool-approval",
    "tool-running",
)

Name: TypeAlias = Annotated[str, Mark.NAME]
Names: TypeAlias = Annotated[tuple[Name, ...], Mark.NONE]
Group: TypeAlias = Annotated[tuple[Name, ...], Mark.NONE, Mark.GROUP]
Line: TypeAlias = Annotated[str, Mark.LINE]
Lines: TypeAlias = tuple[Line, ...]
Position: TypeAlias = Annotated[int, Mark.POSITIVE]
OutputLimit: TypeAlias = Annotated[int | Literal["none"], Mark.THE_WORD_NONE]
ForcedTool: TypeAlias = Annotated[str, Mark.THE_WORD_NONE]
StateName: TypeAlias = Annotated[str, Words(STATES)]
InteractionLabel: TypeAlias = Annotated[str, Words(INTERACTIONS)]
EndReason: TypeAlias = Annotated[str, Words(tuple(reason.value for reason in TurnEndReason))]
EndStatus: TypeAlias = Annotated[
    CallStatus, Words(tuple(status.value for status in CallStatus if status not in OPEN_STATUSES))
]
ReportedError: TypeAlias = Annotated[
    ErrorClass, Words(tuple(error.value for error in ErrorClass if error is not ErrorClass.MAX_TOKENS))
]
