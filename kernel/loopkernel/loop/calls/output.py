"""Calls that give the output of the run: taken, not run (rule CALL-5)."""

from collections.abc import Iterator

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import OutputCalls
from loopkernel.data.effects import Effect
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.tools import ValidCall
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.loop.algorithms.scheduling import blockers, places_of
from loopkernel.loop.algorithms.wording import OUTPUT_TAKEN
from loopkernel.loop.calls.claims import is_output_call
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import answer_of, close
from loopkernel.loop.calls.stopping import stop_call
from loopkernel.loop.calls.totals import totals_of


def gives_output(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call was a valid output call, and is answered so."""
    return is_output_call(entry, settings) and entry.status is CallStatus.DONE and entry.runs == 0


def unjudged_output(ledger: Ledger, settings: Settings) -> LedgerEntry | None:
    """The output call whose first check decides whether the other calls run at all; None if there is none."""
    if settings.policy.output_tool is None or settings.policy.output_calls is not OutputCalls.SKIP:
        return None
    return next((entry for _, entry in _outputs(ledger, settings) if _is_unjudged(entry)), None)


def _outputs(ledger: Ledger, settings: Settings) -> Iterator[tuple[int, LedgerEntry]]:
    """The open calls that are to give the output."""
    return ((place, ledger.entries[place]) for place in places_of(totals_of(ledger, settings).outputs))


def _is_unjudged(entry: LedgerEntry) -> bool:
    resolved = entry.links is not None and entry.links.resolved is not None
    return entry.verdict is None and not resolved


def take_output(ledger: Ledger, session: Session) -> Ledgered:
    """Valid output calls are answered once the other calls have ended, or instead of them, by policy."""
    settings = session.settings
    ready = [place for place, entry in _outputs(ledger, settings) if _is_ready(ledger, entry)]
    if not ready:
        return Ledgered(ledger, session)
    if settings.policy.output_calls is OutputCalls.RUN and others_open(ledger, settings):
        return Ledgered(ledger, session)
    effects: list[Effect] = []
    for place in ready:
        entry = ledger.entries[place]
        done = close(ledger, session, place, answer_of(entry, CallStatus.DONE, (TextBlock(OUTPUT_TAKEN),)))
        ledger, session = done.ledger, done.session
        effects.extend(done.effects)
    return Ledgered(ledger, session, tuple(effects))


def skip_for_output(ledger: Ledger, session: Session, now_ms: int) -> Ledgered:
    """Where the policy skips the other calls, they are answered as soon as a valid output call is there."""
    settings = session.settings
    if settings.policy.output_tool is None or settings.policy.output_calls is not OutputCalls.SKIP:
        return Ledgered(ledger, session)
    outputs = [place for place, entry in _outputs(ledger, settings) if isinstance(entry.verdict, ValidCall)]
    if not outputs:
        return Ledgered(ledger, session)
    needed = _sources_of(ledger, outputs)
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if entry.is_open and place not in needed and not is_output_call(entry, settings):
            stopped = stop_call(ledger, session, place, CancelReason.SUPERSEDED, now_ms)
            ledger, session = stopped.ledger, stopped.session
            effects.extend(stopped.effects)
    return Ledgered(ledger, session, tuple(effects))


def _is_ready(ledger: Ledger, entry: LedgerEntry) -> bool:
    """Whether the output is complete: found valid, and all that it depends on is done."""
    if not isinstance(entry.verdict, ValidCall) or entry.refers or entry.check is not None:
        return False
    needed = () if entry.links is None else entry.links.sources
    return all(ledger.entries[source].status is CallStatus.DONE for source in needed)


def others_open(ledger: Ledger, settings: Settings) -> bool:
    """Whether calls are open that neither give the output nor wait, at any remove, for one that does."""
    waiting = 0
    for place in range(ledger.entries.size) if ledger.plan is None else places_of(ledger.plan.open):
        entry = ledger.entries[place]
        if not entry.is_open:
            continue
        behind = 0 if ledger.plan is None else blockers(ledger.plan, place)
        if not is_output_call(entry, settings) and not behind & waiting:
            return True
        waiting |= 1 << place
    return False


def _sources_of(ledger: Ledger, places: list[int]) -> set[int]:
    """The calls at these places, and all that they depend on."""
    needed: set[int] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            links = ledger.entries[place].links
            waiting.extend(() if links is None else links.sources)
    return needed
