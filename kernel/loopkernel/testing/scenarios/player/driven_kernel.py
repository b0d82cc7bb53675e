"""A kernel in the hands of the drive: a session whose commands are carried out in virtual time, and its sub-agents.

All kernels of one run share the virtual time and the agenda. A sub-agent is a kernel of its own, driven alike; what it
has to tell its parent comes as reports of the parent's run, at the same instant.
"""

from collections.abc import Iterable

from loopkernel.data import effects as commands
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelAll, Say
from loopkernel.later_typing import override
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.child_reports import ChildReport, ChildReports
from loopkernel.testing.scenarios.player.recording import refolded
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.session import Begun, ScriptedSession
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.world import World


class DrivenKernel(ScriptedSession):
    """One kernel: the first, or a sub-agent, whose parent learns of it by reports."""

    def __init__(
        self,
        stage: "ScenarioStage[DrivenKernel]",
        transition: Transition,
        world: World,
        parent: "DrivenKernel | None" = None,
    ) -> None:
        super().__init__(stage, transition, world, parent)
        self._reports: ChildReports | None = None
        self._children: dict[RunOperation, DrivenKernel] = {}
        self._checks: set[CheckOperation] = set()  # checks that have not been seen to be closed
        self._unbilled: dict[Operation, Usage] = {}  # of aborted sub-agents, until their late reports are in

    # --- steps --------------------------------------------------------------------------------------------

    def deliver(self, delta: Delta) -> None:
        """One step, which is told to the parent."""
        step = self.follow(delta, self.stage.now_ms)
        self._drop_closed_checks()
        if self._reports is not None:
            self._tell_parent(self._reports.after(step))

    def hear(self, operation: Operation, delta: Delta) -> None:
        """A report of something that this kernel has started."""
        if isinstance(delta, ChildEnded):
            self._children.pop(delta.operation, None)
            self._unbilled.pop(operation, None)
        self.deliver(delta)

    def _drop_closed_checks(self) -> None:
        """A check whose call is closed is of no more interest: nobody reports on it."""
        if not self._checks:
            return
        ledger = ledger_in(self.state)
        waiting = set() if ledger is None else {entry.check for entry in ledger.entries}
        for check in sorted(self._checks - waiting):
            self._checks.discard(check)
            self.drop(self.named(OperationKind.CHECK, check))

    # --- commands -----------------------------------------------------------------------------------------

    @override
    def begin(self, kind: OperationKind, command: Begun, *reports: DelayedDelta) -> None:
        if isinstance(command, commands.CheckCall):
            self._checks.add(command.operation)
        super().begin(kind, command, *reports)

    @override
    def time(self, command: commands.StartTimer | commands.CancelTimer) -> None:
        operation = self.named(OperationKind.TIMER, command.operation)
        if isinstance(command, commands.StartTimer):
            self.stage.agenda.set_timer(operation, command.deadline_ms, TimerFired(command.operation))
        else:
            self.drop(operation)

    @override
    def abort_run(self, operation: Operation, run: RunOperation) -> None:
        """That it stops is told where it matters."""
        if operation in self.stubborn:
            return
        super().abort_run(operation, run)
        child = self._children.pop(run, None)
        last = None if child is None else child.stop()
        session = self.state.session
        if last is not None and last.usage != NO_USAGE:
            # What it has used is billed, however late; that report tells as well that it has stopped.
            self._unbilled[operation] = last.usage
            self.stage.agenda.start(operation, self.stage.now_ms, (DelayedDelta(0, last),))
        elif session is not None and any(held.operation == run for held in session.held):
            self.stage.agenda.start(operation, self.stage.now_ms, (DelayedDelta(0, ToolStopped(run)),))

    # --- sub-agents ---------------------------------------------------------------------------------------

    @override
    def start_child(self, command: commands.StartChild) -> "DrivenKernel":
        child = super().start_child(command)
        self._children[command.operation] = child
        if child.steps:
            child.resume(ChildReports(command.operation), command.created.policy)
        else:
            child._reports = ChildReports(command.operation)
            child.create(child.world.created(command.created))
            child.deliver(Say(content=(TextBlock(command.task),)))
        return child

    @override
    def tell_child(self, command: commands.TellChild) -> None:
        child = self._children.get(command.operation)
        if child is not None:
            child.deliver(command.delta)

    def create(self, created: Created) -> None:
        """The first records of every log."""
        self.deliver(created)
        self.deliver(Acquired())

    def resume(self, reports: ChildReports, policy: Policy) -> None:
        """The process was restarted: this sub-agent goes on from its log, under what its parent says now."""
        if self._reports is not None:
            reports.text = self._reports.text
        self._reports = reports
        self.restart(Resumed(policy=None if policy == self.settings.policy else policy))

    @property
    def settings(self) -> Settings:
        """What it goes by now."""
        assert self.state.session is not None  # it has begun
        return self.state.session.settings

    def restart(self, resumed: Resumed) -> None:
        """The state is read from the log, and the session goes on."""
        self.state = refolded(self.log, self.transition)[-1].after
        self.deliver(resumed)

    def stop(self) -> ChildEnded | None:
        """The parent has no more use for this sub-agent: all that it does is cancelled, and it reports no more."""
        reports, self._reports = self._reports, None
        self.deliver(CancelAll())
        self.stage.agenda.drop_kernel(self.number)
        return None if reports is None else reports.end(self.state, sum_of(self._unbilled.values()))

    def _tell_parent(self, told: Iterable[ChildReport]) -> None:
        if self.parent is not None and self._reports is not None:
            operation = self.parent.named(OperationKind.RUN, self._reports.operation)
            delayed = [DelayedDelta(0, report) for report in told]
            self.stage.agenda.start(operation, self.stage.now_ms, delayed)

    @override
    def forget_all_in_flight(self) -> None:
        super().forget_all_in_flight()
        self._unbilled.clear()
        self._children.clear()


def sum_of(usages: Iterable[Usage]) -> Usage:
    """All of it together."""
    total = NO_USAGE
    for usage in usages:
        total = total.plus(usage)
    return total
