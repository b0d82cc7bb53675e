"""A worker for the runs of one agent: the workflow in Temporal's sandbox, activities, and the door of updates."""

from collections.abc import Sequence
from datetime import timedelta

from loopkernel.later_typing import override
from temporalio.client import Client
from temporalio.worker import (
    HandleUpdateInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.temporal.activities import AgentActivities, Watcher
from loopkernel_adapters.temporal.workflow import RunWorkflow

# What the sandbox takes as it is: pure modules, and values of the kernel. The workflow itself is loaded anew.
PASSED_THROUGH = ("attr", "attrs", "loopkernel", "loopkernel_adapters.driver", "loopkernel_adapters.temporal.documents")
# A step holds the interpreter, so more of them at once only take longer each: and whatever takes longer than 2 s is
# taken for a deadlock by the library, than 10 s for the death of a worker by the server, which both have it done anew.
STEPS_AT_ONCE = 4


def temporal_worker(
    client: Client,
    task_queue: str,
    agent: Agent,
    *,
    watch: Watcher | None = None,
    workflow: type[RunWorkflow] = RunWorkflow,
    most_at_once: int = 100,
    cancel_seconds: float = 1.0,
) -> Worker:
    """A worker for the runs of the agent; use it as `async with temporal_worker(...)`, or `await worker.run()`.

    `watch` sees every delta of an activity of this worker as it comes, with the id of its run: so a reply streams to a
    screen, and is no part of a history. `most_at_once` activities are carried out here at a time. What is to
    stop hears of it within `cancel_seconds`; each activity asks the server so often, and no history has it.
    """
    ports = agent.ports
    activities = AgentActivities(ports, client, watch, cancel_seconds)
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[workflow],
        activities=[activities.carry_out],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        interceptors=_doors(ports.secrets),
        max_concurrent_workflow_tasks=STEPS_AT_ONCE,
        max_concurrent_activities=most_at_once,
        max_heartbeat_throttle_interval=timedelta(seconds=cancel_seconds),
    )


def _doors(secrets: Secrets) -> Sequence[Interceptor]:
    return (UpdateDoor(secrets),) if secrets else ()


class UpdateDoor(Interceptor):
    """Refuses an update that holds the value of a secret, before it is in the history.

    A `TemporalRun` that knows the agent's secrets hides them itself; this is for who does not. A validator is asked
    once and never in a replay, so it may know what the history does not.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    @override
    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        secrets = self._secrets

        class Door(WorkflowInboundInterceptor):
            @override
            def handle_update_validator(self, input: HandleUpdateInput) -> None:
                if any(isinstance(text, str) and secrets.hide(text) != text for text in input.args):
                    raise ValueError(
                        "the input holds the value of a registered secret: write its handle, {{secret:NAME}}, instead"
                    )
                super().handle_update_validator(input)

        return Door
