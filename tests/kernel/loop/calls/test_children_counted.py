"""How many sub-agents are under way is counted, also over a restart; and what one says is told."""

import pytest
from attrs import evolve
from loopkernel.data.events import ToolProgressed
from loopkernel.data.outside_deltas import ChildProgress
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import ValidCall
from loopkernel.data.user_deltas import CancelCall, ChangePolicy

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    after,
    asked,
    call_id,
    completed,
    effects_of,
    ledger_of,
    made_call,
    run,
    succeeded,
)
from tests.kernel.gates import AGENT, agent_call, child_asks

BOTH = after(asked(tools=(*ALL_TOOLS, AGENT)), agent_call(), made_call("write"), completed())


@pytest.mark.rule("RESUME-3")
def test_a_run_that_a_restart_repeats_is_no_sub_agent() -> None:
    assert ledger_of(BOTH).children == 1
    children = [entry for entry in ledger_of(after(BOTH, Resumed())).entries if entry.has_run and entry.child]
    assert ledger_of(after(BOTH, Resumed())).children == len(children)


@pytest.mark.rule("LIMIT-2")
def test_a_call_waits_for_no_share_of_a_sub_agent_that_started_before_there_was_a_budget() -> None:
    one_by_one = evolve(ASKING_NOBODY, max_parallel=1)
    waiting = after(
        asked(one_by_one, tools=(*ALL_TOOLS, AGENT)),
        agent_call(),
        made_call("write", verdict=ValidCall(())),
        completed(),
    )
    assert (ledger_of(waiting).running, ledger_of(waiting).children) == (1, 1)
    budgeted = after(waiting, ChangePolicy(evolve(one_by_one, max_parallel=2, max_tool_calls=3)))
    assert ledger_of(budgeted).running == 2


@pytest.mark.rule("LIMIT-2")
def test_a_call_waits_for_no_share_where_a_tool_asks_and_no_sub_agent_runs() -> None:
    two_by_two = evolve(ASKING_NOBODY, max_parallel=2, max_tool_calls=3)
    calls = [made_call("read", verdict=ValidCall(())) for _ in range(3)]
    under_way = after(asked(two_by_two, tools=ALL_TOOLS), *calls, completed(), ToolAsked(run(1), "Which?"))
    assert (ledger_of(under_way).running, ledger_of(under_way).asking) == (1, 1)
    assert ledger_of(after(under_way, succeeded(2))).running == 1


@pytest.mark.rule("CHILD-1")
def test_what_a_sub_agent_says_is_told_as_the_progress_of_its_call() -> None:
    assert effects_of(BOTH, ChildProgress(run(1), "on it")) == (ToolProgressed(call_id(1), run(1), "on it"),)


@pytest.mark.rule("CHILD-1")
def test_a_sub_agent_whose_calls_wait_for_a_person_is_counted_once() -> None:
    """It has no slot while it waits, and is not taken from the count a second time when it is cancelled."""
    waits = after(BOTH, child_asks(1, 1))
    assert ledger_of(waits).children == 0
    assert ledger_of(after(waits, CancelCall(call_id(1)))).children == 0
