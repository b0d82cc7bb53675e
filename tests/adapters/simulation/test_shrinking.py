"""A world that fails is told by the command that repeats it, is made small, and becomes a scenario where it can."""

import pytest
from attrs import evolve
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.writer import write_scenarios
from loopkernel.testing.scenarios.judge import run_scenario

from tests.adapters.scenario_driver.playing import differences_of, play
from tests.adapters.simulation.__main__ import main
from tests.adapters.simulation.batch import command_for, is_lively, run_seed
from tests.adapters.simulation.drawing import plan_of
from tests.adapters.simulation.plan import Act, Crash, Plan
from tests.adapters.simulation.planted_drivers import PLANTED
from tests.adapters.simulation.shrinking import scenario_of, shrunk


def first_failing() -> int:
    return next(seed for seed in range(500) if run_seed(seed, is_lively(seed), laws=False).faults)


def test_a_failing_world_is_made_small(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    PLANTED["abort-ignored"](monkeypatch)
    seed = first_failing()
    mode = "liveness" if is_lively(seed) else "safety"
    assert main(["--seed", str(seed), "--mode", mode]) == 1
    told = capsys.readouterr().out
    assert "of which these are enough" in told
    assert len(told.splitlines()) < 40


def test_a_batch_tells_the_command_that_repeats_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    PLANTED["abort-ignored"](monkeypatch)
    seed = first_failing()
    assert main(["--first", str(seed), "--seeds", "1", "--laws-every", "2"]) == 1
    assert f"    {command_for(plan_of(seed, is_lively(seed)))}\n" in capsys.readouterr().out


def test_a_world_without_faults_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0"]) == 0
    assert "all is well" in capsys.readouterr().out


def test_shrinking_leaves_what_is_needed() -> None:
    plan = plan_of(3, lively=False)
    needed = (Act(at_ms=5, what="cancel"), Crash(at_ms=7))
    plan = plan.with_items((*plan.items[:6], needed[0], *plan.items[6:], needed[1]))

    def fails(candidate: Plan) -> bool:
        return all(item in candidate.items for item in needed)

    assert shrunk(plan, fails).items == needed


def sayable(seed: int) -> Plan:
    """The plan without what no scenario can say."""
    plan = evolve(plan_of(seed, lively=False), late_timers_ms=0, attentive=())
    return plan.with_items(tuple(one for one in plan.items if scenario_of(plan.with_items((one,))) is not None))


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_becomes_a_scenario_that_both_players_play(seed: int) -> None:
    scenario = scenario_of(sayable(seed))
    assert scenario is not None
    (read,) = read_scenarios(write_scenarios([scenario]), "written")
    assert read == scenario
    assert not [one for one in run_scenario(read).differences if "open calls" not in one]
    assert not [one for one in differences_of(read, play(read)) if "open calls" not in one]


def test_what_no_scenario_can_say_is_not_said() -> None:
    odd = plan_of(0, lively=False)
    assert scenario_of(odd) is None
    assert scenario_of(sayable(0)) is not None
