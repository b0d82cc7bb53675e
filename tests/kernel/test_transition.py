"""The whole step: total, silent about nothing, pure; the shown error around it, and the entries that settle it."""

from collections.abc import Iterator
from typing import get_args

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, CheckCall, StartChild, StartTool
from loopkernel.data.events import (
    ErrorCleared,
    ErrorShown,
    InputSettled,
    Refused,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import MessageId, OperationKind, ReceiptId, RunOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.states import Confirming, Dispatching, Executing, State, Streaming
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.tool_deltas import ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import CancelAll, DismissError, EditMessage, RetryNow
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    InputFate,
    RefusalReason,
    StopReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.transition import transition
from loopkernel.replaying import fold
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.testing.strategies.states import states
from loopkernel.testing.strategies.walks import next_deltas, reachable_states, runs

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    a,
    after,
    all_effects,
    asked,
    at_rest,
    completed,
    effects_of,
    enqueue,
    failed,
    made_call,
    named,
    of_kind,
    recorded_call,
    say,
    session_of,
    steer,
    step,
    text,
    working,
)
from tests.kernel.grids import (
    deltas_about,
)
from tests.kernel.plays import plays

times = st.integers(-5, 5)


def classes_of(union: object) -> Iterator[str]:
    """The names of the classes of a union, its unions included."""
    members = get_args(union)
    if not members and isinstance(union, type):
        yield union.__name__
    for member in members:
        yield from classes_of(member)


@pytest.mark.rule("DELTA-4")
def test_the_grids_of_the_handlers_hold_every_delta() -> None:
    assert sorted(type(delta).__name__ for delta in deltas_about(1)) == sorted(classes_of(Delta))


# --- totality ---------------------------------------------------------------------------------------------

_UNPARSED = recorded_call(call_input=RawInput("{"))
_QUEUED = working(made_call(verdict=None))
# Arguments that do not parse, and a verdict that lets them: no run leads there, and the types allow it.
UNLIKELY = evolve(
    _QUEUED, ledger=evolve(_QUEUED.ledger, entries=Vector.of([LedgerEntry(call=_UNPARSED, verdict=FREE)]))
)


@pytest.mark.rule("DELTA-2")
@given(states, deltas, times)
@example(UNLIKELY, steer("a"), 0)
def test_every_state_has_a_result_for_every_delta(state: State, delta: Delta, now_ms: int) -> None:
    following, effects = transition(state, Context(delta, now_ms))
    assert isinstance(following, State)
    assert following.stamp.now_ms >= state.stamp.now_ms
    assert transition(state, Context(delta, now_ms)) == (following, effects)


def test_arguments_that_do_not_parse_start_nothing_even_where_a_verdict_lets_them() -> None:
    assert of_kind(StartTool, effects_of(UNLIKELY, steer("a"))) == []


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-7")
@given(reachable_states(), st.data())
def test_a_delta_counts_or_is_refused_with_one_reason(state: State, data: st.DataObject) -> None:
    delta = data.draw(deltas | next_deltas(state))
    context = Context(delta, data.draw(times))
    assert_counted_or_refused(state, context, transition(state, context))


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-7")
@pytest.mark.rule("TOOL-17")
@given(plays() | plays(outside=True))
def test_so_it_is_in_plays_with_calls(play: Run) -> None:
    for moment in play.steps:
        assert_counted_or_refused(moment.before, moment.context, Step(moment.after, moment.effects))


def assert_counted_or_refused(state: State, context: Context, step: Step[State]) -> None:
    """An accepted delta is counted. A refused one changes only what is billed late, or shown to be free by it."""
    following, effects = step
    if not is_refused(effects):
        assert following.stamp == state.stamp.next(context.now_ms)
        assert not of_kind(Refused, effects)
        return
    refused = a(Refused, effects[0])
    assert len(of_kind(Refused, effects)) == 1
    before = state.session
    if before is None or following == state:
        assert (following, len(effects)) == (state, 1)
        return
    assert refused == Refused(UserAction.REPORT, RefusalReason.STALE)
    kept = session_of(following)
    if kept.held == before.held:
        assert (len(effects), following.stamp) == (1, state.stamp)
        assert evolve(kept, usage=before.usage, operations=before.operations) == before
    else:
        assert len(kept.held) == len(before.held) - 1
        assert following.stamp in (state.stamp, state.stamp.at(context.now_ms))
        known = list(before.thread)
        assert list(kept.thread)[: len(known)] == known  # what waited for the resources may end all that was open
        assert kept.usage == before.usage
        if len(kept.thread) == len(known):
            assert kept.inbox == before.inbox


@pytest.mark.rule("DELTA-3")
@given(runs())
def test_each_operation_has_a_number_of_its_own_from_one_on(run: Run) -> None:
    effects = [effect for record in run.steps for effect in record.effects]
    for kinds in ((CallModel,), (CheckCall,), (StartTool, StartChild)):  # a sub-agent runs in the place of a tool
        numbers = [effect.operation for effect in effects if isinstance(effect, kinds)]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.rule("DELTA-1")
@pytest.mark.rule("DELTA-8")
@given(runs())
def test_the_log_alone_gives_the_run_again(run: Run) -> None:
    assert fold(run.log) == tuple(run.steps)


@pytest.mark.rule("DELTA-1")
def test_deltas_are_applied_in_the_order_in_which_they_come() -> None:
    first, second = enqueue("a"), enqueue("b")
    one, other = after(asked(), first, second), after(asked(), second, first)
    assert [queued.content for queued in session_of(one).inbox.queue] == [first.content, second.content]
    assert [queued.content for queued in session_of(other).inbox.queue] == [second.content, first.content]


@pytest.mark.rule("DELTA-7")
@pytest.mark.parametrize("now_ms", [-100, 0, 7])
def test_the_version_grows_and_time_never_goes_back(now_ms: int) -> None:
    state = at_rest()
    stamp = step(state, say(), now_ms=now_ms).next.stamp
    assert (stamp.version, stamp.now_ms) == (state.stamp.version + 1, max(state.stamp.now_ms, now_ms))


# --- the shown error --------------------------------------------------------------------------------------

FAILED = after(at_rest(), say(), failed(ErrorClass.AUTH))


@pytest.mark.rule("DELTA-5")
@pytest.mark.parametrize("delta", deltas_about(9), ids=lambda delta: type(delta).__name__)
def test_an_accepted_delta_clears_the_shown_error_first_and_a_refused_one_leaves_it(delta: Delta) -> None:
    following, effects = step(FAILED, delta)
    if is_refused(effects):
        assert following == FAILED
        assert not of_kind(ErrorCleared, effects)
    else:
        assert effects[0] == ErrorCleared()
        assert len(of_kind(ErrorCleared, effects)) == 1
        assert session_of(following).error is None


@pytest.mark.rule("DELTA-5")
def test_a_shown_error_can_be_dismissed_once() -> None:
    dismissed, effects = step(FAILED, DismissError())
    assert effects == (ErrorCleared(),)
    assert evolve(session_of(dismissed), error=session_of(FAILED).error) == session_of(FAILED)
    assert is_refused(effects_of(dismissed, DismissError()))


@pytest.mark.rule("DELTA-5")
@pytest.mark.rule("RETRY-5")
def test_an_error_after_another_is_shown_once_the_first_is_gone() -> None:
    shown = all_effects(FAILED, RetryNow(), failed(ErrorClass.BAD_REQUEST, reply=2))
    assert [type(effect).__name__ for effect in shown if isinstance(effect, ErrorCleared | ErrorShown)] == [
        "ErrorCleared",
        "ErrorShown",
    ]


# --- settling ---------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("INPUT-3")
def test_a_step_passes_through_all_that_waits_for_nothing() -> None:
    waiting = after(working(made_call()), steer("a"), enqueue("b"))
    assert named(effects_of(waiting, ToolSucceeded(RunOperation(1)))) == [
        *("CancelTimer", "ToolEnded", "MessageAdded"),
        *("InputSettled", "MessageAdded", "Steered", "CallModel"),
    ]


# --- messages of many turns -------------------------------------------------------------------------------


@pytest.mark.rule("INFER-2")
@pytest.mark.rule("STATE-8")
@given(st.lists(st.sampled_from(("talk", "fail", "cancel")), max_size=6))
def test_turns_follow_each_other_and_each_ends_once(kinds: list[str]) -> None:
    state: State = at_rest()
    for turn, kind in enumerate(kinds, 1):
        state = after(state, say())
        assert a(Streaming, state).turn.number == turn
        reply = session_of(state).operations.minted[OperationKind.MODEL]
        ends: dict[str, Delta] = {
            "talk": completed(StopReason.CONTENT_FILTERED, reply=reply),
            "fail": failed(ErrorClass.AUTH, reply=reply),
            "cancel": CancelAll(),
        }
        state, effects = step(state, ends[kind])
        assert [type(effect).__name__ for effect in effects].count("TurnEnded") == 1
        assert not isinstance(state, Streaming)


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("CANCEL-2")
def test_an_edit_cuts_the_turn_short_and_starts_one_from_the_message_it_replaces() -> None:
    edit = EditMessage(message=MessageId(1), content=text("rather this"))
    following, effects = step(after(asked(), ModelText(ONE, "so")), edit)
    assert named(effects) == [
        *("AbortModel", "ReplyAborted", "MessageAdded", "WorkCancelled", "TurnEnded"),
        *("InputSettled", "Edited", "ThreadCut", "InputSettled", "MessageAdded", "CallModel"),
    ]
    assert [cut.reason for cut in of_kind(WorkCancelled, effects)] == [CancelReason.EDITED]
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.EDITED]
    assert of_kind(InputSettled, effects) == [
        InputSettled(ReceiptId(1), InputFate.SUPERSEDED),
        InputSettled(ReceiptId(2), InputFate.IN_THREAD),
    ]
    (message,) = session_of(following).thread
    assert a(UserMessage, message).content == text("rather this")


@pytest.mark.rule("STATE-5")
@given(runs())
def test_the_phase_follows_from_the_ledger(run: Run) -> None:
    """The loop executes, confirms, or waits for sub-agents alone, as long as a call is not answered."""
    for record in run.steps:
        state = record.after
        if isinstance(state, Executing | Confirming):
            entries = list(state.ledger.entries)
            assert any(entry.is_open for entry in entries)
            running = any(entry.status is CallStatus.IN_PROGRESS for entry in entries)
            asking = any(entry.status is CallStatus.BLOCKED_ON_USER for entry in entries)
            assert isinstance(state, Confirming) is (asking and not running)
        if isinstance(state, Dispatching):
            going = [entry for entry in state.ledger.entries if entry.status is CallStatus.IN_PROGRESS]
            assert going
            assert all(entry.child is not None for entry in going)


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-5")
def test_that_a_run_has_stopped_does_not_clear_the_error_that_its_failure_has_shown() -> None:
    shown = after(asked(ASKING_NOBODY, made_call("early_read"), tools=ALL_TOOLS), failed(ErrorClass.AUTH))
    following, effects = step(shown, ToolStopped(RunOperation(1)))
    assert of_kind(ErrorCleared, effects) == []
    assert session_of(following).error == session_of(shown).error
    assert session_of(shown).error is not None
