"""A kernel in the hands of the drive: its steps, its commands carried out against a scripted world, its sub-agents.

All kernels of one run share the virtual time and the agenda. A sub-agent is a kernel of its own, driven alike; what it
has to tell its parent comes as reports of the parent's run, at the same instant.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import Factory, define

from loopkernel.data import effects as commands
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import EditRefused, Refused
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CallAnswer, CancelAll, CancelCall, Say
from loopkernel.later_typing import TypeIs
from loopkernel.laws.gates import gates_in
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import StepRecord, Transition
from loopkernel.testing.scenarios.player.agenda import Agenda, Operation
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.child_reports import ChildReport, ChildReports
from loopkernel.testing.scenarios.player.recording import Recording, ToolRun, TraceLine, refolded
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.trace_lines import lines_of
from loopkernel.testing.scenarios.player.world import RunStopped, World

MAX_DELTAS = 10_000

EndReport = ModelCompleted | ModelFailed | ToolSucceeded | ToolFailed | ChildEnded


@define
class Common:
    """What all kernels of one run share: the kernel under test, the time, what is due, the trace."""

    transition: Transition
    agenda: Agenda = Factory(Agenda)
    now_ms: int = 0
    deltas: int = 0
    kernels: "list[DrivenKernel]" = Factory(list)  # by their numbers
    lines: list[TraceLine] = Factory(list)
    raised: str | None = None

    def print(self, text: str) -> None:
        """One more line of the trace, of the step that the first kernel took last."""
        self.lines.append(TraceLine(text, self.now_ms, len(self.kernels[0].steps) - 1))

    def last_lines(self) -> str:
        """For a message: how the trace ends."""
        last = ", ".join(f"`{line.text}`" for line in self.lines[-3:])
        return f"; the last lines are {last}" if last else ""


class DrivenKernel:
    """One kernel: the first, whose steps are printed, or a sub-agent, whose `parent` learns of it by `reports`."""

    def __init__(
        self,
        common: Common,
        world: World,
        reports: ChildReports | None = None,
        parent: "DrivenKernel | None" = None,
    ) -> None:
        self.number = len(common.kernels)
        common.kernels.append(self)
        self.state: State = Initial()
        self.steps: list[StepRecord] = []
        self.names = CallNames()
        self.runs: dict[RunOperation, ToolRun] = {}
        self.ends: dict[Operation, EndReport] = {}  # the last report of each operation that has ended
        self.world = world
        self._common = common
        self._reports = reports
        self._parent = parent
        self._children: dict[RunOperation, DrivenKernel] = {}
        self._by_session: dict[str, DrivenKernel] = {}  # every sub-agent that has a log
        self._by_call: dict[str, DrivenKernel] = {}  # that of the latest run of each call
        self._held: dict[Operation, tuple[DelayedDelta, ...]] = {}  # what a run reports once its question is answered
        self._stubborn: set[Operation] = set()  # runs that ignore an abort
        self._checks: set[CheckOperation] = set()  # checks that have not been seen to be closed
        self._unbilled: dict[Operation, Usage] = {}  # of aborted sub-agents, until their late reports are in

    # --- steps --------------------------------------------------------------------------------------------

    def deliver(self, delta: Delta) -> None:
        """One step: recorded, shown, its commands carried out, and told to the parent."""
        common = self._common
        common.deltas += 1
        if common.deltas > MAX_DELTAS:
            raise RunStopped(
                f"never settled: {MAX_DELTAS} deltas by {common.now_ms} ms, and the run still goes on"
                f"{common.last_lines()}"
            )
        context = Context(delta, common.now_ms)
        before = self.state
        try:
            after, effects = common.transition(before, context)
        except Exception as error:
            common.raised = (
                f"{self.world.whose}transition raised {type(error).__name__} ({error}) on {type(delta).__name__}"
                f" in {type(before).__name__} at {common.now_ms} ms{common.last_lines()}"
            )
            raise RunStopped(common.raised) from error
        self.state = after
        record = StepRecord(before, context, after, effects)
        self.steps.append(record)
        self._show(record)
        self.names.learn(effects)
        late = set(timed_out(before, delta))
        for effect in effects:
            if isinstance(effect, commands.AbortOther) and (effect.kind, effect.operation) in late:
                continue  # whoever was too slow answers all the same, and is not heard any more
            if isinstance(effect, Command):
                self._carry_out(effect)
        self._drop_closed_checks()
        if self._reports is not None:
            self._tell_parent(self._reports.after(record))

    def take(self, operation: Operation, delta: Delta) -> None:
        """A report of something that this kernel has started."""
        if _is_end(delta):
            self.ends[operation] = delta
            self._end_run(operation)
        if isinstance(delta, ChildEnded):
            self._children.pop(delta.operation, None)
            self._unbilled.pop(operation, None)
        self.deliver(delta)

    def _show(self, record: StepRecord) -> None:
        """The trace has all that the first kernel tells, and of a sub-agent what it refuses of a person's words."""
        effects = record.effects
        if self._parent is not None:
            by_person = isinstance(record.context.delta, CallAnswer | CancelCall)
            effects = tuple(effect for effect in effects if _is_refusal(effect, by_person=by_person))
        for line in lines_of(effects, self.names):
            self._common.print(line)

    def _drop_closed_checks(self) -> None:
        """A check whose call is closed is of no more interest: nobody reports on it."""
        if not self._checks:
            return
        ledger = ledger_in(self.state)
        waiting = set() if ledger is None else {entry.check for entry in ledger.entries}
        for check in sorted(self._checks - waiting):
            self._checks.discard(check)
            self._drop(OperationKind.CHECK, check)

    # --- commands -----------------------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case commands.CallModel():
                reply = self.world.reply(command)
                self.names.expect_calls(command.operation, reply.calls)
                self._start(OperationKind.MODEL, command.operation, *reply.reports)
            case commands.AbortModel():
                self._drop(OperationKind.MODEL, command.operation)
            case commands.CheckCall():
                self._checks.add(command.operation)
                self._start(OperationKind.CHECK, command.operation, self.world.check(command))
            case commands.StartTimer():
                operation = self._named(OperationKind.TIMER, command.operation)
                self._common.agenda.set_timer(operation, command.deadline_ms, TimerFired(command.operation))
            case commands.CancelTimer():
                self._drop(OperationKind.TIMER, command.operation)
            case commands.StartTool() | commands.AbortTool() | commands.AnswerTool():
                self._carry_out_of_run(command)
            case commands.StartChild():
                self._start_child(command)
            case commands.TellChild():
                child = self._children.get(command.operation)
                if child is not None:
                    child.deliver(command.delta)
            case _:
                self._carry_out_beside(command)

    def _carry_out_of_run(self, command: commands.StartTool | commands.AbortTool | commands.AnswerTool) -> None:
        operation = self._named(OperationKind.RUN, command.operation)
        match command:
            case commands.StartTool():
                self._start_tool(command, operation)
            case commands.AbortTool():
                self._abort_run(operation, command.operation)
            case commands.AnswerTool():
                self._common.agenda.start(operation, self._common.now_ms, self._held.pop(operation, ()))
            case _:
                assert_never(command)

    def _carry_out_beside(
        self,
        command: commands.AskHook
        | commands.TellHook
        | commands.CheckCorrection
        | commands.Summarise
        | commands.HandOff
        | commands.AbortOther,
    ) -> None:
        """A command about neither the model nor a call."""
        match command:
            case commands.AskHook():
                about = command.context.call
                call = None if about is None else self.names.name_of(about)
                self._start(OperationKind.HOOK, command.operation, *self.world.hook(command, call))
            case commands.TellHook():
                pass  # whoever only observes says nothing
            case commands.CheckCorrection():
                self._start(OperationKind.CORRECTION, command.operation, self.world.correction(command))
            case commands.Summarise():
                self._start(OperationKind.SUMMARY, command.operation, self.world.summary(command))
            case commands.HandOff():
                self._start(OperationKind.HANDOFF, command.operation, self.world.handoff(command))
            case commands.AbortOther():
                self._drop(command.kind, command.operation)
            case _:
                assert_never(command)

    def _named(self, kind: OperationKind, number: int) -> Operation:
        return Operation(kind, number, self.number)

    def _start(self, kind: OperationKind, number: int, *reports: DelayedDelta) -> None:
        self._common.agenda.start(self._named(kind, number), self._common.now_ms, reports)

    def _drop(self, kind: OperationKind, number: int) -> None:
        self._common.agenda.drop(self._named(kind, number))

    # --- runs of tools ------------------------------------------------------------------------------------

    def _start_tool(self, command: commands.StartTool, operation: Operation) -> None:
        call = self.names.name_of(command.call)
        script = self.world.run(command, call)
        if script.ignores_abort:
            self._stubborn.add(operation)
        if script.after_answer:
            self._held[operation] = script.after_answer
        self._common.agenda.start(operation, self._common.now_ms, script.reports)
        self._note_run(command, call)

    def _note_run(self, command: commands.StartTool | commands.StartChild, call: str) -> None:
        self.runs[command.operation] = ToolRun(
            call=call, operation=command.operation, input=command.input, started_ms=self._common.now_ms
        )

    def _abort_run(self, operation: Operation, run: RunOperation) -> None:
        """A run that heeds its abort stops at once, which is told where it matters, and reports nothing more."""
        if operation in self._stubborn:
            return
        self._common.agenda.drop(operation)
        self._held.pop(operation, None)
        self._end_run(operation)
        child = self._children.pop(run, None)
        last = None if child is None else child.stop()
        session = self.state.session
        if last is not None and last.usage != NO_USAGE:
            # What it has used is billed, however late; that report tells as well that it has stopped.
            self._unbilled[operation] = last.usage
            self._common.agenda.start(operation, self._common.now_ms, (DelayedDelta(0, last),))
        elif session is not None and any(held.operation == run for held in session.held):
            self._common.agenda.start(operation, self._common.now_ms, (DelayedDelta(0, ToolStopped(run)),))

    def _end_run(self, operation: Operation) -> None:
        run = self.runs.get(RunOperation(operation.number))
        if operation.kind is OperationKind.RUN and run is not None and run.ended_ms is None:
            run.ended_ms = self._common.now_ms

    # --- sub-agents ---------------------------------------------------------------------------------------

    def _start_child(self, command: commands.StartChild) -> None:
        call = self.names.name_of(command.call)
        known = self._by_session.get(command.created.session_id) if command.resumed else None
        self._start(OperationKind.RUN, command.operation)  # its place among all that reports at one instant
        reports = ChildReports(command.operation)
        if known is not None:
            self._children[command.operation] = known
            self._go_on_with_run(command, call)
            known.resume(reports, command.created.policy)
            return
        self._note_run(command, call)
        world = self.world.for_child(call, command)
        child = DrivenKernel(self._common, world, reports, self)
        self.names.children[command.call] = child.names
        self._children[command.operation] = child
        self._by_session[command.created.session_id] = self._by_call[call] = child
        child.begin(world.created(command.created))
        child.deliver(Say(content=(TextBlock(command.task),)))

    def _go_on_with_run(self, command: commands.StartChild, call: str) -> None:
        """A sub-agent that is taken up again has run since it was first begun."""
        before = [run for run in self.runs.values() if run.call == call]
        self._note_run(command, call)
        if before:
            self.runs[command.operation].started_ms = before[-1].started_ms
            self.runs.pop(before[-1].operation)

    def begin(self, created: Created) -> None:
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
        log = self.recording().log
        self.state = refolded(log, self._common.transition)[-1].after
        self.deliver(resumed)

    def stop(self) -> ChildEnded | None:
        """The parent has no more use for this sub-agent: all that it does is cancelled, and it reports no more."""
        reports, self._reports = self._reports, None
        self.deliver(CancelAll())
        self._common.agenda.drop_kernel(self.number)
        return None if reports is None else reports.end(self.state, sum_of(self._unbilled.values()))

    def _tell_parent(self, told: Iterable[ChildReport]) -> None:
        if self._parent is not None and self._reports is not None:
            delayed = [DelayedDelta(0, report) for report in told]
            self._parent._start(OperationKind.RUN, self._reports.operation, *delayed)

    def addressed(self, name: str) -> "tuple[DrivenKernel, str]":
        """The kernel that the call of this name is a call of, and its name there: `c1/k1` is k1 of c1's sub-agent."""
        first, _, rest = name.partition("/")
        child = self._by_call.get(first)
        return (self, name) if child is None or not rest else child.addressed(rest)

    def forget_all_in_flight(self) -> None:
        """Nothing that was started outside will report; the logs of sub-agents stay."""
        self._held.clear()
        self._unbilled.clear()
        for run in self.runs.values():
            if run.ended_ms is None:
                run.ended_ms = self._common.now_ms
        for child in self._by_session.values():
            child.forget_all_in_flight()
        self._children.clear()

    def disown_children(self) -> None:
        """A lineage of its own has begun: the calls of those before it are nobody's here."""
        self._by_call.clear()

    def recording(self) -> Recording:
        """What was seen of this kernel."""
        return Recording(
            steps=tuple(self.steps),
            lines=(),
            runs=tuple(self.runs.values()),
            names=self.names,
            address=self.world.address,
        )


def timed_out(state: State, delta: Delta) -> Iterator[tuple[OperationKind, int]]:
    """The hook or correction whose time has run out."""
    if not isinstance(delta, TimerFired):
        return
    for gate in gates_in(state):
        if gate.timer is not None and gate.timer.operation == delta.operation:
            yield OperationKind.HOOK if isinstance(gate, OpenHook) else OperationKind.CORRECTION, gate.operation


def sum_of(usages: Iterable[Usage]) -> Usage:
    """All of it together."""
    total = NO_USAGE
    for usage in usages:
        total = total.plus(usage)
    return total


def _is_refusal(effect: Effect, *, by_person: bool) -> bool:
    """Whether a sub-agent does not take what a person has said to one of its calls; an edit is judged later."""
    return isinstance(effect, EditRefused) or (by_person and isinstance(effect, Refused))


def _is_end(delta: Delta) -> TypeIs[EndReport]:
    """Whether this is the last report of an operation; that a run goes on in the background is not."""
    return isinstance(delta, EndReport) and not (isinstance(delta, ToolSucceeded) and delta.output.background)
