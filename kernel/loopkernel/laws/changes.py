"""What differs between two ledgers, found without looking at what they share.

A ledger keeps its entries in a persistent sequence: one that was made from another shares all leaves but those that
changed. So a law that has judged a state need not look at all calls of the next one again.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.vector import WIDTH_BITS, Node, Vector

T = TypeVar("T")
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


def different_items(left: Vector[T], right: Vector[T]) -> Iterator[tuple[int, T | None, T | None]]:
    """The places, in order, whose items are not the very same; None stands for no item.

    Takes as long as the depth, for each leaf that is not shared.
    """
    if left is right:
        return
    depth = max(left.depth, right.depth) + 1  # with their last items as a leaf, both fit into it
    for first, one, other in _different_leaves(_whole(left, depth), _whole(right, depth), depth, 0):
        for place, (old, new) in enumerate(_paired(one, other, None), start=first):
            if old is not new:
                yield place, old, new


def _paired(left: Node, right: Node, missing: Node | None) -> Iterator[tuple[Any, Any]]:  # Any: what a node holds
    """What stands at the same places of two nodes."""
    more = len(right) - len(left)
    return zip((*left, *(missing,) * more), (*right, *(missing,) * -more), strict=True)


def _whole(vector: Vector[T], depth: int) -> Node:
    """All items under one node of that depth, the last ones as a leaf like the others."""
    node: Node = vector.root
    for _ in range(depth - vector.depth):
        node = (node,) if node else ()
    return _with_last(node, depth, (vector.size - 1) >> WIDTH_BITS, vector.tail) if vector.tail else node


def _with_last(node: Node, depth: int, leaf_index: int, leaf: Node) -> Node:
    place = leaf_index >> (WIDTH_BITS * depth)
    if depth == 0:
        return (*node[:place], leaf)
    child = node[place] if place < len(node) else ()
    rest = leaf_index & ((1 << (WIDTH_BITS * depth)) - 1)
    return (*node[:place], _with_last(child, depth - 1, rest, leaf))


def _different_leaves(left: Node, right: Node, depth: int, first: int) -> Iterator[tuple[int, Node, Node]]:
    """The leaves that are not shared, with the place of their first item; `first` is the place of the nodes' first."""
    width = WIDTH_BITS * (depth + 1)
    for place, (one, other) in enumerate(_paired(left, right, ())):
        if one is other:
            continue
        if depth == 0:
            yield first + (place << width), one, other
        else:
            yield from _different_leaves(one, other, depth - 1, first + (place << width))
