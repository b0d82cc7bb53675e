"""The workflow, with the time of a scenario: a millisecond takes 400 seconds on the server, which skips them."""

from loopkernel.later_typing import override
from loopkernel_adapters.temporal.documents import RUN
from loopkernel_adapters.temporal.workflow import RunWorkflow
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from loopkernel.data.effects import StartTimer
    from loopkernel.replaying import LogRecord

    from tests.homes.temporal.followers import FOLLOWERS, TICK_S, Follower

APART_S = 0.02  # timers of one instant fire one after the other
SOONEST_S = 10.0  # a timer whose deadline has passed fires only when the player lets it


@workflow.defn(name=RUN)
class ScenarioWorkflow(RunWorkflow):
    """A run whose player is in this process."""

    @workflow.init
    def __init__(self, carried: str) -> None:
        super().__init__(carried)

    @workflow.run
    @override
    async def run(self, carried: str) -> str:
        return await super().run(carried)

    @property
    def _follower(self) -> Follower:
        return FOLLOWERS[workflow.info().workflow_id]

    @override
    def now_ms(self) -> int:
        return round((workflow.time() - self._follower.origin_s) / TICK_S)

    @override
    def seconds_until(self, timer: StartTimer) -> float:
        follower, now_s = self._follower, workflow.time()
        due_s = follower.origin_s + timer.deadline_ms * TICK_S + timer.operation * APART_S
        at_s = max(due_s, now_s + SOONEST_S)
        follower.timer_set(timer.operation, at_s)
        return at_s - now_s

    @override
    def _record(self, record: LogRecord) -> None:
        super()._record(record)
        if not workflow.unsafe.is_replaying():
            self._follower.recorded(record)
