"""Which hooks have their turn at a point, and in which order."""

import pytest
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.words import HookPoint
from loopkernel.laws.hook_order import due_at
from loopkernel.loop.gates.hooks import hooks_at

AFTER = (HookPoint.AFTER_INVOCATION, HookPoint.AFTER_MODEL, HookPoint.AFTER_TOOL)


@pytest.mark.rule("HOOK-1")
@pytest.mark.parametrize("point", HookPoint)
def test_hooks_after_something_run_in_reverse_and_all_others_in_the_order_of_the_policy(point: HookPoint) -> None:
    first, second = Hook(point=point, name="first"), Hook(point=point, name="second")
    elsewhere = (Hook(point=other, name="elsewhere") for other in HookPoint if other is not point)
    policy = Policy(hooks=(first, *elsewhere, second))
    expected = (second, first) if point in AFTER else (first, second)
    assert hooks_at(policy, point) == expected
    assert due_at(policy, point) == expected  # as the laws see it
