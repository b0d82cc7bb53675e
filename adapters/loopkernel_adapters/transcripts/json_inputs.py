"""Recorded JSON as JSON of ours: what ours does not take (NaN, too deep, too long a number) is kept as its text."""

import json

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue

from loopkernel_adapters.transcripts.fields import Record, text_at


def given_input(value: JsonValue) -> Json | RawInput:
    """The arguments, which some formats write as a text that holds JSON; none at all are an empty object."""
    if value is None or value == "":
        return Json.of({})
    try:
        return Json.parse(value) if isinstance(value, str) else Json.of(value)
    except (CodecError, ValueError, RecursionError):
        return RawInput(value if isinstance(value, str) else _text(value))


def unshown(part: Record) -> TextBlock:
    """What stands for a part of a kind that cannot be shown, so that nothing goes missing in silence."""
    return TextBlock(f"({text_at(part, 'type') or 'something'} that cannot be shown)")


def kept(value: JsonValue) -> Json:
    """The value; one that JSON of ours does not take, as the text that it was."""
    try:
        return Json.of(value)
    except (CodecError, ValueError, RecursionError):
        return Json.of(_text(value))


def _text(value: JsonValue) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "(JSON that is nested too deeply to be kept)"
