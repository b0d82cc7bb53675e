"""`Compacting`: a summary is being made, in a turn or at rest; whatever comes of it, the loop goes on."""

import pytest
from attrs import evolve
from loopkernel.data.choices import CompactionMoment, CompactionStrategy, OnBusy, OnError
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Summarise
from loopkernel.data.events import CompactionEnded, CompactionStarted, ErrorShown, TurnEnded
from loopkernel.data.ids import MessageId
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import ClearResults, Policy
from loopkernel.data.states import AtRest, Cancelled, Compacting, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.loop.transition import transition
from loopkernel.testing.played.player import Player
from loopkernel.testing.played.tools import read

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    TWO,
    a,
    after,
    asked,
    at_rest,
    completed,
    effects_of,
    enqueue,
    failed,
    made_call,
    named,
    of_kind,
    say,
    session_of,
    steer,
    step,
    succeeded,
    text,
)
from tests.kernel.gates import compacting, no_summary, summary
from tests.kernel.grids import expected_grid, grid
from tests.kernel.planted.compaction_runs import LONG, SMALL, SUMMARISED

KEEP_ONE = compacting(messages=1)
QUIET = compacting(messages=1, tokens=None)  # nothing but the user, or a prompt that is too long, asks for it
TALKED = (say("hello"), ModelText(ONE, "done"), completed())
BILL = Usage(output=6)
CALLS = (made_call(reply=2), completed(StopReason.TOOL_USE, reply=2))
TOO_LONG = failed(ErrorClass.PROMPT_TOO_LONG, reply=3)


def in_turn(policy: Policy = KEEP_ONE) -> Compacting:
    """The second turn of a thread that is too large: its request waits for a summary."""
    return a(Compacting, after(at_rest(policy), *TALKED, say("and on")))


def resting(*deltas: Delta, policy: Policy = QUIET) -> Compacting:
    """The user has asked for it at rest."""
    return a(Compacting, after(at_rest(policy), *TALKED, *deltas, CompactNow()))


CASES = {"in a turn": in_turn(), "at rest": resting()}
cases = pytest.mark.parametrize("state", CASES.values(), ids=CASES)


@cases
@pytest.mark.rule("COMPACT-4")
@pytest.mark.rule("DELTA-2")
def test_while_a_summary_is_made_input_waits(state: Compacting) -> None:
    expected = expected_grid(
        settings="Compacting",
        Say="Compacting",
        Enqueue="Compacting",
        Steer="Compacting",
        CancelAll="Cancelled",
        Disposed="Initial",
        Resumed="Compacting",
        Forked="Idle",
    )
    assert grid(state) == expected


# --- in a turn --------------------------------------------------------------------------------------------


@pytest.mark.rule("COMPACT-1")
@pytest.mark.rule("COMPACT-3")
def test_the_request_is_made_once_the_summary_is_there_and_its_usage_counts() -> None:
    following, effects = step(in_turn(), summary(usage=BILL))
    assert named(effects) == ["ThreadCompacted", "CompactionEnded", "CallModel"]
    assert effects[1] == CompactionEnded(True)
    (call,) = of_kind(CallModel, effects)
    assert (call.request.thread, call.request.reason) == (session_of(following).thread, RequestReason.USER)
    assert [a(UserMessage, found).origin for found in session_of(following).thread] == [
        UserOrigin.SUMMARY,
        UserOrigin.SAID,
    ]
    assert session_of(following).usage == BILL


@pytest.mark.rule("COMPACT-4")
def test_without_a_summary_the_loop_goes_on_uncompacted() -> None:
    following, effects = step(in_turn(), no_summary(usage=BILL))
    assert named(effects) == ["CompactionEnded", "CallModel"]
    assert (len(session_of(following).thread), session_of(following).usage) == (3, BILL)
    assert session_of(following).compactions.failures == 1


@pytest.mark.rule("COMPACT-3")
@pytest.mark.rule("LIMIT-2")
def test_what_a_summary_costs_may_end_the_turn() -> None:
    state = in_turn(evolve(KEEP_ONE, max_total_tokens=5))
    rest, effects = step(state, summary(usage=BILL))
    assert session_of(a(Idle, rest)).last_end is TurnEndReason.BUDGET_EXCEEDED
    assert of_kind(CallModel, effects) == []


@pytest.mark.rule("COMPACT-1")
def test_what_is_said_meanwhile_goes_into_the_request() -> None:
    effects = effects_of(in_turn(), steer("left"), summary())
    assert named(effects)[-2:] == ["Steered", "CallModel"]


@pytest.mark.rule("COMPACT-2")
def test_a_window_is_trimmed_within_the_step() -> None:
    window = compacting(CompactionStrategy.WINDOW, messages=1, tokens=None)
    effects = effects_of(at_rest(window), *TALKED, say("and on"))
    assert named(effects)[2:] == ["CompactionStarted", "ThreadCompacted", "CompactionEnded", "CallModel"]


@pytest.mark.rule("COMPACT-4")
@pytest.mark.rule("INFER-1")
def test_one_that_is_asked_for_in_a_turn_is_made_before_the_next_request() -> None:
    state = after(at_rest(QUIET), *TALKED, say("and on"), *CALLS)
    refused = after(asked(QUIET), CompactNow())
    assert not session_of(refused).compactions.requested
    wanted, effects = step(state, CompactNow())
    assert named(effects) == []
    assert named(effects_of(wanted, succeeded(1)))[-2:] == ["CompactionStarted", "Summarise"]


# --- a prompt that is too long ----------------------------------------------------------------------------


def pressed(policy: Policy = QUIET) -> State:
    """The third request is under way, with a result in its prompt."""
    return after(at_rest(policy), *TALKED, say("and on"), *CALLS, succeeded(1))


@pytest.mark.rule("INFER-8")
def test_a_prompt_that_is_too_long_is_made_shorter_once_and_sent_again() -> None:
    state, effects = step(pressed(), TOO_LONG)
    assert named(effects) == ["ReplyFailed", "CompactionStarted", "Summarise"]
    following, effects = step(state, summary())
    assert of_kind(CallModel, effects)[0].request.reason is RequestReason.REACTIVE_COMPACT_RETRY
    again = step(following, failed(ErrorClass.PROMPT_TOO_LONG, reply=4))
    assert isinstance(again.next, Idle)
    assert of_kind(CompactionStarted, again.effects) == []


@pytest.mark.rule("INFER-8")
def test_results_are_cleared_first_where_policy_says_so() -> None:
    policy = evolve(QUIET, clear_results=ClearResults(above=1, keep=0))
    effects = effects_of(pressed(policy), TOO_LONG)
    assert of_kind(CallModel, effects)[0].request.reason is RequestReason.COLLAPSE_DRAIN_RETRY


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("COMPACT-4")
@pytest.mark.parametrize("policy", [QUIET, evolve(ASKING_NOBODY, compaction=None)], ids=["failed", "none"])
def test_where_it_cannot_be_made_shorter_the_error_surfaces(policy: Policy) -> None:
    state = after(pressed(policy), TOO_LONG)
    if policy is QUIET:
        effects = effects_of(state, no_summary())
        assert [shown.error for shown in of_kind(ErrorShown, effects)] == [ErrorClass.PROMPT_TOO_LONG]
        state = after(state, no_summary())
    assert session_of(a(Idle, state)).last_end is TurnEndReason.ERROR


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("RETRY-7")
def test_the_error_may_be_fed_back_once() -> None:
    policy = evolve(QUIET, on_error=OnError.FEED_BACK)
    effects = effects_of(pressed(policy), TOO_LONG, no_summary())
    assert len(of_kind(CallModel, effects)) == 1


# --- at rest ----------------------------------------------------------------------------------------------


@pytest.mark.rule("COMPACT-4")
@pytest.mark.rule("DELTA-2")
def test_a_request_with_nothing_to_cut_is_refused() -> None:
    for state in (at_rest(QUIET), after(at_rest(evolve(ASKING_NOBODY, compaction=None)), *TALKED), in_turn()):
        assert named(effects_of(state, CompactNow())) == ["Refused"]


@pytest.mark.rule("COMPACT-1")
def test_it_is_made_at_once_and_the_session_rests_as_before() -> None:
    assert named(effects_of(resting(), summary())) == ["ThreadCompacted", "CompactionEnded"]
    assert isinstance(after(resting(), summary()), Idle)
    assert isinstance(after(resting(), no_summary()), Idle)
    cut = resting(say("x"), CancelAll())
    assert isinstance(after(cut, summary()), Cancelled)
    window = compacting(CompactionStrategy.WINDOW, ratio=0.5, tokens=None)
    talked = (*TALKED, say("and on"), ModelText(TWO, "done"), completed(reply=2))
    effects = effects_of(at_rest(window), *talked, CompactNow())
    assert named(effects) == ["CompactionStarted", "ThreadCompacted", "CompactionEnded"]


@pytest.mark.rule("INPUT-2")
@pytest.mark.parametrize("delta", [say("next"), enqueue("next"), steer("next")])
@pytest.mark.parametrize("report", [summary(), no_summary()])
def test_what_was_said_meanwhile_starts_a_turn(delta: Delta, report: Delta) -> None:
    following = a(Streaming, after(resting(), delta, report))
    *_, last = session_of(following).thread
    assert a(UserMessage, last).content == text("next")
    assert session_of(following).inbox.queue == ()


@pytest.mark.rule("INPUT-2")
def test_what_was_queued_before_stays_queued() -> None:
    state = resting(say("x"), enqueue("later"), CancelAll())
    rest = a(Cancelled, after(state, summary()))
    assert len(rest.session.inbox.queue) == 1


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("COMPACT-4")
def test_every_start_has_an_end_and_no_turn_ends_that_was_not_open() -> None:
    for cause, rest in ((CancelAll(), Cancelled), (Disposed(), Initial)):
        following, effects = step(resting(), cause)
        assert named(effects) == ["AbortOther", "CompactionEnded", "WorkCancelled"]
        assert type(following) is rest
        following, effects = step(in_turn(), cause)
        assert named(effects) == ["AbortOther", "CompactionEnded", "WorkCancelled", "TurnEnded"]
        assert type(following) is rest
    late = step(after(resting(), CancelAll()), summary(usage=BILL))
    assert (named(late.effects), session_of(late.next).usage) == (["Refused"], BILL)


@cases
@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("INPUT-4")
def test_an_interruption_and_an_edit_cut_it_short_and_start_a_turn(state: Compacting) -> None:
    policy = evolve(state.session.settings.policy, on_busy=OnBusy.INTERRUPT)
    settings = evolve(state.session.settings, policy=policy)
    interrupted = evolve(state, session=evolve(state.session, settings=settings))
    for session, delta in (
        (interrupted, say("instead")),
        (state, EditMessage(message=MessageId(1), content=text("no"))),
    ):
        following, effects = step(session, delta)
        assert named(effects)[:3] == ["AbortOther", "CompactionEnded", "WorkCancelled"]
        assert isinstance(following, Streaming | Compacting)
        assert len(of_kind(TurnEnded, effects)) == (0 if isinstance(state.within, AtRest) else 1)


@cases
@pytest.mark.rule("RESUME-6")
def test_a_fork_ends_it(state: Compacting) -> None:
    following, effects = step(state, Forked(session_id="t"))
    assert isinstance(following, Idle)
    assert named(effects)[:2] == ["LineageForked", "CompactionEnded"]


@cases
@pytest.mark.rule("RESUME-3")
def test_after_a_restart_the_summary_is_asked_for_again(state: Compacting) -> None:
    again, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "Summarise"]
    (asked_again,) = of_kind(Summarise, effects)
    assert (asked_again.operation, asked_again.cut) == (2, state.cut)
    assert named(effects_of(again, summary(1))) == ["Refused"]
    assert named(effects_of(again, summary(2)))[:2] == ["ThreadCompacted", "CompactionEnded"]


@pytest.mark.rule("COMPACT-1")
def test_within_a_turn_that_has_begun_nothing_is_compacted_where_policy_looks_at_its_start_only() -> None:
    once = evolve(SUMMARISED, compaction=evolve(SMALL, when=CompactionMoment.TURN_START))
    player = Player(transition)
    player.begin(once)
    player.say("go")
    for _ in range(2):
        player.reply(read("a"), read("b"))
        player.end(text=LONG)
        player.end(text=LONG)
        assert isinstance(player.state, Streaming)
    player.reply(text="so")
    player.say(LONG * 2)
    assert isinstance(player.state, Compacting)
