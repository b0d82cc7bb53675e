"""At a gate before the end of a turn, or before a request, time is that of the input, and never runs back."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.effects import AbortTool, StartTimer
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.states import Finishing, Thinking
from loopkernel.data.user_deltas import CancelCall, ChangePolicy
from loopkernel.data.words import CancelReason, HookPoint, TimerPurpose

from tests.kernel.building import TWO, a, after, call_id, completed, made_call, of_kind, run, step, succeeded, working

POLICY = Policy(
    no_profile_approval=NoProfileApproval.ALLOW,
    silence_ms=None,
    hooks=(Hook(point=HookPoint.STOP, name="gate", gated=True),),
)
REPORTS = (succeeded(1, background=True), ModelText(TWO, "it goes on"), completed(reply=2))
AT_END = a(Finishing, after(working(made_call("write"), policy=POLICY), *REPORTS))
HOOKED = evolve(POLICY, hooks=(Hook(point=HookPoint.BEFORE_MODEL, name="gate", gated=True),))
AT_REQUEST = a(Thinking, after(working(made_call("write"), policy=POLICY), ChangePolicy(HOOKED), REPORTS[0]))


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("CANCEL-4")
@given(st.sampled_from([AT_END, AT_REQUEST]), st.integers(0, 10_000))
def test_a_run_in_the_background_is_given_its_grace_from_when_it_is_cancelled_at_a_gate(
    gate: Finishing | Thinking, now_ms: int
) -> None:
    effects = step(gate, CancelCall(call=call_id(1)), now_ms).effects
    assert of_kind(AbortTool, effects) == [AbortTool(run(1), CancelReason.USER_CANCELLED)]
    (grace,) = (timer for timer in of_kind(StartTimer, effects) if timer.purpose is TimerPurpose.GRACE)
    assert grace.deadline_ms == max(now_ms, gate.stamp.now_ms) + POLICY.grace_ms
