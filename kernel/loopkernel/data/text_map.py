"""A persistent map from texts: what lets an index share its past with the states before it.

A hash array mapped trie (Bagwell, 2001), 32 ways a level: to find or to put a key costs the same at any size.
It is never iterated, so that nothing depends on the order of hashes.
"""

from typing import Any, Generic, TypeVar

from loopkernel.data.value_classes import frozen

V = TypeVar("V")
_BITS = 5
_WAYS = 1 << _BITS
_MASK = _WAYS - 1
_EMPTY: tuple[None, ...] = (None,) * _WAYS

# A branch holds branches, leaves and None: which of them, the type of each tells.
_Branch = tuple[object, ...]


@frozen
class _Leaf:
    """The keys of one hash, with their values."""

    code: int
    items: tuple[tuple[str, object], ...]


@frozen(eq=False)
class TextMap(Generic[V]):
    """An immutable map from texts to values; grow it with `put`."""

    root: _Branch = _EMPTY

    def get(self, key: str) -> V | None:
        """The value of the key; None if it has none."""
        code = hash(key)
        node: Any = self.root  # Any: a branch, a leaf or None, which the type of each tells
        path = code
        while type(node) is tuple:
            node = node[path & _MASK]
            path >>= _BITS
        if node is None or node.code != code:
            return None
        for known, value in node.items:
            if known == key:
                found: V = value  # put() lets in nothing else
                return found
        return None

    def put(self, key: str, value: V) -> "TextMap[V]":
        """This map with another value for the key."""
        code = hash(key)
        return TextMap(_put_in_branch(self.root, 0, _Leaf(code, ((key, value),))))


def _put_in_branch(branch: _Branch, level: int, leaf: _Leaf) -> _Branch:
    place = (leaf.code >> (_BITS * level)) & _MASK
    return (*branch[:place], _put(branch[place], level + 1, leaf), *branch[place + 1 :])


def _put(node: object, level: int, leaf: _Leaf) -> object:
    if isinstance(node, tuple):
        return _put_in_branch(node, level, leaf)
    if not isinstance(node, _Leaf):
        return leaf
    if node.code == leaf.code:
        (key, _) = leaf.items[0]
        return _Leaf(leaf.code, (*(item for item in node.items if item[0] != key), *leaf.items))
    return _put_in_branch(_put_in_branch(_EMPTY, level, node), level, leaf)
