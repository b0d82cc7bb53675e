"""The virtual-time driver: runs a scenario against the kernel, bounded, with no clock.

recording = Drive(scenario, policy, transition).run()
"""

from collections.abc import Sequence
from typing import assert_never

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
from loopkernel.testing.scenarios.data.actions import At, TimedAction, When
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.driven_kernel import MAX_DELTAS as MAX_DELTAS
from loopkernel.testing.scenarios.player.driven_kernel import Common, DrivenKernel
from loopkernel.testing.scenarios.player.recording import Recording, TraceLine
from loopkernel.testing.scenarios.player.reports_again import report_behind
from loopkernel.testing.scenarios.player.start import foreign_messages, name_start_calls
from loopkernel.testing.scenarios.player.trace_lines import CRASHED
from loopkernel.testing.scenarios.player.user_inputs import delta_of
from loopkernel.testing.scenarios.player.world import RunStopped, World
from loopkernel.testing.scenarios.trace import matches

MAX_MS = 24 * 60 * 60 * 1_000
SESSION = "scenario"


class Drive:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, policy: Policy, transition: Transition) -> None:
        self._scenario = scenario
        self._policy = policy
        self._common = Common(transition)
        self._kernel = DrivenKernel(self._common, World(scenario))
        self._waiting: list[tuple[int, When, TimedAction]] = []  # with their places in the file
        self._urgent: list[TimedAction] = []  # due right after the step that has just been taken
        self._noticed = 0  # of the lines of the trace, by actions that wait for one

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
            lines=tuple(self._common.lines),
            trouble=trouble,
            raised=self._common.raised,
            children=tuple(child.recording() for child in self._common.kernels[1:]),
        )

    def _begin(self) -> None:
        name_start_calls(self._scenario.start, self._kernel.names)
        for index, action in enumerate(self._scenario.user):
            match action.timing:
                case At(ms):
                    self._common.agenda.plan(index, ms, action)
                case When() as when:
                    self._waiting.append((index, when, action))
                case _:
                    assert_never(action.timing)
        created = Created(
            session_id=SESSION,
            policy=self._policy,
            tools=self._kernel.world.offered_tools(),
            start=foreign_messages(self._scenario.start),
        )
        self._kernel.begin(created)
        self._trigger()

    def _go_on(self) -> bool:
        """The next thing happens; False if nothing is left."""
        common = self._common
        if self._urgent:
            self._act(self._urgent.pop(0))
            return True
        due = common.agenda.next()
        if due is None:
            return False
        common.now_ms = max(common.now_ms, due.at_ms)
        if common.now_ms > MAX_MS:
            raise RunStopped(f"never settled: the run went on beyond 24 h of virtual time{common.last_lines()}")
        if isinstance(due.happening, TimedAction):
            self._act(due.happening)
        elif due.operation is not None:
            common.kernels[due.operation.kernel].take(due.operation, due.happening)
            self._trigger()
        return True

    def _deliver(self, delta: Delta) -> None:
        self._kernel.deliver(delta)
        self._trigger()

    def _trigger(self) -> None:
        """Actions that wait for one of the new lines become due: now, before anything else, or later."""
        lines = self._common.lines
        printed: Sequence[TraceLine] = lines[self._noticed :]
        self._noticed = len(lines)
        waiting = self._waiting
        self._waiting = []
        urgent: list[TimedAction] = []
        for index, when, action in waiting:
            new = sum(matches(when.pattern, line.text) for line in printed)
            seen = sum(matches(when.pattern, line.text) for line in lines) if new else 0
            if not seen - new < when.nth <= seen:
                self._waiting.append((index, when, action))
            elif when.after_ms == 0:
                urgent.append(action)
            else:
                self._common.agenda.plan(index, self._common.now_ms + when.after_ms, action)
        self._urgent = urgent + self._urgent

    # --- what the user, and the machine, do ---------------------------------------------------------------

    def _act(self, timed: TimedAction) -> None:
        action, kernel = timed.action, self._kernel
        if isinstance(action, actions.ReportAgain):
            self._deliver(self._report_behind(action.pattern))
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
            kernel, name = kernel.addressed(action.call)
            action = evolve(action, call=name)
        kernel.deliver(delta_of(action, kernel.names))
        self._trigger()

    def _report_behind(self, pattern: str) -> Delta:
        """The report that caused the last line that matches."""
        kernel = self._kernel
        lines, runs = self._common.lines, kernel.runs.values()
        found = report_behind(pattern, lines, kernel.steps, kernel.ends, runs)
        if found is None:
            raise RunStopped(f"no report stands behind a line that matches `{pattern}`{self._common.last_lines()}")
        return found

    def _crash(self, crash: actions.Crash) -> None:
        """The process dies: reports of work in flight never come. It is restarted from its log."""
        self._common.print(CRASHED)
        self._trigger()
        self._forget_all_in_flight()
        self._common.now_ms += crash.down_ms
        settings = self._kernel.settings
        tools = self._kernel.world.offered_tools()
        self._kernel.restart(resumption(crash, self._policy, settings, tools))
        self._trigger()

    def _forget_all_in_flight(self) -> None:
        self._common.agenda.drop_all()
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
