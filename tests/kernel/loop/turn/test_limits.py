"""Budgets: where they are tested, and what a spent one does to the calls and the turn."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import NoProfileApproval, TruncationEnd
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import ApprovalAsked, LimitReached, TurnEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelText, ModelUsage
from loopkernel.data.policy import Policy, Prices, Truncation
from loopkernel.data.sessions import Turn
from loopkernel.data.states import Backoff, Confirming, Executing, Idle, State, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolProgress, ToolStopped
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelAll, Reject
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, LimitName, StopReason, TurnEndReason
from loopkernel.loop.turn.limits import budget_hit, cancel_for_budget, limit_hit
from loopkernel.testing.strategies.values import usages

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    a,
    after,
    asked,
    asking,
    at_rest,
    broken,
    call_id,
    completed,
    effects_of,
    ends,
    enqueue,
    entries_of,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    results_of,
    run,
    say,
    session_of,
    starts,
    statuses,
    steer,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.drafts import fresh

TURN = Turn(number=1, opened_ms=0)
READS = [made_call(call_input=Json.of({"n": number})) for number in range(3)]
ENDED = (CallStatus.CANCELLED, CancelReason.LIMIT)


def limited(
    *, tokens: int | None = None, calls: int | None = None, wall_ms: int | None = None, parallel: int | None = None
) -> Policy:
    """A policy with budgets."""
    return evolve(
        ASKING_NOBODY, max_total_tokens=tokens, max_tool_calls=calls, max_wall_ms=wall_ms, max_parallel=parallel
    )


def limits(effects: tuple[Effect, ...]) -> list[LimitName]:
    """The limits that were hit."""
    return [effect.limit for effect in of_kind(LimitReached, effects)]


# --- what is tested ---------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-2")
@given(st.integers(1, 9), usages, st.integers(0, 5))
def test_the_budget_of_tokens_is_that_of_the_run(most: int, spent: Usage, replies: int) -> None:
    policy = evolve(limited(tokens=most), max_turns=3)
    session = evolve(at_rest(policy).session, usage=spent)
    hit = LimitName.TOKENS if spent.total >= most else None
    assert budget_hit(session, TURN, 10) is hit
    turns = LimitName.MAX_TURNS if replies >= 3 else None
    assert limit_hit(session, evolve(TURN, replies=replies), 10) is (hit or turns)  # budgets are tested first


@pytest.mark.rule("LIMIT-2")
@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50))
def test_the_budget_of_time_is_that_of_the_turn(opened_ms: int, later_ms: int, most_ms: int) -> None:
    session = at_rest(limited(wall_ms=most_ms)).session
    turn = evolve(TURN, opened_ms=opened_ms)
    assert budget_hit(session, turn, opened_ms + later_ms) is (LimitName.WALL_TIME if later_ms >= most_ms else None)


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        (limited(tokens=5), LimitName.TOKENS),
        (limited(wall_ms=5), LimitName.WALL_TIME),
        (evolve(limited(), max_cost_usd=5e-6, prices=Prices(input=1.0)), LimitName.COST),
    ],
)
def test_each_budget_holds_where_there_is_no_other(policy: Policy, limit: LimitName) -> None:
    session = at_rest(policy).session
    assert budget_hit(evolve(session, usage=Usage(input=4)), TURN, 4) is None
    assert budget_hit(evolve(session, usage=Usage(input=5)), TURN, 5) is limit


# --- before a request -------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("LIMIT-3")
@pytest.mark.rule("INPUT-2")
def test_a_spent_budget_ends_the_turn_before_its_first_request_and_the_queue_waits() -> None:
    state = after(asked(limited(tokens=5), enqueue("later")), completed(StopReason.MAX_TOKENS, usage=Usage(input=5)))
    rest = a(Idle, state)
    assert rest.session.last_end is TurnEndReason.BUDGET_EXCEEDED
    effects = effects_of(state, say("more"))
    assert named(effects) == ["InputSettled", "MessageAdded", "LimitReached", "TurnEnded"]
    assert len(rest.session.inbox.queue) == 1


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("RETRY-4")
def test_a_retry_is_not_made_over_the_budget() -> None:
    waiting = after(asked(limited(tokens=5)), failed(usage=Usage(input=7)))
    effects = effects_of(a(Backoff, waiting), fired(1))
    assert named(effects) == ["LimitReached", "TurnEnded"]
    assert limits(effects) == [LimitName.TOKENS]


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("STATE-9")
@pytest.mark.rule("INPUT-3")
def test_a_natural_finish_over_the_budget_stays_natural_and_a_steer_heads_the_queue() -> None:
    state = asked(limited(tokens=5), ModelText(ONE, "done"), enqueue("later"), steer("wait"))
    following, effects = step(state, completed(usage=Usage(output=9)))
    assert of_kind(TurnEnded, effects)[0].reason is TurnEndReason.MODEL_STOP
    # the queue goes on after a natural end, and its turn finds the budget spent
    assert named(effects)[-2:] == ["LimitReached", "TurnEnded"]
    assert [a(UserMessage, found).content for found in session_of(following).thread if isinstance(found, UserMessage)][
        1:
    ] == [text("wait")]
    assert [queued.content for queued in session_of(following).inbox.queue] == [text("later")]


# --- after a reply, and after a tool ----------------------------------------------------------------------


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("CANCEL-1")
def test_a_reply_that_spends_the_budget_starts_none_of_its_calls() -> None:
    state = asked(limited(tokens=5), *READS)
    following, effects = step(state, completed(StopReason.TOOL_USE, usage=Usage(output=5)))
    assert named(effects) == [
        *("ReplyEnded", "MessageAdded", "LimitReached"),
        *["ToolEnded"] * 3,
        *("MessageAdded", "TurnEnded"),
    ]
    assert ends(effects) == [(position, *ENDED) for position in (1, 2, 3)]
    assert a(Idle, following).session.last_end is TurnEndReason.BUDGET_EXCEEDED


@pytest.mark.rule("LIMIT-2")
def test_early_runs_are_awaited_when_their_reply_spends_the_budget() -> None:
    policy = limited(tokens=5)
    state = asked(policy, made_call("early_read"), made_call(), tools=ALL_TOOLS)
    following, effects = step(state, completed(StopReason.TOOL_USE, usage=Usage(output=5)))
    assert ends(effects) == [(2, *ENDED)]
    over, effects = step(a(Executing, following), succeeded(1, "kept"))
    assert limits(effects) == []  # told once
    assert results_of(over)[0].content == text("kept")
    assert a(Idle, over).session.last_end is TurnEndReason.BUDGET_EXCEEDED


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize("report", [succeeded(1), broken(1), fired(2)], ids=["done", "failed", "timed out"])
def test_the_time_is_looked_at_when_a_run_ends(report: Delta) -> None:
    state = working(*READS, policy=evolve(limited(wall_ms=50, parallel=2), grace_ms=0))
    following, effects = step(state, report, now_ms=70)
    assert limits(effects) == [LimitName.WALL_TIME]
    assert [end[1:] for end in ends(effects)][-1] == ENDED
    assert starts(effects) == []
    assert statuses(following)[1] is CallStatus.IN_PROGRESS
    over, effects = step(following, succeeded(2), now_ms=90)
    assert (limits(effects), a(Idle, over).session.last_end) == ([], TurnEndReason.BUDGET_EXCEEDED)


@pytest.mark.rule("LIMIT-2")
def test_a_report_that_ends_no_run_is_no_check_point() -> None:
    state = working(*READS, policy=limited(wall_ms=50))
    following, effects = step(state, ToolProgress(run(1), "half"), now_ms=70)
    assert (limits(effects), isinstance(following, Executing)) == ([], True)
    assert limits(effects_of(following, ToolStopped(run(9)))) == []


@pytest.mark.rule("LIMIT-2")
def test_the_time_may_be_over_before_the_next_request_although_no_run_ended_late() -> None:
    policy = evolve(limited(wall_ms=50), no_profile_approval=NoProfileApproval.ASK)
    state = asking(made_call("asks"), policy=policy)
    over, effects = step(state, Reject(call=call_id(1)), now_ms=70)
    assert limits(effects) == [LimitName.WALL_TIME]
    assert a(Idle, over).session.last_end is TurnEndReason.BUDGET_EXCEEDED


# --- tool calls -------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize("most", range(5))
def test_so_many_calls_start_and_the_others_are_cancelled(most: int) -> None:
    effects = effects_of(asked(limited(calls=most), *READS), completed(StopReason.TOOL_USE))
    assert len(starts(effects)) == min(most, 3)
    assert limits(effects) == ([LimitName.TOOL_CALLS] if most < 3 else [])
    assert ends(effects) == [(position, *ENDED) for position in range(most + 1, 4)]


@pytest.mark.rule("LIMIT-2")
def test_the_calls_are_counted_over_the_run() -> None:
    state: State = working(READS[0], policy=limited(calls=2))
    state = after(state, succeeded(1), made_call(reply=2), completed(StopReason.TOOL_USE, reply=2), succeeded(2))
    assert session_of(state).started == 2
    state = after(state, ModelText(ModelOperation(3), "a"), completed(reply=3), say("more"))
    effects = effects_of(state, made_call(reply=4), completed(StopReason.TOOL_USE, reply=4))
    assert (limits(effects), starts(effects)) == ([LimitName.TOOL_CALLS], [])


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("ASK-1")
def test_the_limit_comes_before_the_question_and_behind_the_denial() -> None:
    calls = (made_call("denied"), made_call("asks"))
    effects = effects_of(asked(limited(calls=0), *calls, tools=ALL_TOOLS), completed(StopReason.TOOL_USE))
    assert ends(effects) == [(1, CallStatus.ERROR, None), (2, *ENDED)]
    assert of_kind(ApprovalAsked, effects) == []


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("TOOL-9")
def test_an_early_start_is_held_back_where_no_call_is_left() -> None:
    state = asked(limited(calls=1), made_call("early_read"), made_call("early_read"), tools=ALL_TOOLS)
    assert [entry.runs for entry in entries_of(state)] == [1, 0]
    effects = effects_of(state, completed(StopReason.TOOL_USE))
    assert (limits(effects), ends(effects)) == ([LimitName.TOOL_CALLS], [(2, *ENDED)])


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("RESUME-3")
def test_a_repeated_run_counts_no_second_call() -> None:
    state = working(READS[0], policy=limited(calls=1))
    following, effects = step(state, Resumed())
    assert starts(effects) == [call_id(1)]
    assert (session_of(following).started, limits(effects)) == (1, [])


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("ASK-6")
def test_calls_that_wait_for_a_person_are_not_started_any_more() -> None:
    calls = (made_call("asks"), made_call("read"), made_call("asks"))
    executing = working(*calls, policy=limited(tokens=9), tools=ALL_TOOLS)
    stopped_all = cancel_for_budget(fresh(executing, 5))
    assert ends(stopped_all.effects) == [(1, *ENDED), (3, *ENDED)]
    assert [entry.is_open for entry in stopped_all.ledger.entries] == [False, True, False]


# --- usage ------------------------------------------------------------------------------------------------

bills = st.lists(
    st.tuples(st.lists(usages, max_size=3), st.sampled_from(("completed", "failed", "cancelled", "crashed", "late"))),
    max_size=5,
)


def billed(state: Streaming, bill: Usage, how: str) -> State:
    """The reply under way has been billed this last, and ends so."""
    reply = state.reply.operation
    if how == "completed":
        return after(state, ModelText(reply, "a"), completed(reply=reply, usage=bill))
    if how == "failed":
        return after(state, failed(ErrorClass.AUTH, reply=reply, usage=bill))
    if how == "late":
        return after(state, CancelAll(), failed(reply=reply, usage=bill))
    cut: tuple[Delta, ...] = (CancelAll(),) if how == "cancelled" else (Resumed(), CancelAll())
    return after(state, ModelUsage(reply, bill), *cut)


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("LIMIT-2")
@given(bills)
def test_what_is_spent_is_the_sum_of_what_each_reply_reported_at_most(replies: list[tuple[list[Usage], str]]) -> None:
    state: State = at_rest()
    expected = NO_USAGE
    for reported, how in replies:
        streaming = a(Streaming, after(state, say()))
        for usage in reported[:-1]:
            streaming = a(Streaming, after(streaming, ModelUsage(streaming.reply.operation, usage)))
        state = billed(streaming, reported[-1] if reported else NO_USAGE, how)
        most = NO_USAGE
        for usage in reported:
            most = most.most(usage)
        expected = expected.plus(most)
        assert session_of(state).usage == expected
    again = after(state, *(ModelUsage(ModelOperation(number), NO_USAGE) for number in range(1, 6)))
    assert session_of(again).usage == expected


@pytest.mark.rule("LIMIT-2")
@given(bills, st.integers(1, 500_000))
def test_no_request_is_made_once_the_tokens_are_spent(replies: list[tuple[list[Usage], str]], most: int) -> None:
    state: State = at_rest(limited(tokens=most))
    for reported, how in replies:
        before = session_of(state).usage.total
        state, effects = step(state, say())
        assert bool(of_kind(CallModel, effects)) is (before < most)
        if isinstance(state, Streaming):
            state = billed(state, reported[-1] if reported else NO_USAGE, how)


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize("spent_ms", [49, 50])
def test_a_spent_budget_ends_the_turn_also_where_the_reply_has_settled_another_end(spent_ms: int) -> None:
    truncation = Truncation(escalate_to=(), continuations=0, then=TruncationEnd.STOP)
    policy = evolve(limited(wall_ms=50), on_truncation=truncation)
    state = after(asked(policy, made_call("asks"), tools=ALL_TOOLS), completed(StopReason.MAX_TOKENS))
    opened_ms = a(Confirming, state).turn.opened_ms
    effects = step(state, Reject(call=call_id(1)), now_ms=opened_ms + spent_ms).effects
    spent = spent_ms == 50
    assert limits(effects) == ([LimitName.WALL_TIME] if spent else [])
    (ended,) = of_kind(TurnEnded, effects)
    assert ended.reason is (TurnEndReason.BUDGET_EXCEEDED if spent else TurnEndReason.MAX_TOKENS)
