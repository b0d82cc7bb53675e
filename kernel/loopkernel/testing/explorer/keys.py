"""Keys for what the explorer looks up again and again: a hash is taken once, and the same object is equal at sight."""

from typing import final

from attrs import evolve

from loopkernel.data.sessions import Settings
from loopkernel.later_typing import override

MOST_SETTINGS = 1_000  # so many are known at a time


@final
class Key:
    """A value that stands for itself, and whose hash is known: that of `hashed`, which equal values have in common."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: object, hashed: object) -> None:
        self.value = value
        self._hash = hash(hashed)

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Key) and self._hash == other._hash and self.value == other.value


_known: dict[tuple[int, bool], tuple[Settings, Key]] = {}  # by identity; each is kept, so that none takes its place


def key_of_settings(settings: Settings, *, remembered: bool = True) -> Key:
    """The key of the settings, with or without what is remembered; they hardly change, and are most of a state."""
    found = _known.get((id(settings), remembered))
    if found is None:
        if len(_known) >= MOST_SETTINGS:
            _known.clear()
        meant = settings if remembered else evolve(settings, remembered=())
        found = _known[id(settings), remembered] = settings, Key(meant, meant)
    return found[1]
