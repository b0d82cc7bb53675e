"""A corpus: runs as data, which two trees fold alike. No kernel is imported here, so any tree can read it.

A case is a line of JSON: its name, where it starts (the text of a state document, or null for the beginning of every
log), and its steps, each the text of a log record. A step aside is taken and not gone on from.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

FORMAT = 1  # of a corpus, and of what folding one writes; two trees with different ones cannot be compared
PARTS = {  # and in how many shares each is made and folded
    "recordings": 1,
    "logs": 1,
    "states": 1,
    "scenarios": 4,
    "worlds": 2,
    "walks": 4,
    "explorer": 6,
}


@frozen
class CorpusStep:
    """A record of a log, as the codec writes it."""

    record: str
    aside: bool = False


@frozen
class CorpusCase:
    """A run, or the steps that lead away from one state."""

    name: str
    start: str | None
    steps: tuple[CorpusStep, ...]


def of_log(name: str, records: Iterable[str], start: str | None = None) -> CorpusCase:
    """A case in which each record follows the one before."""
    return CorpusCase(name, start, tuple(CorpusStep(record) for record in records))


def to_line(case: CorpusCase) -> str:
    """The case as one line, without its end."""
    return json.dumps([case.name, case.start, [[step.record, step.aside] for step in case.steps]])


def from_line(line: str) -> CorpusCase:
    """The case of a line that `to_line` has written."""
    name, start, steps = json.loads(line)
    return CorpusCase(name, start, tuple(CorpusStep(record, aside) for record, aside in steps))


def read_cases(path: Path) -> Iterator[CorpusCase]:
    """The cases of a file."""
    with path.open(encoding="ascii") as lines:
        yield from map(from_line, lines)


def write_cases(path: Path, cases: Iterable[CorpusCase]) -> None:
    """Write them to a file, a line each."""
    with path.open("w", encoding="ascii") as file:
        file.writelines(f"{to_line(case)}\n" for case in cases)
