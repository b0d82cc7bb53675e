"""Branches of a conversation: which of its records are on the way from the latest one back to the first.

A program that lets its user go back to an earlier message chains the next record to that one. What was said since then
stays in the file, and is not part of the conversation any more.
"""

from collections.abc import Iterator, Mapping

from attrs import Factory, define

from loopkernel_adapters.transcripts.entries import Place, Undone
from loopkernel_adapters.transcripts.fields import Record, at, time_at


@define
class Branches:
    """The records of a conversation by their numbers, as they come, and where one does not follow the one before it."""

    numbers: list[int] = Factory(list)
    positions: dict[int, int] = Factory(dict)  # of each number
    parents: dict[int, int | None] = Factory(dict)  # of those that do not follow the one before them; None: they begin

    def add(self, number: int, parent: int | None) -> None:
        """The next record, behind the record `parent`, which is an earlier one; None: it begins anew."""
        if self.numbers and parent != self.latest:
            self.parents[number] = parent
        self.positions[number] = len(self.numbers)
        self.numbers.append(number)

    @property
    def latest(self) -> int | None:
        """The latest record; None before the first."""
        return self.numbers[-1] if self.numbers else None

    def left(self, parent: int | None) -> frozenset[int]:
        """The records that are not on the way from this one back to the first. None: all of them."""
        passed: set[int] = set()
        at = parent
        while at is not None and at in self.positions:
            passed.add(at)
            if at in self.parents:
                at = self.parents[at]
            else:
                before = self.positions[at] - 1
                at = self.numbers[before] if before >= 0 else None
        return frozenset(self.numbers) - passed


def gone_back(place: Place, record: Record, numbers: Mapping[str, int], branches: Branches) -> Iterator[Undone]:
    """That the user has gone back, where the record does not follow the latest one. What it follows may be lost.

    It follows the one that its `parentId` names; `numbers` are those of the records by their ids.
    """
    told, latest = at(record, "parentId"), branches.latest
    parent = numbers.get(told, latest) if isinstance(told, str) else latest
    if told is None and "parentId" in record and latest is not None:
        parent = None
    if parent != latest:
        time = time_at(record, "timestamp")
        yield Undone(place=place, at_ms=time, conversation="", records=branches.left(parent))
    branches.add(place.record, parent)
