"""Pending delays: each minted with a number of its own, and closed once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import CancelTimer, Effect, StartTimer
from loopkernel.data.events import Refused
from loopkernel.data.states import Done
from loopkernel.data.timers import Timer
from loopkernel.data.words import TimerPurpose
from loopkernel.testing.run import Run

from tests.kernel.building import at_rest, pending_timers, timer
from tests.kernel.drafts import drafted
from tests.kernel.plays import plays


@given(st.lists(st.tuples(st.sampled_from(TimerPurpose), st.integers(0, 99)), max_size=4))
def test_each_timer_has_a_number_its_purpose_and_its_deadline(wanted: list[tuple[TimerPurpose, int]]) -> None:
    draft = drafted(at_rest().session)
    for number, (purpose, deadline_ms) in enumerate(wanted, 1):
        draft, started = draft.start_timer(purpose, deadline_ms)
        assert started == Timer(timer(number), purpose, deadline_ms)
        assert draft.effects[-1] == StartTimer(operation=timer(number), purpose=purpose, deadline_ms=deadline_ms)
    assert len(draft.effects) == len(wanted)


def test_only_what_is_pending_is_closed() -> None:
    draft = drafted(at_rest().session)
    assert draft.close_timer(None) is draft
    assert draft.close_timer(Timer(timer(3), TimerPurpose.GRACE, 9)).effects == (CancelTimer(timer(3)),)


@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("ASK-6")
@pytest.mark.rule("CANCEL-2")
@given(plays() | plays(outside=True))
def test_what_is_pending_in_the_state_is_what_was_started_and_neither_fired_nor_cancelled(play: Run) -> None:
    """A restart leaves timers to the process that is gone, and starts anew what it wants; a fork leaves them all."""
    running: dict[int, Effect] = {}
    for step in play.steps:
        delta = step.context.delta
        refused = any(isinstance(effect, Refused) for effect in step.effects)
        if type(delta).__name__ in ("Resumed", "Acquired", "Forked") and not refused:
            running.clear()
        for effect in step.effects:
            if isinstance(effect, StartTimer):
                assert effect.operation not in running
                running[effect.operation] = effect
            if isinstance(effect, CancelTimer):
                assert running.pop(effect.operation, None) is not None
        if type(delta).__name__ == "TimerFired":
            running.pop(getattr(delta, "operation", 0), None)
        state = step.after
        pending = [] if state.session is None else pending_timers(state)
        assert not (isinstance(state, Done) and pending)
        assert [found.operation for found in pending] == sorted(running)
        for found in pending:
            started = running[found.operation]
            assert isinstance(started, StartTimer)
            assert (started.purpose, started.deadline_ms) == (found.purpose, found.deadline_ms)
