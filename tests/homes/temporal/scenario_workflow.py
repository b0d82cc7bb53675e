"""The workflow, at the time of a scenario: its player says what time it is, and when a timer of Temporal fires."""

from loopkernel.later_typing import override
from loopkernel_adapters.temporal.documents import RUN
from loopkernel_adapters.temporal.workflow import RunWorkflow
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from loopkernel.data.effects import CancelTimer, StartTimer
    from loopkernel.replaying import LogRecord

    from tests.homes.temporal.followers import FOLLOWERS, Follower

NEVER_S = 86_400.0
AT_ONCE_S = 0.001


@workflow.defn(name=RUN)
class ScenarioWorkflow(RunWorkflow):
    """A run whose player is in this process."""

    @workflow.init
    def __init__(self, carried: str) -> None:
        self._due: set[int] = set()
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
        return self._follower.time_of(len(self._records))

    @override
    def seconds_until(self, timer: StartTimer) -> float:
        return AT_ONCE_S if timer.operation in self._due else NEVER_S

    @workflow.signal
    def fire(self, number: int) -> None:
        """It is time for that timer: it is set anew, to fire now."""
        for timer in self._operations.timers:
            if timer.operation == number:
                self._due.add(number)
                self._operations.begin(CancelTimer(timer.operation), self._state)
                self._operations.begin(timer, self._state)

    @override
    def _record(self, record: LogRecord) -> None:
        self._follower.recorded(len(self._records), record)
        super()._record(record)
