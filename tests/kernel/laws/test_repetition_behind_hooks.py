"""A turn that repetition stops ends for it under the laws, also where hooks are asked before it has ended."""

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.events import LoopStopped, TurnEnded
from loopkernel.data.ids import HookOperation
from loopkernel.data.outside_deltas import HookAnswered, HookContinue
from loopkernel.data.policy import Hook, LoopTiers, Policy
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.tools import EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import HookPoint, StopReason, TurnEndReason
from loopkernel.judging import check_trace
from loopkernel.replaying import LogRecord, StepRecord, fold

from tests.kernel.building import completed, created, made_call, say, succeeded

LOOK = Tool(name="look", profile=ToolProfile(effect=EffectClass.READ_ONLY))
POLICY = Policy(
    loop=LoopTiers(note=None, disable=None, stop=2),
    hooks=(Hook(name="audit", point=HookPoint.AFTER_INVOCATION, gated=True),),
)


def stopped_then(last: Delta) -> tuple[StepRecord, ...]:
    """A turn is stopped for two calls that are the same, a hook is asked at its end, and this happens."""
    calls = [made_call("look", ValidCall(()), provider_id=name) for name in ("a", "b")]
    begin: list[Delta] = [created(POLICY, (LOOK,)), Acquired(), say(), *calls, completed(StopReason.TOOL_USE)]
    deltas = (*begin, succeeded(1), succeeded(2), last)
    return tuple(fold([LogRecord(delta, 0) for delta in deltas]))


def findings(steps: tuple[StepRecord, ...]) -> list[str]:
    return [breach.detail for breach in check_trace(steps).breaches if breach.law == "PROGRESS"]


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (HookAnswered(HookOperation(1), HookContinue()), TurnEndReason.LOOP_DETECTED),
        (CancelAll(), TurnEndReason.USER_ABORT),
    ],
)
def test_the_turn_ends_when_the_hook_has_answered_or_is_cut(last: Delta, reason: TurnEndReason) -> None:
    steps = stopped_then(last)
    assert [type(effect) for effect in steps[-2].effects if isinstance(effect, LoopStopped | TurnEnded)] == [
        LoopStopped
    ]
    assert [effect.reason for effect in steps[-1].effects if isinstance(effect, TurnEnded)] == [reason]
    assert [str(breach) for breach in check_trace(steps).breaches] == []


@pytest.mark.rule("LIMIT-3")
def test_what_was_stopped_for_repetition_ends_for_nothing_else() -> None:
    def stuck(effect: Effect) -> Effect:
        return evolve(effect, reason=TurnEndReason.STUCK) if isinstance(effect, TurnEnded) else effect

    *before, last = stopped_then(HookAnswered(HookOperation(1), HookContinue()))
    steps = (*before, evolve(last, effects=tuple(map(stuck, last.effects))))
    assert "a turn that was stopped for repetition ends as stuck" in findings(steps)


@pytest.mark.rule("LIMIT-3")
def test_a_stop_for_repetition_is_told_before_the_hook_is_asked() -> None:
    *before, asked, last = stopped_then(HookAnswered(HookOperation(1), HookContinue()))
    untold = tuple(effect for effect in asked.effects if not isinstance(effect, LoopStopped))
    assert "a turn ends for no repetition" in findings((*before, evolve(asked, effects=untold), last))
