"""A session of a scenario that a driver runs, followed in its log.

What the driver writes is folded here record by record. Each command that follows from a record is looked up in the
scenario at that instant, and its reports are put on the agenda; the ports (`scenario_driver_ports`) say them to the
driver when they are due. So the order of what is due together is that of the scenario format, not of the event loop.
"""

from collections.abc import Iterator

from loopkernel.data import effects as commands
from loopkernel.data.effects import Command
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.records import StepRecord
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import LogRecord, Transition
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.session import Begun, ScriptedSession
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.world import World
from typing_extensions import override


class FollowedSession(ScriptedSession):
    """One session: the first, or that of a sub-agent of `parent`."""

    def __init__(
        self,
        stage: "ScenarioStage[FollowedSession]",
        transition: Transition,
        world: World,
        parent: "FollowedSession | None" = None,
    ) -> None:
        super().__init__(stage, transition, world, parent)
        self.begun: dict[Operation, Command] = {}  # what the log holds and no port has been asked for yet
        self.aborted: set[Operation] = set()  # runs, also those that ignore it

    def see(self, record: LogRecord) -> None:
        """The log has one more record. Raises RunStopped where the scenario has no answer to what follows."""
        self.follow(record.delta, record.now_ms)
        self.stage.notice()

    @override
    def late(self, step: StepRecord) -> Iterator[Operation]:
        """In a sub-agent it stops: nobody would see its answer, and the end of the sub-agent must not wait for it."""
        return iter(()) if self.world.address else super().late(step)

    # --- commands -----------------------------------------------------------------------------------------

    @override
    def begin(self, kind: OperationKind, command: Begun, *reports: DelayedDelta) -> None:
        """A port will be asked for it; but a check answers at once, and takes its place alone."""
        if isinstance(command, commands.CheckCall):
            super().begin(kind, command)
            return
        self.begun[self.named(kind, command.operation)] = command
        super().begin(kind, command, *reports)

    @override
    def drop(self, operation: Operation) -> None:
        if operation not in self.stubborn:
            self.begun.pop(operation, None)  # it may never have begun
        super().drop(operation)

    @override
    def abort_run(self, operation: Operation, run: RunOperation) -> None:
        self.aborted.add(operation)
        super().abort_run(operation, run)

    def awaits(self, check: CheckOperation) -> bool:
        """Whether a call waits for this check."""
        ledger = ledger_in(self.state)
        return ledger is not None and any(entry.check == check for entry in ledger.entries)

    def claim(self, kind: OperationKind, number: int) -> tuple[Operation, Command]:
        """A port is asked for the operation. Raises AssertionError unless the log holds the command, unclaimed."""
        operation = self.named(kind, number)
        if operation not in self.begun:
            raise AssertionError(f"{kind.name} {number} was begun without a command in the log, or twice")
        return operation, self.begun.pop(operation)

    def claim_hook(self, context: HookContext) -> Operation:
        """A hook is asked: the operation of the first command with that context that no port has been asked for."""
        for operation, command in self.begun.items():
            if isinstance(command, commands.AskHook) and _same_question(command.context, context):
                return self.claim(OperationKind.HOOK, operation.number)[0]
        raise AssertionError(f"the hook {context.name} was asked without a command in the log, or twice")

    # --- sub-agents ---------------------------------------------------------------------------------------

    def call_of(self, child: "FollowedSession") -> str:
        """The name of the call that this sub-agent runs for."""
        return next(name for name, one in self.by_call.items() if one is child)

    @override
    def forget_all_in_flight(self) -> None:
        super().forget_all_in_flight()
        self.aborted.clear()
        self.begun.clear()


def _same_question(one: HookContext, other: HookContext) -> bool:
    return (one.point, one.name, one.call) == (other.point, other.name, other.call)
