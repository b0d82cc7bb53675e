"""A recording of lines in memory: each line as it was, or changed; lines left out, and lines added behind others."""

import os
from collections.abc import Iterable, Iterator, Sequence

from attrs import Factory, define, field, frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Finding, FindingKind, Place
from loopkernel_adapters.transcripts.source import LONGEST_LINE, Line, Source, Unreadable, parsed
from loopkernel_adapters.transcripts.writers.json_edits import Swap, rewritten, written
from loopkernel_adapters.transcripts.writers.sound_text import sound_text
from loopkernel_adapters.transcripts.writers.writer import LARGEST, Fault

NEWLINE = b"\n"


@define(eq=False)
class Row:
    """A line, counted from 1, with its end, and what it holds. Blank lines hold None and stay."""

    number: int
    content: bytes
    value: JsonValue = None

    def change(self, value: JsonValue, *swaps: Swap) -> None:
        """Have it hold this; the swaps lead there, so that all else keeps its bytes."""
        body = self.content.rstrip(b"\r\n")
        end = self.content[len(body) :]
        text = rewritten(body.decode("utf-8", "replace"), value, swaps, compact=True)
        self.content, self.value = text.encode("utf-8") + end, value


def new_row(number: int, value: JsonValue) -> Row:
    """A line that is to be added behind that of this number."""
    return Row(number, written(value, compact=True).encode("utf-8") + NEWLINE, value)


@frozen
class RowsAsSource(Source):
    """The rows in the place of the file."""

    rows: Sequence[Row] = field(factory=tuple, eq=False)

    @override
    def lines(self) -> Iterator[Line | Finding]:
        for row in self.rows:
            if row.value is not None:
                yield Line(row.number, row.value)


@define
class Read:
    """The rows of a file that can be read, those that cannot, and the faults that these are."""

    rows: list[Row] = Factory(list)
    broken: list[Row] = Factory(list)
    faults: list[Fault] = Factory(list)


def read_rows(source: Source) -> Read:
    """All lines of the file. Raises OSError, and Unreadable where they are too many."""
    if os.path.getsize(source.path) > LARGEST:
        raise Unreadable(f"{source.path} is larger than {LARGEST >> 20} MiB, more than can be repaired at once")
    source.head()  # which refuses what is no file
    found = Read()
    with source.path.open("rb") as file:
        number = 0
        while content := file.readline(LONGEST_LINE):
            number += 1
            if len(content) == LONGEST_LINE and not content.endswith(NEWLINE):
                raise Unreadable(f"line {number} of {source.path} is longer than any record; leave it out by hand")
            content, faults = sound_text(content, number)
            value = parsed(content)
            found.faults += faults if value is not None else []
            if value is not None or not content.strip():
                found.rows.append(Row(number, content, value))
                continue
            found.broken.append(Row(number, content))
            found.faults.append(_unreadable(number, torn=not content.endswith(NEWLINE)))
    return found


def _unreadable(number: int, *, torn: bool) -> Fault:
    return Fault(
        conversation="",
        place=Place(number),
        kind=FindingKind.TORN_TAIL if torn else FindingKind.BROKEN_RECORD,
        text=f"line {number}, the last, was never finished" if torn else f"line {number} is no JSON",
        remedy="leave it out",
    )


@define
class Edits:
    """What is done to the rows: some left out, others added behind one of them, by their numbers."""

    left_out: set[int] = Factory(set)
    behind: dict[int, list[Row]] = Factory(dict)

    def add(self, number: int, row: Row) -> None:
        """Have the row stand behind the one of that number, and behind what was added there before."""
        self.behind.setdefault(number, []).append(row)

    def applied(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that come of it."""
        found: list[Row] = []
        for row in rows:
            if row.number not in self.left_out:
                found.append(row)
            found += self.behind.get(row.number, ())
        return found


def pieces_of(rows: Sequence[Row]) -> tuple[bytes, ...]:
    """The bytes of the file. A line that is not the last one any more gets its end."""
    return tuple(
        row.content if at == len(rows) or row.content.endswith(NEWLINE) else row.content + NEWLINE
        for at, row in enumerate(rows, start=1)
    )
