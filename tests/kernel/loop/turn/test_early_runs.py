"""What becomes of calls that started early when their reply fails: kept for an effect, or dropped."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock, ToolCall
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CallModel, StartTimer
from loopkernel.data.events import ErrorShown, MessageAdded, ReplyFailed, ReplyRetracted, SessionResumed, TurnEnded
from loopkernel.data.ids import OperationKind
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import Backoff, Executing, Idle, State, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, RequestReason, TimerPurpose, TurnEndReason
from loopkernel.loop.turn.cancelling import discard_dead_reply, discard_reply, is_committed, keep_for_effect

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    a,
    after,
    asked,
    broken,
    call_id,
    check,
    ends,
    entries_of,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    reads,
    results_of,
    run,
    session_of,
    starts,
    statuses,
    step,
    stopped,
    succeeded,
    timer,
    writes,
)
from tests.kernel.drafts import drafted, fresh, outcome

DONE, QUEUED, RUNNING, ERROR, CANCELLED = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.ERROR,
    CallStatus.CANCELLED,
)
SUPERSEDED = CancelReason.SUPERSEDED
READING = made_call("early_read", reads("a"))
WRITING = made_call("early_write", writes("b"))


def streaming(*deltas: Delta) -> Streaming:
    """The reply so far."""
    return asked(ASKING_NOBODY, *deltas, tools=ALL_TOOLS)


# --- what counts as an effect -----------------------------------------------------------------------------


@pytest.mark.rule("TOOL-9")
@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (streaming(), False),
        (streaming(READING), False),
        (streaming(made_call("write")), False),  # it has not started
        (streaming(WRITING), True),
        (streaming(READING, WRITING), True),
        (streaming(WRITING, succeeded(1)), True),
        (streaming(READING, succeeded(1), made_call("danger")), False),
    ],
)
def test_a_reply_has_had_an_effect_when_a_call_has_started_that_does_not_only_read(
    state: Streaming, kept: bool
) -> None:
    assert is_committed(state.ledger, state.session.settings) is kept


# --- a reply that is kept ---------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-9")
def test_a_reply_is_kept_up_to_its_last_complete_call_and_what_has_started_goes_on() -> None:
    state = streaming(ModelText(ONE, "so"), WRITING, made_call(verdict=None), ModelText(ONE, "and now"))
    reply = OpenReply(ONE, "default", Usage(output=2))
    kept = keep_for_effect(fresh(state), reply, state.pieces)
    (added,) = of_kind(MessageAdded, kept.effects)
    message = a(AssistantMessage, added.message)
    assert (message.state, message.stop, message.usage) == (ReplyState.CANCELLED, None, Usage(output=2))
    assert [type(block) for block in message.content] == [TextBlock, ToolCall, ToolCall]
    assert message.content[0] == TextBlock("so")
    assert ends(kept.effects) == [(2, CANCELLED, SUPERSEDED)]
    assert [entry.status for entry in kept.ledger.entries] == [RUNNING, CANCELLED]
    assert list(kept.session.operations.abandoned[OperationKind.CHECK]) == [check(1)]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-19")
def test_a_call_whose_tool_asks_has_started() -> None:
    state = streaming(WRITING, ToolAsked(run(1), "which?"))
    kept = keep_for_effect(fresh(state), state.reply, state.pieces)
    assert ends(kept.effects) == []


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize(
    ("error", "reason"), [(ErrorClass.AUTH, TurnEndReason.ERROR), (ErrorClass.REFUSED, TurnEndReason.REFUSAL)]
)
def test_the_turn_ends_as_the_failure_says_once_the_runs_have_ended(error: ErrorClass, reason: TurnEndReason) -> None:
    state = streaming(WRITING, READING, made_call())
    following, effects = step(state, failed(error))
    assert named(effects) == ["ReplyFailed", "MessageAdded", "ToolEnded"]
    assert statuses(a(Executing, following)) == [RUNNING, RUNNING, CANCELLED]
    following = after(following, succeeded(2))
    ended, effects = step(following, succeeded(1))
    assert named(effects) == ["CancelTimer", "ToolEnded", "MessageAdded", "ErrorShown", "TurnEnded"]
    assert of_kind(ErrorShown, effects) == [ErrorShown(error, "")]
    assert [end.reason for end in of_kind(TurnEnded, effects)] == [reason]
    assert isinstance(ended, Idle)
    assert [result.status for result in results_of(ended)] == [DONE, DONE, CANCELLED]


@pytest.mark.rule("TOOL-9")
def test_a_kept_reply_whose_runs_have_ended_ends_the_turn_at_once() -> None:
    following, effects = step(streaming(WRITING, succeeded(1)), failed(ErrorClass.AUTH))
    assert named(effects) == ["ReplyFailed", "MessageAdded", "MessageAdded", "ErrorShown", "TurnEnded"]
    assert isinstance(following, Idle)


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("RETRY-1")
@pytest.mark.rule("INFER-11")
def test_a_failure_behind_a_kept_reply_is_recovered_once_its_runs_have_ended() -> None:
    kept, effects = step(streaming(ModelText(ONE, "so"), WRITING), failed(ErrorClass.NETWORK))
    assert named(effects) == ["ReplyFailed", "MessageAdded"]
    following, effects = step(kept, succeeded(1), now_ms=70)
    backoff = a(Backoff, following)
    assert named(effects) == ["CancelTimer", "ToolEnded", "MessageAdded", "RetryScheduled", "StartTimer"]
    assert (backoff.timer.deadline_ms, backoff.turn.recovery.retries) == (5_070, 1)
    again, effects = step(following, fired(backoff.timer.operation))
    (call,) = of_kind(CallModel, effects)
    assert (call.request.reason, call.request.thread) == (RequestReason.ERROR_RETRY, session_of(again).thread)
    roles = ["UserMessage", "AssistantMessage", "ResultMessage"]
    assert [type(message).__name__ for message in call.request.thread] == roles


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CALL-3")
def test_what_depends_on_a_call_that_never_starts_is_unreachable() -> None:
    calls = (WRITING, made_call(provider_id="q"), made_call(provider_id="r", needs=("q",)))
    state = streaming(*calls)
    kept = keep_for_effect(fresh(state), state.reply, state.pieces)
    assert ends(kept.effects) == [(2, CANCELLED, SUPERSEDED), (3, ERROR, None)]


# --- a reply that is discarded ----------------------------------------------------------------------------


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-17")
def test_early_runs_of_a_discarded_reply_are_aborted_and_closed_and_the_others_forgotten() -> None:
    state = streaming(READING, READING, succeeded(2), made_call(verdict=None), made_call())
    assert statuses(state) == [RUNNING, DONE, QUEUED, QUEUED]
    session, effects = outcome(discard_reply(fresh(state, 100)))
    assert named(effects) == ["AbortTool", "StartTimer", "CancelTimer", "ToolEnded"]
    assert effects[0] == AbortTool(run(1), SUPERSEDED)
    assert effects[1] == StartTimer(operation=timer(3), purpose=TimerPurpose.GRACE, deadline_ms=5_100)
    assert ends(effects) == [(1, CANCELLED, SUPERSEDED)]
    assert [held.operation for held in session.held] == [1]
    assert list(session.operations.abandoned[OperationKind.CHECK]) == [check(1)]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-15")
def test_a_failed_reply_with_reads_alone_is_retracted_after_its_runs() -> None:
    state = streaming(ModelText(ONE, "so"), READING)
    following, effects = step(state, failed(ErrorClass.AUTH))
    assert named(effects) == [
        *("ReplyFailed", "AbortTool", "StartTimer", "CancelTimer", "ToolEnded"),
        *("ReplyRetracted", "ErrorShown", "TurnEnded"),
    ]
    assert len(session_of(a(Idle, following)).thread) == 1
    assert effects[0] == ReplyFailed(ONE, ErrorClass.AUTH)


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-5")
def test_that_an_early_run_has_stopped_leaves_the_shown_error_to_be_seen() -> None:
    rest = after(streaming(READING), failed(ErrorClass.AUTH))
    following, effects = step(rest, stopped(1))
    assert named(effects) == ["CancelTimer"]
    assert session_of(following).error == session_of(rest).error
    assert session_of(following).error is not None
    assert session_of(following).held == ()


# --- after a crash ----------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-9")
def test_after_a_crash_early_reads_are_closed_and_nothing_is_left_to_abort() -> None:
    state = streaming(READING, READING, succeeded(2), made_call(verdict=None), made_call())
    session, effects = outcome(discard_dead_reply(fresh(state)))
    assert named(effects) == ["ToolEnded"]
    assert ends(effects) == [(1, CANCELLED, SUPERSEDED)]
    assert session.held == ()
    assert list(session.operations.abandoned[OperationKind.RUN]) == [1]
    assert list(session.operations.abandoned[OperationKind.CHECK]) == [1]
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "ToolEnded", "ReplyRetracted", "CallModel"]
    assert of_kind(ReplyRetracted, effects) == [ReplyRetracted(ONE)]
    assert a(Streaming, following).turn.reason is RequestReason.RESUME


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-9")
def test_after_a_crash_a_reply_with_an_effect_is_kept_and_its_runs_are_restarted_by_their_class() -> None:
    state = streaming(WRITING, made_call(), READING)
    following, effects = step(state, Resumed())
    assert effects[0] == SessionResumed()
    assert named(effects)[1:] == ["MessageAdded", "ToolEnded", *["StartTool", "StartTimer"] * 2]
    assert starts(effects) == [call_id(1), call_id(3)]
    assert [found.runs for found in entries_of(a(Executing, following))] == [2, 0, 2]
    going_on: State = after(following, succeeded(3), broken(4))
    assert a(Streaming, going_on).turn.reason is RequestReason.NEXT_TURN


def test_an_entry_without_a_run_is_answered_and_nothing_is_abandoned() -> None:
    """No call runs without one; the type allows it."""
    state = streaming(READING)
    entry = evolve(state.ledger.entries[0], operation=None)
    ledger = evolve(state.ledger, entries=state.ledger.entries.replace(0, entry))
    session, effects = outcome(discard_dead_reply(drafted(state.session, ledger=ledger)))
    assert (session, named(effects)) == (state.session, ["ToolEnded"])


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
def test_after_a_crash_the_background_runs_of_a_dropped_reply_are_forgotten() -> None:
    state = streaming(READING, succeeded(1, background=True))
    assert len(state.session.held) == 1
    session, effects = outcome(discard_dead_reply(fresh(state)))
    assert (session.held, session.inbox.background, effects) == ((), (), ())
    assert list(session.operations.abandoned[OperationKind.RUN]) == [run(1)]
