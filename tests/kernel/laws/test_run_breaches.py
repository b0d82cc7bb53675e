"""What the laws say of logs, states and turns that are not as they must be."""

import pytest
from attrs import evolve
from loopkernel.data.effects import (
    CancelTimer,
    StartTimer,
)
from loopkernel.data.endings import Ending
from loopkernel.data.events import (
    LimitReached,
    RunStarted,
    SessionResumed,
    ThreadRewritten,
    TurnEnded,
)
from loopkernel.data.ids import (
    TimerOperation,
)
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import Backoff, Finishing, State, Streaming, Thinking
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.user_deltas import Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CallStatus,
    ErrorClass,
    LimitName,
    TimerPurpose,
    TurnEndReason,
)
from loopkernel.judging import check_trace
from loopkernel.laws.views import turn_of
from loopkernel.replaying import StepRecord

from tests.kernel.laws.tampering import (
    OTHER,
    USAGE,
    Case,
    Steps,
    after,
    at,
    changed,
    findings,
    less,
    more,
    only,
    request_of,
    session_in,
    with_entry,
    with_ledger,
    with_session,
)
from tests.kernel.played import PLAYED

# --- states, and what is written of them ------------------------------------------------------------------------


def _unwritable(session: Session) -> Session:
    return evolve(session, settings=evolve(session.settings, instructions="\ud800"))


def _shaped_otherwise(session: Session) -> Session:
    return evolve(session, thread=evolve(session.thread, messages=Vector(0, 1)))


def _true_for_one(state: State) -> State:
    other: State = evolve(state, stamp=evolve(state.stamp, version=True))
    return other


LOGS = (
    Case(
        "WRITE-AHEAD",
        "the step does not begin where the one before it ended",
        lambda: (PLAYED["reads"][0], *PLAYED["reads"][2:]),
    ),
    Case(
        "WRITE-AHEAD",
        "Idle cannot be written and read back",
        lambda: changed("reads", Acquired, with_session(_unwritable)),
    ),
    Case(
        "WRITE-AHEAD",
        "Idle is another state when it is written and read back",
        lambda: changed("reads", Acquired, with_session(_shaped_otherwise)),
    ),
    Case(
        "WRITE-AHEAD",
        "the ledger of reply 1 holds call 9.1 at place 1",
        lambda: changed(
            "reads", ToolChecked, with_entry(0, lambda entry: evolve(entry, call=evolve(entry.call, id=OTHER)))
        ),
    ),
    Case(
        "WRITE-AHEAD",
        "call 1.1 is done and has no result",
        lambda: changed("reads", ToolChecked, with_entry(0, lambda entry: evolve(entry, status=CallStatus.DONE))),
    ),
    Case(
        "WRITE-AHEAD",
        "the ledger counts 5 calls as running, and holds 1",
        lambda: changed("reads", ToolChecked, with_ledger(lambda ledger: evolve(ledger, running=5))),
    ),
    Case(
        "PURE",
        "Acquired in Initial leads to another state when it is taken again",
        lambda: changed("reads", Acquired, with_session(lambda session: evolve(session, last_model="m"))),
    ),
    Case(
        "PURE",
        "Created in Initial gives other bytes when it is taken again",
        lambda: changed("reads", Created, after(_true_for_one)),
    ),
    Case(
        "MIRROR",
        "the client holds 0 messages, not the kernel's 1",
        lambda: changed("reads", Say, more(ThreadRewritten(()))),
    ),
)


# --- turns ------------------------------------------------------------------------------------------------------


def _told_as_limit() -> Steps:
    return changed("talk", ModelCompleted, more(LimitReached(LimitName.MAX_TURNS)))


def _finishing(state: State) -> State:
    return Finishing(session=session_in(state), stamp=state.stamp, turn=_turn(state), ending=Ending(reason=STOPPED))


def _thinking(state: State) -> State:
    return Thinking(session=session_in(state), stamp=state.stamp, turn=_turn(state))


def _backoff(state: State, deadline_ms: int = 7_000) -> State:
    return Backoff(
        session=session_in(state),
        stamp=state.stamp,
        turn=_turn(state),
        timer=Timer(TimerOperation(1), TimerPurpose.RETRY, deadline_ms),
        error=ErrorClass.SERVER,
    )


def _turn(state: State) -> Turn:
    turn = turn_of(state)
    assert turn is not None
    return turn


STOPPED = TurnEndReason.MODEL_STOP
TIMER = StartTimer(operation=TimerOperation(1), purpose=TimerPurpose.RETRY, deadline_ms=5_000)

TURNS = (
    Case(
        "BUDGET",
        "max_turns is said to be reached after 1 replies, and is 100",
        lambda: changed("reads", ModelCompleted, more(LimitReached(LimitName.MAX_TURNS))),
    ),
    Case(
        "PROGRESS",
        "the run is said to start a second time",
        lambda: changed("reads", Acquired, more(RunStarted("s"))),
    ),
    Case(
        "PROGRESS",
        "SessionResumed comes before the run is said to start",
        lambda: changed("reads", Created, only(SessionResumed(), RunStarted("s"))),
    ),
    Case(
        "PROGRESS",
        "a turn ends as model_stop, and none is open",
        lambda: changed("reads", Acquired, more(TurnEnded(STOPPED, USAGE))),
    ),
    Case(
        "PROGRESS",
        "and the run has used",
        lambda: changed("reads", Acquired, more(TurnEnded(STOPPED, USAGE))),
    ),
    Case(
        "PROGRESS",
        "request 1 follows, though the model has stopped by itself",
        lambda: changed("talk", ModelCompleted, lambda step: _asked_again(step)),
    ),
    Case(
        "PROGRESS",
        "the state is Executing, and its turn has ended",
        lambda: changed("reads", ModelCompleted, more(TurnEnded(STOPPED, USAGE))),
    ),
    Case(
        "PROGRESS",
        "the state is Thinking, and nothing that it waits for is under way",
        lambda: changed("reads", Say, after(_thinking)),
    ),
    Case(
        "PROGRESS",
        "the state is Finishing, and nothing that it waits for is under way",
        lambda: changed("reads", Say, after(_finishing)),
    ),
    Case(
        "PROGRESS",
        "the state is Executing, and nothing that it waits for is under way",
        lambda: changed(
            "reads", ModelCompleted, with_ledger(lambda ledger: evolve(ledger, entries=Vector(), unanswered=0))
        ),
    ),
    Case(
        "TIMER-DATA",
        "timer 1 (retry) is started, but the state has no such deadline",
        lambda: changed("reads", Say, lambda step: more(TIMER)(after(_backoff)(step))),
    ),
    Case(
        "TIMER-DATA",
        "timer 1 is closed, but the state still waits for it",
        lambda: changed("reads", Say, lambda step: more(CancelTimer(TimerOperation(1)))(after(_backoff)(step))),
    ),
    Case(
        "TIMER-DATA",
        "timer 1 (retry) is no longer waited for, and is not closed",
        lambda: _fired(TimerOperation(2)),
    ),
    Case(
        "TIMER-DATA",
        "timer 2 is not pending, and yet it does something",
        lambda: _fired(TimerOperation(2)),
    ),
)


def _asked_again(step: StepRecord) -> StepRecord:
    """The reply ends by itself, and another request is made in the same turn."""
    ended = less(TurnEnded)(step)
    return more(request_of("talk"))(ended)


def _fired(timer: TimerOperation) -> Steps:
    """A timer fires while a retry waits for timer 1, and is not refused."""
    waiting = changed("reads", Say, lambda step: less(StartTimer)(after(_backoff)(step)))
    state = waiting[-1].after
    streaming = PLAYED["reads"][at(PLAYED["reads"], Say)].after
    assert isinstance(streaming, Streaming)
    asked = evolve(streaming, silence=None)
    return (*waiting, StepRecord(state, Context(TimerFired(timer), 7_000), asked, (CancelTimer(timer),)))


CASES = (*LOGS, *TURNS)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_the_law_says_what_is_wrong(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in detail for detail in told), told


def test_the_timer_that_is_waited_for_may_fire() -> None:
    told = [breach.law for breach in check_trace(_fired(TimerOperation(1))).breaches]
    assert "TIMER-DATA" not in told


def test_a_timer_that_stands_in_state_may_start() -> None:
    timer = evolve(TIMER, deadline_ms=7_000)
    started = changed("reads", Say, lambda step: more(timer)(less(StartTimer)(after(_backoff)(step))))
    assert findings(started, "TIMER-DATA") == []
