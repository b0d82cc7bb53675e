"""`HandingOff`: the work goes over to a new thread, or the session is at rest as before."""

import pytest
from attrs import evolve
from loopkernel.data.choices import OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import HandOff
from loopkernel.data.events import HandoffEnded, HandoffStarted, TurnEnded
from loopkernel.data.ids import HandoffOperation, MessageId, SummaryOperation
from loopkernel.data.outside_deltas import HandoffDone, HandoffFailed, SummaryFailed
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Done, HandingOff, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage, StartHandoff
from loopkernel.data.words import TurnEndReason

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    after,
    asked,
    at_rest,
    completed,
    effects_of,
    enqueue,
    made_call,
    named,
    of_kind,
    say,
    session_of,
    steer,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.grids import expected_grid, grid

GOAL = StartHandoff("go on there")
MADE, NOT_MADE = HandoffDone(HandoffOperation(1), "t2"), HandoffFailed(HandoffOperation(1), "no")


def handing(*deltas: Delta, policy: Policy = ASKING_NOBODY) -> HandingOff:
    """The work is being handed over, after this."""
    return a(HandingOff, after(at_rest(policy), *deltas, GOAL))


QUEUED = (say("x"), enqueue("later"), CancelAll())


@pytest.mark.rule("HANDOFF-1")
@pytest.mark.rule("DELTA-2")
def test_while_it_is_open_nothing_else_starts() -> None:
    expected = expected_grid(
        settings="HandingOff",
        Say="HandingOff",
        Enqueue="HandingOff",
        Steer="HandingOff",
        CancelAll="Cancelled",
        Disposed="Initial",
        Resumed="Idle",
        Forked="Idle",
    )
    assert grid(handing()) == expected
    assert named(effects_of(handing(), CompactNow())) == ["Refused"]


@pytest.mark.rule("HANDOFF-1")
def test_it_carries_the_thread_the_goal_and_the_queue() -> None:
    rest = after(at_rest(), *QUEUED)
    following, effects = step(rest, GOAL)
    (command,) = of_kind(HandOff, effects)
    assert effects[0] == HandoffStarted()
    assert (command.goal, command.thread) == ("go on there", session_of(rest).thread)
    assert command.queue == session_of(rest).inbox.queue != ()
    assert a(HandingOff, following).within.cancel is not None


@pytest.mark.rule("HANDOFF-1")
@pytest.mark.rule("STATE-8")
def test_done_ends_the_run_and_no_turn_and_what_waits_is_handed_back() -> None:
    state = after(handing(*QUEUED), steer("left"))
    following, effects = step(state, MADE)
    assert a(Done, following).reason is TurnEndReason.HANDED_OFF
    assert effects[0] == HandoffEnded("t2")
    assert of_kind(TurnEnded, effects) == []
    assert session_of(following).inbox.queue == ()
    assert named(effects_of(following, say("more"))) == ["Refused"]


@pytest.mark.rule("HANDOFF-1")
@pytest.mark.parametrize(("before", "rest"), [((), Idle), (QUEUED, Cancelled)])
def test_failed_is_back_at_rest_with_the_queue_as_it_was(before: tuple[Delta, ...], rest: type[State]) -> None:
    state = handing(*before)
    following, effects = step(state, NOT_MADE)
    assert effects == (HandoffEnded(None),)
    assert type(following) is rest
    assert session_of(following).inbox == state.session.inbox


@pytest.mark.rule("INPUT-2")
@pytest.mark.parametrize("delta", [say("next"), enqueue("next"), steer("next")])
def test_what_was_said_meanwhile_starts_a_turn_where_it_failed(delta: Delta) -> None:
    assert isinstance(after(handing(), delta, NOT_MADE), Streaming)


@pytest.mark.rule("HANDOFF-1")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("state", [asked(), working(made_call()), handing(), Initial()], ids=lambda s: type(s).__name__)
def test_from_rest_only(state: State) -> None:
    assert named(effects_of(state, GOAL)) == ["Refused"]


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize(
    ("cause", "rest", "told"),
    [
        (CancelAll(), Cancelled, ["AbortOther", "HandoffEnded", "WorkCancelled"]),
        (Disposed(), Initial, ["AbortOther", "HandoffEnded", "WorkCancelled"]),
        (Forked(session_id="t"), Idle, ["LineageForked", "HandoffEnded"]),
    ],
)
def test_it_is_cut_short_and_no_turn_ends(cause: Delta, rest: type[State], told: list[str]) -> None:
    following, effects = step(handing(), cause)
    assert (type(following), named(effects)) == (rest, told)
    assert named(effects_of(following, MADE)) == ["Refused"]


@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("INPUT-4")
def test_an_interruption_and_an_edit_start_a_turn() -> None:
    interrupting = handing(policy=evolve(ASKING_NOBODY, on_busy=OnBusy.INTERRUPT))
    edited = handing(say("x"), CancelAll())
    edit = EditMessage(message=MessageId(1), content=text("no"))
    for state, delta in ((interrupting, say("instead")), (edited, edit)):
        following, effects = step(state, delta)
        assert named(effects)[:3] == ["AbortOther", "HandoffEnded", "WorkCancelled"]
        assert isinstance(following, Streaming)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("HANDOFF-1")
@pytest.mark.parametrize(("before", "rest"), [((), Idle), (QUEUED, Cancelled)])
def test_after_a_restart_it_has_failed(before: tuple[Delta, ...], rest: type[State]) -> None:
    following, effects = step(after(handing(*before), steer("left")), Resumed())
    assert type(following) is rest
    assert named(effects)[:2] == ["SessionResumed", "HandoffEnded"]
    assert len(session_of(following).inbox.queue) == len(before[:1]) + 1


@pytest.mark.rule("TOOL-20")
def test_a_run_in_the_background_is_dropped_with_the_session() -> None:
    behind = (say(), made_call(), completed(), succeeded(1, background=True), completed(reply=2), completed(reply=3))
    state = handing(*behind)
    assert len(state.session.held) == 1
    following, effects = step(state, MADE)
    assert session_of(following).held == ()
    assert "AbortTool" in named(effects)


@pytest.mark.rule("HANDOFF-1")
@pytest.mark.rule("DELTA-2")
def test_what_reports_under_its_number_and_is_no_handoff_does_not_end_it() -> None:
    state = handing()
    late = SummaryFailed(SummaryOperation(int(state.operation)), "no")
    following, effects = step(state, late)
    assert (a(HandingOff, following).operation, named(effects)) == (state.operation, ["Refused"])
