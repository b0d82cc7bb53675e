"""Kernels with a planted bug: each is caught by a scenario that the real kernel passes."""

from collections.abc import Callable
from itertools import count

import attrs
import pytest
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CallModel, Effect, StartTool
from loopkernel.data.events import ReplyAborted, ToolEnded, TurnEnded
from loopkernel.data.states import Cancelled, Idle, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.words import TurnEndReason
from loopkernel.loop.transition import transition
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judge import ScenarioOutcome, run_scenario

(ROUND, CANCEL) = read_scenarios(
    """
scenario: a-round
tools:
  read: {effect: read_only, takes_ms: 20, returns: page text}
  search: {effect: read_only, takes_ms: 20, returns: hit list}
model:
  - {calls: [{id: c1, tool: read}, {id: c2, tool: search}], usage: {input: 10}}
  - {text: Done., usage: {input: 20}}
user: [{at: 0, say: look}]
expect:
  trace: [request 1, tool c1 started, tool c2 started, tool c1 ended done, tool c2 ended done, request 2, turn ended *]
  counts: {"tool * started": 2, "turn ended *": 1}
  requests: 2
  request: {2: {why: next_turn, results: [c1, c2]}}
  results: {c1: {contains: page text}, c2: {contains: hit list}}
  reason: model_stop
  state: Idle
  usage: {input: 30}
---
scenario: a-cancel
model: [{hangs: true}]
user: [{at: 0, say: look}, {at: 5, cancel: all}]
expect:
  trace: [reply 1 aborted, "cancelled user:cancelled", turn ended user_abort]
  state: Cancelled
  elapsed_ms: 5
""",
    "some.yaml",
)


def with_effects(change: Callable[[tuple[Effect, ...]], tuple[Effect, ...]]) -> Transition:
    """The kernel with other effects."""

    def planted(state: State, ctx: Context) -> Step[State]:
        after, effects = transition(state, ctx)
        return Step(after, change(effects))

    return planted


def with_each(change: Callable[[Effect], Effect | None]) -> Transition:
    """The kernel with each effect changed, or left out."""
    return with_effects(lambda effects: tuple(new for new in map(change, effects) if new is not None))


def without(kind: type[Effect]) -> Transition:
    """The kernel that forgets one kind of effect."""
    return with_each(lambda effect: None if isinstance(effect, kind) else effect)


def start_twice(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return (*effects, *(effect for effect in effects if isinstance(effect, StartTool)))


def same_answer(effect: Effect) -> Effect:
    if isinstance(effect, ToolEnded):
        return ToolEnded(attrs.evolve(effect.result, content=(TextBlock("page text"),)))
    return effect


def relabelled(effect: Effect) -> Effect:
    return TurnEnded(TurnEndReason.STUCK, effect.usage) if isinstance(effect, TurnEnded) else effect


def truncated_history(effect: Effect) -> Effect:
    if isinstance(effect, CallModel) and effect.request.number == 2:
        empty = attrs.evolve(effect.request.thread, messages=type(effect.request.thread.messages)())
        return CallModel(effect.operation, attrs.evolve(effect.request, thread=empty))
    return effect


def idle_after_cancel(state: State, ctx: Context) -> Step[State]:
    after, effects = transition(state, ctx)
    if isinstance(after, Cancelled):
        return Step(Idle(session=after.session, stamp=after.stamp), effects)
    return Step(after, effects)


def raising(state: State, ctx: Context) -> Step[State]:
    after, effects = transition(state, ctx)
    if any(isinstance(effect, ToolEnded) for effect in effects):
        raise RuntimeError("no such call")
    return Step(after, effects)


def forgetful() -> Transition:
    """A kernel that keeps something outside of the state."""
    steps = count()

    def planted(state: State, ctx: Context) -> Step[State]:
        after, effects = transition(state, ctx)
        return Step(attrs.evolve(after, stamp=attrs.evolve(after.stamp, version=next(steps))), effects)

    return planted


PLANTED = {
    "a turn without an end": (without(TurnEnded), ROUND),
    "an end with another reason": (with_each(relabelled), ROUND),
    "a call that is started twice": (with_effects(start_twice), ROUND),
    "a call that is never started": (without(StartTool), ROUND),
    "one answer for two calls": (with_each(same_answer), ROUND),
    "a request without its history": (with_each(truncated_history), ROUND),
    "a request that is never made": (without(CallModel), ROUND),
    "an exception": (raising, ROUND),
    "a memory beside the state": (forgetful(), ROUND),
    "an abort that is not told": (without(ReplyAborted), CANCEL),
    "idle instead of cancelled": (idle_after_cancel, CANCEL),
}


def test_the_real_kernel_passes() -> None:
    assert [run_scenario(scenario).difference for scenario in (ROUND, CANCEL)] == [None, None]


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str) -> None:
    planted, scenario = PLANTED[bug]
    judgement = run_scenario(scenario, planted)
    assert judgement.outcome is ScenarioOutcome.FAIL
    assert judgement.difference


def test_a_kernel_with_a_memory_of_its_own_does_not_replay() -> None:
    judgement = run_scenario(ROUND, forgetful())
    assert any("the log replays to another state at step 0" in one for one in judgement.differences)


def test_an_exception_is_told_before_all_else() -> None:
    judgement = run_scenario(ROUND, raising)
    assert judgement.difference == (
        "transition raised RuntimeError (no such call) on ToolSucceeded in Executing at 20 ms;"
        " the last lines are `reply 1 tool_use`, `tool c1 started`, `tool c2 started`"
    )
