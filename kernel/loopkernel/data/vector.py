"""Persistent sequence and set: what lets a state share its past with the states before it.

`Vector` is a bit-partitioned trie of 32-wide blocks with a tail (the vector of Clojure, after
Bagwell's ideal hash tries): `append` costs the same at any length. `GrowingSet` keeps frozen sets whose
sizes double, and merges equal neighbours: adding costs O(log n) amortised.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from attrs import field

from loopkernel.data.value_classes import frozen, maker
from loopkernel.later_typing import override

T = TypeVar("T")
WIDTH_BITS = 5
WIDTH = 1 << WIDTH_BITS
MASK = WIDTH - 1

# Any: a node holds nodes, or (at depth 0) leaves, which hold items: the depth tells which, the type cannot.
Node = tuple[Any, ...]


def _new_path(leaf: Node, depth: int) -> Node:
    """A chain of single-child nodes, `depth` levels above the leaf."""
    for _ in range(depth):
        leaf = (leaf,)
    return leaf


def _push(node: Node, depth: int, leaf_index: int, leaf: Node) -> Node:
    """The node with one more leaf at `leaf_index`, the first free place."""
    if depth == 0:
        return (*node, leaf)
    place = (leaf_index >> (WIDTH_BITS * depth)) & MASK
    if place == len(node):
        return (*node, _new_path(leaf, depth))
    return (*node[:place], _push(node[place], depth - 1, leaf_index, leaf))


def _first(node: Node, depth: int, leaves: int) -> Node:
    """The node with only so many leaves."""
    if depth == 0:
        return node[:leaves]
    whole, rest = leaves >> (WIDTH_BITS * depth), leaves & ((1 << (WIDTH_BITS * depth)) - 1)
    if not rest:
        return node[:whole]
    return (*node[:whole], _first(node[whole], depth - 1, rest))


def _leaves(node: Node, depth: int) -> Iterator[Node]:
    """The leaves under a node, left to right."""
    if depth == 0:
        yield from node
        return
    for child in node:
        yield from _leaves(child, depth - 1)


@frozen
class Vector(Generic[T]):
    """An immutable sequence; build it with `Vector.of`, grow it with `append`.

    Equal contents make equal vectors: the shape follows from the length alone.
    """

    size: int = 0
    depth: int = 0
    root: Node = ()
    tail: tuple[T, ...] = ()

    @staticmethod
    def of(items: Iterable[T]) -> "Vector[T]":
        """A vector of the items, in their order."""
        grown: Vector[T] = Vector()
        for item in items:
            grown = grown.append(item)
        return grown

    def append(self, item: T) -> "Vector[T]":
        """This vector with one more item at its end."""
        tail = self.tail
        if len(tail) < WIDTH:
            return new_vector(self.size + 1, self.depth, self.root, (*tail, item))
        leaf_index = (self.size - WIDTH) >> WIDTH_BITS
        if leaf_index == 1 << (WIDTH_BITS * (self.depth + 1)):
            root: Node = (self.root, _new_path(tail, self.depth + 1))
            return new_vector(self.size + 1, self.depth + 1, root, (item,))
        return new_vector(self.size + 1, self.depth, _push(self.root, self.depth, leaf_index, tail), (item,))

    def replace(self, index: int, item: T) -> "Vector[T]":
        """This vector with another item at `index`, 0 to size - 1. Raises IndexError outside it."""
        start = self.size - len(self.tail)
        if start <= index < self.size:
            place = index - start
            return new_vector(self.size, self.depth, self.root, (*self.tail[:place], item, *self.tail[place + 1 :]))
        if not 0 <= index < self.size:
            raise self._outside(index)
        return new_vector(self.size, self.depth, _swap(self.root, self.depth + 1, index, item), self.tail)

    def first(self, length: int) -> "Vector[T]":
        """This vector with only so many items, 0 to size; it shares what is left."""
        if length == self.size:
            return self
        leaves = (length - 1) >> WIDTH_BITS if length else 0
        root, depth = self.root, self.depth
        tail = tuple(self[index] for index in range(leaves << WIDTH_BITS, length))
        while depth and leaves <= 1 << (WIDTH_BITS * depth):
            root, depth = root[0], depth - 1
        return new_vector(length, depth, _first(root, depth, leaves), tail)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> T:
        start = self.size - len(self.tail)
        if start <= index < self.size:
            return self.tail[index - start]
        if not 0 <= index < self.size:
            raise self._outside(index)
        node = self.root
        for shift in range(WIDTH_BITS * (self.depth + 1), 0, -WIDTH_BITS):
            node = node[(index >> shift) & MASK]
        item: T = node[index & MASK]
        return item

    def __iter__(self) -> Iterator[T]:
        return chain(chain.from_iterable(_leaves(self.root, self.depth)), self.tail) if self.root else iter(self.tail)

    def since(self, start: int) -> Iterator[T]:
        """The items from index `start` on, without touching those before it."""
        for index in range(max(start, 0), self.size):
            yield self[index]

    def _outside(self, index: int) -> IndexError:
        return IndexError(f"index {index} is outside a vector of {self.size} items")


new_vector = maker(Vector)


def _swap(node: Node, level: int, index: int, item: object) -> Node:
    """The node with the item at `index` exchanged; `level` 0 is a leaf."""
    place = (index >> (WIDTH_BITS * level)) & MASK
    if level == 0:
        return (*node[:place], item, *node[place + 1 :])
    return (*node[:place], _swap(node[place], level - 1, index, item), *node[place + 1 :])


@frozen(eq=False)
class GrowingSet(Generic[T]):
    """An immutable set that only grows. Items must be hashable and of one sortable type."""

    parts: tuple[frozenset[T], ...] = field(default=())

    @staticmethod
    def of(items: Iterable[T]) -> "GrowingSet[T]":
        """A set of the items."""
        grown: GrowingSet[T] = GrowingSet()
        for item in items:
            grown = grown.add(item)
        return grown

    def add(self, item: T) -> "GrowingSet[T]":
        """This set with one more item; itself when it holds the item already."""
        if item in self:
            return self
        parts = self.parts
        merged = frozenset((item,))
        while parts and len(parts[-1]) <= len(merged):
            merged |= parts[-1]
            parts = parts[:-1]
        return GrowingSet((*parts, merged))

    def __contains__(self, item: T) -> bool:
        return any(item in part for part in self.parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __iter__(self) -> Iterator[T]:
        """Sorted, so that nothing depends on the order of insertion or of hashing."""
        items: list[T] = [item for part in self.parts for item in part]
        return iter(sorted(items, key=_sort_key))

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrowingSet) and frozenset(self) == frozenset(other)

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self))


def _sort_key(item: object) -> tuple[int, str]:
    """Numbers by size, texts by code point."""
    return (item, "") if isinstance(item, int) else (0, str(item))
