"""Plays scenarios in Temporal's test server: `python -m tests.homes.temporal.scenario_play FILE [ID...]`."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel_adapters.temporal.working import PASSED_THROUGH
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tests.adapters.scenario_driver.playing import differences_of
from tests.adapters.scenario_driver.scenario_player import Played
from tests.homes.temporal.scenario_player import ScenarioActivities, TemporalPlayer
from tests.homes.temporal.scenario_workflow import ScenarioWorkflow
from tests.homes.temporal.skipped_time import SkippedTime

SERVER = Path(sys.executable).parent / "temporal-test-server"
SERVERS = 3
AT_ONCE = 12  # on each


def unplayable(scenario: Scenario) -> str | None:
    """Why the scenario cannot be played here; None: it can."""
    said = {type(action.action) for action in scenario.user}
    if actions.Crash in said:
        return "a process dies, which a workflow does not: the tests that kill workers are about that"
    if actions.ReportAgain in said:
        return "a report comes twice, which a history does not let it"
    if actions.Fork in said:
        return "a fork in the same log takes back what the server has begun"
    if scenario.children:
        return "sub-agents are workflows of their own, each with its own time"
    return None


async def play_all(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, Played, tuple[str, ...]]]:
    """Play them on several servers, each with its own time; what was seen, and what is not as expected."""
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # it tells of each activity whose run is over
    waiting = deque(enumerate(scenarios))
    found = await asyncio.gather(*(_play_on_a_server(waiting) for _ in range(SERVERS)))
    return [one for each in found for one in each]


async def _play_on_a_server(waiting: deque[tuple[int, Scenario]]) -> list[tuple[Scenario, Played, tuple[str, ...]]]:
    environment = await WorkflowEnvironment.start_time_skipping(test_server_existing_path=str(SERVER))
    async with environment:
        client, time = environment.client, SkippedTime(environment)
        restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
        worker = Worker(
            client,
            task_queue="scenarios",
            workflows=[ScenarioWorkflow],
            activities=[ScenarioActivities(client).carry_out],
            workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
            max_concurrent_activities=1_000,
            max_heartbeat_throttle_interval=timedelta(milliseconds=50),
        )
        found: list[tuple[Scenario, Played, tuple[str, ...]]] = []

        async def play() -> None:
            while waiting:
                number, scenario = waiting.popleft()
                name = f"{Path(scenario.source).stem}-{scenario.id}-{number}"
                one = await TemporalPlayer(scenario, effective_policy(scenario.policy), name, client, time).run()
                found.append((scenario, one, differences_of(scenario, one)))

        async with worker:
            await asyncio.gather(*(play() for _ in range(AT_ONCE)))
        return found


def main() -> int:
    """Play what the command line names, and tell what became of it."""
    named = set(sys.argv[2:])
    scenarios = [one for one in read_scenario_file(Path(sys.argv[1])) if not named or one.id in named]
    playable = [one for one in scenarios if unplayable(one) is None]
    wrong = 0
    for scenario, played, found in asyncio.run(play_all(playable)):
        wrong += bool(found)
        print("fail" if found else "pass", scenario.id, *found[:1], sep="  ")
        if named:
            print(*(f"  {line.at_ms:>7} ms  {line.text}" for line in played.run.lines), sep="\n")
    print(f"{len(playable) - wrong} of {len(playable)} playable, of {len(scenarios)}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
