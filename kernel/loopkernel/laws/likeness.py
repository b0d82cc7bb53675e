"""Whether two values are written with the same bytes, seen without writing them where they are built alike.

States share most of their parts with the states before them, so that comparing two is far cheaper than writing them.
"""

from attrs import fields, has


def alike(one: object, other: object) -> bool:
    """Whether the values have the same parts, to the last type: then they have the same text. False: perhaps not."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is str or kind is int:
        return one == other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return kind is tuple and len(one) == len(other) and all(map(alike, one, other))
    return has(kind) and all(
        alike(getattr(one, field.name), getattr(other, field.name))
        for field in fields(kind)
        if not field.metadata.get("derived")  # it is never written, and follows from the rest
    )
