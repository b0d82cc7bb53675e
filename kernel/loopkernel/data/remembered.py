"""Approvals that a person asked to remember for the session (rule ASK-3)."""

from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.json_text import Json
from loopkernel.data.policy import FieldPattern
from loopkernel.data.value_classes import frozen


@final
@frozen(field_transformer=checked_fields)
class RememberedCall:
    """Exactly this tool with exactly this input; the order of keys does not count."""

    tool: str
    input: Json


@final
@frozen(field_transformer=checked_fields)
class RememberedTool:
    """Every call of the tool."""

    tool: str


@final
@frozen(field_transformer=checked_fields)
class RememberedPattern:
    """The calls of the tool whose input matches."""

    tool: str
    fields: tuple[FieldPattern, ...]


Remembered = RememberedCall | RememberedTool | RememberedPattern
