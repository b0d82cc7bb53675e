"""A session of a scenario, followed in its log: its steps and trace, and what the scripted world makes of its commands.

What the driver writes is folded here record by record. Each command that follows from a record is looked up in the
scenario at that instant, and its reports are put on the agenda; the ports (`scenario_driver_ports`) say them to the
driver when they are due. So the order of what is due together is that of the scenario format, not of the event loop.
"""

from collections.abc import Callable, Iterator
from typing import assert_never

from attrs import Factory, define
from loopkernel.data import effects as commands
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import EditRefused, Event, Refused
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.user_deltas import CallAnswer, CancelCall
from loopkernel.later_typing import TypeIs
from loopkernel.laws.views import ledger_in
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord
from loopkernel.testing.scenarios.player.agenda import Agenda, Operation
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.driven_kernel import MAX_DELTAS, EndReport, timed_out
from loopkernel.testing.scenarios.player.recording import Recording, ToolRun, TraceLine
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.trace_lines import lines_of
from loopkernel.testing.scenarios.player.world import RunStopped, World
from loopkernel_adapters.driver.asyncio_driver import is_event


@define
class Stage:
    """What all sessions of one run share: the time, what is due, the trace. `printed` is called after each line."""

    printed: Callable[[], None]
    agenda: Agenda = Factory(Agenda)
    now_ms: int = 0
    deltas: int = 0
    sessions: "list[FollowedSession]" = Factory(list)  # by their numbers
    lines: list[TraceLine] = Factory(list)

    def print(self, text: str, at_ms: int) -> None:
        """One more line of the trace, of the step that the first session took last."""
        self.lines.append(TraceLine(text, at_ms, len(self.sessions[0].steps) - 1))


class FollowedSession:
    """One session: the first, whose steps are printed, or that of a sub-agent of `parent`."""

    def __init__(self, stage: Stage, world: World, parent: "FollowedSession | None" = None) -> None:
        self.number = len(stage.sessions)
        stage.sessions.append(self)
        self.stage = stage
        self.world = world
        self.parent = parent
        self.state: State = Initial()
        self.steps: list[StepRecord] = []
        self.names = CallNames()
        self.runs: dict[RunOperation, ToolRun] = {}
        self.ends: dict[Operation, EndReport] = {}  # the last report of each operation that has ended
        self.begun: dict[Operation, Command] = {}  # what the log holds and no port has been asked for yet
        self.stubborn: set[Operation] = set()  # what ignores an abort
        self.by_session: dict[str, FollowedSession] = {}  # every sub-agent that has a log
        self._by_call: dict[str, FollowedSession] = {}  # that of the latest run of each call
        self.aborted: set[Operation] = set()  # runs, also those that ignore it
        self._held: dict[Operation, tuple[DelayedDelta, ...]] = {}  # what a run reports once its question is answered

    # --- records ------------------------------------------------------------------------------------------

    def see(self, record: LogRecord) -> None:
        """The log has one more record. Raises RunStopped where the scenario has no answer to what follows."""
        self.stage.deltas += 1
        if self.stage.deltas > MAX_DELTAS:
            raise RunStopped(f"never settled: {MAX_DELTAS} deltas by {record.now_ms} ms, and the run still goes on")
        before, context = self.state, Context(record.delta, record.now_ms)
        self.state, effects = transition(before, context)
        step = StepRecord(before, context, self.state, effects)
        self.steps.append(step)
        for line in lines_of(self._shown(step), self.names):
            self.stage.print(line, record.now_ms)
        self.names.learn(effects)
        if _is_end(record.delta):
            operation = self.named(_kind_of(record.delta), record.delta.operation)
            self.ends[operation] = record.delta
            self.end_run(operation)
        # Whoever was too slow answers all the same, and is not heard any more. In a sub-agent it stops: nobody would
        # see its answer, and the end of the sub-agent must not wait for it.
        late = set() if self.world.address else set(timed_out(before, record.delta))
        for effect in effects:
            if isinstance(effect, commands.AbortOther) and (effect.kind, effect.operation) in late:
                self.stubborn.add(self.named(effect.kind, effect.operation))
            elif isinstance(effect, Command):
                self._expect(effect)
        self.stage.printed()

    def _shown(self, step: StepRecord) -> tuple[Effect, ...]:
        """Of a sub-agent, the trace has what it refuses of a person's words."""
        if self.parent is None:
            return step.effects
        by_person = isinstance(step.context.delta, CallAnswer | CancelCall)
        return tuple(
            effect
            for effect in step.effects
            if isinstance(effect, EditRefused) or (by_person and isinstance(effect, Refused))
        )

    def events(self) -> Iterator[Event]:
        """The events of all steps, in their order."""
        return (effect for step in self.steps for effect in step.effects if is_event(effect))

    def recording(self) -> Recording:
        """What was seen of this session."""
        return Recording(
            steps=tuple(self.steps),
            lines=tuple(self.stage.lines) if self.parent is None else (),
            runs=tuple(self.runs.values()),
            names=self.names,
            address=self.world.address,
        )

    # --- commands -----------------------------------------------------------------------------------------

    def _expect(self, command: Command) -> None:
        """The command is in the log: what the world will say to it is due from now on."""
        match command:
            case commands.CallModel():
                reply = self.world.reply(command)
                self.names.expect_calls(command.operation, reply.calls)
                self._begin(OperationKind.MODEL, command, *reply.reports)
            case commands.StartTool():
                self._expect_run(command)
            case commands.AskHook():
                about = command.context.call
                call = None if about is None else self.names.name_of(about)
                self._begin(OperationKind.HOOK, command, *self.world.hook(command, call))
            case commands.CheckCorrection():
                self._begin(OperationKind.CORRECTION, command, self.world.correction(command))
            case commands.Summarise():
                self._begin(OperationKind.SUMMARY, command, self.world.summary(command))
            case commands.HandOff():
                self._begin(OperationKind.HANDOFF, command, self.world.handoff(command))
            case commands.StartChild():
                self._expect_child(command)
            case commands.AnswerTool():
                operation = self.named(OperationKind.RUN, command.operation)
                self.stage.agenda.start(operation, self.stage.now_ms, self._held.pop(operation, ()))
            case commands.AbortModel():
                self._drop(self.named(OperationKind.MODEL, command.operation))
            case commands.AbortTool():
                self._abort_run(self.named(OperationKind.RUN, command.operation))
            case commands.AbortOther():
                self._drop(self.named(command.kind, command.operation))
            case commands.CheckCall():
                self.stage.agenda.start(self.named(OperationKind.CHECK, command.operation), self.stage.now_ms, ())
            case commands.StartTimer() | commands.CancelTimer():
                pass  # timers are the clock's
            case commands.TellHook() | commands.TellChild():
                pass  # whoever only observes says nothing; a sub-agent hears it by itself
            case _:
                assert_never(command)

    def named(self, kind: OperationKind, number: int) -> Operation:
        """The operation of this session."""
        return Operation(kind, number, self.number)

    def _begin(self, kind: OperationKind, command: "Begun", *reports: DelayedDelta) -> None:
        operation = self.named(kind, command.operation)
        self.begun[operation] = command
        self.stage.agenda.start(operation, self.stage.now_ms, reports)

    def _drop(self, operation: Operation) -> None:
        if operation not in self.stubborn:
            self.begun.pop(operation, None)  # it may never have begun
            self.stage.agenda.drop(operation)

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

    # --- runs ---------------------------------------------------------------------------------------------

    def _expect_run(self, command: commands.StartTool) -> None:
        call = self.names.name_of(command.call)
        script = self.world.run(command, call)
        operation = self.named(OperationKind.RUN, command.operation)
        if script.ignores_abort:
            self.stubborn.add(operation)
        if script.after_answer:
            self._held[operation] = script.after_answer
        self._begin(OperationKind.RUN, command, *script.reports)
        self._note_run(command, call)

    def _note_run(self, command: commands.StartTool | commands.StartChild, call: str) -> None:
        self.runs[command.operation] = ToolRun(
            call=call, operation=command.operation, input=command.input, started_ms=self.stage.now_ms
        )

    def _abort_run(self, operation: Operation) -> None:
        self.aborted.add(operation)
        if operation in self.stubborn:
            return
        self._drop(operation)
        self._held.pop(operation, None)
        self.end_run(operation)

    def end_run(self, operation: Operation) -> None:
        """The run of a tool has ended, or heeds its abort."""
        run = self.runs.get(RunOperation(operation.number))
        if operation.kind is OperationKind.RUN and run is not None and run.ended_ms is None:
            run.ended_ms = self.stage.now_ms

    # --- sub-agents ---------------------------------------------------------------------------------------

    def _expect_child(self, command: commands.StartChild) -> None:
        call = self.names.name_of(command.call)
        self._begin(OperationKind.RUN, command)
        known = self.by_session.get(command.created.session_id) if command.resumed else None
        if known is not None:
            self._go_on_with_run(command, call)
            return
        self._note_run(command, call)
        child = FollowedSession(self.stage, self.world.for_child(call, command), self)
        self.names.children[command.call] = child.names
        self.by_session[command.created.session_id] = self._by_call[call] = child

    def _go_on_with_run(self, command: commands.StartChild, call: str) -> None:
        """A sub-agent that is taken up again has run since it was first begun."""
        before = [run for run in self.runs.values() if run.call == call]
        self._note_run(command, call)
        if before:
            self.runs[command.operation].started_ms = before[-1].started_ms
            self.runs.pop(before[-1].operation)

    def addressed(self, name: str) -> "tuple[tuple[FollowedSession, ...], str]":
        """The sub-agents on the way to the call of this name, and its name there: `c1/k1` is k1 of c1's sub-agent."""
        first, _, rest = name.partition("/")
        child = self._by_call.get(first)
        if child is None or not rest:
            return (), name
        way, inner = child.addressed(rest)
        return (child, *way), inner

    def call_of(self, child: "FollowedSession") -> str:
        """The name of the call that this sub-agent runs for."""
        return next(name for name, one in self._by_call.items() if one is child)

    def forget_all_in_flight(self) -> None:
        """Nothing that was started outside will report; the logs of sub-agents stay."""
        self._held.clear()
        self.aborted.clear()
        self.begun.clear()
        for run in self.runs.values():
            if run.ended_ms is None:
                run.ended_ms = self.stage.now_ms
        for child in self.by_session.values():
            child.forget_all_in_flight()

    def disown_children(self) -> None:
        """A lineage of its own has begun: the calls of those before it are nobody's here."""
        self._by_call.clear()


Begun = (
    commands.CallModel
    | commands.StartTool
    | commands.StartChild
    | commands.AskHook
    | commands.CheckCorrection
    | commands.Summarise
    | commands.HandOff
)


def _is_end(delta: Delta) -> TypeIs[EndReport]:
    """Whether this is the last report of an operation; that a run goes on in the background is not."""
    return isinstance(delta, EndReport) and not (isinstance(delta, ToolSucceeded) and delta.output.background)


def _kind_of(delta: EndReport) -> OperationKind:
    return OperationKind.MODEL if isinstance(delta, ModelCompleted | ModelFailed) else OperationKind.RUN


def _same_question(one: HookContext, other: HookContext) -> bool:
    return (one.point, one.name, one.call) == (other.point, other.name, other.call)
