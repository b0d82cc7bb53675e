"""`loopkernel runs`: the runs that were recorded, the latest last, each with where it stands."""

import json
import time

from attrs import frozen
from loopkernel.data.blocks import text_of
from loopkernel.data.errors import LawBroken
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Done, State
from loopkernel.data.user_deltas import Enqueue, Say, Steer
from loopkernel.replaying import replay

from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import StoredRuns, opened_place
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.ports import Restored, RulesDiffer, RunEntry, demand_same_rules

MOST_FOLDED = 20_000  # records of a run whose state is told; folding more takes seconds
LONGEST_WORDS = 48  # characters

FIRST_DATE_MS = 1_000_000_000_000  # of 2001; what is earlier counts from nowhere, as in a recording without times
UNDATED = "no date"


@frozen(kw_only=True)
class Listed:
    """A run, and where it stands; `state` is None where that is not looked at, `problem` tells why it cannot be."""

    entry: RunEntry
    words: str = ""
    state: State | None = None
    problem: str | None = None

    @property
    def standing(self) -> str:
        """Where the run stands, in a word or two."""
        if self.problem is not None:
            return "unreadable"
        if self.state is None:
            return "(long)"
        if isinstance(self.state, Done):
            return f"over: {self.state.reason.value}"
        return type(self.state).__name__.lower()

    @property
    def tokens(self) -> int | None:
        """How many it has used, in and out; those of a cache are not among them."""
        session = self.state.session if self.state is not None else None
        return None if session is None else session.usage.input + session.usage.output


def list_runs(store: str | None, screen: Screen, *, as_json: bool, most: int | None) -> ExitStatus:
    """List the latest of them, or all where `most` is None. Raises Unusable when they cannot be listed."""
    with opened_place(store, make=False) as place:
        page = place.latest(most)
        if not page.entries and not as_json:
            screen.line(f"There are no runs in {place.name}. Begin one with `{command('chat')}`.")
        found = (_looked_at(place, entry) for entry in page.entries)
        if not as_json and page.entries and screen.is_seen:
            screen.table(COLUMNS, [_as_row(listed) for listed in found], numbers={3, 4})
        for listed in found:
            screen.line(json.dumps(_as_json(listed)) if as_json else _as_line(listed))
        if page.entries and not as_json:
            screen.line()
            if earlier := page.total - len(page.entries):
                shown = place.command("runs", "--all")
                screen.line(f"{counted(earlier, 'earlier run')} not shown: `{shown}`, or --limit N for the latest N")
            screen.line(f"Go on with one: {place.command('resume', page.entries[-1].run)}")
    return ExitStatus.NATURAL_END


def _looked_at(place: StoredRuns, entry: RunEntry) -> Listed:
    try:
        records = place.read(entry.run)
        demand_same_rules(Restored(records=records))
        words = first_words(records)
        if len(records) > MOST_FOLDED:
            return Listed(entry=entry, words=words)
        return Listed(entry=entry, words=words, state=replay(records))
    except (Unusable, RulesDiffer, LawBroken) as error:
        return Listed(entry=entry, problem=str(error))


def first_words(records: tuple[LogRecord, ...]) -> str:
    """The first message of the person; nothing where there is none."""
    for record in records:
        if isinstance(record.delta, Say | Enqueue | Steer):
            return text_of(record.delta.content)
    return ""


COLUMNS = ("run", "began", "stands", "records", "tokens", "first words")


def _as_row(listed: Listed) -> tuple[str, ...]:
    entry, tokens = listed.entry, "" if listed.tokens is None else str(listed.tokens)
    return entry.run, _began(entry), listed.standing, str(entry.records), tokens, _about(listed)


def _as_line(listed: Listed) -> str:
    entry = listed.entry
    tokens = "" if listed.tokens is None else f", {counted(listed.tokens, 'token')}"
    records = counted(entry.records, "record")
    return f"{entry.run}  {_began(entry):<16}  {listed.standing:<18} {records}{tokens}  {_about(listed)}"


def _began(entry: RunEntry) -> str:
    if entry.first_ms < FIRST_DATE_MS:
        return UNDATED
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.first_ms / 1000))


def _about(listed: Listed) -> str:
    about = listed.problem or listed.words or "(nothing was said)"
    return in_one_line(about, LONGEST_WORDS if listed.problem is None else 200)


def _as_json(listed: Listed) -> dict[str, object]:
    entry, state = listed.entry, listed.state
    return {
        "run": entry.run,
        "first_ms": entry.first_ms,
        "last_ms": entry.last_ms,
        "records": entry.records,
        "state": None if state is None else type(state).__name__,
        "outcome": state.reason.value if isinstance(state, Done) else None,
        "words": in_one_line(listed.words, 200),
        "tokens": listed.tokens,
        "problem": listed.problem,
    }
