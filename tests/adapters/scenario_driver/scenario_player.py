"""A scenario played in some home of runs: what is due, said in its turn; whatever a home does is its own.

A home opens a run, takes inputs, and tells of each record; the ports, behind which the scenario's world sits, are the
same in all. `player.py` is the process, `tests/homes` has others.
"""

import abc

from attrs import evolve, frozen
from loopkernel.data import user_deltas
from loopkernel.data.deltas import Delta
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Created
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.actions import TimedAction
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.agenda import Appointment
from loopkernel.testing.scenarios.player.drive import SESSION
from loopkernel.testing.scenarios.player.recording import Recording
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.start import foreign_messages, name_start_calls
from loopkernel.testing.scenarios.player.user_inputs import delta_of
from loopkernel.testing.scenarios.player.world import RunStopped, World

from tests.adapters.scenario_driver.session import FollowedSession


@frozen(kw_only=True)
class Played:
    """A scenario that was played: what was seen, and what the home did otherwise than its log says."""

    run: Recording
    faults: tuple[str, ...]

    @property
    def log(self) -> tuple[LogRecord, ...]:
        """What the home has written."""
        return self.run.log


class ScenarioPlayer(abc.ABC):
    """One run of one scenario in one home."""

    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self._scenario = scenario
        self._policy = policy
        self._stage: ScenarioStage[FollowedSession] = ScenarioStage()
        self._session = FollowedSession(self._stage, transition, World(scenario))
        self._trouble: str | None = None
        self._faults: list[str] = []

    @abc.abstractmethod
    async def run(self) -> Played:
        """Everything, until nothing is left to happen."""

    @abc.abstractmethod
    async def _settle(self) -> None:
        """Return when the home has done all that follows from what was said so far."""

    @abc.abstractmethod
    async def _reach(self, due: Appointment) -> None:
        """Return when it is time for that."""

    @abc.abstractmethod
    async def _utter(self, due: Appointment) -> None:
        """What is due of an operation is said by its port."""

    @abc.abstractmethod
    async def _post(self, delta: Delta) -> None:
        """Somebody says that to the run."""

    async def _happens_to_the_home(self, action: actions.UserAction) -> bool:
        """Whether this happens to the home itself, which has seen to it."""
        return False

    def _created(self, policy: Policy) -> Created:
        """How the run begins."""
        return Created(
            session_id=SESSION,
            policy=policy,
            tools=self._session.world.offered_tools(),
            start=foreign_messages(self._scenario.start),
        )

    def _played(self) -> Played:
        children = tuple(child.recording() for child in self._stage.sessions[1:])
        run = evolve(self._session.recording(), trouble=self._trouble, children=children)
        return Played(run=run, faults=tuple(dict.fromkeys(self._faults)))

    def _plan(self) -> None:
        name_start_calls(self._scenario.start, self._session.names)
        self._stage.plan(self._scenario.user)

    # --- what is due --------------------------------------------------------------------------------------

    async def _go_on(self) -> bool:
        """The next thing happens; False if nothing is left."""
        await self._settle()
        if self._trouble is not None:
            raise RunStopped(self._trouble)
        if self._stage.urgent:  # now that whatever the step has started has begun
            await self._act(self._stage.urgent.pop(0))
            return True
        due = self._stage.next()
        if due is None:
            return False
        await self._reach(due)
        if isinstance(due.happening, TimedAction):
            await self._act(due.happening)
        elif due.operation is not None:
            await self._utter(due)
        return True

    # --- what the user does -------------------------------------------------------------------------------

    async def _act(self, timed: TimedAction) -> None:
        action, session = timed.action, self._session
        if isinstance(action, actions.ChangeTools):
            session.world.change_tools(action.tools)
            await self._post(user_deltas.ChangeTools(session.world.offered_tools()))
        elif not await self._happens_to_the_home(action):
            await self._post(delta_of(action, session.names))
