"""The phases that are never entered yet: whatever comes, nothing changes, and the refusal says so."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.events import Refused
from loopkernel.data.ids import HandoffOperation, ModelOperation, SummaryOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.sessions import Session, Stamp, Turn
from loopkernel.data.states import Compacting, Dispatching, HandingOff, State
from loopkernel.data.steps import Step
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.transition import rank, settle

from tests.kernel.building import after, asked, made_call, session_of, step, stopped, working
from tests.kernel.grids import expected_grid, grid

STAMP, TURN, LEDGER = Stamp(4, 4), Turn(number=1, opened_ms=0), Ledger(reply=ModelOperation(1))
SESSION: Session = evolve(session_of(after(asked(), CancelAll())), error=None)
STATES: tuple[State, ...] = (
    Dispatching(session=SESSION, stamp=STAMP, turn=TURN, ledger=LEDGER),
    Compacting(session=SESSION, stamp=STAMP, turn=None, operation=SummaryOperation(1), until=0),
    HandingOff(session=SESSION, stamp=STAMP, operation=HandoffOperation(1), goal="g"),
)
NOT_NOW = "refused not-now"
phases = pytest.mark.parametrize("state", STATES, ids=[type(state).__name__ for state in STATES])


@phases
@pytest.mark.rule("DELTA-2")
def test_everything_is_refused(state: State) -> None:
    assert grid(state) == expected_grid(answers=NOT_NOW, settings=NOT_NOW)


@pytest.mark.rule("DELTA-2")
@given(st.sampled_from(STATES), deltas)
def test_nothing_but_a_late_bill_changes_them(state: State, delta: Delta) -> None:
    following, effects = step(state, delta)
    assert [type(effect) for effect in effects] == [Refused]
    assert evolve(following, session=SESSION) == state


@phases
@pytest.mark.rule("DELTA-2")
def test_a_late_bill_is_counted(state: State) -> None:
    following, _ = step(state, ModelUsage(ModelOperation(1), Usage(input=2)))
    assert session_of(following).usage == Usage(input=2)


@phases
def test_a_phase_that_is_never_entered_is_left_by_nothing(state: State) -> None:
    assert rank(state) == 0
    assert settle(Step(state, ())) == (state, ())


@phases
@pytest.mark.rule("TOOL-17")
def test_that_an_aborted_run_has_stopped_is_taken_in_any_phase(state: State) -> None:
    session = session_of(after(working(made_call()), CancelAll()))
    holding: State = evolve(state, session=session)
    following, effects = step(holding, stopped(1))
    assert session_of(following).held == ()
    assert [type(effect).__name__ for effect in effects] == ["CancelTimer"]
    assert type(following) is type(state)
