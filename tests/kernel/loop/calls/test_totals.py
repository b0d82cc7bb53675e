"""What the calls come to is the same, kept up from an earlier ledger, as counted anew; a budget is shared by it."""

from fractions import Fraction

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.children import Reservation, Taken
from loopkernel.data.ledgers import Ledger
from loopkernel.data.sessions import Session
from loopkernel.data.words import CallStatus
from loopkernel.laws.views import ledger_in
from loopkernel.loop.algorithms.children import with_share
from loopkernel.loop.calls.totals import totals_of, with_totals
from loopkernel.testing.run import Run

from tests.kernel.plays import plays


def ledgers(play: Run) -> list[tuple[Ledger, Session]]:
    """The ledgers of the play, each with its session."""
    found = ((ledger_in(state), state.session) for state in (step.after for step in play.steps))
    return [(ledger, session) for ledger, session in found if ledger is not None and session is not None]


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("TOOL-6")
@pytest.mark.rule("CALL-5")
@given(plays(outside=True), st.data())
def test_totals_that_are_kept_up_are_those_that_are_counted_anew(play: Run, data: st.DataObject) -> None:
    found = ledgers(play)
    if not found:
        return
    (early, then), (late, now) = data.draw(st.sampled_from(found)), data.draw(st.sampled_from(found))
    known = with_totals(evolve(early, totals=None), then.settings).totals
    anew = totals_of(evolve(late, totals=None), now.settings)
    assert totals_of(evolve(late, totals=known), now.settings) == anew
    assert totals_of(late, now.settings) == anew
    output = now.settings.policy.output_tool
    entries = list(late.entries)
    under_way = [entry.child.reserved for entry in entries if entry.child is not None and entry.has_run]
    assert anew.failed == sum(entry.status is CallStatus.ERROR and entry.runs > 0 for entry in entries)
    assert anew.taken.shares == len(under_way)
    assert anew.taken.tokens == sum(share.tokens or 0 for share in under_way)
    outputs = [entry.is_open and not entry.runs and entry.tool == output for entry in entries]
    assert [bool(anew.outputs >> place & 1) for place in range(len(entries))] == outputs


@pytest.mark.rule("LIMIT-2")
def test_a_share_that_is_given_back_is_there_again_to_the_last_cent() -> None:
    first, other = Reservation(tokens=3, cost_usd=0.1, tool_calls=2), Reservation(cost_usd=0.2)
    both = with_share(with_share(Taken(), first), other)
    assert both == Taken(shares=2, tokens=3, cost_usd=Fraction(3, 10), tool_calls=2)
    assert with_share(both, first, -1) == with_share(Taken(), other)
