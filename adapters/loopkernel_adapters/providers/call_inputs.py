"""Inputs of calls as the texts that APIs take and give them as, back and forth."""

from loopkernel.data.blocks import RawInput, ToolCall
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, canonical_text

EMPTY_OBJECT = Json(text="{}")


def call_input(arguments: str, cut: bool = False) -> Json | RawInput:
    """The input of a call whose arguments are this text: none at all, and `null`, count as no fields.

    What does not parse stays as it came. Of arguments that may be `cut`, only a whole object is certain to be whole.
    """
    if not cut and arguments.strip() in ("", "null"):
        return EMPTY_OBJECT
    try:
        parsed = Json.parse(arguments)
    except CodecError:
        return RawInput(arguments)
    return RawInput(arguments) if cut and not parsed.text.startswith("{") else parsed


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call that is given back: the JSON text of an object, whatever they were."""
    if isinstance(call.input, RawInput):
        return canonical_text({"unparsed_arguments": call.input.text})
    if call.input.text.startswith("{"):
        return call.input.text
    return canonical_text({"unparsed_arguments": call.input.value()})
