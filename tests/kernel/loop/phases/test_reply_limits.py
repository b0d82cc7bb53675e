"""A reply under way meets a limit: it is stopped, what it said is kept, its calls are answered, the turn ends."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, CancelTimer, StartTimer
from loopkernel.data.events import LimitReached, MessageAdded, Refused, ReplyAborted, ToolEnded, TurnEnded
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
    ModelUsage,
    Piece,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.reply_sizes import NOTHING_SAID
from loopkernel.data.states import Done, Executing, Idle, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, ChangePolicy
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    LimitName,
    RefusalReason,
    StopReason,
    TimerPurpose,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.algorithms.replies import longer
from loopkernel.machine import Machine
from loopkernel.views.causes import rule_of
from loopkernel.views.explain import explain

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    TASK,
    a,
    after,
    asked,
    call_id,
    completed,
    made_call,
    named,
    of_kind,
    pending_timers,
    reads,
    session_of,
    starts,
    step,
    succeeded,
    timer,
)

TIMED = evolve(ASKING_NOBODY, max_wall_ms=100)
ASKED = asked(TIMED)
OPENED = ASKED.turn.opened_ms
LIMIT = Timer(timer(1), TimerPurpose.WALL_TIME, OPENED + 100)
SAID: tuple[Delta, ...] = (ModelReasoning(ONE, "hm"), ModelText(ONE, "so "), ModelText(ONE, "far"))


def kept(state: State) -> AssistantMessage:
    """The cut reply, as the thread has it."""
    (message,) = (one for one in session_of(state).thread if isinstance(one, AssistantMessage))
    return message


# --- time -------------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-4")
def test_the_time_of_the_turn_ends_its_reply_and_what_it_said_is_kept() -> None:
    assert (ASKED.time_limit, Machine(ASKED).next_deadline()) == (LIMIT, LIMIT.deadline_ms)
    state = after(ASKED, *SAID, ModelUsage(ONE, Usage(output=3)))
    following, effects = step(state, TimerFired(LIMIT.operation), now_ms=LIMIT.deadline_ms)
    assert named(effects) == ["AbortModel", "ReplyAborted", "MessageAdded", "LimitReached", "TurnEnded"]
    assert effects[3] == LimitReached(LimitName.WALL_TIME)
    assert a(Idle, following).session.last_end is TurnEndReason.BUDGET_EXCEEDED
    assert "".join(block.text for block in kept(following).content if hasattr(block, "text")) == "hmso far"
    assert (kept(following).stop, session_of(following).usage) == (None, Usage(output=3))
    late = step(following, ModelText(ONE, "late"))
    assert late == (following, (Refused(UserAction.REPORT, RefusalReason.STALE),))
    assert session_of(step(following, completed(usage=Usage(output=5))).next).usage == Usage(output=5)


@pytest.mark.rule("LIMIT-4")
def test_a_task_is_over_with_its_reply() -> None:
    state = asked(evolve(TASK, max_wall_ms=100), *SAID)
    following = step(state, TimerFired(LIMIT.operation), now_ms=LIMIT.deadline_ms).next
    assert a(Done, following).reason is TurnEndReason.BUDGET_EXCEEDED


@pytest.mark.rule("LIMIT-4")
def test_by_a_clock_that_is_early_the_time_is_not_over() -> None:
    following, effects = step(ASKED, TimerFired(LIMIT.operation), now_ms=LIMIT.deadline_ms - 1)
    again = evolve(LIMIT, operation=timer(2))
    assert a(Streaming, following).time_limit == again
    assert effects == (
        StartTimer(operation=again.operation, purpose=TimerPurpose.WALL_TIME, deadline_ms=LIMIT.deadline_ms),
    )


@pytest.mark.rule("LIMIT-4")
@pytest.mark.parametrize("end", [completed(StopReason.END_TURN), CancelAll()], ids=str)
def test_the_time_limit_is_closed_with_the_stream(end: Delta) -> None:
    following, effects = step(after(ASKED, *SAID), end)
    assert CancelTimer(LIMIT.operation) in effects
    assert pending_timers(following) == []


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("INFER-11")
def test_a_stream_that_stalls_closes_its_time_limit() -> None:
    state = asked(evolve(TIMED, silence_ms=20))
    assert state.silence is not None
    effects = step(state, TimerFired(state.silence.operation), now_ms=OPENED + 40).effects
    assert named(effects)[:3] == ["AbortModel", "CancelTimer", "ReplyFailed"]
    assert state.time_limit is not None
    assert effects[1] == CancelTimer(state.time_limit.operation)


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("DELTA-8")
@pytest.mark.parametrize("wall_ms", [None, 30, 500])
def test_under_another_policy_the_turn_may_last_for_another_time(wall_ms: int | None) -> None:
    following, effects = step(ASKED, ChangePolicy(evolve(TIMED, max_wall_ms=wall_ms)), now_ms=OPENED + 50)
    limit = a(Streaming, following).time_limit
    due = None if wall_ms is None else Timer(timer(2), TimerPurpose.WALL_TIME, OPENED + wall_ms)
    assert limit == due
    assert named(effects) == ["CancelTimer", *([] if due is None else ["StartTimer"])]


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("RESUME-3")
def test_after_a_crash_the_new_request_has_what_is_left_of_the_time() -> None:
    following, effects = step(after(ASKED, *SAID), Resumed(), now_ms=OPENED + 60)
    assert a(Streaming, following).time_limit == evolve(LIMIT, operation=timer(2))
    assert named(effects) == ["SessionResumed", "ReplyRetracted", "CallModel", "StartTimer"]


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("LIMIT-2")
def test_what_runs_is_awaited_and_what_has_not_started_never_does() -> None:
    calls = (made_call("early_read", reads("a")), made_call("write"), made_call("read", verdict=None))
    state = asked(TIMED, ModelText(ONE, "so"), *calls, tools=ALL_TOOLS)
    following, effects = step(state, TimerFired(LIMIT.operation), now_ms=LIMIT.deadline_ms)
    executing = a(Executing, following)
    assert named(effects) == [
        *("AbortModel", "ReplyAborted", "MessageAdded", "LimitReached"),
        *("ToolEnded", "ToolEnded"),
    ]
    ended = [(one.result.call, one.result.status, one.result.reason) for one in of_kind(ToolEnded, effects)]
    assert ended == [(call_id(place), CallStatus.CANCELLED, CancelReason.LIMIT) for place in (2, 3)]
    assert len(kept(following).calls) == 3
    done, effects = step(executing, succeeded(1))
    assert named(effects)[-1] == "TurnEnded"
    assert of_kind(LimitReached, effects) == []
    assert a(Idle, done).session.last_end is TurnEndReason.BUDGET_EXCEEDED


# --- size -------------------------------------------------------------------------------------------------


PIECES: list[tuple[Piece, int]] = [
    (ModelText(ONE, "four"), 4),
    (ModelText(ONE, ""), 1),
    (ModelReasoning(ONE, "fives"), 5),
    (ModelReasoning(ONE, ""), 1),
    (ModelInput(ONE, "abc"), 3),
    (ModelInput(ONE, ""), 1),
    (ModelOpaque(ONE, Json.of([1, 2])), 5),
    (ModelCall(ONE, provider_id="p", tool="read", input=Json.of({})), 2),
    (ModelCall(ONE, provider_id="p", tool="read", input=RawInput("{oops")), 5),
    (ModelServerCall(ONE, provider_id="p", tool="web", input=Json.of({}), result=Json.of([1])), 5),
    (ModelServerCall(ONE, provider_id="p", tool="web", input=Json.of({})), 2),
]


@pytest.mark.rule("LIMIT-4")
@pytest.mark.parametrize(("piece", "chars"), PIECES, ids=lambda one: type(one).__name__)
def test_each_piece_has_its_size(piece: Piece, chars: int) -> None:
    assert longer(NOTHING_SAID, piece).chars == chars
    assert longer(longer(NOTHING_SAID, ModelText(ONE, "x")), piece).chars == chars + 1


@pytest.mark.rule("LIMIT-4")
def test_arguments_count_once_though_they_come_in_pieces_and_whole() -> None:
    size = NOTHING_SAID
    for piece in ('{"path"', ':"a"}'):
        size = longer(size, ModelInput(ONE, piece))
    whole = longer(size, ModelCall(ONE, provider_id="p", tool="read", input=Json.of({"path": "a"})))
    assert (size.chars, whole.chars) == (12, 12)


@pytest.mark.rule("LIMIT-4")
@given(st.lists(st.text("ab", max_size=5), max_size=12), st.integers(0, 20))
def test_a_reply_ends_with_the_piece_that_passes_its_size_and_not_before(texts: list[str], limit: int) -> None:
    state: State = asked(evolve(ASKING_NOBODY, max_reply_chars=limit))
    size, said = 0, ""
    for words in texts:
        size, said = size + max(len(words), 1), said + words
        state, effects = step(state, ModelText(ONE, words))
        if size > limit:
            assert named(effects) == [
                *("ReplyGrew", "AbortModel", "ReplyAborted", "MessageAdded", "LimitReached", "TurnEnded")
            ]
            assert LimitReached(LimitName.REPLY_SIZE) in effects
            assert "".join(block.text for block in kept(state).content if hasattr(block, "text")) == said
            return
        assert isinstance(state, Streaming)


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("TOOL-9")
def test_the_call_that_passes_the_size_does_not_start() -> None:
    state = asked(evolve(ASKING_NOBODY, max_reply_chars=3), tools=ALL_TOOLS)
    first, begun = step(state, made_call("early_read"))
    assert starts(begun) == [call_id(1)]
    _, effects = step(first, made_call("early_read"))
    assert starts(effects) == []
    assert [one.result.reason for one in of_kind(ToolEnded, effects)] == [CancelReason.LIMIT]


@pytest.mark.rule("LIMIT-4")
def test_a_reply_without_a_limit_is_as_long_as_it_likes() -> None:
    state = asked(evolve(ASKING_NOBODY, max_reply_chars=None), ModelText(ONE, "x" * 5_000_000))
    assert a(Streaming, state).size.chars == 5_000_000


# --- what it reports to have used --------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-4")
@pytest.mark.rule("LIMIT-2")
def test_what_a_reply_reports_ends_it_when_it_takes_the_run_to_its_budget() -> None:
    state = asked(evolve(ASKING_NOBODY, max_total_tokens=10), ModelText(ONE, "so"), ModelUsage(ONE, Usage(input=9)))
    following, effects = step(state, ModelUsage(ONE, Usage(input=9, output=1)))
    assert named(effects) == ["AbortModel", "ReplyAborted", "MessageAdded", "LimitReached", "TurnEnded"]
    assert LimitReached(LimitName.TOKENS) in effects
    assert session_of(following).usage == Usage(input=9, output=1)
    assert of_kind(MessageAdded, effects)[0].message == kept(following)


# --- why --------------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-4")
def test_the_rule_of_what_a_limit_stops_is_told() -> None:
    state = after(ASKED, *SAID)
    told = explain(state, Context(TimerFired(LIMIT.operation), LIMIT.deadline_ms))
    rules = {type(cause.effect): cause.rule for cause in told.causes}
    assert rules[AbortModel] == rules[ReplyAborted] == "LIMIT-4"
    assert (rules[LimitReached], rules[TurnEnded]) == ("LIMIT-2", "LIMIT-2")
    assert rule_of(LimitReached(LimitName.REPLY_SIZE), ModelText(ONE, "x"))[0] == "LIMIT-4"
    cancelled = {type(cause.effect): cause.rule for cause in explain(state, Context(CancelAll(), 9)).causes}
    assert (cancelled[AbortModel], cancelled[ReplyAborted]) == ("CANCEL-2", "INPUT-5")
