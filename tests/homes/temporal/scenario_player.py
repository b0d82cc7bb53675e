"""A scenario played in Temporal: a workflow, activities and timers of a real test server that skips time.

The ports are those of every home. The player knows from the log what has been begun, so it waits until each activity
has reached its port, each abort has been heard, and each report has come back as a record, before the next thing
happens. A check of a call takes its turn among all else, as the scenario format has it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from attrs import define
from loopkernel.codec import record_from_text, state_from_text
from loopkernel.data import effects as commands
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind, TimerOperation
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.tool_deltas import FromTool, ToolChecked
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data.actions import TimedAction
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.agenda import Appointment, Operation
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.world import RunStopped
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import OptionalPorts, Ports
from loopkernel_adapters.temporal.activities import AgentActivities
from loopkernel_adapters.temporal.documents import CARRY_OUT, RUN, Carried, Order, Pace, batches, inputs, orders
from loopkernel_adapters.temporal.documents import carried as carried_codec
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from tests.adapters.scenario_driver.ports import (
    Life,
    ScriptedCorrector,
    ScriptedHandoffs,
    ScriptedHooks,
    ScriptedModel,
    ScriptedSummariser,
    ScriptedTools,
)
from tests.adapters.scenario_driver.scenario_player import Played, ScenarioPlayer
from tests.homes.temporal.followers import FOLLOWERS, TICK_S
from tests.homes.temporal.skipped_time import SkippedTime

PATIENCE_S = 60.0  # of real time, for what must come
LATE_S = 0.5  # of real time, for what may come: a report that nobody waits for any more
CANCEL_S = 0.05
LOOK_S = 0.01
NOTHING = batches().encode_text(())
REPORTS_S, ACTIONS_S = -160.0, 160.0  # within an instant: before the timers, and behind them
NEVER_S = 1e9  # the server's years pass while an activity waits, and no heart stops
PACE = Pace(heartbeat_seconds=NEVER_S, report_seconds=0)


@define(eq=False)
class TemporalLife(Life):
    """Knows which aborts were heard."""

    heard_abort: Callable[[Operation], None] = lambda _: None

    @override
    async def turn(self, operation: Operation, delta: Delta) -> None:
        self.heard_abort(operation)
        await super().turn(operation, delta)


class TemporalPlayer(ScenarioPlayer):
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, policy: Policy, name: str, client: Client, time: SkippedTime) -> None:
        super().__init__(scenario, policy)
        self.name = name
        self._client = client
        self.time = time
        self._loop = asyncio.get_running_loop()
        self.origin_s = 0.0
        self.timers: dict[TimerOperation, float] = {}
        self._life = TemporalLife(self._stage, self._never_posted, heard_abort=self._abort_heard)
        self._came: Counter[tuple[OperationKind, int]] = Counter()  # records, by the operation that reports
        self._checks: set[Operation] = set()  # under way
        self._aborted: set[Operation] = set()  # and nobody has heard it yet
        self._changed = asyncio.Event()
        self.over = asyncio.Event()
        self.under_way = 0  # activities
        self._handle = client.get_workflow_handle(name, result_type=str)
        session, life = self._session, self._life
        self.ports = Ports(
            provider=ScriptedModel(session, life),
            tools=ScriptedTools(session, life),
            clock=ManualClock(),
            optional=OptionalPorts(
                hooks=ScriptedHooks(session, life),
                summariser=ScriptedSummariser(session, life),
                corrector=ScriptedCorrector(session, life),
                handoffs=ScriptedHandoffs(session, life),
            ),
        )

    def _never_posted(self, delta: Delta) -> None:
        raise RunStopped(f"a {type(delta).__name__} is posted at the door, which Temporal does not have")

    @override
    async def run(self) -> Played:
        self._plan()
        self.time.enter()
        FOLLOWERS[self.name] = self
        try:
            await self._begin()
            while await self._go_on():
                pass
            await self._compare()
        except Exception as stopped:  # whatever it is, this scenario has failed, and the others go on
            self._trouble = self._trouble or repr(stopped)
        finally:
            await self._leave()
        return self._played()

    async def _leave(self) -> None:
        """Let every activity end, since each holds the server's time, and then the run."""
        self._life.over = True
        self.over.set()
        self._trouble, trouble = None, self._trouble
        await self._until(lambda: self.under_way == 0, PATIENCE_S)
        self._trouble = trouble
        with suppress(RPCError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while (await self._handle.describe()).raw_description.pending_activities:
                    await asyncio.sleep(0.01)
        with suppress(RPCError):
            await self._handle.terminate()
        self.time.leave()

    async def _begin(self) -> None:
        self.origin_s = await self.time.now_s() + TICK_S * 0.45
        carried = Carried(pace=PACE, created=self._created(self._policy))
        await self._client.start_workflow(
            RUN, carried_codec().encode_text(carried), id=self.name, task_queue="scenarios", result_type=str
        )

    async def _compare(self) -> None:
        """Whether the workflow has, and answers, what its records lead to."""
        lines = await self._handle.query("records", result_type=list[str])
        if tuple(map(record_from_text, lines)) != self._session.recording().log:
            self._faults.append("the log of the workflow is not what it has told")
        if state_from_text(await self._handle.query("state", result_type=str)) != self._session.state:
            self._faults.append("the state of the workflow is not what its log leads to")

    # --- what the workflow tells, from its thread ---

    def recorded(self, record: LogRecord) -> None:
        """A record; see `Follower`."""
        self._loop.call_soon_threadsafe(self._see, record)

    def timer_set(self, timer: TimerOperation, at_s: float) -> None:
        """A timer; see `Follower`."""
        self.timers[timer] = at_s
        self._loop.call_soon_threadsafe(self._changed.set)

    def _see(self, record: LogRecord) -> None:
        session = self._session
        try:
            session.see(record)
        except RunStopped as stopped:
            self._trouble = self._trouble or str(stopped)
        reporting = operation_of(record.delta)
        if reporting is not None:
            self._came[reporting] += 1
            self._checks.discard(session.named(*reporting))
            self._aborted.discard(session.named(*reporting))
        for effect in session.steps[-1].effects:
            self._note(effect)
        self._changed.set()

    def _note(self, effect: object) -> None:
        session, agenda = self._session, self._stage.agenda
        match effect:
            case commands.StartTimer():
                timer = session.named(OperationKind.TIMER, effect.operation)
                agenda.set_timer(timer, effect.deadline_ms, TimerFired(effect.operation))
            case commands.CancelTimer():
                agenda.drop(session.named(OperationKind.TIMER, effect.operation))
            case commands.CheckCall():
                check = session.named(OperationKind.CHECK, effect.operation)
                self._checks.add(check)
                verdict = ToolChecked(effect.operation, self.ports.tools.check(effect))
                agenda.start(check, self._stage.now_ms, (DelayedDelta(0, verdict),))
            case commands.AbortTool():
                run = session.named(OperationKind.RUN, effect.operation)
                if run not in session.stubborn and run in self._life.mouths:
                    self._aborted.add(run)
            case _:
                pass

    def _abort_heard(self, operation: Operation) -> None:
        self._aborted.discard(operation)
        self._changed.set()

    # --- what happens next ---

    async def _until(self, ready: Callable[[], bool], patience_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while not ready() and self._trouble is None:
                    self._changed.clear()
                    with suppress(TimeoutError):  # that a port was reached is told by nobody
                        await asyncio.wait_for(self._changed.wait(), LOOK_S)
        return ready() or self._trouble is not None

    @override
    async def _settle(self) -> None:
        def settled() -> bool:
            claimed = not self._session.begun and not self._aborted and len(self._session.steps) >= 2
            return claimed and all(check in self._life.mouths for check in self._checks)

        if not await self._until(settled, PATIENCE_S):
            raise RunStopped(f"nothing came of {[*self._session.begun, *self._aborted, *self._checks]}")

    @override
    async def _reach(self, due: Appointment) -> None:
        instant_s = self.origin_s + self._stage.now_ms * TICK_S
        if isinstance(due.happening, TimerFired):
            timer = due.happening.operation
            if not await self._until(lambda: timer in self.timers, PATIENCE_S):
                raise RunStopped(f"timer {timer} was never set")
            await self.time.until(self.timers[timer] + 0.01)
        elif isinstance(due.happening, TimedAction):
            await self.time.until(instant_s + ACTIONS_S)
        else:
            await self.time.until(instant_s + REPORTS_S)

    @override
    async def _utter(self, due: Appointment) -> None:
        operation, delta = due.operation, due.happening
        assert operation is not None and not isinstance(delta, TimedAction)
        key = (operation.kind, operation.number)
        before = self._came[key]
        if not isinstance(delta, TimerFired):
            self._life.mouth_of(operation).say(delta)
        expected = await self._until(lambda: self._came[key] > before, PATIENCE_S if self._is_awaited(due) else LATE_S)
        if not expected and self._is_awaited(due):
            raise RunStopped(f"the report of {operation.kind.name} {operation.number} did not come back")

    def _is_awaited(self, due: Appointment) -> bool:
        return due.operation not in self._session.aborted and due.operation not in self._session.stubborn

    @override
    async def _post(self, delta: Delta) -> None:
        # Whatever a scenario has a person say is an input.
        before = len(self._session.steps)
        await self._handle.execute_update(
            "send",
            inputs().encode_text(delta),  # type: ignore[arg-type]
            result_type=str,
        )
        await self._until(lambda: len(self._session.steps) > before, PATIENCE_S)

    # --- the activities ---

    async def take_turn(self, order: Order) -> None:
        """A check waits for its turn."""
        if isinstance(order.command, commands.CheckCall):
            mouth = self._life.mouth_of(self._session.named(OperationKind.CHECK, order.command.operation))
            self._changed.set()
            await mouth.heard()

    def enter(self) -> None:
        """An activity runs."""
        self.under_way += 1
        self.time.activities += 1

    def leave(self) -> None:
        """It runs no more."""
        self.under_way -= 1
        self.time.activities -= 1
        self._changed.set()


class ScenarioActivities:
    """The activities of every scenario that is played: each by the ports of its player."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=CARRY_OUT)
    async def carry_out(self, text: str) -> str:
        """As an agent's worker does."""
        player = FOLLOWERS[activity.info().workflow_id or ""]
        assert isinstance(player, TemporalPlayer)
        player.enter()
        working = asyncio.create_task(self._work(player, text))
        leaving = asyncio.create_task(player.over.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return NOTHING if player.over.is_set() else await working
        except asyncio.CancelledError:
            working.cancel()
            return await working
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError, ApplicationError):
                await working
            leaving.cancel()
            player.leave()

    async def _work(self, player: TemporalPlayer, text: str) -> str:
        await player.take_turn(orders().decode_text(text))
        return await AgentActivities(player.ports, self._client, None, CANCEL_S).carry_out(text)


def operation_of(delta: Delta) -> tuple[OperationKind, int] | None:
    """The operation that the delta reports of."""
    match delta:
        case FromModel():
            return (OperationKind.MODEL, delta.operation)
        case ToolChecked():
            return (OperationKind.CHECK, delta.operation)
        case FromTool():
            return (OperationKind.RUN, delta.operation)
        case TimerFired():
            return (OperationKind.TIMER, delta.operation)
        case HookAnswered():
            return (OperationKind.HOOK, delta.operation)
        case CorrectionAnswered():
            return (OperationKind.CORRECTION, delta.operation)
        case SummaryReady() | SummaryFailed():
            return (OperationKind.SUMMARY, delta.operation)
        case HandoffDone() | HandoffFailed():
            return (OperationKind.HANDOFF, delta.operation)
        case _:
            return None
