"""What the laws say of retries, limits, recoveries, edits and forks that are not as they must be."""

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import AbortTool, CallModel, CheckCall, Effect, Request, StartTool
from loopkernel.data.events import (
    ApprovalAsked,
    Edited,
    InputSettled,
    LimitReached,
    LineageForked,
    RetryScheduled,
    ThreadCut,
    TurnEnded,
)
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    MessageId,
    ModelOperation,
    OperationKind,
    ReceiptId,
    RunOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.sessions import Session
from loopkernel.data.states import Done, Idle, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.user_deltas import EditMessage, RetryNow, Say
from loopkernel.data.words import CallStatus, CancelReason, InputFate, LimitName, RequestReason, TurnEndReason
from loopkernel.judging import KERNEL
from loopkernel.laws.judging import judge_run
from loopkernel.laws.retry_law import base_delay_ms
from loopkernel.loop.algorithms.retry import delay_ms
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord

from tests.kernel.laws.tampering import (
    CALL,
    Case,
    after,
    changed,
    ended_as,
    findings,
    instead,
    less,
    more,
    session_in,
    with_entry,
    with_session,
)
from tests.kernel.played import PLAYED

Change = Callable[[StepRecord], StepRecord]
CHECK = CheckCall(operation=CheckOperation(99), call=CALL, tool="read", input=Json.of({}))
START = StartTool(
    operation=RunOperation(99), call=CallId(ModelOperation(1), 3), run=1, tool="read", input=Json.of({}), key="k"
)


def first(*effects: Effect) -> Change:
    """The step with these effects before its own."""
    return lambda step: evolve(step, effects=(*effects, *step.effects))


def before_end(*effects: Effect) -> Change:
    """The step with these effects before the end of its turn."""

    def change(step: StepRecord) -> StepRecord:
        place = next(place for place, effect in enumerate(step.effects) if isinstance(effect, TurnEnded))
        return evolve(step, effects=(*step.effects[:place], *effects, *step.effects[place:]))

    return change


def ends_as(reason: TurnEndReason) -> Change:
    """The step whose turn ends for another reason."""
    return instead(lambda effect: evolve(effect, reason=reason) if isinstance(effect, TurnEnded) else effect)


def asks(change: Callable[[Request], Request]) -> Change:
    """The step whose request is another."""
    return instead(lambda one: evolve(one, request=change(one.request)) if isinstance(one, CallModel) else one)


def waits(delay_ms: int) -> Change:
    """The step whose retry is said to wait otherwise."""
    return instead(lambda one: evolve(one, delay_ms=delay_ms) if isinstance(one, RetryScheduled) else one)


def numbered(attempt: int) -> Change:
    """The step whose retry has another number."""
    return instead(lambda one: evolve(one, attempt=attempt) if isinstance(one, RetryScheduled) else one)


def under(change: Callable[[Policy], Policy]) -> Change:
    """The step with another policy after it."""

    def apply(session: Session) -> Session:
        return evolve(session, settings=evolve(session.settings, policy=change(session.settings.policy)))

    return with_session(apply)


def request_in(script: str) -> CallModel:
    """The first request of the run."""
    return next(effect for step in PLAYED[script] for effect in step.effects if isinstance(effect, CallModel))


def asked_twice(step: StepRecord) -> StepRecord:
    """The step whose request is made twice."""
    return more(*(effect for effect in step.effects if isinstance(effect, CallModel)))(step)


def earlier(state: State) -> State:
    """The state some time before."""
    other: State = evolve(state, stamp=evolve(state.stamp, now_ms=state.stamp.now_ms - 100))
    return other


def idle(state: State) -> State:
    """The session, at rest."""
    return Idle(session=session_in(state), stamp=state.stamp)


def done(state: State) -> State:
    """The run is over."""
    return Done(session=session_in(state), stamp=state.stamp, reason=TurnEndReason.ERROR)


RETRIES = (
    Case(
        "RETRY-LAW",
        "retry 2 follows 0 retries of the same model",
        lambda: changed("retried", ModelFailed, numbered(2)),
    ),
    Case(
        "RETRY-LAW",
        "a request leads to a retry, and none has failed",
        lambda: changed("reads", Say, more(RetryScheduled(1, 1))),
    ),
    Case(
        "RETRY-LAW",
        "the retries have waited 9000000 ms together, more than policy allows",
        lambda: changed("retried", ModelFailed, waits(9_000_000)),
    ),
    Case(
        "RETRY-LAW",
        "request 7 asks model other, and second is due",
        lambda: changed("retried", ModelFailed, asks(lambda request: evolve(request, model="other")), 4),
    ),
    Case(
        "RETRY-LAW",
        "request 7 follows a failure, and its reason is user",
        lambda: changed("retried", ModelFailed, asks(lambda request: evolve(request, reason=RequestReason.USER)), 4),
    ),
    Case(
        "RETRY-LAW",
        "the failure server ends the turn as refusal",
        lambda: changed("retried", ModelFailed, ends_as(TurnEndReason.REFUSAL), 7),
    ),
    Case(
        "RETRY-LAW",
        "the failure server is not recovered, and the run ends with it",
        lambda: changed("retried", ModelFailed, after(done), 7),
    ),
    Case(
        "RETRY-LAW",
        "the failure bad_request is not recovered, and the run goes on",
        lambda: changed("errors_shown", ModelFailed, after(idle), 3),
    ),
    Case(
        "RETRY-LAW",
        "request 1 is given up after 400 ms of silence, sooner than policy says",
        lambda: changed("silent", TimerFired, after(earlier), 1),
    ),
)

LIMITS = (
    Case(
        "BUDGET",
        "request 1 is made, though a limit ends the turn",
        lambda: changed("timed_turn", ToolSucceeded, first(request_in("timed_turn"))),
    ),
    Case(
        "BUDGET",
        "call 1.3 (read) starts, though a limit ends the turn",
        lambda: changed("timed_turn", ToolSucceeded, first(START)),
    ),
    Case(
        "BUDGET",
        "call 1.1 is put to a person, though a limit ends the turn",
        lambda: changed("timed_turn", ToolSucceeded, first(ApprovalAsked(CALL))),
    ),
    Case(
        "BUDGET",
        "tokens is said to be reached, after another limit was",
        lambda: changed("timed_turn", ToolSucceeded, first(LimitReached(LimitName.TOKENS))),
    ),
    Case(
        "BUDGET",
        "a limit was reached, and the turn ends as error",
        lambda: changed("timed_turn", ToolSucceeded, ends_as(TurnEndReason.ERROR)),
    ),
    Case(
        "BUDGET",
        "run 2 is aborted for a limit, and not awaited",
        lambda: changed("timed_turn", ToolFailed, more(AbortTool(RunOperation(2), CancelReason.LIMIT))),
    ),
    Case(
        "BUDGET",
        "call 1.2 has not started, and waits on, though a limit ends the turn",
        lambda: changed(
            "timed_turn",
            ToolFailed,
            with_entry(1, lambda entry: evolve(entry, status=CallStatus.QUEUED, runs=0)),
        ),
    ),
    Case(
        "BUDGET",
        "max_turns is said to be reached, though tokens is spent, which goes first",
        lambda: changed("budgeted", RetryNow, first(LimitReached(LimitName.MAX_TURNS))),
    ),
    Case(
        "BUDGET",
        "tool_calls is said to be reached after 0 calls",
        lambda: changed("reads", Say, more(LimitReached(LimitName.TOOL_CALLS))),
    ),
    Case(
        "BUDGET",
        "cost is said to be reached, and is not",
        lambda: changed("reads", Say, more(LimitReached(LimitName.COST))),
    ),
    Case(
        "BUDGET",
        "the model stopped by itself, and tokens is said to end the turn",
        lambda: changed("talk", ModelCompleted, before_end(LimitReached(LimitName.TOKENS))),
    ),
    Case(
        "BUDGET",
        "call 1.1 (glance) starts early, though wall_time is spent",
        lambda: changed("early", ToolChecked, under(lambda policy: evolve(policy, max_wall_ms=1))),
    ),
)

TURNS = (
    Case(
        "PROGRESS",
        "request 2 demands the output a second time",
        lambda: changed("output", ModelCompleted, asked_twice),
    ),
    Case(
        "PROGRESS",
        "a turn ends for no repetition",
        lambda: changed("talk", ModelCompleted, ends_as(TurnEndReason.LOOP_DETECTED)),
    ),
    Case(
        "PROGRESS",
        "request 2 asks again for a reply that was cut, under no higher limit",
        lambda: changed("truncated", ModelCompleted, asks(lambda request: evolve(request, max_output_tokens=50))),
    ),
    Case(
        "WRITE-AHEAD",
        "model operations were minted up to 1, and now up to 0",
        lambda: changed(
            "reads",
            ToolChecked,
            with_session(
                lambda session: evolve(
                    session,
                    operations=evolve(
                        session.operations,
                        minted=tuple(
                            0 if kind is OperationKind.MODEL else session.operations.minted[kind]
                            for kind in OperationKind
                        ),
                    ),
                )
            ),
        ),
    ),
)

HELD = HeldRun(operation=RunOperation(1), call=CALL, tool="read", input=Json.of({}), runs=1, claims=None)

LINEAGES = (
    Case("CANCEL-STOP", "a fork is told 0 times", lambda: changed("forked", Forked, less(LineageForked))),
    Case(
        "CANCEL-STOP",
        "a fork ends 0 turns, and 1 as interrupted are due",
        lambda: changed("forked", Forked, less(TurnEnded)),
    ),
    Case(
        "CANCEL-STOP",
        "after a fork the state is Done, which is not at rest",
        lambda: changed("forked", Forked, after(done)),
    ),
    Case("CANCEL-STOP", "CheckCall starts in a fork", lambda: changed("forked", Forked, more(CHECK))),
    Case(
        "CANCEL-STOP",
        "call 1.2 is not answered as unknown by the fork",
        lambda: changed("forked", Forked, ended_as(CallStatus.CANCELLED, CancelReason.USER_INTERRUPTED)),
    ),
    Case(
        "TIMER-DATA",
        "timer 3 is of the lineage that was forked, and waited for",
        lambda: changed("forked", Forked, lambda step: evolve(step, after=evolve(step.before, stamp=step.after.stamp))),
    ),
    Case(
        "PARALLEL",
        "the run of call 1.1 is of the lineage that was forked, and still holds its resources",
        lambda: _fork_with_its_run(),
    ),
    Case(
        "CONSERVE",
        "receipt 1 stays, and is told to be superseded",
        lambda: changed("talk", ModelCompleted, more(InputSettled(ReceiptId(1), InputFate.SUPERSEDED))),
    ),
    Case(
        "CONSERVE",
        "message 9 is said to be edited, and no edit of it is taken",
        lambda: changed("talk", ModelCompleted, more(Edited(MessageId(9)))),
    ),
    Case(
        "CONSERVE",
        "message 3 is edited, and the thread is cut at no message",
        lambda: changed("edited", EditMessage, less(ThreadCut)),
    ),
)


def _fork_with_its_run() -> tuple[StepRecord, ...]:
    """A fork takes the run of a call along."""
    steps = changed("forked", Forked, with_session(lambda session: evolve(session, held=(HELD,))))
    before = evolve(steps[-1].before, session=evolve(session_in(steps[-1].before), held=(HELD,)))
    return (*steps[:-1], evolve(steps[-1], before=before))


CASES = (*RETRIES, *LIMITS, *TURNS, *LINEAGES)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_the_law_says_what_is_wrong(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in detail for detail in told), told


def test_a_fork_that_raises_on_what_is_late_is_for_total_to_tell() -> None:
    def raising(state: State, ctx: Context) -> Step[State]:
        if isinstance(ctx.delta, ToolSucceeded | ToolChecked | ModelFailed | TimerFired) and isinstance(state, Idle):
            raise LookupError("no such operation")
        return transition(state, ctx)

    steps = tuple(step for step in PLAYED["forked"] if isinstance(step.context.delta, Forked))
    assert steps
    assert all(judge_run("FORK-EQ", (step,), evolve(KERNEL, transition=raising)) == () for step in steps)


@pytest.mark.rule("RETRY-1")
@given(
    st.integers(0, 10**6),
    st.floats(1, 50, allow_nan=False),
    st.integers(0, 10**7),
    st.integers(1, 40),
)
def test_the_witness_and_the_kernel_agree_on_the_schedule(base: int, factor: float, cap: int, attempt: int) -> None:
    retry = Retry(base_ms=base, factor=factor, cap_ms=cap)
    assert base_delay_ms(retry, attempt) == delay_ms(retry, attempt)
