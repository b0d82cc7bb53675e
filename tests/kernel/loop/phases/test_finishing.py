"""`Finishing`: every turn ends here, once; and where the session goes from there."""

import pytest
from attrs import evolve
from loopkernel.data.choices import Lifetime, OnBusy
from loopkernel.data.effects import AbortOther, TellHook
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import Dequeued, MessageAdded, Queued, TurnEnded, WorkCancelled
from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import CorrectionOperation, HookOperation, OperationKind, QueueNumber, ReceiptId
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.sessions import Session, Stamp, Turn
from loopkernel.data.states import BeforeEnd, Cancelled, Done, Finishing, Idle, Initial, State, Streaming, Thinking
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall
from loopkernel.data.words import CancelReason, ErrorClass, HookPoint, RequestReason, TurnEndReason
from loopkernel.loop.phases.finishing import enter_finishing

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    TASK,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
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
    working,
)
from tests.kernel.grids import expected_grid, grid

TURN = Turn(number=1, opened_ms=0, reason=RequestReason.NEXT_TURN)
NATURAL = Ending(reason=TurnEndReason.MODEL_STOP, natural=True, gated=True)
FAILED = Ending(reason=TurnEndReason.ERROR)
TOOL_FINAL = Ending(reason=TurnEndReason.TOOL_FINAL, natural=True)
CUT = Ending(reason=TurnEndReason.USER_ABORT, cancel=CancelReason.USER_CANCELLED)
RELEASED = Ending(reason=TurnEndReason.DISPOSED, cancel=CancelReason.DISPOSED)
INTERRUPTED = Ending(
    reason=TurnEndReason.INTERRUPTED,
    cancel=CancelReason.USER_INTERRUPTED,
    then=NextInput(receipt=ReceiptId(7), content=text("instead"), key="k"),
)
ENDINGS = (NATURAL, TOOL_FINAL, FAILED, CUT, RELEASED, INTERRUPTED)
endings = pytest.mark.parametrize("how", ENDINGS, ids=[how.reason.value for how in ENDINGS])


def waiting(policy: Policy = ASKING_NOBODY, *, steered: bool = False, queued: bool = False) -> Session:
    """The session of a turn in progress, with input that waits."""
    state: State = asked(policy)
    state = after(state, steer("left")) if steered else state
    state = after(state, enqueue("next")) if queued else state
    return evolve(session_of(state), usage=Usage(input=1))


def ending(session: Session, how: Ending, replies: int = 1) -> Finishing:
    """A turn that ends so."""
    return Finishing(session=session, stamp=Stamp(5, 9), turn=evolve(TURN, replies=replies), ending=how)


def gated(policy: Policy = ASKING_NOBODY, *, correcting: bool = False) -> Finishing:
    """A turn that waits for a gate before it ends."""
    session = at_rest(policy).session
    kind = OperationKind.CORRECTION if correcting else OperationKind.HOOK
    operations, _ = session.operations.mint(kind)
    hook = OpenHook(operation=HookOperation(1), hook=Hook(point=HookPoint.STOP, name="gate", gated=True))
    return Finishing(
        session=evolve(session, operations=operations),
        stamp=Stamp(5, 9),
        turn=TURN,
        ending=NATURAL,
        gate=OpenCorrection(CorrectionOperation(1)) if correcting else hook,
    )


# --- while a gate is open -------------------------------------------------------------------------------


@pytest.mark.rule("INFER-6")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("correcting", [False, True])
@pytest.mark.parametrize("interrupting", [False, True])
def test_while_a_gate_is_open_the_turn_has_not_ended(interrupting: bool, correcting: bool) -> None:
    policy = Policy(on_busy=OnBusy.INTERRUPT if interrupting else OnBusy.QUEUE)
    expected = expected_grid(
        settings="Finishing",
        Say="Streaming" if interrupting else "Finishing",
        Enqueue="Finishing",
        Steer="Finishing",
        CancelAll="Cancelled",
        Disposed="Initial",
        Resumed="Finishing",
        Forked="Idle",
    )
    assert grid(gated(policy, correcting=correcting)) == expected
    assert enter_finishing(gated(policy, correcting=correcting)) == (gated(policy, correcting=correcting), ())


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-2")
def test_a_cancel_at_a_gate_ends_the_turn_as_cancelled() -> None:
    following, effects = step(gated(), CancelAll())
    assert effects[:2] == (AbortOther(OperationKind.HOOK, 1), WorkCancelled(CancelReason.USER_CANCELLED))
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.USER_ABORT]
    assert a(Cancelled, following).reason is CancelReason.USER_CANCELLED
    correcting = effects_of(gated(correcting=True), Disposed())
    assert correcting[:2] == (AbortOther(OperationKind.CORRECTION, 1), WorkCancelled(CancelReason.DISPOSED))


@pytest.mark.rule("CANCEL-1")
def test_a_cancel_between_the_hooks_of_the_end_tells_those_that_are_left_and_only_observe() -> None:
    left = Hook(point=HookPoint.AFTER_INVOCATION, name="last")
    last = OpenHook(operation=HookOperation(1), hook=evolve(left, name="first", gated=True), left=(left,))
    told = effects_of(evolve(gated(), passed=BeforeEnd.HOOKS, gate=last), CancelAll())
    assert [effect.context.name for effect in of_kind(TellHook, told)] == ["last"]
    correcting = evolve(gated(correcting=True), passed=BeforeEnd.HOOKS)
    assert of_kind(TellHook, effects_of(correcting, CancelAll())) == []
    assert of_kind(TurnEnded, effects_of(correcting, CancelAll())) != []


@pytest.mark.rule("INPUT-1")
def test_an_interruption_at_a_gate_starts_its_own_turn() -> None:
    effects = effects_of(gated(Policy(on_busy=OnBusy.INTERRUPT)), say("instead"))
    cut = ["AbortOther", "WorkCancelled", "TurnEnded"]
    assert named(effects) == [*cut, "InputSettled", "MessageAdded", "CallModel", "StartTimer"]


# --- the end of a turn ----------------------------------------------------------------------------------


@pytest.mark.rule("STATE-8")
@pytest.mark.rule("STATE-4")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INFER-6")
@pytest.mark.rule("CANCEL-2")
@endings
@pytest.mark.parametrize("lifetime", Lifetime)
@pytest.mark.parametrize("queued", [False, True])
def test_where_a_turn_leads_follows_from_how_it_ended(how: Ending, lifetime: Lifetime, queued: bool) -> None:
    session = waiting(Policy(lifetime=lifetime), queued=queued)
    following, effects = enter_finishing(ending(session, how))
    assert [effect for effect in effects if isinstance(effect, TurnEnded)] == [TurnEnded(how.reason, Usage(input=1))]
    assert effects[0] == TurnEnded(how.reason, Usage(input=1))
    assert session_of(following).last_end is how.reason
    kept = 1 if queued else 0
    if how is INTERRUPTED:
        expected: type = Thinking
    elif how is RELEASED:
        expected = Initial
    elif lifetime is Lifetime.TASK:
        expected, kept = Done, 0
    elif how.natural and queued:
        expected, kept = Thinking, 0
    else:
        expected = Cancelled if how is CUT else Idle
    assert type(following) is expected
    assert len(session_of(following).inbox.queue) == kept


@pytest.mark.rule("INPUT-2")
def test_only_the_oldest_is_taken() -> None:
    session = session_of(after(asked(), enqueue("first"), enqueue("second")))
    following, effects = enter_finishing(ending(session, TOOL_FINAL))
    assert named(effects) == ["TurnEnded", "Dequeued", "InputSettled", "MessageAdded"]
    assert of_kind(Dequeued, effects) == [Dequeued(QueueNumber(1))]
    assert [queued.number for queued in session_of(following).inbox.queue] == [2]
    turn = a(Thinking, following).turn
    assert (turn.number, turn.opened_ms, turn.reason, turn.replies) == (2, 9, RequestReason.USER, 0)


@pytest.mark.rule("INPUT-1")
def test_what_interrupted_is_asked_before_the_queue() -> None:
    following, effects = enter_finishing(ending(waiting(queued=True), INTERRUPTED))
    (added,) = of_kind(MessageAdded, effects)
    assert a(UserMessage, added.message).content == text("instead")
    assert a(UserMessage, added.message).receipt == 7
    assert len(session_of(following).inbox.queue) == 1


@pytest.mark.rule("INFER-6")
@pytest.mark.rule("INPUT-3")
@endings
@pytest.mark.parametrize("room", [False, True])
def test_a_waiting_steer_keeps_only_a_natural_end_of_the_model_open(how: Ending, room: bool) -> None:
    session = waiting(Policy(max_turns=2), steered=True, queued=True)
    following, effects = enter_finishing(ending(session, how, replies=1 if room else 2))
    if how is NATURAL and room:
        assert (effects, session_of(following)) == ((), session)
        assert a(Thinking, following).turn == evolve(TURN, replies=1, reason=RequestReason.USER)
        return
    assert named(effects)[:3] == ["TurnEnded", "InputSettled", "Queued"]
    assert of_kind(Queued, effects) == [Queued(QueueNumber(2))]
    first_in_line = [QueueNumber(2), QueueNumber(1)]
    if how in (NATURAL, TOOL_FINAL):
        assert of_kind(Dequeued, effects) == [Dequeued(first_in_line.pop(0))]
    assert [queued.number for queued in session_of(following).inbox.queue] == first_in_line
    assert session_of(following).inbox.steers == ()


@pytest.mark.rule("INFER-6")
def test_a_steer_is_asked_about_even_after_the_last_reply() -> None:
    state = after(asked(), steer("left"), ModelText(ONE, "done"))
    following, effects = step(state, completed())
    assert of_kind(TurnEnded, effects) == []
    assert a(Streaming, following).turn.number == 1


@pytest.mark.rule("STATE-8")
@pytest.mark.rule("INFER-6")
def test_a_task_ends_although_something_is_queued() -> None:
    state = after(asked(TASK), enqueue("next"))
    assert isinstance(after(state, ModelText(ONE, "done"), completed()), Done)
    assert isinstance(after(state, failed(ErrorClass.AUTH)), Done)


@pytest.mark.rule("STATE-8")
def test_a_session_rests_after_each_turn() -> None:
    assert isinstance(after(asked(), failed(ErrorClass.AUTH), say(), failed(ErrorClass.AUTH, reply=2)), Idle)


# --- runs that outlast the turn -------------------------------------------------------------------------

BEHIND = session_of(after(working(made_call()), succeeded(1, background=True)))
LEASED = session_of(after(working(made_call(), made_call()), CancelCall(call_id(1))))


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("STATE-7")
@pytest.mark.parametrize("session", [BEHIND, LEASED], ids=["background", "aborted"])
def test_a_task_that_is_over_keeps_no_run_and_a_session_does(session: Session) -> None:
    rest, silent = enter_finishing(ending(session, TOOL_FINAL))
    assert (session_of(rest).held, named(silent)) == (session.held, ["TurnEnded"])
    task = evolve(session, settings=evolve(session.settings, policy=TASK))
    done, effects = enter_finishing(ending(task, TOOL_FINAL))
    assert session_of(a(Done, done)).held == ()
    assert named(effects) == ["TurnEnded", "AbortTool" if session is BEHIND else "CancelTimer"]


@pytest.mark.rule("CANCEL-2")
def test_a_released_thread_keeps_the_calls_that_wait_for_a_person() -> None:
    ledger = asking(made_call("asks")).ledger
    released, _ = enter_finishing(ending(waiting(), evolve(RELEASED, waiting=ledger)))
    assert a(Initial, released).ledger is ledger
    gone, _ = enter_finishing(ending(waiting(), RELEASED))
    assert a(Initial, gone).ledger is None


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_a_cancel_at_a_gate_stops_what_runs_in_the_background() -> None:
    state = evolve(gated(), session=BEHIND)
    following, effects = step(state, CancelAll())
    assert named(effects)[:4] == ["AbortTool", "StartTimer", "AbortOther", "WorkCancelled"]
    assert not any(held.background for held in session_of(following).held)
    by_one = step(state, CancelCall(call_id(1)))
    assert (type(by_one.next), named(by_one.effects)) == (Finishing, ["AbortTool", "StartTimer"])
