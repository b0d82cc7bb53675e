"""`Thinking`: the gates before a request. Entering it asks the model, unless a gate is open or a limit is reached."""

import pytest
from attrs import evolve
from loopkernel.data.choices import ClearMoment, OnBusy
from loopkernel.data.effects import AbortOther, CallModel
from loopkernel.data.events import LimitReached, MessageAdded, Refused, Steered, TurnEnded, WorkCancelled
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import HookOperation, OperationKind
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.policy import ClearResults, Hook, Policy
from loopkernel.data.sessions import Session, Stamp, Turn
from loopkernel.data.states import Cancelled, Finishing, Initial, Streaming, Thinking
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll, Steer
from loopkernel.data.words import (
    CancelReason,
    HookPoint,
    LimitName,
    RefusalReason,
    RequestReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.algorithms.wording import BROKEN_OFF, MISSING_CALLS, NUDGE, REFUSAL, demand_text
from loopkernel.loop.phases.thinking import enter_thinking, on_thinking

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    after,
    at_rest,
    effects_of,
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

TURN = Turn(number=1, opened_ms=0)
GATE = OpenHook(operation=HookOperation(1), hook=Hook(point=HookPoint.BEFORE_MODEL, name="gate", gated=True))


def gated(policy: Policy | None = None) -> Thinking:
    """A turn that waits for a hook before its request."""
    session = at_rest().session if policy is None else at_rest(policy).session
    minted = (0, 0, 0, 0, 1, 0, 0, 0)
    session = evolve(session, operations=evolve(session.operations, minted=minted))
    return Thinking(session=session, stamp=Stamp(3, 5), turn=evolve(TURN, begun=True), gate=GATE)


def entering(session: Session, turn: Turn = TURN) -> Thinking:
    """A turn that is about to ask the model."""
    return Thinking(session=session, stamp=Stamp(3, 5), turn=turn)


@pytest.mark.rule("INFER-1")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("interrupting", [False, True])
def test_while_a_gate_is_open_input_waits_and_a_cancel_ends_the_turn(interrupting: bool) -> None:
    state = gated(Policy(on_busy=OnBusy.INTERRUPT)) if interrupting else gated()
    expected = expected_grid(
        settings="Thinking",
        Say="Streaming" if interrupting else "Thinking",
        Enqueue="Thinking",
        Steer="Thinking",
        CancelAll="Cancelled",
        Disposed="Initial",
        Resumed="Thinking",
        Forked="Idle",
    )
    assert grid(state) == expected


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-2")
def test_a_cancel_at_a_gate_says_so_and_ends_the_turn() -> None:
    following, effects = step(gated(), CancelAll())
    assert effects == (
        AbortOther(OperationKind.HOOK, 1),
        WorkCancelled(CancelReason.USER_CANCELLED),
        TurnEnded(TurnEndReason.USER_ABORT, NO_USAGE),
    )
    assert a(Cancelled, following).reason is CancelReason.USER_CANCELLED
    assert effects_of(gated(), Disposed())[1] == WorkCancelled(CancelReason.DISPOSED)
    assert isinstance(after(gated(), Disposed()), Initial)


@pytest.mark.rule("INPUT-1")
def test_an_interrupting_message_ends_the_turn_and_starts_its_own() -> None:
    following, effects = step(gated(Policy(on_busy=OnBusy.INTERRUPT)), say("instead"))
    cut = ["AbortOther", "WorkCancelled", "TurnEnded"]
    assert named(effects) == [*cut, "InputSettled", "MessageAdded", "CallModel", "StartTimer"]
    assert effects[1] == WorkCancelled(CancelReason.USER_INTERRUPTED)
    assert of_kind(TurnEnded, effects)[0].reason is TurnEndReason.INTERRUPTED
    assert a(Streaming, following).turn.number == 1 + session_of(gated()).counters.turns


@pytest.mark.rule("DELTA-6")
def test_an_interrupting_message_that_was_sent_before_is_a_duplicate() -> None:
    state = gated(Policy(on_busy=OnBusy.INTERRUPT))
    keyed = after(state, Steer(content=text("a"), key="k"))
    assert effects_of(keyed, say("b", "k")) == (Refused(UserAction.SAY, RefusalReason.DUPLICATE, "k"),)


def test_reports_at_a_gate_are_late_but_the_answer_itself() -> None:
    found = grid(gated(), 1)
    assert found["HookAnswered"] == "Streaming"
    reports = ("CorrectionAnswered", "SummaryReady", "ChildEnded", "ToolSucceeded", "ModelText", "TimerFired")
    assert {found[name] for name in reports} == {"refused unknown"}


# --- entering it ----------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-1")
def test_an_open_gate_is_waited_for() -> None:
    assert enter_thinking(gated()) == (gated(), ())


@pytest.mark.rule("INFER-1")
@pytest.mark.rule("LIMIT-1")
@pytest.mark.parametrize(("replies", "ends"), [(1, False), (2, True), (3, True)])
def test_the_turn_limit_is_tested_before_the_request(replies: int, ends: bool) -> None:
    session = at_rest(Policy(max_turns=2)).session
    following, effects = enter_thinking(entering(session, evolve(TURN, replies=replies)))
    if ends:
        assert a(Finishing, following).ending.reason is TurnEndReason.MAX_TURNS
        assert effects == (LimitReached(LimitName.MAX_TURNS),)
    else:
        assert named(effects) == ["CallModel", "StartTimer"]


@pytest.mark.rule("LIMIT-1")
@pytest.mark.rule("INPUT-3")
def test_a_steer_does_not_go_in_where_the_limit_leaves_no_room() -> None:
    session = session_of(after(gated(Policy(max_turns=1)), steer("this way")))
    following, _ = enter_thinking(entering(session, evolve(TURN, replies=1)))
    assert a(Finishing, following).session == session


@pytest.mark.rule("INFER-13")
@pytest.mark.rule("INPUT-3")
def test_a_nudge_and_the_waiting_steers_go_in_before_the_request() -> None:
    session = session_of(after(gated(), steer("left"), steer("right")))
    following, effects = enter_thinking(entering(session, evolve(TURN, reason=RequestReason.NUDGE)))
    assert named(effects) == [
        "MessageAdded",
        *("InputSettled", "MessageAdded", "Steered"),
        *("InputSettled", "MessageAdded", "Steered"),
        "CallModel",
    ]
    messages = [added.message for added in of_kind(MessageAdded, effects)]
    assert [(message.content, message.origin) for message in messages if isinstance(message, UserMessage)] == [
        (text(NUDGE), UserOrigin.NUDGE),
        (text("left"), UserOrigin.STEERED),
        (text("right"), UserOrigin.STEERED),
    ]
    assert [steered.number for steered in of_kind(Steered, effects)] == [1, 2]
    streaming = a(Streaming, following)
    assert (session_of(streaming).inbox.steers, list(session_of(streaming).thread)) == ((), messages)


@pytest.mark.rule("INFER-10", "INFER-11", "INFER-13")
@pytest.mark.parametrize(
    ("reason", "words", "origin"),
    [
        (RequestReason.MISSING_CALLS, MISSING_CALLS, UserOrigin.NUDGE),
        (RequestReason.REFUSAL, REFUSAL, UserOrigin.NUDGE),
        (RequestReason.BROKEN_STREAM_RECOVERY, BROKEN_OFF, UserOrigin.CONTINUATION),
    ],
)
def test_the_model_is_told_why_it_is_asked_again(reason: RequestReason, words: str, origin: UserOrigin) -> None:
    _, effects = enter_thinking(entering(at_rest().session, evolve(TURN, reason=reason)))
    (added,) = of_kind(MessageAdded, effects)
    assert isinstance(added.message, UserMessage)
    assert (added.message.content, added.message.origin) == (text(words), origin)


# For these the model is told something, so that the thread of the request is a longer one.
TOLD = (
    RequestReason.NUDGE,
    RequestReason.MAX_OUTPUT_TOKENS_RECOVERY,
    RequestReason.MISSING_CALLS,
    RequestReason.BROKEN_STREAM_RECOVERY,
    RequestReason.REFUSAL,
)


@pytest.mark.rule("INFER-1")
@pytest.mark.rule("INFER-12")
@pytest.mark.rule("INFER-14")
@pytest.mark.parametrize("reason", [reason for reason in RequestReason if reason not in TOLD])
def test_the_request_says_why_it_is_made_and_under_what(reason: RequestReason) -> None:
    session = at_rest(Policy(model="m", max_output_tokens=77)).session
    following, effects = enter_thinking(entering(session, evolve(TURN, reason=reason)))
    (call,) = of_kind(CallModel, effects)
    streaming = a(Streaming, following)
    assert call.operation == call.request.number == streaming.reply.operation == streaming.ledger.reply == 1
    assert (call.request.reason, call.request.model, call.request.max_output_tokens) == (reason, "m", 77)
    assert (call.request.thread, call.request.tools) == (session.thread, session.settings.tools)
    assert call.request.instructions == session.settings.instructions
    assert streaming.session.operations.minted[OperationKind.MODEL] == 1
    assert (streaming.reply.model, len(streaming.pieces), len(streaming.ledger.entries)) == ("m", 0, 0)


def test_the_handler_itself_leaves_the_request_to_the_entry() -> None:
    state = gated()
    following, effects = on_thinking(state, Context(steer("a"), 9))
    assert isinstance(following, Thinking)
    assert named(effects) == ["InputSettled"]


# --- what goes into a request ---------------------------------------------------------------------------

OWED = Policy(output_tool="finish", output_required=True)


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize(
    ("turn", "told", "forced"),
    [
        (evolve(TURN, reason=RequestReason.NUDGE, demanded=True, forcing=True), demand_text("finish"), "finish"),
        (evolve(TURN, reason=RequestReason.ERROR_RETRY, demanded=True, forcing=True), None, "finish"),
        (evolve(TURN, reason=RequestReason.NUDGE), NUDGE, None),
        (evolve(TURN, reason=RequestReason.NEXT_TURN, demanded=True), None, None),
    ],
    ids=["demanded", "asked again", "nudged", "after the demand"],
)
def test_an_output_that_is_owed_is_demanded_and_its_tool_forced(
    turn: Turn, told: str | None, forced: str | None
) -> None:
    _, effects = enter_thinking(entering(at_rest(OWED).session, turn))
    (call,) = of_kind(CallModel, effects)
    assert (call.request.reason, call.request.forced_tool) == (turn.reason, forced)
    messages = [a(UserMessage, added.message).content for added in of_kind(MessageAdded, effects)]
    assert messages == ([] if told is None else [text(told)])


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("INFER-1")
def test_what_ended_in_the_background_goes_in_first_and_old_results_are_cleared_last() -> None:
    behind = after(working(made_call()), succeeded(1, background=True), succeeded(1, "made"), steer("left"))
    clearing = ClearResults(above=0, keep=0, when=ClearMoment.EACH_REQUEST)
    settings = evolve(session_of(behind).settings, policy=evolve(ASKING_NOBODY, clear_results=clearing))
    session = evolve(session_of(behind), settings=settings)
    _, effects = enter_thinking(entering(session, evolve(TURN, reason=RequestReason.NUDGE)))
    assert named(effects) == [
        *("MessageAdded", "MessageAdded"),
        *("InputSettled", "MessageAdded", "Steered"),
        *("ResultsCleared", "CallModel"),
    ]
    origins = [a(UserMessage, added.message).origin for added in of_kind(MessageAdded, effects)]
    assert origins == [UserOrigin.BACKGROUND_RESULT, UserOrigin.NUDGE, UserOrigin.STEERED]


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_a_cancel_at_a_gate_stops_what_runs_in_the_background() -> None:
    behind = session_of(after(working(made_call()), succeeded(1, background=True)))
    following, effects = step(evolve(gated(), session=behind), CancelAll())
    assert named(effects)[:4] == ["AbortTool", "StartTimer", "AbortOther", "WorkCancelled"]
    assert not any(held.background for held in session_of(following).held)
