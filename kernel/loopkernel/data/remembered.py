"""Approvals that a person asked to remember for the session (rule ASK-3)."""

from typing import final

from attrs import field, frozen

from loopkernel.data.json_text import Json, safe_text
from loopkernel.data.policy import FieldPattern


@final
@frozen
class RememberedCall:
    """Exactly this tool with exactly this input; the order of keys does not count."""

    tool: str = field(converter=safe_text)
    input: Json


@final
@frozen
class RememberedTool:
    """Every call of the tool."""

    tool: str = field(converter=safe_text)


@final
@frozen
class RememberedPattern:
    """The calls of the tool whose input matches."""

    tool: str = field(converter=safe_text)
    fields: tuple[FieldPattern, ...]


Remembered = RememberedCall | RememberedTool | RememberedPattern
