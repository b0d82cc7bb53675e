"""One run of one scenario on the real driver: what is due, said in its turn; crashes and restarts; and the end.

What no honest port can send (a report that comes twice) is posted at the driver's door. A crash is a driver that is
dropped as it is, and another that is opened on what its store holds.
"""

import asyncio
from collections.abc import Callable, Sequence

from attrs import evolve
from loopkernel.data import user_deltas
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, Command
from loopkernel.data.events import Event
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.actions import TimedAction, When
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.agenda import Appointment
from loopkernel.testing.scenarios.player.drive import SESSION, OfCall
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.trace_lines import CRASHED
from loopkernel.testing.scenarios.player.user_inputs import delta_of
from loopkernel.testing.scenarios.player.world import RunStopped
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.asyncio_driver import Driver, is_event
from loopkernel_adapters.driver.taking_up import ResumeSettings
from loopkernel_adapters.optional_ports import NoSuchAgent, OptionalPorts, Ports
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

from tests.adapters.scenario_driver.agents import ScriptedAgents
from tests.adapters.scenario_driver.ports import (
    FollowedStore,
    Life,
    ScriptedClock,
    ScriptedCorrector,
    ScriptedHandoffs,
    ScriptedHooks,
    ScriptedModel,
    ScriptedSummariser,
    ScriptedTools,
)
from tests.adapters.scenario_driver.scenario_player import Played, ScenarioPlayer
from tests.adapters.scenario_driver.session import FollowedSession

# --- a driver whose checks report in their turn ----------------------------------------------------------
# The port `Tools.check` is synchronous, so the driver has each verdict at once, ahead of all else that is due at that
# instant. In the scenario format a check is an operation of 0 ms, and what is to happen right behind the step that
# began it comes before its report. Only scenarios in which something does can tell one from the other; they are
# played with the verdict held back until its turn. All other scenarios are played on the driver as it is.


def is_checked_in_turn(scenario: Scenario) -> bool:
    """Whether somebody acts right behind a step, and so perhaps ahead of a verdict."""
    times = (action.timing for action in scenario.user)
    return any(isinstance(time, When) and time.after_ms == 0 for time in times)


class TurnTakingDriver(Driver):
    """A driver that gives each verdict of a check to `hold`, instead of taking it at once."""

    def take_turns(self, hold: Callable[[Delta], None]) -> None:
        """From now on `hold` gets the verdicts."""
        begin = self._operations.begin

        def begin_in_turn(command: Command, state: State) -> Delta | None:
            report = begin(command, state)
            if not isinstance(command, CheckCall) or report is None:
                return report
            hold(report)
            return None

        vars(self._operations)["begin"] = begin_in_turn


# What a person does about a call, in the words of the trace.
_WORDS: dict[type[Delta], str] = {
    user_deltas.Approve: "approve",
    user_deltas.Reject: "reject",
    user_deltas.Correct: "correct",
    user_deltas.Swap: "swap",
    user_deltas.AnswerQuestion: "answer",
    user_deltas.AnswerAfterCrash: "after_crash",
    user_deltas.CancelCall: "cancel",
}

NO_CRASH = actions.Crash()  # how a session begins


class ScenarioDriver(ScenarioPlayer):
    """One run of one scenario on the real driver."""

    def __init__(self, scenario: Scenario, policy: Policy, loop: VirtualLoop) -> None:
        super().__init__(scenario, policy)
        self._loop = loop
        self._crash: actions.Crash | None = None  # that is due
        self._sending: set[asyncio.Task[None]] = set()
        self._life = Life(self._stage, self._post_now)
        self._seen: list[Event] = []  # by an observer, in this life
        self._told = 0  # of the session's steps, before this life
        self._driver: Driver | None = None

    @override
    async def run(self) -> Played:
        """Everything, until nothing is left to happen."""
        self._plan()
        try:
            await self._open(())
            while await self._go_on():
                pass
            await self._end()
        except RunStopped as stopped:
            self._trouble = self._trouble or str(stopped)
        except StoreError as error:
            self._trouble = self._trouble or f"the driver failed: {error}"
        self._life.over = True
        await self._let_die()
        self._faults += [
            f"the loop heard of: {told.get('message')} {told.get('exception')!r}" for told in self._loop.complaints
        ]
        return self._played()

    # --- lives of the process -----------------------------------------------------------------------------

    async def _open(self, before: Sequence[LogRecord], crash: actions.Crash = NO_CRASH) -> None:
        self._life = life = Life(self._stage, self._post_now)
        self._seen, self._told = [], len(self._session.steps)
        ports = self._ports_of(self._session, life)
        own = evolve(self._policy, approval_mode=ApprovalMode.DEFAULT) if crash.doubted else self._policy
        kind = TurnTakingDriver if is_checked_in_turn(self._scenario) else Driver
        self._driver = driver = await kind.open(
            store=FollowedStore(self._session, life, before, doubt="the scenario says so" if crash.doubted else None),
            created=self._created(own),
            provider=ports.provider,
            tools=ports.tools,
            clock=ports.clock,
            optional=ports.optional,
            observers=(self._seen.append,),
            resume_with=ResumeSettings(mode=crash.mode),
            nonce="",  # the log is compared with that of the pure kernel
        )
        if isinstance(driver, TurnTakingDriver):
            driver.take_turns(self._hold)
        await driver.__aenter__()

    async def _close(self) -> None:
        assert self._driver is not None
        self._life.closing = True
        await self._driver.close()

    def _events(self) -> list[Event]:
        """Those that follow from what the log holds of this life."""
        steps = self._session.steps[self._told :]
        return [effect for step in steps for effect in step.effects if is_event(effect)]

    def _ports_of(self, session: FollowedSession, life: Life) -> Ports:
        return Ports(
            provider=ScriptedModel(session, life),
            tools=ScriptedTools(session, life),
            clock=ScriptedClock(session, life),
            optional=OptionalPorts(
                hooks=ScriptedHooks(session, life),
                summariser=ScriptedSummariser(session, life),
                corrector=ScriptedCorrector(session, life),
                handoffs=ScriptedHandoffs(session, life),
                agents=ScriptedAgents(session, life, self._ports_of, self._store_of),
            ),
        )

    def _store_of(self, session: FollowedSession, life: Life) -> BlockingStore:
        return FollowedStore(session, life, session.recording().log)

    async def _let_die(self) -> None:
        """End the tasks of a life that is over: nothing of what they do now is written or heard."""
        me = asyncio.current_task()
        while tasks := [task for task in asyncio.all_tasks() if task is not me]:
            for task in tasks:
                task.cancel()
            await self._loop.idle()

    async def _end(self) -> None:
        """Close the driver, and look whether it has kept to its log, and let go of all that it had."""
        driver, session = self._driver, self._session
        assert driver is not None
        await asyncio.gather(*self._sending)
        for operation in (one for other in self._stage.sessions for one in other.begun):
            self._faults.append(f"{operation.kind.name} {operation.number} is in the log, and was never begun")
        await self._close()
        if self._seen != self._events():
            self._faults.append("the events that an observer saw are not those that follow from the log")
        if driver.state != session.state:
            self._faults.append("the state of the driver is not what its log leads to")
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if left:
            self._faults.append(f"tasks are left after close: {left}")
        if self._life.timers:
            self._faults.append(f"{len(self._life.timers)} timers are left after close")

    # --- what is due --------------------------------------------------------------------------------------

    @override
    async def _settle(self) -> None:
        await self._loop.idle()
        while self._crash is not None and self._trouble is None:
            await self._die_and_rise(self._crash)
            await self._loop.idle()

    @override
    async def _reach(self, due: Appointment) -> None:
        pass  # the clock is the stage's

    @override
    async def _utter(self, due: Appointment) -> None:
        assert due.operation is not None and not isinstance(due.happening, TimedAction)
        self._life.utter(due.operation, due.happening)

    # --- what the user, and the machine, do ---------------------------------------------------------------

    @override
    async def _happens_to_the_home(self, action: actions.UserAction) -> bool:
        session = self._session
        if isinstance(action, actions.ReportAgain):
            self._post_now(session.report_behind(action.pattern))
        elif isinstance(action, actions.Crash):
            self._crash = action
            self._life.over = True
        elif isinstance(action, actions.Fork):
            self._life.silence()  # but for timers: those are the driver's to forget
            session.forget_all_in_flight()
            session.disown_children()
            self._post_now(Forked(session_id=f"{SESSION}, forked at step {len(session.steps)}"))
        else:
            return self._is_said_to_a_child(action)
        return True

    def _is_said_to_a_child(self, action: actions.UserAction) -> bool:
        """Whether it is about a call of a sub-agent, to which it goes."""
        if isinstance(action, OfCall) and action.call is not None:
            way, name = self._session.addressed(action.call)
            if way:
                told = delta_of(evolve(action, call=name), way[-1].names)
                task = asyncio.ensure_future(self._send(told, way))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
                return True
        return False

    async def _send(self, delta: Delta, way: Sequence[FollowedSession]) -> None:
        driver, above, within = self._driver, self._session, list[CallId]()
        for child in way:
            within.append(above.names.call_named(above.call_of(child)))
            above = child
        assert driver is not None
        try:
            await driver.send(delta, tuple(within))  # type: ignore[arg-type]  # whatever a scenario has a person say
        except NoSuchAgent:  # whoever says it is told so, and no log has it
            self._session.print(f"refused {_WORDS[type(delta)]} unknown", self._stage.now_ms)
            self._stage.notice()

    @override
    async def _post(self, delta: Delta) -> None:
        self._post_now(delta)

    def _post_now(self, delta: Delta) -> None:
        assert self._driver is not None
        # A report that comes twice is not a user's word: no honest port sends it, but the door is open.
        self._driver.post(delta)  # type: ignore[arg-type]

    def _hold(self, checked: Delta) -> None:
        """The verdict of a check is due in its turn."""
        assert isinstance(checked, ToolChecked)
        operation = self._session.named(OperationKind.CHECK, checked.operation)
        self._stage.agenda.start(operation, self._stage.now_ms, (DelayedDelta(0, checked),))

    async def _die_and_rise(self, crash: actions.Crash) -> None:
        """The process dies: reports of work in flight never come. Another takes up what the store holds."""
        self._life.over = True
        self._crash = None
        if len(self._seen) > len(self._events()):  # increments that wait to be recorded with more
            self._life.over = False
            await self._close()
            self._life.over = True
        self._session.print(CRASHED, self._stage.now_ms)
        await self._let_die()
        self._loop.complaints.clear()  # of those that died
        self._stage.agenda.drop_all()
        self._session.forget_all_in_flight()
        self._stage.notice()
        self._stage.now_ms += crash.down_ms
        await self._open(self._session.recording().log, crash)
