"""A connection to a database whose queries end: a damaged or hostile tree of pages may lead to the same rows again."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

STEPS = 1_000_000  # of SQLite between two looks at how many there were
SPARE_LOOKS = 32
BYTES_FOR_A_LOOK = 1 << 15  # of the file: 30 steps a byte, and no query of ours takes one a byte of what is there


class BoundedConnection(sqlite3.Connection):
    """Interrupts (SQLITE_INTERRUPT) what takes more steps since `renew` than a file of that size can be worth."""

    path: Path | None = None
    _left: int | None = None

    def bound(self, path: Path) -> None:
        """From now on, by the size of that file."""
        self.path = path
        self.set_progress_handler(self._look, STEPS)

    def renew(self) -> None:
        """What follows is counted anew."""
        self._left = None

    def _look(self) -> bool:
        if self._left is None:
            self._left = SPARE_LOOKS + self._size() // BYTES_FOR_A_LOOK
        self._left -= 1
        return self._left < 0

    def _size(self) -> int:
        size = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                size += os.stat(f"{self.path}{suffix}").st_size
        return size
