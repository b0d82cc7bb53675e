"""Reads the pages of specs/presets: what they cite, and the fields of a policy as the pages write them.

On those pages a name between backticks is a name of this project, and a field with its value is written
`retry.base_ms = 5,000`. What a source calls its own things stands in italics, so that every backticked name can be
looked up.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from loopkernel.data.policy import Policy
from loopkernel.presets import PRESET_NAMES

PAGES_FOLDER = Path(__file__).resolve().parents[2] / "specs" / "presets"

_QUOTED = re.compile(r"`([^`\n]+)`")
_FIELD = re.compile(r"(?P<path>[a-z_]+(?:\.[a-z_]+)*) = (?P<value>.+)")


def pages() -> Mapping[str, str]:
    """The page of each preset, by the preset's name."""
    return {name: (PAGES_FOLDER / f"{name}.md").read_text(encoding="utf-8") for name in PRESET_NAMES}


def quoted(page: str) -> list[str]:
    """Everything that stands between backticks, in order."""
    return _QUOTED.findall(page)


def fields_told(page: str) -> Iterator[tuple[str, str]]:
    """The fields that a page gives with a value: path and value as they are written."""
    for name in quoted(page):
        told = _FIELD.fullmatch(name)
        if told is not None:
            yield told["path"], told["value"]


def values_of(policy: Policy) -> dict[str, str]:
    """Every field of the policy and of its parts by its path, each value as the pages write it."""
    return dict(_values(policy, ""))


def differences(policy: Policy, other: Policy) -> dict[str, str]:
    """The fields of the policy that the other has not, or has otherwise; a part that it lacks is `none`."""
    theirs = values_of(other)
    return {path: value for path, value in values_of(policy).items() if theirs.get(path) != value}


def _values(part: attrs.AttrsInstance, prefix: str) -> Iterator[tuple[str, str]]:
    for field in attrs.fields(type(part)):
        value = getattr(part, field.name)
        path = prefix + field.name
        if attrs.has(type(value)):
            yield from _values(value, f"{path}.")
        else:
            yield path, _written(value)


def _written(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ", ".join(map(_written, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
