"""What a complete reply leads to: its calls, another request, or an end with its reason and its gates."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import NudgesCount, OnPause, OnToolFailure, RunCalls, StillEmpty, TurnLimitCounts
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool
from loopkernel.data.endings import Ending, GoOn
from loopkernel.data.events import ErrorShown, MessageAdded, ToolEnded
from loopkernel.data.messages import AssistantMessage, ResultMessage
from loopkernel.data.model_deltas import ModelServerCall, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Recovery, Turn
from loopkernel.data.states import Streaming
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.loop.algorithms.replies import MAX_PAUSES
from loopkernel.loop.turn.reply import AfterReply, Complete, complete_reply, counted

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    NOTHING,
    ONE,
    a,
    asked,
    broken,
    call_id,
    completed,
    ends,
    made_call,
    named,
    of_kind,
    succeeded,
)
from tests.kernel.building import after as advanced
from tests.kernel.drafts import fresh

FIRST = Turn(number=1, opened_ms=0)
TALK = ModelText(ONE, "done")
NATURAL = Ending(reason=TurnEndReason.MODEL_STOP, natural=True, gated=True)


def completing(*pieces: Delta, stop: StopReason, policy: Policy = ASKING_NOBODY, turn: Turn = FIRST) -> AfterReply:
    """What the reply leads to that streamed these pieces and stopped so."""
    return completing_of(asked(policy, *pieces), stop, turn=turn)


def completing_of(state: Streaming, stop: StopReason, *, now_ms: int = 0, turn: Turn = FIRST) -> AfterReply:
    """What the reply under way leads to that stops so."""
    delta = completed(stop)
    complete = Complete(reply=state.reply, pieces=state.pieces, delta=delta)
    return complete_reply(fresh(state, now_ms), turn, complete)


# --- ends -------------------------------------------------------------------------------------------------

ENDS = {
    StopReason.END_TURN: NATURAL,
    StopReason.TOOL_USE: NATURAL,
    StopReason.STOP_SEQUENCE: Ending(reason=TurnEndReason.STOP_SEQUENCE, natural=True, gated=True),
    StopReason.REFUSAL: Ending(reason=TurnEndReason.REFUSAL, error=ErrorClass.REFUSED),
    StopReason.CONTENT_FILTERED: Ending(reason=TurnEndReason.CONTENT_FILTERED),
    StopReason.GUARDRAIL_INTERVENED: Ending(reason=TurnEndReason.GUARDRAIL),
}


@pytest.mark.rule("INFER-4")
@pytest.mark.rule("INFER-6")
@pytest.mark.rule("INFER-10")
@pytest.mark.rule("STATE-9")
@pytest.mark.parametrize("stop", ENDS)
def test_a_reply_of_words_ends_the_turn_as_it_stopped(stop: StopReason) -> None:
    after = completing(TALK, stop=stop)
    assert (after.settled, after.answering) == (ENDS[stop], False)
    assert of_kind(ErrorShown, after.draft.effects) == []  # that is for the end of the turn


@pytest.mark.rule("INFER-5")
@pytest.mark.rule("INFER-10")
@pytest.mark.parametrize("run_calls", RunCalls)
@pytest.mark.parametrize(
    "stop",
    [
        StopReason.REFUSAL,
        StopReason.CONTENT_FILTERED,
        StopReason.GUARDRAIL_INTERVENED,
        StopReason.END_TURN,
        StopReason.STOP_SEQUENCE,
    ],
)
def test_calls_that_do_not_run_are_answered_as_superseded(stop: StopReason, run_calls: RunCalls) -> None:
    after = completing(made_call(), made_call(verdict=None), stop=stop, policy=Policy(run_calls=run_calls))
    unless = {
        StopReason.END_TURN: {RunCalls.STOP_REASON},
        StopReason.STOP_SEQUENCE: {RunCalls.STOP_REASON, RunCalls.EITHER},
    }
    if stop in unless and run_calls not in unless[stop]:
        assert after.answering
        return
    assert after.settled == ENDS[stop]
    assert [(ended.result.status, ended.result.reason) for ended in of_kind(ToolEnded, after.draft.effects)] == [
        (CallStatus.CANCELLED, CancelReason.SUPERSEDED)
    ] * 2
    assert list(after.draft.session.operations.abandoned[1]) == [1]
    assert named(after.draft.effects)[:4] == ["MessageAdded", "ToolEnded", "ToolEnded", "MessageAdded"]


@pytest.mark.rule("INFER-5")
@pytest.mark.parametrize("run_calls", RunCalls)
@pytest.mark.parametrize("stop", [StopReason.TOOL_USE, StopReason.PAUSE])
def test_calls_run_after_tool_use_and_after_a_pause_under_every_policy(stop: StopReason, run_calls: RunCalls) -> None:
    after = completing(made_call(), stop=stop, policy=Policy(run_calls=run_calls))
    assert (after.settled, after.answering) == (None, True)
    assert named(after.draft.effects) == ["MessageAdded"]


@pytest.mark.rule("TOOL-5")
def test_what_may_not_run_is_answered_when_the_reply_is_complete() -> None:
    after = completing(made_call(), made_call(call_input=RawInput("{")), stop=StopReason.TOOL_USE)
    assert named(after.draft.effects) == ["MessageAdded", "ToolEnded"]
    assert after.answering
    assert after.draft.ledger.unanswered == 1


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("CANCEL-5")
@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.STOP_SEQUENCE])
def test_a_call_that_the_user_cancelled_decides_the_end_also_where_calls_do_not_run(stop: StopReason) -> None:
    policy = Policy(run_calls=RunCalls.STOP_REASON)
    after = completing(made_call(), made_call(), CancelCall(call_id(1)), stop=stop, policy=policy)
    assert after.settled == Ending(reason=TurnEndReason.USER_ABORT)
    assert [ended.result.reason for ended in of_kind(ToolEnded, after.draft.effects)] == [CancelReason.SUPERSEDED]


# --- another request --------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize("allowed", [0, 1, 3])
@pytest.mark.parametrize("nudges", [0, 1, 3])
@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.TOOL_USE, StopReason.STOP_SEQUENCE])
def test_an_empty_reply_is_nudged_so_many_times(allowed: int, nudges: int, stop: StopReason) -> None:
    turn = Turn(number=1, opened_ms=0, nudges=nudges)
    after = completing(ModelText(ONE, " "), stop=stop, policy=Policy(empty_reply_nudges=allowed), turn=turn)
    if allowed == 0:
        assert after.settled == ENDS[stop]
    elif nudges < allowed:
        assert (after.turn.nudges, after.settled) == (nudges + 1, GoOn(RequestReason.NUDGE))
    else:
        assert after.settled == Ending(reason=TurnEndReason.STUCK)


@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.STOP_SEQUENCE])
def test_a_reply_that_stays_empty_is_an_end_where_the_policy_says_so(stop: StopReason) -> None:
    policy = Policy(empty_reply_nudges=1, still_empty=StillEmpty.NATURAL)
    after = completing(ModelText(ONE, " "), stop=stop, policy=policy, turn=Turn(number=1, opened_ms=0, nudges=1))
    assert after.settled == ENDS[stop]


@pytest.mark.rule("INFER-13")
@pytest.mark.rule("TOOL-15")
def test_a_call_of_the_provider_alone_is_nothing_said() -> None:
    search = ModelServerCall(ONE, provider_id="w", tool="search", input=NOTHING)
    assert completing(search, stop=StopReason.END_TURN).settled == GoOn(RequestReason.NUDGE)


@pytest.mark.rule("INFER-4")
@pytest.mark.parametrize("pauses", [0, MAX_PAUSES - 1, MAX_PAUSES])
def test_a_pause_is_continued_ten_times_in_a_row(pauses: int) -> None:
    after = completing(TALK, stop=StopReason.PAUSE, turn=Turn(number=1, opened_ms=0, pauses=pauses))
    assert MAX_PAUSES == 10
    if pauses < MAX_PAUSES:
        assert (after.turn.pauses, after.settled) == (pauses + 1, GoOn(RequestReason.TOKEN_BUDGET_CONTINUATION))
    else:
        assert after.settled == Ending(reason=TurnEndReason.STUCK)


@pytest.mark.rule("INFER-4")
def test_a_pause_ends_the_turn_where_the_policy_says_so_unless_it_calls() -> None:
    policy = Policy(on_pause=OnPause.END)
    assert completing(TALK, stop=StopReason.PAUSE, policy=policy).settled == ENDS[StopReason.END_TURN]
    assert completing(made_call(), stop=StopReason.PAUSE, policy=policy).answering


@pytest.mark.rule("INFER-4")
def test_a_reply_that_is_no_pause_breaks_the_row() -> None:
    after = completing(made_call(), stop=StopReason.TOOL_USE, turn=Turn(number=1, opened_ms=0, pauses=9))
    assert after.turn.pauses == 0


# --- what is counted --------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-1")
@pytest.mark.parametrize("counts", TurnLimitCounts)
@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("stop", [stop for stop in StopReason if stop is not StopReason.MAX_TOKENS])
def test_a_completed_reply_counts_towards_the_limit(counts: TurnLimitCounts, calls: bool, stop: StopReason) -> None:
    pieces = [made_call()] if calls else [TALK]
    after = completing(*pieces, stop=stop, policy=Policy(turn_limit_counts=counts))
    assert after.turn.replies == (1 if calls or counts is TurnLimitCounts.REPLIES else 0)


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("INFER-2")
def test_the_reply_is_billed_and_appended_before_anything_else() -> None:
    state = asked(ASKING_NOBODY, TALK)
    after = completing_of(evolve(state, reply=evolve(state.reply, usage=Usage(output=3))), StopReason.END_TURN)
    (added,) = of_kind(MessageAdded, after.draft.effects)
    assert added is after.draft.effects[0]
    assert a(AssistantMessage, added.message).usage == after.draft.session.usage == Usage(output=3)


# --- an output that is owed -------------------------------------------------------------------------------

OWED = evolve(ASKING_NOBODY, output_tool="finish", output_required=True)


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize("piece", [TALK, ModelText(ONE, " ")], ids=["words", "empty"])
@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.STOP_SEQUENCE])
def test_a_natural_end_without_the_output_is_asked_for_it_once(piece: Delta, stop: StopReason) -> None:
    after = completing(piece, stop=stop, policy=OWED)
    assert (after.settled, after.answering) == (GoOn(RequestReason.NUDGE), False)
    assert (after.turn.demanded, after.turn.forcing, after.turn.nudges) == (True, True, 0)
    again = completing(piece, stop=stop, policy=OWED, turn=evolve(FIRST, demanded=True))
    assert again.settled == Ending(reason=TurnEndReason.ERROR, error=ErrorClass.INVALID_OUTPUT)


@pytest.mark.rule("CALL-5")
def test_calls_that_do_not_run_are_no_output() -> None:
    after = completing(
        made_call("finish"), stop=StopReason.END_TURN, policy=evolve(OWED, run_calls=RunCalls.STOP_REASON)
    )
    assert after.turn.demanded


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("stop", [StopReason.REFUSAL, StopReason.CONTENT_FILTERED])
def test_another_end_is_not_asked_for_the_output(stop: StopReason) -> None:
    assert completing(TALK, stop=stop, policy=OWED).settled == ENDS[stop]


# --- calls that started early -------------------------------------------------------------------------------

EARLY = asked(ASKING_NOBODY, made_call("early_read"), made_call("early_read"), made_call(), tools=ALL_TOOLS)


@pytest.mark.rule("INFER-5")
@pytest.mark.rule("TOOL-9")
def test_early_runs_of_a_reply_whose_calls_do_not_run_are_aborted() -> None:
    state = a(Streaming, advanced(EARLY, succeeded(2, "kept")))
    after = completing_of(state, StopReason.REFUSAL, now_ms=100)
    (abort,) = of_kind(AbortTool, after.draft.effects)
    assert (abort.operation, abort.reason) == (1, CancelReason.SUPERSEDED)
    assert [held.grace is not None and held.grace.deadline_ms for held in after.draft.session.held] == [5_100]
    results = a(ResultMessage, after.draft.session.thread.messages[2]).results
    assert [result.status for result in results] == [CallStatus.CANCELLED, CallStatus.DONE, CallStatus.CANCELLED]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-3")
def test_when_the_reply_is_complete_every_call_is_looked_at_anew() -> None:
    assert EARLY.ledger.plan is not None
    after = completing_of(EARLY, StopReason.TOOL_USE)
    assert after.answering
    assert after.draft.ledger.plan is None


@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize("choice", OnToolFailure)
def test_the_siblings_of_an_early_run_that_failed_are_cancelled_also_those_that_came_later(
    choice: OnToolFailure,
) -> None:
    policy = evolve(ASKING_NOBODY, on_tool_failure=choice)
    calls = (made_call("early_read"), broken(1), made_call("early_read"), made_call())
    state = asked(policy, *calls, tools=ALL_TOOLS)
    cancels = choice is OnToolFailure.CANCEL_SIBLINGS
    assert [entry.runs for entry in state.ledger.entries] == [1, 0 if cancels else 1, 0]
    after = completing_of(state, StopReason.TOOL_USE)
    assert after.answering
    expected = [(position, CallStatus.CANCELLED, CancelReason.SIBLING) for position in (2, 3)]
    assert ends(after.draft.effects) == (expected if cancels else [])


@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize(
    ("counts", "has_calls", "nudges"),
    [
        (NudgesCount.TURN, True, 2),
        (NudgesCount.TURN, False, 2),
        (NudgesCount.ROUND, True, 0),
        (NudgesCount.ROUND, False, 2),
    ],
)
def test_nudges_are_counted_anew_behind_calls_where_policy_counts_them_by_rounds(
    counts: NudgesCount, has_calls: bool, nudges: int
) -> None:
    turn = Turn(number=1, opened_ms=0, nudges=2)
    assert counted(Policy(nudges_count=counts), turn, has_calls, Recovery()).nudges == nudges


@pytest.mark.rule("INFER-13")
@pytest.mark.rule("RETRY-4")
def test_a_reply_that_lacks_its_calls_is_asked_for_with_all_its_retries() -> None:
    turn = Turn(number=1, opened_ms=0, pauses=3, recovery=Recovery(retries=2, unstreamed=True))
    policy = evolve(ASKING_NOBODY, missing_call_retries=1)
    after = completing(TALK, stop=StopReason.TOOL_USE, policy=policy, turn=turn)
    assert after.settled == GoOn(RequestReason.MISSING_CALLS)
    assert (after.turn.missing, after.turn.pauses, after.turn.recovery) == (1, 0, Recovery())
    last = completing(TALK, stop=StopReason.TOOL_USE, policy=policy, turn=after.turn)
    assert last.settled == Ending(reason=TurnEndReason.ERROR, error=ErrorClass.INVALID_OUTPUT)
