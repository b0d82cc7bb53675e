"""Calls start as far as what is reserved for sub-agents leaves room for them."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.states import Executing, State
from loopkernel.data.words import StopReason

from tests.kernel.building import ALL_TOOLS, ASKING_NOBODY, a, after, asked, call_id, completed, made_call, starts, step
from tests.kernel.gates import AGENT, agent_call

TOOLS = (*ALL_TOOLS, AGENT)


@pytest.mark.rule("LIMIT-2")
@given(st.integers(1, 5))
def test_a_call_starts_with_the_last_that_is_neither_made_nor_reserved(reads: int) -> None:
    """Of `reads + 2` the first sub-agent is one, and may make half of what is left of the others."""
    most = reads + 2
    reserved = (most - 1) // 2
    calls = (agent_call(), *[made_call()] * reads, agent_call())
    state: State = after(asked(evolve(ASKING_NOBODY, max_tool_calls=most), tools=TOOLS), *calls)
    state, effects = step(state, completed(StopReason.TOOL_USE))
    left = most - 1 - reserved
    assert starts(effects) == [call_id(number) for number in range(2, 2 + min(reads, left))]
    assert a(Executing, state).session.started == 1 + min(reads, left)
