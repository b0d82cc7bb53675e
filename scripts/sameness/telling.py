"""What is said of the first step at which two trees part."""

import difflib
import json
import textwrap
from collections.abc import Iterator, Mapping

from attrs import frozen

CONTEXT = 2  # unchanged lines around a change
LONGEST_RECORD = 2_000  # characters
MOST_LINES = 60  # of what differs in a part
PARTS_OF_A_STEP = {"effects": "the effects", "state": "the next state", "requests": "the messages of a request"}

Outcome = Mapping[str, str]
Versions = Mapping[str, int]


@frozen(kw_only=True)
class Difference:
    """A step of a case, counted from 1; step 0 is the state that the case starts from."""

    case: str
    step: int
    record: str | None
    base: Outcome
    here: Outcome


def told(difference: Difference, base_versions: Versions, versions: Versions, repeat: str) -> str:
    """The difference, for a person: where it is, what came in, what differs, and how to see it again."""
    came = "the state that it starts from"
    if difference.record is not None:
        came = f"after {textwrap.shorten(difference.record, LONGEST_RECORD)}"
    return "\n".join(
        (
            f"{difference.case}, step {difference.step}: {came}",
            *version_words(base_versions, versions),
            *(line for part in PARTS_OF_A_STEP for line in _part(part, difference)),
            "To see it again:",
            f"  {repeat}",
        )
    )


def version_words(base: Versions, here: Versions) -> Iterator[str]:
    """Versions that are not the same in the two trees."""
    for kind, version in base.items():
        if here[kind] != version:
            yield (
                f"The version of the {kind} is {version} at the base and {here[kind]} here. A refactoring changes no "
                "version: a commit that changes the rules or a format is not compared in this way."
            )


def _part(part: str, difference: Difference) -> Iterator[str]:
    base, here = difference.base[part], difference.here[part]
    if base == here:
        return
    yield f"--- {PARTS_OF_A_STEP[part]}: what goes (-) and what comes (+)"
    before, after = _pretty(base), _pretty(here)
    if before == after:
        yield f"The values are equal and their texts are not: the encoding has changed.\n- {base}\n+ {here}"
        return
    lines = list(difflib.unified_diff(before, after, lineterm="", n=CONTEXT))[2:]
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"... and {len(lines) - MOST_LINES} lines more"


def _pretty(text: str) -> list[str]:
    """A line for each value; the keys in one order, since only the encoding has one."""
    return json.dumps(json.loads(text), indent=1, sort_keys=True).splitlines()
