"""Whether two values are written with the same bytes, seen without writing them where they are built alike.

States share most of their parts with the states before them, so that comparing two is far cheaper than writing them.
"""

from typing import Any

from attrs import Attribute, has

# Any, below: the fields of a class are known only at run time.


def alike(one: object, other: object) -> bool:
    """Whether the values have the same parts, to the last type: then they have the same text. False: perhaps not."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is str or kind is int:
        return one == other
    if kind is tuple and isinstance(one, tuple) and isinstance(other, tuple):
        if len(one) != len(other):
            return False
        # Loops, not `all` of a generator: most parts are the very same, and need no call.
        for mine, theirs in zip(one, other, strict=True):
            if mine is not theirs and not alike(mine, theirs):
                return False
        return True
    for field in _parts(kind):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if mine is not theirs and not field.metadata.get("derived") and not alike(mine, theirs):
            return False  # what is derived is never written, and follows from the rest
    return has(kind)


def _parts(kind: type) -> "tuple[Attribute[Any], ...]":
    """The fields of the class, as `fields` has them: that looks at each call whether the class is generic."""
    parts: tuple[Attribute[Any], ...] = getattr(kind, "__attrs_attrs__", ())
    return parts
