"""How many sub-agents are under way is counted, also over a restart; and what one says is told."""

import pytest
from loopkernel.data.events import ToolProgressed
from loopkernel.data.outside_deltas import ChildProgress
from loopkernel.data.thread_deltas import Resumed

from tests.kernel.building import ALL_TOOLS, after, asked, call_id, completed, effects_of, ledger_of, made_call, run
from tests.kernel.gates import AGENT, agent_call

BOTH = after(asked(tools=(*ALL_TOOLS, AGENT)), agent_call(), made_call("write"), completed())


@pytest.mark.rule("RESUME-3")
def test_a_run_that_a_restart_repeats_is_no_sub_agent() -> None:
    assert ledger_of(BOTH).children == 1
    children = [entry for entry in ledger_of(after(BOTH, Resumed())).entries if entry.has_run and entry.child]
    assert ledger_of(after(BOTH, Resumed())).children == len(children)


@pytest.mark.rule("CHILD-1")
def test_what_a_sub_agent_says_is_told_as_the_progress_of_its_call() -> None:
    assert effects_of(BOTH, ChildProgress(run(1), "on it")) == (ToolProgressed(call_id(1), run(1), "on it"),)
