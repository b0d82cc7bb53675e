"""Changing a JSON text in one place and leaving all else as it was written, spaces and the order of keys included."""

import json
import re
from collections.abc import Sequence

from attrs import frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.transcripts.source import Unreadable


@frozen
class Swap:
    """In the member `key`, `old` becomes `new`."""

    key: str
    old: JsonValue
    new: JsonValue


def rewritten(text: str, value: JsonValue, swaps: Sequence[Swap], *, compact: bool) -> str:
    """The text of the changed `value`, as near to `text` as can be: swapped in place where that gives the value.

    `swaps` say what to look for, in the order in which it stands there; where they do not lead to the value, all is
    written anew.
    """
    pieces: list[str] = []
    position = 0
    for swap in swaps:
        pattern = re.compile(rf'"{re.escape(swap.key)}"\s*:\s*({re.escape(_dumped(swap.old, compact))})')
        match = pattern.search(text, position)
        if match is None:
            break
        pieces += (text[position : match.start(1)], _dumped(swap.new, compact))
        position = match.end()
    found = "".join((*pieces, text[position:]))
    if swaps and _loaded(found) == value:
        return found
    return _dumped(value, compact)


def written(value: JsonValue, *, compact: bool) -> str:
    """The text of a value that is new."""
    return _dumped(value, compact)


def _loaded(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _dumped(value: JsonValue, compact: bool) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":") if compact else None)
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a pair, or a byte that is no UTF-8
        text = json.dumps(value, separators=(",", ":") if compact else None)
    except RecursionError as error:
        raise Unreadable("a record is nested too deeply to be written again; leave it out by hand") from error
    return text
