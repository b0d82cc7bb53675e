"""Plays scenarios in Temporal: `python -m tests.homes.temporal.scenario_play FILE [ID...]`."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from attrs import frozen
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel_adapters.temporal.working import PASSED_THROUGH, STEPS_AT_ONCE
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tests.adapters.scenario_driver.playing import differences_of
from tests.adapters.scenario_driver.scenario_player import Played
from tests.homes.temporal.scenario_player import CANCEL_S, ScenarioActivities, TemporalPlayer
from tests.homes.temporal.scenario_workflow import ScenarioWorkflow
from tests.homes.temporal.server import TemporalServer

AT_ONCE = 40


@frozen
class Outcome:
    """A scenario that was played. `unplayable`: on the way it turned out that it cannot be played here, and why."""

    scenario: Scenario
    played: Played
    unplayable: str | None


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


async def play_all(scenarios: Sequence[Scenario]) -> list[Outcome]:
    """Play them on one server by one worker, many at once."""
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # it tells of each activity whose run is over
    server = TemporalServer()
    client = await server.start()
    waiting, found = deque(enumerate(scenarios)), list[Outcome]()

    async def play_some() -> None:
        while waiting:
            number, scenario = waiting.popleft()
            name = f"{Path(scenario.source).stem}-{scenario.id}-{number}"
            player = TemporalPlayer(scenario, effective_policy(scenario.policy), name, client)
            found.append(Outcome(scenario, await player.run(), player.unplayable))

    try:
        async with _worker(client), asyncio.TaskGroup() as playing:
            for _ in range(AT_ONCE):
                playing.create_task(play_some())
    finally:
        server.kill()
    return found


def _worker(client: Client) -> Worker:
    # Loading the modules anew for each run is tried elsewhere.
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH, "loopkernel_adapters", "tests")
    return Worker(
        client,
        task_queue="scenarios",
        workflows=[ScenarioWorkflow],
        activities=[ScenarioActivities(client).carry_out],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        max_concurrent_workflow_tasks=STEPS_AT_ONCE,
        max_concurrent_activities=1_000,
        max_heartbeat_throttle_interval=timedelta(seconds=CANCEL_S),
    )


def main() -> int:
    """Play what the command line names, and tell what became of it."""
    named = set(sys.argv[2:])
    scenarios = [one for one in read_scenario_file(Path(sys.argv[1])) if not named or one.id in named]
    playable = [one for one in scenarios if unplayable(one) is None]
    wrong = 0
    for outcome in asyncio.run(play_all(playable)):
        found = differences_of(outcome.scenario, outcome.played) if outcome.unplayable is None else ()
        wrong += bool(found)
        print("fail" if found else "pass", outcome.scenario.id, outcome.unplayable or "", *found[:1], sep="  ")
        if named:
            print(*(f"  {line.at_ms:>7} ms  {line.text}" for line in outcome.played.run.lines), sep="\n")
    print(f"{len(playable) - wrong} of {len(playable)} playable, of {len(scenarios)}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
