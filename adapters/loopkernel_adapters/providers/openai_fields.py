"""Reading what a server says: fields of JSON that may be missing, or of another kind than the API says."""

from loopkernel.data.blocks import RawInput
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue

JsonObject = dict[str, JsonValue]

EMPTY_OBJECT = Json(text="{}")
_MOST_TOKENS = 10**12  # a count beyond this is no count


def members(value: object) -> JsonObject:
    """The members of an object; none of anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[JsonValue]:
    """The items of a list; none of anything else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A text; the empty one for anything else."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int | None:
    """A whole number; None for anything else, truth values among it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def tokens(value: object) -> int:
    """A count of tokens; 0 for anything that is none."""
    count = number(value) or 0
    return count if 0 <= count <= _MOST_TOKENS else 0


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


def json_or_none(value: JsonValue) -> Json | None:
    """The value as the log can hold it; None where it cannot, for its depth or its numbers."""
    try:
        return Json.of(value)
    except CodecError:
        return None
