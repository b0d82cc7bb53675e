"""A scenario played in Temporal: a workflow, activities and timers of a real server, at the time of the scenario.

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
from loopkernel.data.ids import OperationKind
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
from loopkernel.data.states import Done
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
from loopkernel_adapters.temporal.remote_operations import key_of
from loopkernel_adapters.temporal.updates import asked, queried, updated
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from tests.adapters.scenario_driver.ports import (
    Life,
    Mouth,
    ScriptedCorrector,
    ScriptedHandoffs,
    ScriptedHooks,
    ScriptedModel,
    ScriptedSummariser,
    ScriptedTools,
)
from tests.adapters.scenario_driver.scenario_player import Played, ScenarioPlayer
from tests.homes.temporal.followers import FOLLOWERS

PATIENCE_S = 60.0  # of real time, for what must come
CANCEL_S = 0.05  # between the heartbeats of what is to hear of an abort
NEVER_S = 1e9  # no heart stops here
PACE = Pace(heartbeat_seconds=NEVER_S, report_seconds=0)
NOTHING = batches().encode_text(())


class UnplayableError(Exception):
    """The scenario has something happen that this home does not let happen. Its words say what."""


@define(eq=False)
class TemporalLife(Life):
    """Tells when a port listens, or has heard of its abort."""

    listens: Callable[[], None] = lambda: None
    heard_abort: Callable[[Operation], None] = lambda _: None

    @override
    def mouth_of(self, operation: Operation) -> Mouth:
        mouth = super().mouth_of(operation)
        self.listens()
        return mouth

    @override
    async def turn(self, operation: Operation, delta: Delta) -> None:
        self.heard_abort(operation)
        await super().turn(operation, delta)


class TemporalPlayer(ScenarioPlayer):
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, policy: Policy, name: str, client: Client) -> None:
        super().__init__(scenario, policy)
        self.name = name
        self.unplayable: str | None = None  # why the scenario cannot be played here after all
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._life = TemporalLife(
            self._stage, self._posted_by_a_port, listens=self._changed.set, heard_abort=self._abort_heard
        )
        self._told: list[LogRecord] = []
        self._came: Counter[Operation] = Counter()  # records, by the operation that reports
        self._checks: set[Operation] = set()  # that have not reported
        self._aborted: set[Operation] = set()  # and nobody has heard it yet
        self.aborts = asyncio.Event()  # there are such
        self._under_way: Counter[Operation | None] = Counter()  # activities; None: of hooks that only observe
        self.over = asyncio.Event()
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

    def _posted_by_a_port(self, delta: Delta) -> None:
        self.unplayable = f"a {type(delta).__name__} is made up at the door, where Temporal takes no reports"
        self._changed.set()

    @override
    async def run(self) -> Played:
        self._plan()
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
            del FOLLOWERS[self.name]
        return self._played()

    async def _begin(self) -> None:
        carried = Carried(pace=PACE, created=self._created(self._policy))
        text, found = carried_codec().encode_text(carried), WorkflowIDConflictPolicy.USE_EXISTING
        await asked(
            lambda: self._client.start_workflow(
                RUN, text, id=self.name, task_queue="scenarios", result_type=str, id_conflict_policy=found
            )
        )

    async def _compare(self) -> None:
        """Whether the workflow has, and answers, what its records lead to."""
        lines = await queried(self._handle, "records", list[str])
        if tuple(map(record_from_text, lines)) != self._session.recording().log:
            self._faults.append("the log of the workflow is not what it has told")
        if state_from_text(await queried(self._handle, "state", str)) != self._session.state:
            self._faults.append("the state of the workflow is not what its log leads to")

    async def _leave(self) -> None:
        """Let every activity end, and then the run."""
        self._life.over = True
        self.over.set()
        with suppress(RPCError):  # it has ended by itself
            await self._handle.terminate()
        if not await self._wait(lambda: self._under_way.total() == 0):
            self._trouble = self._trouble or f"still under way at the end: {[*self._under_way]}"

    # --- what the workflow tells, from its thread ---

    def time_of(self, number: int) -> int:
        """See `Follower`."""
        return self._told[number].now_ms if number < len(self._told) else self._stage.now_ms

    def recorded(self, number: int, record: LogRecord) -> None:
        """A record; see `Follower`."""
        if number == len(self._told):
            self._told.append(record)
            self._loop.call_soon_threadsafe(self._see, record)
        elif self._told[number] != record:
            self._faults.append(f"record {number} is another one in a replay")

    def _see(self, record: LogRecord) -> None:
        session = self._session
        try:
            session.see(record)
        except RunStopped as stopped:
            self._trouble = self._trouble or str(stopped)
        reporting = operation_of(record.delta)
        if reporting is not None:
            operation = session.named(*reporting)
            self._came[operation] += 1
            self._checks.discard(operation)
            self._abort_heard(operation)
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
            case commands.AbortModel():
                self._abort(session.named(OperationKind.MODEL, effect.operation))
            case commands.AbortTool():
                self._abort(session.named(OperationKind.RUN, effect.operation))
            case commands.AbortOther():
                self._abort(session.named(effect.kind, effect.operation))
            case _:
                pass

    def _abort(self, operation: Operation) -> None:
        if operation not in self._session.stubborn and self._under_way[operation]:
            self._aborted.add(operation)
            self.aborts.set()

    def _abort_heard(self, operation: Operation) -> None:
        self._aborted.discard(operation)
        if not self._aborted:
            self.aborts.clear()
        self._changed.set()

    # --- what happens next ---

    async def _until(self, ready: Callable[[], bool]) -> bool:
        """Whether it has come to that; False: it takes too long. Raises UnplayableError."""
        came = await self._wait(lambda: ready() or self._trouble is not None or self.unplayable is not None)
        if self.unplayable is not None:
            raise UnplayableError(self.unplayable)
        return came

    async def _wait(self, ready: Callable[[], bool]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while not ready():
                    self._changed.clear()
                    await self._changed.wait()
        return ready()

    @override
    async def _settle(self) -> None:
        def settled() -> bool:
            claimed = not self._session.begun and not self._aborted and len(self._session.steps) >= 2
            return claimed and self._checks <= self._life.mouths.keys()

        if not await self._until(settled):
            raise RunStopped(f"nothing came of {[*self._session.begun, *self._aborted, *self._checks]}")

    @override
    async def _reach(self, due: Appointment) -> None:
        pass  # the time is the stage's

    @override
    async def _utter(self, due: Appointment) -> None:
        operation, delta = due.operation, due.happening
        assert operation is not None and not isinstance(delta, TimedAction)
        before = self._came[operation]
        if isinstance(delta, TimerFired):
            await asked(lambda: self._handle.signal("fire", delta.operation))
        elif isinstance(delta, ToolChecked) and not self._session.awaits(delta.operation):
            self._checks.discard(operation)  # in the format nobody gives a verdict that nobody waits for
            return
        elif operation.kind is not OperationKind.RUN and operation in self._session.stubborn:
            self.unplayable = "something is said after its abort, which is heard here of tools alone"
        else:
            self._life.mouth_of(operation).say(delta)
        if not await self._until(lambda: self._came[operation] > before):
            raise RunStopped(f"the report of {operation.kind.name} {operation.number} did not come back")

    @override
    async def _post(self, delta: Delta) -> None:
        # Whatever a scenario has a person say is an input.
        before = len(self._session.steps)
        try:
            await updated(self._handle, "send", str, inputs().encode_text(delta))  # type: ignore[arg-type]
        except RPCError:
            if isinstance(self._session.state, Done):
                self.unplayable = "something is said to a run that is over, and so is its workflow"
            raise
        await self._until(lambda: len(self._session.steps) > before)

    # --- the activities ---

    async def take_turn(self, order: Order) -> None:
        """A check waits for its turn."""
        if isinstance(order.command, commands.CheckCall):
            await self._life.mouth_of(self._session.named(*key_of(order.command))).heard()

    def enter(self, order: Order) -> Operation | None:
        """An activity runs, for that operation."""
        command = order.command
        operation = None if isinstance(command, commands.TellHook) else self._session.named(*key_of(command))
        self._under_way[operation] += 1
        return operation

    def leave(self, operation: Operation | None) -> None:
        """An activity runs no more."""
        self._under_way[operation] -= 1
        if operation is not None:
            self._abort_heard(operation)
        self._changed.set()


class ScenarioActivities:
    """The activities of every scenario that is played: each by the ports of its player."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=CARRY_OUT)
    async def carry_out(self, text: str) -> str:
        """As an agent's worker does, until the scenario is over."""
        player, order = FOLLOWERS[activity.info().workflow_id or ""], orders().decode_text(text)
        assert isinstance(player, TemporalPlayer)
        operation = player.enter(order)
        working = asyncio.create_task(self._work(player, order, text))
        others = [asyncio.create_task(player.over.wait()), asyncio.create_task(_beat(player))]
        try:
            while not (working.done() or player.over.is_set()):
                try:
                    await asyncio.wait({working, others[0]}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:  # an abort
                    working.cancel()
            return await working if working.done() else NOTHING
        finally:
            for other in (*others, working):
                other.cancel()
            working.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody asks for it
            player.leave(operation)

    async def _work(self, player: TemporalPlayer, order: Order, text: str) -> str:
        await player.take_turn(order)
        return await AgentActivities(player.ports, self._client, None, NEVER_S).carry_out(text)


async def _beat(player: TemporalPlayer) -> None:
    """Ask the server for a cancellation as long as one is to come: it tells of none by itself."""
    while await player.aborts.wait():
        activity.heartbeat()
        await asyncio.sleep(CANCEL_S)


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
