"""Runs as an editor finds them again: read without opening them, so that looking at a session changes nothing of it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from attrs import frozen
from loopkernel.data.blocks import text_of
from loopkernel.data.errors import OtherRules
from loopkernel.data.records import LogRecord
from loopkernel.data.sessions import Session as KernelSession
from loopkernel.data.states import Done
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import replay

from loopkernel_adapters.bounded_text import one_line
from loopkernel_adapters.ports import NoSuchRun, RunEntry, Runs

PAGE = 30  # sessions that are listed at once
LONGEST_TITLE = 80  # characters


@frozen(kw_only=True)
class Found:
    """A run that is there. `doubt` is why nothing of its log is believed; `over` why nothing can be added to it."""

    session: KernelSession
    doubt: str | None
    over: TurnEndReason | None


@frozen(kw_only=True)
class Listed:
    """A run in the list: the folder that it works in, and what it begins with."""

    run: str
    folder: Path
    title: str
    last: datetime


class StoredSessions:
    """The runs of a place. `folder_of` gives the folder that a run was begun in; None: it was not begun here."""

    def __init__(self, runs: Runs, folder_of: Callable[[str], Path | None]) -> None:
        self._runs = runs
        self._folder_of = folder_of

    async def found(self, run: str) -> Found | None:
        """The run of exactly that id; None: there is none. Raises StoreError, OtherRules and OSError."""
        if "/" in run:  # that of a sub-agent goes on with its session, and in no other way
            return None
        try:
            state = replay(await self._runs.read(run))
        except NoSuchRun:
            return None
        if state.session is None:
            return None
        over = state.reason if isinstance(state, Done) else None
        return Found(session=state.session, doubt=await self._runs.doubt(run), over=over)

    async def listed(self, folder: Path | None, place: int) -> tuple[tuple[Listed, ...], int | None]:
        """A page of the runs that were begun here (in that folder, if one is given), the latest first; and the next.

        `place` is where the page begins, counted from the latest run.
        """
        page = await self._runs.latest(place + PAGE)
        entries = page.entries[: len(page.entries) - place][::-1]
        found = [each for entry in entries if (each := await self._listed(entry)) is not None]
        here = tuple(each for each in found if folder is None or each.folder == folder)
        return here, place + PAGE if page.total > place + PAGE else None

    async def _listed(self, entry: RunEntry) -> Listed | None:
        folder = self._folder_of(entry.run)
        if folder is None:
            return None
        try:
            title = title_of(await self._runs.read(entry.run))
        except (OSError, OtherRules, NoSuchRun):
            return None
        last = datetime.fromtimestamp(entry.last_ms / 1000, UTC)
        return Listed(run=entry.run, folder=folder, title=title, last=last)


def title_of(records: Sequence[LogRecord]) -> str:
    """What a run begins with, in a line."""
    first = next((record.delta for record in records if isinstance(record.delta, Say)), None)
    return "" if first is None else one_line(text_of(first.content), LONGEST_TITLE)
