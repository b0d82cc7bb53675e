"""`Done`: over, for good. Nothing changes it but usage that is billed late."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.events import InputSettled, Refused
from loopkernel.data.ids import ReceiptId
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelUsage
from loopkernel.data.states import Done
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, DismissError
from loopkernel.data.words import ErrorClass, InputFate, RefusalReason, StopReason, TurnEndReason, UserAction
from loopkernel.testing.strategies.deltas import deltas

from tests.kernel.building import (
    ONE,
    TASK,
    a,
    after,
    asked,
    completed,
    effects_of,
    enqueue,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    session_of,
    steer,
    step,
    stopped,
    succeeded,
    working,
)
from tests.kernel.grids import expected_grid, grid

NATURAL = a(Done, after(asked(TASK), completed(StopReason.STOP_SEQUENCE, usage=Usage(input=3)), completed(reply=2)))
CUT = a(Done, after(asked(TASK), CancelAll()))
FAILED = a(Done, after(asked(TASK), failed(ErrorClass.AUTH)))
NOT_NOW = "refused not-now"


@pytest.mark.rule("STATE-7")
@pytest.mark.rule("STATE-8")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("state", [NATURAL, CUT])
def test_a_run_that_is_over_refuses_everything(state: Done) -> None:
    assert grid(state) == expected_grid(answers=NOT_NOW, settings=NOT_NOW)


@pytest.mark.rule("STATE-7")
def test_not_even_the_shown_error_changes_in_a_run_that_is_over() -> None:
    assert step(FAILED, DismissError()) == (FAILED, (Refused(UserAction.DISMISS, RefusalReason.NOT_NOW),))


@pytest.mark.rule("STATE-7")
@given(deltas)
def test_no_delta_changes_more_than_the_bill(delta: Delta) -> None:
    following, effects = step(CUT, delta)
    assert isinstance(effects[0], Refused)
    assert following.stamp == CUT.stamp
    if following != CUT:
        assert isinstance(delta, ModelUsage | ModelCompleted | ModelFailed)
        assert session_of(following).thread == CUT.session.thread
        assert session_of(following).usage == CUT.session.usage.plus(delta.usage)


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("INFER-3")
def test_a_late_bill_is_counted_once() -> None:
    bill = ModelFailed(ONE, error=ErrorClass.SERVER, usage=Usage(input=5))
    assert session_of(after(CUT, bill, bill)).usage == Usage(input=5)


@pytest.mark.rule("STATE-7")
@pytest.mark.rule("STATE-9")
@pytest.mark.parametrize(
    ("state", "reason"),
    [(NATURAL, TurnEndReason.STUCK), (CUT, TurnEndReason.USER_ABORT), (FAILED, TurnEndReason.ERROR)],
)
def test_it_keeps_the_reason(state: Done, reason: TurnEndReason) -> None:
    assert (state.reason, state.session.last_end) == (reason, reason)


@pytest.mark.rule("STATE-7")
def test_it_keeps_the_usage() -> None:
    assert NATURAL.session.usage == Usage(input=3)


@pytest.mark.rule("STATE-8")
@pytest.mark.rule("INFER-6")
@pytest.mark.rule("DELTA-6")
def test_what_still_waited_is_handed_back() -> None:
    ends = effects_of(asked(TASK, enqueue("a"), steer("b")), failed(ErrorClass.AUTH))
    assert of_kind(InputSettled, ends)[-2:] == [
        InputSettled(ReceiptId(3), InputFate.HANDED_BACK),
        InputSettled(ReceiptId(2), InputFate.HANDED_BACK),
    ]
    inbox = session_of(after(asked(TASK, enqueue("a"), steer("b")), failed(ErrorClass.AUTH))).inbox
    assert (inbox.queue, inbox.steers) == ((), ())


@pytest.mark.rule("STATE-7")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
def test_what_still_ran_changes_nothing_any_more() -> None:
    policy = evolve(TASK, no_profile_approval=NoProfileApproval.ALLOW)
    cut = a(Done, after(working(made_call(), policy=policy), CancelAll()))
    behind = after(working(made_call(), policy=policy), succeeded(1, background=True))
    over = a(Done, after(behind, completed(reply=2), completed(reply=3)))
    for state in (cut, over):
        assert {found.partition(" ")[0] for found in grid(state, 1).values()} == {"refused"}
        for report in (stopped(1), succeeded(1), fired(1)):
            following, effects = step(state, report)
            assert (following, named(effects)) == (state, ["Refused"])
