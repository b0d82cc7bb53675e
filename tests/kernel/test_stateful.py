"""The kernel under a Hypothesis state machine: any run, judged step by step and as a whole; broken kernels, caught."""

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from loopkernel.data.effects import AbortModel
from loopkernel.data.events import InputSettled, Refused
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.sessions import Inbox
from loopkernel.data.states import Cancelled, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.judging import KERNEL
from loopkernel.loop.transition import transition
from loopkernel.replaying import Transition
from loopkernel.testing.stateful.machine import KernelMachine

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
        judged = evolve(KERNEL, transition=broken)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(BrokenMachine, settings=THOROUGH)
