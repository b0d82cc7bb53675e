"""Who is in the way of a call, found from what is kept up step by step, beside comparing all calls in pairs."""

from hypothesis import given
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.states import Streaming
from loopkernel.data.words import CallStatus
from loopkernel.laws.shadow.memory import Memory
from loopkernel.laws.shadow.standing import Standing
from loopkernel.laws.shadow.uses import may_run
from loopkernel.testing.run import Run

from tests.kernel.plays import plays


def is_kept(standing: Standing, place: int, entry: LedgerEntry) -> bool:
    """Whether anything keeps the call, as far as looking at each other call tells."""
    entries = standing.ledger.entries
    behind = any(standing.is_behind(place, other) for other in range(len(entries)))
    sources = [entries[one.place] for one in standing.places.sources(place) if one.place is not None]
    unmet = any(source.status is not CallStatus.DONE for source in sources)
    may_clash = may_run(entry, standing.settings) and not standing.gives_output(entry)
    held = may_clash and any(standing.clash(place, run.claims) for run in standing.session.held)
    undecided = standing.undecided not in (None, entry.call.id) and not entry.is_running
    return entry.is_open and (behind or unmet or held or undecided)


@given(plays() | plays(outside=True))
def test_who_is_in_the_way_is_found_as_by_comparing_all_calls(play: Run) -> None:
    memory = Memory()
    for record in play.steps:
        standing = memory.standing(record.after)
        for place, entry in enumerate(() if standing is None else standing.ledger.entries):
            assert standing is not None
            fresh = Standing(standing.ledger, standing.session, streaming=isinstance(record.after, Streaming))
            assert standing.in_the_way(place) == fresh.in_the_way(place)
            if entry.verdict is None or entry.hooks.blocked is None:
                assert (standing.in_the_way(place) is not None) == is_kept(standing, place, entry)
        memory.note(record.after, ())
