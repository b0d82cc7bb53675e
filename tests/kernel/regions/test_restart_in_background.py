"""A run in the background that a restart repeats is a run of its own, with a number that no other has."""

import pytest
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import OperationKind
from loopkernel.data.thread_deltas import Resumed

from tests.kernel.building import after, made_call, of_kind, run, session_of, step, succeeded, working


@pytest.mark.rule("RESUME-3")
def test_a_repeated_run_in_the_background_has_the_next_number() -> None:
    behind = after(working(made_call("write"), made_call("write")), succeeded(1, background=True), succeeded(2))
    before = session_of(behind).operations.minted[OperationKind.RUN]
    assert before == 2
    state, effects = step(behind, Resumed())
    assert [start.operation for start in of_kind(StartTool, effects)] == [run(3)]
    assert session_of(state).operations.minted[OperationKind.RUN] == 3
    assert [held.operation for held in session_of(state).held] == [run(3)]
