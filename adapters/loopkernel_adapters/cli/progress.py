"""How far a long work has got: a bar on the standard error, for a person who waits for several parts of it."""

import sys
import time
from typing import TYPE_CHECKING

from loopkernel_adapters.cli.screen import printable, shows_more_than_lines

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LONGEST_NAME = 40  # characters


class Progress:
    """A bar for so many parts. `clear` takes it away, before anything else is shown; `at` brings it back.

    It stays away where nobody sees it, or where the extra `cli` is not installed.
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._began = time.monotonic()
        self._bar: Bar | None = None
        self._shows = parts > 1 and sys.stderr is not None and shows_more_than_lines(sys.stderr)

    def at(self, done: int, name: str) -> None:
        """So many parts are done, and now it is at this one."""
        if not self._shows:
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self.clear()
            taken = f"{time.monotonic() - self._began:.0f} s"
            columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
            self._bar = Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
            self._bar.add_task(f"{taken}  {printable(name)[:LONGEST_NAME]}", total=self._parts, completed=done)
            self._bar.start()
            self._bar.refresh()
        except (ImportError, OSError, ValueError):
            self._shows, self._bar = False, None

    def clear(self) -> None:
        """Take it away."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
