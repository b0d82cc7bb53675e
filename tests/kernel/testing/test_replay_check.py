"""The log of a run is folded again, and what is not the same, byte for byte, is found."""

from collections.abc import Callable

import attrs
import pytest
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import ErrorCleared, TurnEnded
from loopkernel.data.messages import UserMessage
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle, State
from loopkernel.data.steps import Context, Step
from loopkernel.loop.transition import transition
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judging.replay_check import replay_difference
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.recording import Recording

SCENARIO = """
scenario: a
tools: {read: {effect: read_only, takes_ms: 20}}
model: [{text: Looking., calls: [{id: c1, tool: read}]}, {text: Done.}, {text: Again.}]
user: [{at: 0, say: first}, {at: 50, say: second}]
"""


@pytest.fixture(scope="module")
def run() -> Recording:
    """Two turns: Created, Acquired, then the rest; the last step is the end of the second turn."""
    (scenario,) = read_scenarios(SCENARIO, "some.yaml")
    return Drive(scenario, Policy(), transition).run()


def changing(change: Callable[[Context, Step[State]], Step[State]]) -> Transition:
    return lambda state, ctx: change(ctx, transition(state, ctx))


def with_first_message_rewritten(ctx: Context, step: Step[State]) -> Step[State]:
    """At the very end, and where no step has added anything, an old message becomes another."""
    session = step.next.session
    if session is None or ctx.now_ms < 50 or not isinstance(step.next, Idle):
        return step
    first = session.thread.messages[0]
    assert isinstance(first, UserMessage)
    rewritten = session.thread.messages.replace(0, attrs.evolve(first, content=(TextBlock("other"),)))
    thread = attrs.evolve(session.thread, messages=rewritten)
    return Step(attrs.evolve(step.next, session=attrs.evolve(session, thread=thread)), step.effects)


def with_another_version(ctx: Context, step: Step[State]) -> Step[State]:
    if ctx.now_ms != 20:
        return step
    return Step(attrs.evolve(step.next, stamp=attrs.evolve(step.next.stamp, version=99)), step.effects)


def with_one_more_effect(ctx: Context, step: Step[State]) -> Step[State]:
    ended = any(isinstance(effect, TurnEnded) for effect in step.effects)
    return Step(step.next, (*step.effects, ErrorCleared())) if ended else step


def with_another_request(ctx: Context, step: Step[State]) -> Step[State]:
    def other(effect: Effect) -> Effect:
        if isinstance(effect, CallModel) and effect.operation == 2:
            return CallModel(effect.operation, attrs.evolve(effect.request, instructions="other"))
        return effect

    return Step(step.next, tuple(map(other, step.effects)))


def raising(ctx: Context, step: Step[State]) -> Step[State]:
    raise ValueError("not again")


@pytest.mark.rule("RESUME-1")
def test_the_kernel_replays_to_the_same_bytes(run: Recording) -> None:
    assert run.trouble is None
    assert list(replay_difference(run, transition)) == []


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (with_another_version, "the log replays to another state at step 8"),
        (with_one_more_effect, "the log replays to other effects at step 11"),
        (with_another_request, "the log replays to other effects at step 8"),
        (with_first_message_rewritten, "the log replays to another state at the end"),
        (raising, "the log does not replay: ValueError: not again"),
    ],
)
def test_what_is_not_the_same_is_found(
    run: Recording, change: Callable[[Context, Step[State]], Step[State]], difference: str
) -> None:
    assert list(replay_difference(run, changing(change))) == [difference]


def test_a_run_of_no_steps_replays(run: Recording) -> None:
    assert list(replay_difference(attrs.evolve(run, steps=()), transition)) == []
