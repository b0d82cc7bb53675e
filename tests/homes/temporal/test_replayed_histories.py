"""Histories that were recorded replay on this workflow; one that was changed against the rules of replay fails."""

import asyncio

import pytest
from loopkernel.later_typing import override
from loopkernel_adapters.temporal.documents import RUN
from loopkernel_adapters.temporal.workflow import RunWorkflow
from loopkernel_adapters.temporal.working import PASSED_THROUGH
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tests.homes.temporal.record_histories import HISTORIES, STORIES


async def replay(name: str, replayed: type[RunWorkflow]) -> None:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    replayer = Replayer(workflows=[replayed], workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions))
    text = (HISTORIES / f"{name}.json").read_text()
    await replayer.replay_workflow(WorkflowHistory.from_json(name, text))


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("name", STORIES)
def test_a_recorded_history_replays(name: str) -> None:
    asyncio.run(replay(name, RunWorkflow))


@workflow.defn(name=RUN)
class ChangedWorkflow(RunWorkflow):
    """Planted: it sets a timer that no history has."""

    @workflow.init
    def __init__(self, carried: str) -> None:
        super().__init__(carried)

    @workflow.run
    @override
    async def run(self, carried: str) -> str:
        await workflow.sleep(1)
        return await super().run(carried)


@pytest.mark.parametrize("name", STORIES)
def test_a_change_that_breaks_replay_is_seen(name: str) -> None:
    with pytest.raises(workflow.NondeterminismError):
        asyncio.run(replay(name, ChangedWorkflow))
