"""When a hook, a correction or a sub-agent is due, and what a call that waits for one is said to wait for."""

import pytest
from attrs import evolve
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.waits import ForChild, ForHook, ForShare, Wait
from loopkernel.data.words import HookPoint, StopReason
from loopkernel.machine import Machine
from loopkernel.views.waits import told, waits_of

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    TWO,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    made_call,
    pending_timers,
    say,
    succeeded,
)
from tests.kernel.gates import (
    AFTER_MODEL,
    AFTER_TOOL,
    AGENT,
    BEFORE_MODEL,
    BEFORE_TOOL,
    CORRECTING,
    STOP,
    agent_call,
    below,
    child_asks,
    gated,
    hooked,
)

WORDS = (ModelText(ONE, "done"), completed())
CALLING = (made_call("write"), completed(StopReason.TOOL_USE))


def timed(point: HookPoint) -> Policy:
    """A hook at this point, which may take 700 ms."""
    return evolve(hooked(gated(point)), hook_timeout_ms=700, tool_timeout_ms=None)


def dispatched(policy: Policy, calls: int = 1) -> State:
    """So many sub-agents were called."""
    return after(asked(policy, tools=(AGENT,)), *[agent_call()] * calls, completed())


@pytest.mark.rule("HOOK-4")
@pytest.mark.parametrize(
    "state",
    [
        after(at_rest(timed(BEFORE_MODEL)), say()),
        after(asked(timed(AFTER_MODEL)), *WORDS),
        after(asked(timed(STOP)), *WORDS),
        after(asked(timed(BEFORE_TOOL)), *CALLING),
        after(asked(timed(AFTER_TOOL)), *CALLING, succeeded(1)),
        after(
            asked(evolve(CORRECTING, hook_timeout_ms=700)),
            *(*CALLING, succeeded(1), ModelText(ONE, "a")),
            *(ModelText(TWO, "done"), completed(reply=2)),
        ),
    ],
    ids=["before the model", "after the model", "at a stop", "before a call", "after a call", "correction"],
)
def test_a_gate_is_due_when_its_time_is_over(state: State) -> None:
    (timer,) = [found for found in pending_timers(state) if found.purpose.value == "hook_timeout"]
    assert Machine(state).next_deadline() == min(found.deadline_ms for found in pending_timers(state))
    assert timer.deadline_ms == state.stamp.now_ms + 700


@pytest.mark.rule("CHILD-1")
def test_a_sub_agent_is_due_when_its_time_is_over_and_never_while_it_asks() -> None:
    state = dispatched(ASKING_NOBODY)
    assert Machine(state).next_deadline() == state.stamp.now_ms + 60_000
    assert Machine(after(state, child_asks(1, 1))).next_deadline() is None
    untimed = after(asked(hooked(gated(AFTER_MODEL))), *WORDS)
    assert Machine(untimed).next_deadline() is None


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("CHILD-2")
@pytest.mark.rule("LIMIT-2")
def test_what_a_call_waits_for_is_told_in_words() -> None:
    state = after(asked(hooked(gated(BEFORE_TOOL, "guard"))), *CALLING)
    assert [told(wait) for wait in waits_of(state)] == ["call 1.1 waits for hook guard"]
    asking = after(dispatched(ASKING_NOBODY), child_asks(1, 1, 2))
    assert [told(wait) for wait in waits_of(asking)] == ["call 1.1 waits for your answer to its sub-agent (1.1, 1.2)"]
    deeper = Wait(call_id(1), (ForChild((evolve(below(1), path=(call_id(2), call_id(1))),)),))
    assert told(deeper) == "call 1.1 waits for your answer to its sub-agent (1.2/1.1)"
    assert told(Wait(call_id(1), (ForHook("a"), ForShare()))) == (
        "call 1.1 waits for hook a, and for what is reserved for sub-agents"
    )


@pytest.mark.rule("LIMIT-2")
def test_a_sub_agent_waits_until_something_is_left_to_share() -> None:
    state = dispatched(evolve(ASKING_NOBODY, max_total_tokens=1), 2)
    assert [wait.reasons for wait in waits_of(state)][1] == (ForShare(),)
    following = after(state, CancelCall(call_id(1)))
    assert [wait.call for wait in waits_of(following)] in ([call_id(2)], [])
