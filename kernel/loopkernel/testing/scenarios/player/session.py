"""A session of a scenario: its run, its trace, and what the scripted world makes of each command.

Each command is looked up in the scenario at its instant, and its reports are put on the agenda, so that the order of
what is due together is that of the scenario format. Who steps the session, and who says to it what is due, is the
player's choice: the drive (`driven_kernel`), or a driver whose log is followed.
"""

from collections.abc import Iterator
from typing import Self, assert_never

from loopkernel.data import effects as commands
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import EditRefused, Refused
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.records import StepRecord
from loopkernel.data.tool_deltas import ToolFailed, ToolSucceeded
from loopkernel.data.user_deltas import CallAnswer, CancelCall
from loopkernel.later_typing import TypeIs
from loopkernel.laws.gates import gates_in
from loopkernel.replaying import Transition
from loopkernel.testing.run import Run
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.recording import Recording, ToolRun, TraceLine
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.reports_again import report_behind
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.trace_lines import lines_of
from loopkernel.testing.scenarios.player.world import RunStopped, World

EndReport = ModelCompleted | ModelFailed | ToolSucceeded | ToolFailed | ChildEnded
Begun = (
    commands.CallModel
    | commands.CheckCall
    | commands.StartTool
    | commands.StartChild
    | commands.AskHook
    | commands.CheckCorrection
    | commands.Summarise
    | commands.HandOff
)


class ScriptedSession(Run):
    """One session: the first, whose steps are printed, or that of a sub-agent of `parent`."""

    def __init__(
        self, stage: "ScenarioStage[Self]", transition: Transition, world: World, parent: "Self | None" = None
    ) -> None:
        super().__init__(transition)
        self.number = len(stage.sessions)
        stage.sessions.append(self)
        self.stage = stage
        self.world = world
        self.parent = parent
        self.names = CallNames()
        self.runs: dict[RunOperation, ToolRun] = {}
        self.ends: dict[Operation, EndReport] = {}  # the last report of each operation that has ended
        self.stubborn: set[Operation] = set()  # what ignores an abort
        self.by_session: dict[str, Self] = {}  # every sub-agent that has a log
        self.by_call: dict[str, Self] = {}  # that of the latest run of each call
        self._held: dict[Operation, tuple[DelayedDelta, ...]] = {}  # what a run reports once its question is answered

    # --- steps --------------------------------------------------------------------------------------------

    def follow(self, delta: Delta, now_ms: int) -> StepRecord:
        """One step: recorded, shown, and its commands carried out. Raises RunStopped where the run cannot go on."""
        self.stage.count()
        if _is_end(delta):
            operation = self.named(_kind_of(delta), delta.operation)
            self.ends[operation] = delta
            self.end_run(operation)
        before = self.state
        try:
            step = self.take(delta, now_ms)
        except Exception as error:
            self.stage.raised = (
                f"{self.world.whose}transition raised {type(error).__name__} ({error}) on {type(delta).__name__}"
                f" in {type(before).__name__} at {now_ms} ms{self.stage.last_lines()}"
            )
            raise RunStopped(self.stage.raised) from error
        for line in lines_of(self._shown(step), self.names):
            self.print(line, now_ms)
        self.names.learn(step.effects)
        self.stubborn.update(self.late(step))
        for effect in step.effects:
            if isinstance(effect, Command):
                self._carry_out(effect)
        return step

    def print(self, text: str, at_ms: int) -> None:
        """One more line of the trace, of the step that the first session took last."""
        self.stage.lines.append(TraceLine(text, at_ms, len(self.stage.sessions[0].steps) - 1))

    def _shown(self, step: StepRecord) -> tuple[Effect, ...]:
        """The trace has all that the first session tells, and of a sub-agent what it refuses of a person's words."""
        if self.parent is None:
            return step.effects
        by_person = isinstance(step.context.delta, CallAnswer | CancelCall)
        return tuple(effect for effect in step.effects if _is_refusal(effect, by_person=by_person))

    def late(self, step: StepRecord) -> Iterator[Operation]:
        """The hook or correction whose time has run out: it answers all the same, and is not heard any more."""
        delta = step.context.delta
        if not isinstance(delta, TimerFired):
            return
        for gate in gates_in(step.before):
            if gate.timer is not None and gate.timer.operation == delta.operation:
                kind = OperationKind.HOOK if isinstance(gate, OpenHook) else OperationKind.CORRECTION
                yield self.named(kind, gate.operation)

    def recording(self) -> Recording:
        """What was seen of this session."""
        return Recording(
            steps=tuple(self.steps),
            lines=tuple(self.stage.lines) if self.parent is None else (),
            runs=tuple(self.runs.values()),
            names=self.names,
            address=self.world.address,
        )

    def report_behind(self, pattern: str) -> Delta:
        """The report that caused the last line that matches. Raises RunStopped where none did."""
        found = report_behind(pattern, self.stage.lines, self.steps, self.ends, self.runs.values())
        if found is None:
            raise RunStopped(f"no report stands behind a line that matches `{pattern}`{self.stage.last_lines()}")
        return found

    # --- commands -----------------------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case commands.CallModel():
                reply = self.world.reply(command)
                self.names.expect_calls(command.operation, reply.calls)
                self.begin(OperationKind.MODEL, command, *reply.reports)
            case commands.CheckCall():
                self.begin(OperationKind.CHECK, command, self.world.check(command))
            case commands.StartTool():
                self._start_tool(command)
            case commands.StartChild():
                self.start_child(command)
            case commands.AnswerTool():
                operation = self.named(OperationKind.RUN, command.operation)
                self.stage.agenda.start(operation, self.stage.now_ms, self._held.pop(operation, ()))
            case commands.AskHook():
                about = command.context.call
                call = None if about is None else self.names.name_of(about)
                self.begin(OperationKind.HOOK, command, *self.world.hook(command, call))
            case commands.CheckCorrection():
                self.begin(OperationKind.CORRECTION, command, self.world.correction(command))
            case commands.Summarise():
                self.begin(OperationKind.SUMMARY, command, self.world.summary(command))
            case commands.HandOff():
                self.begin(OperationKind.HANDOFF, command, self.world.handoff(command))
            case commands.AbortModel():
                self.drop(self.named(OperationKind.MODEL, command.operation))
            case commands.AbortTool():
                self.abort_run(self.named(OperationKind.RUN, command.operation), command.operation)
            case commands.AbortOther():
                self.drop(self.named(command.kind, command.operation))
            case commands.StartTimer() | commands.CancelTimer():
                self.time(command)
            case commands.TellChild():
                self.tell_child(command)
            case commands.TellHook():
                pass  # whoever only observes says nothing
            case _:
                assert_never(command)

    def time(self, command: commands.StartTimer | commands.CancelTimer) -> None:
        """A delay begins, or is of no more interest; nothing, where the clock of a driver keeps it."""

    def tell_child(self, command: commands.TellChild) -> None:
        """A person's word goes to a sub-agent; nothing, where a driver passes it on."""

    def named(self, kind: OperationKind, number: int) -> Operation:
        """The operation of this session."""
        return Operation(kind, number, self.number)

    def begin(self, kind: OperationKind, command: Begun, *reports: DelayedDelta) -> None:
        """What was commanded is under way, and will report so."""
        self.stage.agenda.start(self.named(kind, command.operation), self.stage.now_ms, reports)

    def drop(self, operation: Operation) -> None:
        """What was begun is told to stop."""
        if operation not in self.stubborn:
            self.stage.agenda.drop(operation)

    # --- runs of tools ------------------------------------------------------------------------------------

    def _start_tool(self, command: commands.StartTool) -> None:
        call = self.names.name_of(command.call)
        script = self.world.run(command, call)
        operation = self.named(OperationKind.RUN, command.operation)
        if script.ignores_abort:
            self.stubborn.add(operation)
        if script.after_answer:
            self._held[operation] = script.after_answer
        self.begin(OperationKind.RUN, command, *script.reports)
        self._note_run(command, call)

    def _note_run(self, command: commands.StartTool | commands.StartChild, call: str) -> None:
        self.runs[command.operation] = ToolRun(
            call=call, operation=command.operation, input=command.input, started_ms=self.stage.now_ms
        )

    def abort_run(self, operation: Operation, run: RunOperation) -> None:
        """A run that heeds its abort stops at once, and reports nothing more."""
        if operation not in self.stubborn:
            self.drop(operation)
            self._held.pop(operation, None)
            self.end_run(operation)

    def end_run(self, operation: Operation) -> None:
        """The run of a tool has ended, or heeds its abort."""
        run = self.runs.get(RunOperation(operation.number))
        if operation.kind is OperationKind.RUN and run is not None and run.ended_ms is None:
            run.ended_ms = self.stage.now_ms

    # --- sub-agents ---------------------------------------------------------------------------------------

    def start_child(self, command: commands.StartChild) -> Self:
        """The session of the sub-agent: a new one, or that of its log."""
        call = self.names.name_of(command.call)
        self.begin(OperationKind.RUN, command)  # its place among all that reports at one instant
        known = self.by_session.get(command.created.session_id) if command.resumed else None
        if known is not None:
            self._go_on_with_run(command, call)
            return known
        self._note_run(command, call)
        world = self.world.for_child(call, command)
        child = type(self)(self.stage, self.transition, world, self)  # type: ignore[arg-type]  # of the same kind
        self.names.children[command.call] = child.names
        self.by_session[command.created.session_id] = self.by_call[call] = child
        return child

    def _go_on_with_run(self, command: commands.StartChild, call: str) -> None:
        """A sub-agent that is taken up again has run since it was first begun."""
        before = [run for run in self.runs.values() if run.call == call]
        self._note_run(command, call)
        if before:
            self.runs[command.operation].started_ms = before[-1].started_ms
            self.runs.pop(before[-1].operation)

    def addressed(self, name: str) -> tuple[tuple[Self, ...], str]:
        """The sub-agents on the way to the call of this name, and its name there: `c1/k1` is k1 of c1's sub-agent."""
        first, _, rest = name.partition("/")
        child = self.by_call.get(first)
        if child is None or not rest:
            return (), name
        way, inner = child.addressed(rest)
        return (child, *way), inner

    def forget_all_in_flight(self) -> None:
        """Nothing that was started outside will report; the logs of sub-agents stay."""
        self._held.clear()
        for run in self.runs.values():
            if run.ended_ms is None:
                run.ended_ms = self.stage.now_ms
        for child in self.by_session.values():
            child.forget_all_in_flight()

    def disown_children(self) -> None:
        """A lineage of its own has begun: the calls of those before it are nobody's here."""
        self.by_call.clear()


def _is_refusal(effect: Effect, *, by_person: bool) -> bool:
    """Whether a sub-agent does not take what a person has said to one of its calls; an edit is judged later."""
    return isinstance(effect, EditRefused) or (by_person and isinstance(effect, Refused))


def _is_end(delta: Delta) -> TypeIs[EndReport]:
    """Whether this is the last report of an operation; that a run goes on in the background is not."""
    return isinstance(delta, EndReport) and not (isinstance(delta, ToolSucceeded) and delta.output.background)


def _kind_of(delta: EndReport) -> OperationKind:
    return OperationKind.MODEL if isinstance(delta, ModelCompleted | ModelFailed) else OperationKind.RUN
