"""The kernel under a Hypothesis state machine: any run, judged step by step and as a whole; broken kernels, caught."""

import contextlib
from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test
from loopkernel.data.choices import OnReject
from loopkernel.data.effects import AbortModel, CallModel
from loopkernel.data.events import InputSettled, LimitReached, Refused, ReplyFailed, TurnEnded
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import ClearResults, LoopTiers, Policy, Prices, Truncation
from loopkernel.data.sessions import Inbox
from loopkernel.data.states import Cancelled, State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Created
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import LimitName, RefusalReason, RequestReason, TurnEndReason, UserAction
from loopkernel.explain import explain
from loopkernel.laws import Judged
from loopkernel.replay import StepRecord, Transition
from loopkernel.testing.machine import KernelMachine
from loopkernel.testing.strategies.walks import creations_that_run
from loopkernel.transition import transition
from typing_extensions import override

TestKernel = KernelMachine.TestCase
THOROUGH = settings(
    max_examples=400,
    database=None,
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)

# What some run must show, so that nothing holds only because it never happens.
ENDS = {reason for reason in TurnEndReason if reason is not TurnEndReason.HANDED_OFF}
REASONS = {
    RequestReason.USER,
    RequestReason.NEXT_TURN,
    RequestReason.COLLAPSE_DRAIN_RETRY,
    RequestReason.MAX_OUTPUT_TOKENS_ESCALATE,
    RequestReason.MAX_OUTPUT_TOKENS_RECOVERY,
    RequestReason.TOKEN_BUDGET_CONTINUATION,
    RequestReason.ERROR_RETRY,
    RequestReason.NUDGE,
    RequestReason.RESUME,
}
BUSY = ("Streaming", "Executing", "Confirming", "Backoff")
CHANGES = {
    f"{delta} in {phase}" for delta in ("Forked", "EditMessage", "Resumed", "CancelAll", "Disposed") for phase in BUSY
}
IN_BACKOFF = {f"{delta} in Backoff" for delta in ("Say", "Enqueue", "Steer", "RetryNow", "DismissError", "TimerFired")}
SOMETIMES = frozenset[object]({*ENDS, *REASONS, *LimitName, *CHANGES, *IN_BACKOFF, "silence", "a clock gone back"})


def shown(record: StepRecord) -> Iterator[object]:
    """What a step shows of all that is to happen sometimes."""
    for effect in record.effects:
        if isinstance(effect, TurnEnded):
            yield effect.reason
        elif isinstance(effect, CallModel):
            yield effect.request.reason
        elif isinstance(effect, LimitReached):
            yield effect.limit
        elif isinstance(effect, ReplyFailed) and isinstance(record.context.delta, TimerFired):
            yield "silence"
    if not is_refused(record.effects):
        yield f"{type(record.context.delta).__name__} in {type(record.before).__name__}"
        if record.context.now_ms < record.before.stamp.now_ms:
            yield "a clock gone back"


# Under each of these, something comes soon that hardly comes under others.
NO_MORE = Truncation(escalate_to=(), continuations=0)
TIGHT = LoopTiers(note=2, disable=3, stop=3)
SOON = (
    Policy(max_wall_ms=5, on_reject=OnReject.HALT, clear_results=ClearResults(keep=0)),
    Policy(max_tool_calls=1, clear_results=ClearResults(keep=0)),
    Policy(max_total_tokens=3, on_truncation=NO_MORE, on_reject=OnReject.HALT),
    Policy(max_cost_usd=1, prices=Prices(input=1_000_000), on_truncation=NO_MORE),
    Policy(max_turns=1, output_tool="read", on_reject=OnReject.HALT),
    Policy(loop=TIGHT, output_tool="write", clear_results=ClearResults(keep=0)),
)


class AllShown(BaseException):
    """Nothing is left to be shown. No failure, which Hypothesis would run once more."""


def test_everything_happens_sometimes() -> None:
    missing = set(SOMETIMES)

    class Watched(KernelMachine):
        @initialize(created=st.builds(evolve, creations_that_run, policy=st.sampled_from(SOON)))
        @override
        def begin(self, created: Created) -> None:
            super().begin(created)

        @override
        def judge_step(self, record: StepRecord) -> None:
            missing.difference_update(shown(record))
            if not missing:
                raise AllShown

        @override
        def judge_whole(self) -> None:
            pass  # the other runs are judged

    with contextlib.suppress(AllShown):
        run_state_machine_as_test(Watched, settings=settings(THOROUGH, max_examples=1_000))
    assert missing == set()


def loses_the_queue(state: State, ctx: Context) -> Step[State]:
    """A cancel that takes what is queued with it."""
    after, effects = transition(state, ctx)
    if isinstance(after, Cancelled) and isinstance(ctx.delta, CancelAll) and effects[0:1] != ():
        after = evolve(after, session=evolve(after.session, inbox=evolve(after.session.inbox, queue=())))
    return Step(after, effects)


def calls_everything_late_a_duplicate(state: State, ctx: Context) -> Step[State]:
    """A kernel that does not tell what was cut short from what has reported."""
    after, effects = transition(state, ctx)
    return Step(after, tuple(_duplicate(effect) if isinstance(effect, Refused) else effect for effect in effects))


def _duplicate(refused: Refused) -> Refused:
    stale = refused.action is UserAction.REPORT and refused.reason is RefusalReason.STALE
    return Refused(refused.action, RefusalReason.DUPLICATE, refused.key) if stale else refused


def forgets_keys(state: State, ctx: Context) -> Step[State]:
    """A kernel that takes a message twice."""
    after, effects = transition(state, ctx)
    if after.session is not None and any(isinstance(effect, InputSettled) for effect in effects):
        inbox = after.session.inbox
        bare = Inbox(queue=inbox.queue, steers=inbox.steers)
        after = evolve(after, session=evolve(after.session, inbox=bare))
    return Step(after, effects)


def bills_no_failure(state: State, ctx: Context) -> Step[State]:
    """A kernel that forgets what a failed reply has used."""
    if isinstance(ctx.delta, ModelFailed):
        ctx = Context(evolve(ctx.delta, usage=NO_USAGE), ctx.now_ms)
    return transition(state, ctx)


def leaves_the_model_open(state: State, ctx: Context) -> Step[State]:
    """A cancel that forgets to stop the model."""
    after, effects = transition(state, ctx)
    return Step(after, tuple(effect for effect in effects if not isinstance(effect, AbortModel)))


BROKEN: list[Transition] = [
    loses_the_queue,
    calls_everything_late_a_duplicate,
    forgets_keys,
    bills_no_failure,
    leaves_the_model_open,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_kernel_is_caught(broken: Transition) -> None:
    class BrokenMachine(KernelMachine):
        judged = Judged(broken, explain)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(BrokenMachine, settings=THOROUGH)
