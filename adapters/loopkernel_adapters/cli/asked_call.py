"""A call that waits for a person, as the person is shown it: never more than the terminal shows at one time."""

from collections.abc import Sequence

from attrs import frozen
from loopkernel.data.ledgers import LedgerEntry

from loopkernel_adapters.cli.screen import LABEL_WIDTH, Screen
from loopkernel_adapters.cli.shown_text import (
    Marked,
    Parts,
    fitted,
    lines_of,
    parts_of,
    told_name,
    warnings_of,
    wrapped,
)

_LEAST_LINES = 3  # for the input, however small the terminal is


@frozen
class AskedCall:
    """A call, put on the screen with the reason why it asks and with what can be answered."""

    entry: LedgerEntry
    because: str
    screen: Screen

    @property
    def name(self) -> str:
        """The name of its tool, within a line."""
        return told_name(self.entry.tool, self.screen.shows)

    def put(self, prompt: str) -> None:
        """Show it in so few lines that the prompt stands below it on one screen."""
        width, most = room(self.screen)
        name = Marked(self.entry.tool, shows=self.screen.shows)
        odd = "; ".join(warnings_of([name, *self._parts()]))
        warned = wrapped(odd, width)[: most // 4] if odd else []
        named, reasons = fitted([name], width, 2), wrapped(self.because, width)
        taken = len(named) + len(warned) + len(reasons) + len(wrapped(prompt, width))
        self.screen.block("tool", named)
        self.screen.block("input", fitted(self._parts(), width, max(most - taken, _LEAST_LINES)))
        self.screen.block("beware", warned)
        self.screen.block("because", reasons)

    def pages(self, prompt: str) -> Sequence[Sequence[str]]:
        """All of the input, in pages that leave room for the prompt."""
        width, most = room(self.screen)
        lines = lines_of(self._parts(), width, by_lines=True)
        below = len(wrapped(prompt, width)) + len(wrapped(self._below(1_000, 1_000), width))
        size = max(most - below, _LEAST_LINES) if self.screen.is_seen else len(lines)
        return [lines[start : start + size] for start in range(0, len(lines), size)]

    def put_page(self, number: int, prompt: str) -> None:
        """Show one of the pages; behind the last comes the first."""
        pages = self.pages(prompt)
        place = number % len(pages)
        self.screen.block("input", pages[place])
        self.screen.block("", wrapped(self._below(place + 1, len(pages)), room(self.screen)[0]))

    def _below(self, number: int, pages: int) -> str:
        about = f"all of the input of {self.name}"
        return f"({about}, page {number} of {pages}; `show` shows the next)" if pages > 1 else f"({about})"

    def _parts(self) -> Parts:
        return parts_of(self.entry.given, self.screen.hide, self.screen.shows)


def room(screen: Screen) -> tuple[int, int]:
    """The columns behind the label, and the lines that are left for a question: one is the sub-agent's, one is free."""
    columns, lines = screen.size()
    return columns - LABEL_WIDTH - 2, lines - 2
