"""Looking into JSON of unknown shape: what is not there, or of another kind, is None or empty, never an error."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias

from loopkernel.data.json_text import JsonValue

Record: TypeAlias = dict[str, JsonValue]
LARGEST_COUNT = 10**15  # what is larger counts nothing
_NUMBER_OF_DIGITS = 15  # of a time in milliseconds at most; what is longer is no time


def at(value: JsonValue, *path: str) -> JsonValue:
    """What stands at the path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def record_at(value: JsonValue, *path: str) -> Record:
    """The object there, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def text_at(value: JsonValue, *path: str) -> str | None:
    """The text there."""
    found = at(value, *path)
    return found if isinstance(found, str) else None


def count_at(value: JsonValue, *path: str) -> int:
    """The whole number there that is not negative, or 0."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST_COUNT else 0


def flag_at(value: JsonValue, *path: str) -> bool:
    """Whether `true` stands there."""
    return at(value, *path) is True


def items_at(value: JsonValue, *path: str) -> list[JsonValue]:
    """The list there, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def records_in(values: list[JsonValue]) -> Iterator[Record]:
    """The objects of a list; what is none is passed over."""
    for value in values:
        if isinstance(value, dict):
            yield value


def time_at(value: JsonValue, *path: str) -> int | None:
    """The time there in milliseconds since 1970: a text in ISO 8601, or a number of seconds or milliseconds."""
    found = at(value, *path)
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return _time_of_number(found)
    if not isinstance(found, str):
        return None
    text = re.sub(r"(\.\d{6})\d+", r"\1", found.strip())  # nanoseconds are more than fromisoformat reads
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None


def _time_of_number(number: float) -> int | None:
    try:
        whole = int(number)
    except (ValueError, OverflowError):
        return None
    if whole < 0 or len(str(whole)) > _NUMBER_OF_DIGITS:
        return None
    return int(number * 1_000) if whole < 100_000_000_000 else whole
