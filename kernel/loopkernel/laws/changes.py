"""What differs between two ledgers, found without looking at what they share.

A ledger keeps its entries in a persistent sequence: one that was made from another shares all leaves but those that
changed. So a law that has judged a state need not look at all calls of the next one again.
"""

from collections.abc import Iterator
from typing import TypeAlias

from loopkernel.data.differences import different_items
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.vector import Vector

Change: TypeAlias = tuple[int, LedgerEntry | None, LedgerEntry | None]  # the place, the entry there before, and now


def changes(before: Ledger | None, after: Ledger | None) -> Iterator[Change]:
    """The places, in order, whose entries are not the very same; None stands for no entry, or no ledger."""
    left = Vector[LedgerEntry]() if before is None else before.entries
    right = Vector[LedgerEntry]() if after is None else after.entries
    return different_items(left, right)


def changed_pairs(before: Ledger | None, after: Ledger | None) -> Iterator[tuple[LedgerEntry, LedgerEntry]]:
    """The entries of one reply that are not what they were, as they were and as they are."""
    if before is None or after is None or before.reply != after.reply:
        return
    for _, old, new in changes(before, after):
        if old is not None and new is not None:
            yield old, new
