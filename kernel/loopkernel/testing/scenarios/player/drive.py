"""The virtual-time driver: runs a scenario against the kernel, bounded, with no clock.

recording = Drive(scenario, policy, transition).run()
"""

from attrs import evolve

from loopkernel.data import user_deltas
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.thread_deltas import Created, Forked, Resumed
from loopkernel.data.tools import Tool
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.actions import TimedAction
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.driven_kernel import DrivenKernel
from loopkernel.testing.scenarios.player.recording import Recording
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.start import foreign_messages, name_start_calls
from loopkernel.testing.scenarios.player.trace_lines import CRASHED
from loopkernel.testing.scenarios.player.user_inputs import delta_of
from loopkernel.testing.scenarios.player.world import RunStopped, World

SESSION = "scenario"


class Drive:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, policy: Policy, transition: Transition) -> None:
        self._scenario = scenario
        self._policy = policy
        self._stage: ScenarioStage[DrivenKernel] = ScenarioStage()
        self._kernel = DrivenKernel(self._stage, transition, World(scenario))

    def run(self) -> Recording:
        """Everything, until nothing is left to happen."""
        trouble = None
        try:
            self._begin()
            while self._go_on():
                pass
        except RunStopped as stopped:
            trouble = str(stopped)
        return evolve(
            self._kernel.recording(),
            trouble=trouble,
            raised=self._stage.raised,
            children=tuple(child.recording() for child in self._stage.sessions[1:]),
        )

    def _begin(self) -> None:
        name_start_calls(self._scenario.start, self._kernel.names)
        self._stage.plan(self._scenario.user)
        created = Created(
            session_id=SESSION,
            policy=self._policy,
            tools=self._kernel.world.offered_tools(),
            start=foreign_messages(self._scenario.start),
        )
        self._kernel.create(created)
        self._stage.notice()

    def _go_on(self) -> bool:
        """The next thing happens; False if nothing is left."""
        stage = self._stage
        if stage.urgent:
            self._act(stage.urgent.pop(0))
            return True
        due = stage.next()
        if due is None:
            return False
        if isinstance(due.happening, TimedAction):
            self._act(due.happening)
        elif due.operation is not None:
            stage.sessions[due.operation.kernel].hear(due.operation, due.happening)
            stage.notice()
        return True

    def _deliver(self, delta: Delta) -> None:
        self._kernel.deliver(delta)
        self._stage.notice()

    # --- what the user, and the machine, do ---------------------------------------------------------------

    def _act(self, timed: TimedAction) -> None:
        action, kernel = timed.action, self._kernel
        if isinstance(action, actions.ReportAgain):
            self._deliver(kernel.report_behind(action.pattern))
        elif isinstance(action, actions.ChangeTools):
            kernel.world.change_tools(action.tools)
            self._deliver(user_deltas.ChangeTools(kernel.world.offered_tools()))
        elif isinstance(action, actions.Crash):
            self._crash(action)
        elif isinstance(action, actions.Fork):
            self._forget_all_in_flight()
            kernel.disown_children()
            self._deliver(Forked(session_id=f"{SESSION}, forked at step {len(kernel.steps)}"))
        else:
            self._say(action)

    def _say(self, action: actions.UserAction) -> None:
        """A user's word goes to the kernel, or where it is about a call of a sub-agent, to that."""
        kernel = self._kernel
        if isinstance(action, OfCall) and action.call is not None:
            way, name = kernel.addressed(action.call)
            kernel, action = (kernel, *way)[-1], evolve(action, call=name)
        kernel.deliver(delta_of(action, kernel.names))
        self._stage.notice()

    def _crash(self, crash: actions.Crash) -> None:
        """The process dies: reports of work in flight never come. It is restarted from its log."""
        self._kernel.print(CRASHED, self._stage.now_ms)
        self._stage.notice()
        self._forget_all_in_flight()
        self._stage.now_ms += crash.down_ms
        settings = self._kernel.settings
        tools = self._kernel.world.offered_tools()
        self._kernel.restart(resumption(crash, self._policy, settings, tools))
        self._stage.notice()

    def _forget_all_in_flight(self) -> None:
        self._stage.agenda.drop_all()
        self._kernel.forget_all_in_flight()


# What a user says about one call.
OfCall = (
    actions.Approve
    | actions.Reject
    | actions.Correct
    | actions.Swap
    | actions.Answer
    | actions.AfterCrash
    | actions.Cancel
)


def resumption(crash: actions.Crash, policy: Policy, settings: Settings, tools: tuple[Tool, ...]) -> Resumed:
    """The delta that a log under these settings goes on with; `policy` and `tools` are the person's own."""
    if crash.doubted:
        own = evolve(policy, approval_mode=crash.mode or ApprovalMode.DEFAULT)
        return Resumed(policy=own, tools=tools, instructions="", remembered=(), doubted=True)
    given = settings.policy if crash.mode is None else evolve(settings.policy, approval_mode=crash.mode)
    return Resumed(policy=None if given == settings.policy else given)
