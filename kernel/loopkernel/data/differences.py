"""What differs between two persistent sequences, found without looking at what they share."""

from collections.abc import Iterator
from typing import Any, TypeVar

from loopkernel.data.vector import WIDTH_BITS, Node, Vector

T = TypeVar("T")


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
