"""How a turn is cut short: the reason that the cause gives, the order of the effects, and what stays in the thread."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import AbortTool
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import MessageAdded, ToolEnded, WorkCancelled
from loopkernel.data.ids import MessageId, ReceiptId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Ledger
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage
from loopkernel.data.model_deltas import ModelInput, ModelText
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import Executing, Streaming
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall, DismissError, EditMessage, RetryNow, Say, UserDelta
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TurnEndReason
from loopkernel.loop.algorithms.replies import assemble
from loopkernel.loop.turn.cancelling import (
    Cause,
    cut_calls,
    cut_gates,
    cut_reply,
    cutting,
    edit_refusal,
    end_cut_short,
    reason_of,
)
from loopkernel.testing.strategies.states import streaming_states

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    a,
    after,
    asked,
    at_rest,
    call_id,
    check,
    ends,
    enqueue,
    ledger_of,
    made_call,
    named,
    of_kind,
    run,
    say,
    session_of,
    steer,
    succeeded,
    text,
    working,
)
from tests.kernel.drafts import drafted, fresh, outcome

CAUSES: dict[Cause, tuple[CancelReason, TurnEndReason]] = {
    CancelAll(): (CancelReason.USER_CANCELLED, TurnEndReason.USER_ABORT),
    Disposed(): (CancelReason.DISPOSED, TurnEndReason.DISPOSED),
    say("instead", "k"): (CancelReason.USER_INTERRUPTED, TurnEndReason.INTERRUPTED),
    EditMessage(message=MessageId(1), content=text("instead"), key="k"): (CancelReason.EDITED, TurnEndReason.EDITED),
}


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)
def test_each_cause_has_its_reason_and_its_end(cause: Cause) -> None:
    cancel, reason = CAUSES[cause]
    draft, ending = end_cut_short(drafted(at_rest().session), cause)
    session = draft.session
    assert reason_of(cause) is cancel
    then: NextInput | None = None
    if isinstance(cause, Say | EditMessage):
        replaced = cause.message if isinstance(cause, EditMessage) else None
        then = NextInput(receipt=ReceiptId(1), content=text("instead"), key="k", replaces=replaced)
    assert ending == Ending(reason=reason, cancel=cancel, then=then)
    assert list(session.inbox.keys) == ([] if then is None else ["k"])


@pytest.mark.rule("CANCEL-2")
def test_only_a_released_thread_keeps_the_calls_that_wait_for_a_person() -> None:
    waiting = Ledger(reply=ONE)
    kept = [end_cut_short(drafted(at_rest().session), cause, waiting)[1].waiting for cause in CAUSES]
    assert kept == [None, waiting, None, None]


@pytest.mark.rule("INPUT-5")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
@given(streaming_states())
def test_a_cut_reply_stays_with_what_had_come_and_every_call_is_answered_once(state: Streaming) -> None:
    reason = CancelReason.USER_CANCELLED
    session, effects = outcome(cut_reply(fresh(state), state.reply, state.pieces, reason, ()))
    entries = list(state.ledger.entries)
    added = [effect.message for effect in of_kind(MessageAdded, effects)]
    reply = a(AssistantMessage, added[0])
    assert (reply.state, reply.stop, reply.usage) == (ReplyState.CANCELLED, None, state.reply.usage)
    assert reply.content == assemble(state.pieces, (entry.call for entry in entries), state.reply.model)
    answered = [effect.result.call for effect in of_kind(ToolEnded, effects)]
    assert answered == [entry.call.id for entry in entries if entry.is_open]
    if entries:
        assert [result.call for result in a(ResultMessage, added[1]).results] == [entry.call.id for entry in entries]
    assert len(added) == (2 if entries else 1)
    assert session.usage == state.session.usage.plus(state.reply.usage)
    stops = [name for name in named(effects) if name in STOPS]
    assert [name for name in named(effects) if name != "TellHook"] == [  # who watches is told of each message
        *("AbortModel", "ReplyAborted", "MessageAdded"),
        *stops,
        *["ToolEnded"] * len(answered),
        *(["MessageAdded"] if entries else []),
        "WorkCancelled",
    ]
    behind = [held.operation for held in state.session.held if held.background]
    running = [entry.operation for entry in entries if entry.has_run and isinstance(entry.given, Json)]
    assert [abort.operation for abort in of_kind(AbortTool, effects)] == [*behind, *running]


# The runs are aborted, each within its grace time; then the hooks.
STOPS = ("AbortTool", "StartTimer", "ChildFinished", "AbortOther", "CancelTimer")


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-2")
def test_what_a_cut_reply_was_billed_for_is_kept_beside_its_id() -> None:
    state = asked()
    billed = OpenReply(ONE, "default", Usage(input=4))
    session, _ = outcome(cut_reply(fresh(state), billed, state.pieces, CancelReason.DISPOSED, ()))
    index = session.operations.abandoned_model_index(ONE)
    assert index == 0
    assert session.operations.abandoned_models[index].counted == Usage(input=4)


@pytest.mark.rule("INPUT-5")
def test_a_half_written_call_is_dropped() -> None:
    state = asked(at_rest().session.settings.policy, ModelText(ONE, "so"), ModelInput(ONE, '{"pa'))
    session, effects = outcome(cut_reply(fresh(state), state.reply, state.pieces, CancelReason.USER_CANCELLED, ()))
    assert a(AssistantMessage, session.thread.messages[1]).content == text("so")
    assert named(effects) == ["AbortModel", "ReplyAborted", "MessageAdded", "WorkCancelled"]


# --- calls that are cut ---------------------------------------------------------------------------------

CALLS = (made_call(), made_call("asks"), made_call(verdict=None))


@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("reason", [CancelReason.USER_CANCELLED, CancelReason.USER_INTERRUPTED])
def test_cut_calls_leave_no_check_no_run_and_no_question_open(reason: CancelReason) -> None:
    state = working(*CALLS, tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, approval_timeout_ms=9))
    draft, waiting = cut_calls(fresh(state, 0), reason)
    session, effects = outcome(draft)
    assert waiting is None
    assert named(effects) == [
        *("AbortTool", "StartTimer", "CancelTimer", "CancelTimer"),
        *["ToolEnded"] * 3,
        *("MessageAdded", "WorkCancelled"),
    ]
    assert ends(effects) == [(position, CallStatus.CANCELLED, reason) for position in (1, 2, 3)]
    assert [list(kind) for kind in session.operations.abandoned[1:3]] == [[check(1)], [run(1)]]
    assert [result.call.position for result in a(ResultMessage, session.thread.messages[2]).results] == [1, 2, 3]


@pytest.mark.rule("CANCEL-2")
def test_a_release_answers_all_but_the_calls_that_wait_for_a_person() -> None:
    state = working(*CALLS, tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, approval_timeout_ms=9))
    draft, waiting = cut_calls(fresh(state, 0), CancelReason.DISPOSED)
    session, effects = outcome(draft)
    assert named(effects) == [
        *("AbortTool", "StartTimer", "CancelTimer"),
        *("ToolEnded", "ToolEnded"),
        *("CancelTimer", "WorkCancelled"),
    ]
    assert ends(effects) == [(position, CallStatus.CANCELLED, CancelReason.DISPOSED) for position in (1, 3)]
    assert waiting is not None
    assert (waiting.unanswered, waiting.waiting, waiting.running, waiting.checking) == (1, 1, 0, 0)
    asked_about = waiting.entries[1]
    assert (asked_about.status, asked_about.person.wait) == (CallStatus.BLOCKED_ON_USER, ApprovalWait())
    assert asked_about.timer is None  # nobody's time runs in a released thread
    assert len(session.thread) == 2  # their results follow when all are answered


@pytest.mark.rule("CANCEL-2")
def test_a_release_answers_a_call_whose_tool_has_asked_since_it_runs() -> None:
    state = after(working(made_call(), made_call(), tools=ALL_TOOLS), ToolAsked(run(1), "which?"))
    draft, waiting = cut_calls(drafted(session_of(state), ledger=ledger_of(state)), CancelReason.DISPOSED)
    session, effects = outcome(draft)
    assert waiting is None
    assert [place for place, _, _ in ends(effects)] == [1, 2]
    assert [held.operation for held in session.held] == [run(1), run(2)]


# --- what runs in the background ------------------------------------------------------------------------

BEHIND = a(Executing, after(working(made_call(), made_call()), succeeded(1, background=True)))


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_what_runs_in_the_background_is_aborted_before_all_else() -> None:
    draft, _ = cut_calls(fresh(BEHIND, 7), CancelReason.USER_CANCELLED)
    session, effects = outcome(draft)
    assert [abort.operation for abort in of_kind(AbortTool, effects)] == [run(1), run(2)]
    assert all(held.grace is not None and held.grace.deadline_ms == 7 + 5_000 for held in session.held)
    (end,) = session.inbox.background
    assert end.call == call_id(1)
    session, effects = outcome(cut_gates(drafted(BEHIND.session, 7), CancelReason.USER_CANCELLED))
    assert named(effects) == ["AbortTool", "StartTimer", "WorkCancelled"]
    assert not any(held.background for held in session.held)


@pytest.mark.rule("TOOL-20")
def test_a_cut_without_calls_stops_what_runs_in_the_background_too() -> None:
    streaming = a(Streaming, after(BEHIND, succeeded(2)))
    session, effects = outcome(
        cut_reply(fresh(streaming), streaming.reply, streaming.pieces, CancelReason.USER_CANCELLED, ())
    )
    assert named(effects) == [
        *("AbortModel", "ReplyAborted", "MessageAdded"),
        *("AbortTool", "StartTimer", "WorkCancelled"),
    ]
    assert not any(held.background for held in session.held)


@pytest.mark.rule("CANCEL-2")
def test_a_gate_that_is_cut_says_so_alone() -> None:
    session = at_rest().session
    assert outcome(cut_gates(drafted(session), CancelReason.DISPOSED)) == (
        session,
        (WorkCancelled(CancelReason.DISPOSED),),
    )


# --- what cuts a turn short -------------------------------------------------------------------------------

OF_USER: tuple[UserDelta, ...] = (
    *(say("a", "k"), enqueue("a"), steer("a"), CancelAll(), CancelCall(call_id(1)), RetryNow(), DismissError()),
    *(EditMessage(message=MessageId(1), content=(), key="k"), EditMessage(message=MessageId(2), content=())),
)


@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("on_busy", OnBusy)
@pytest.mark.parametrize("delta", OF_USER, ids=lambda delta: type(delta).__name__)
def test_only_a_cancel_an_edit_that_applies_and_an_interrupting_message_cut_a_turn_short(
    delta: UserDelta, on_busy: OnBusy
) -> None:
    session = asked(evolve(ASKING_NOBODY, on_busy=on_busy)).session
    cuts = isinstance(delta, CancelAll) or (isinstance(delta, Say) and on_busy is OnBusy.INTERRUPT)
    cuts = cuts or (isinstance(delta, EditMessage) and delta.message == 1)
    assert cutting(session, delta) == (delta if cuts else None)
    used = evolve(session, inbox=evolve(session.inbox, keys=session.inbox.keys.add("k")))
    assert cutting(used, delta) == (delta if isinstance(delta, CancelAll) else None)


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("DELTA-6")
@pytest.mark.parametrize("number", [-1, 0, 1, 2, 9])
@pytest.mark.parametrize("key", [None, "new", "used"])
def test_an_edit_is_refused_as_sent_before_or_as_of_no_message_of_the_user(number: int, key: str | None) -> None:
    session = session_of(after(asked(ASKING_NOBODY, ModelText(ONE, "a"), steer("x", "used")), CancelAll()))
    refused = edit_refusal(session, EditMessage(message=MessageId(number), content=(), key=key))
    unknown = None if number == 1 else RefusalReason.UNKNOWN
    assert refused is (RefusalReason.DUPLICATE if key == "used" else unknown)
