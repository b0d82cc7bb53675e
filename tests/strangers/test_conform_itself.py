"""The suite judges itself: our own agent holds, and with a planted bug, as a stranger, it is named by its law.

Each test starts the agent as a process, most of them twice, and waits as long as it takes: minutes in all.
"""

import sys
from pathlib import Path

import pytest
from loopkernel_adapters.conform.agent_file import agent_text
from loopkernel_adapters.conform.catalogue import SCENARIOS, scenario_named
from loopkernel_adapters.conform.running import played
from loopkernel_adapters.conform.scenario import Scenario

from tests.adapters.conform.planted_outside import PLANTED_OUTSIDE, Outside

STRANGER = Path(__file__).resolve().parents[1] / "adapters" / "conform" / "planted_agent.py"


def own_agent(*program: str) -> str:
    """The agent file of our own agent, which is started so."""
    words = ", ".join(f'"{word}"' for word in program)
    return agent_text("loopkernel").replace('"loopkernel", "', f'{words}, "')


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.quick], ids=lambda scenario: scenario.name)
def test_our_own_agent_breaks_no_law(scenario: Scenario) -> None:
    found = played(own_agent(sys.executable, "-m", "loopkernel_adapters"), scenario, "again")
    assert (found.trouble, found.breaches) == ("", ())
    assert set(scenario.laws) - set(found.checks) <= {"ADDRESS", "CUT-SAFE"}


@pytest.mark.parametrize("bug", PLANTED_OUTSIDE, ids=lambda bug: bug.name)
def test_a_stranger_with_a_planted_bug_is_caught_by_its_law(bug: Outside) -> None:
    found = played(own_agent(sys.executable, str(STRANGER), bug.name), scenario_named(bug.scenario), "again")
    assert found.trouble == ""
    assert bug.law in {breach.law for breach in found.breaches}
