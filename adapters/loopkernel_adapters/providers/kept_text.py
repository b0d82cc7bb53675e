"""A bound on what an adapter keeps of a reply until it can give it on: arguments of calls, signatures, whole blocks."""

from typing import Final

MOST_KEPT: Final = 32_000_000  # characters, of one reply


class TooMuchKept(ValueError):
    """A reply says more than can be kept. The message says so in words."""


class KeptText:
    """Counts what is kept of one reply."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept = 0

    def add(self, characters: int) -> None:
        """So much more is kept. Raises TooMuchKept."""
        self._kept += characters
        if self._kept > self._most:
            raise TooMuchKept(
                f"the arguments and blocks of the reply have more than {self._most} characters, and are not kept"
            )
