"""The virtual-time driver: carries out the kernel's commands against a scenario, bounded, with no clock.

recording = Drive(scenario, policy, transition).run()
"""

from collections.abc import Sequence
from typing import assert_never

from typing_extensions import TypeIs

from loopkernel.data import effects as commands
from loopkernel.data import user_deltas
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Forked, Resumed
from loopkernel.data.tool_deltas import FromTool, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.laws.views import ledger_in
from loopkernel.replay import StepRecord, Transition
from loopkernel.testing import scenario_actions as actions
from loopkernel.testing.agenda import Agenda, Operation
from loopkernel.testing.call_names import CallNames
from loopkernel.testing.recording import Recording, ToolRun, TraceLine, refolded
from loopkernel.testing.reply_script import DelayedDelta
from loopkernel.testing.scenario_actions import At, TimedAction, When
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_start import foreign_messages, name_start_calls
from loopkernel.testing.scenario_trace import matches
from loopkernel.testing.trace_lines import CRASHED, lines_of
from loopkernel.testing.user_inputs import delta_of
from loopkernel.testing.world import RunStopped, World

MAX_DELTAS = 10_000
MAX_MS = 24 * 60 * 60 * 1_000
SESSION = "scenario"

EndReport = ModelCompleted | ModelFailed | ToolSucceeded | ToolFailed | ChildEnded


class Drive:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, policy: Policy, transition: Transition) -> None:
        self._scenario = scenario
        self._policy = policy
        self._transition = transition
        self._world = World(scenario)
        self._names = CallNames()
        self._agenda = Agenda()
        self._state: State = Initial()
        self._now_ms = 0
        self._raised: str | None = None
        self._steps: list[StepRecord] = []
        self._lines: list[TraceLine] = []
        self._runs: dict[RunOperation, ToolRun] = {}
        self._waiting: list[tuple[int, When, TimedAction]] = []  # with their places in the file
        self._urgent: list[TimedAction] = []  # due right after the step that has just been taken
        self._ends: dict[Operation, EndReport] = {}  # the last report of each operation that has ended
        self._held: dict[Operation, tuple[DelayedDelta, ...]] = {}  # what a run reports once its question is answered
        self._stubborn: set[Operation] = set()  # runs that ignore an abort
        self._checks: set[CheckOperation] = set()  # checks that have not been seen to be closed

    def run(self) -> Recording:
        """Everything, until nothing is left to happen."""
        trouble = None
        try:
            self._begin()
            while self._go_on():
                pass
        except RunStopped as stopped:
            trouble = str(stopped)
        return Recording(
            steps=tuple(self._steps),
            lines=tuple(self._lines),
            runs=tuple(self._runs.values()),
            names=self._names,
            trouble=trouble,
            raised=self._raised,
        )

    def _begin(self) -> None:
        name_start_calls(self._scenario.start, self._names)
        for index, action in enumerate(self._scenario.user):
            match action.timing:
                case At(ms):
                    self._agenda.plan(index, ms, action)
                case When() as when:
                    self._waiting.append((index, when, action))
                case _:
                    assert_never(action.timing)
        self._deliver(
            Created(
                session_id=SESSION,
                policy=self._policy,
                tools=self._world.offered_tools(),
                start=foreign_messages(self._scenario.start),
            )
        )
        self._deliver(Acquired())

    def _go_on(self) -> bool:
        """The next thing happens; False if nothing is left."""
        if self._urgent:
            self._act(self._urgent.pop(0))
            return True
        due = self._agenda.next()
        if due is None:
            return False
        self._now_ms = max(self._now_ms, due.at_ms)
        if self._now_ms > MAX_MS:
            raise RunStopped(f"never settled: the run went on beyond 24 h of virtual time{self._last_lines()}")
        if isinstance(due.happening, TimedAction):
            self._act(due.happening)
            return True
        if due.operation is not None and _is_end(due.happening):
            self._ends[due.operation] = due.happening
            self._end_run(due.operation)
        self._deliver(due.happening)
        return True

    # --- deltas -------------------------------------------------------------------------------------------

    def _deliver(self, delta: Delta) -> None:
        """One step: logged, printed, its commands carried out, and the actions that waited for its lines due."""
        if len(self._steps) >= MAX_DELTAS:
            raise RunStopped(
                f"never settled: {MAX_DELTAS} deltas by {self._now_ms} ms, and the run still goes on"
                f"{self._last_lines()}"
            )
        context = Context(delta, self._now_ms)
        before = self._state
        try:
            after, effects = self._transition(before, context)
        except Exception as error:
            self._raised = (
                f"transition raised {type(error).__name__} ({error}) on {type(delta).__name__}"
                f" in {type(before).__name__} at {self._now_ms} ms{self._last_lines()}"
            )
            raise RunStopped(self._raised) from error
        self._state = after
        self._steps.append(StepRecord(before, context, after, effects))
        printed = [self._print(line) for line in lines_of(effects, self._names)]
        self._names.learn(effects)
        for effect in effects:
            if isinstance(effect, Command):
                self._carry_out(effect)
        self._drop_closed_checks()
        self._trigger(printed)

    def _drop_closed_checks(self) -> None:
        """A check whose call is closed is of no more interest: nobody reports on it."""
        if not self._checks:
            return
        ledger = ledger_in(self._state)
        waiting = set() if ledger is None else {entry.check for entry in ledger.entries}
        for check in sorted(self._checks - waiting):
            self._checks.discard(check)
            self._agenda.drop(Operation(OperationKind.CHECK, check))

    def _print(self, text: str) -> TraceLine:
        line = TraceLine(text, self._now_ms, len(self._steps) - 1)
        self._lines.append(line)
        return line

    def _trigger(self, printed: Sequence[TraceLine]) -> None:
        """Actions that wait for one of these lines become due: now, before anything else, or later."""
        waiting = self._waiting
        self._waiting = []
        urgent: list[TimedAction] = []
        for index, when, action in waiting:
            new = sum(matches(when.pattern, line.text) for line in printed)
            seen = sum(matches(when.pattern, line.text) for line in self._lines) if new else 0
            if not seen - new < when.nth <= seen:
                self._waiting.append((index, when, action))
            elif when.after_ms == 0:
                urgent.append(action)
            else:
                self._agenda.plan(index, self._now_ms + when.after_ms, action)
        self._urgent = urgent + self._urgent

    def _last_lines(self) -> str:
        last = ", ".join(f"`{line.text}`" for line in self._lines[-3:])
        return f"; the last lines are {last}" if last else ""

    # --- commands -----------------------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case commands.CallModel():
                reply = self._world.reply(command)
                self._names.expect_calls(command.operation, reply.calls)
                self._start(OperationKind.MODEL, command.operation, *reply.reports)
            case commands.AbortModel():
                self._agenda.drop(Operation(OperationKind.MODEL, command.operation))
            case commands.CheckCall():
                self._checks.add(command.operation)
                self._start(OperationKind.CHECK, command.operation, self._world.check(command))
            case commands.StartTool():
                self._start_tool(command)
            case commands.AbortTool():
                self._abort_tool(Operation(OperationKind.RUN, command.operation))
            case commands.AnswerTool():
                operation = Operation(OperationKind.RUN, command.operation)
                self._agenda.start(operation, self._now_ms, self._held.pop(operation, ()))
            case commands.StartTimer():
                operation = Operation(OperationKind.TIMER, command.operation)
                self._agenda.set_timer(operation, command.deadline_ms, TimerFired(command.operation))
            case commands.CancelTimer():
                self._agenda.drop(Operation(OperationKind.TIMER, command.operation))
            case commands.AskHook():
                call = None if command.call is None else self._names.name_of(command.call)
                self._start(OperationKind.HOOK, command.operation, *self._world.hook(command, call))
            case commands.CheckCorrection():
                self._start(OperationKind.CORRECTION, command.operation, self._world.correction(command))
            case commands.Summarise():
                self._start(OperationKind.SUMMARY, command.operation, self._world.summary(command))
            case commands.StartChild():
                raise RunStopped("sub-agents cannot be driven yet (rule CHILD-1)")
            case commands.HandOff():
                self._start(OperationKind.HANDOFF, command.operation, self._world.handoff(command))
            case commands.AbortOther():
                self._agenda.drop(Operation(command.kind, command.operation))
            case _:
                assert_never(command)

    def _start(self, kind: OperationKind, number: int, *reports: DelayedDelta) -> None:
        self._agenda.start(Operation(kind, number), self._now_ms, reports)

    def _start_tool(self, command: commands.StartTool) -> None:
        call = self._names.name_of(command.call)
        script = self._world.run(command, call)
        operation = Operation(OperationKind.RUN, command.operation)
        if script.ignores_abort:
            self._stubborn.add(operation)
        if script.after_answer:
            self._held[operation] = script.after_answer
        self._agenda.start(operation, self._now_ms, script.reports)
        self._runs[command.operation] = ToolRun(
            call=call, operation=command.operation, input=command.input, started_ms=self._now_ms
        )

    def _abort_tool(self, operation: Operation) -> None:
        """A run that heeds its abort stops at once, which is told where it matters, and reports nothing more."""
        if operation in self._stubborn:
            return
        self._agenda.drop(operation)
        self._held.pop(operation, None)
        self._end_run(operation)
        session = self._state.session
        if session is not None and any(run.operation == operation.number for run in session.held):
            stopped = ToolStopped(RunOperation(operation.number))
            self._agenda.start(operation, self._now_ms, (DelayedDelta(0, stopped),))

    def _end_run(self, operation: Operation) -> None:
        run = self._runs.get(RunOperation(operation.number))
        if operation.kind is OperationKind.RUN and run is not None and run.ended_ms is None:
            run.ended_ms = self._now_ms

    # --- what the user, and the machine, do ---------------------------------------------------------------

    def _act(self, timed: TimedAction) -> None:
        action = timed.action
        if isinstance(action, actions.ReportAgain):
            self._deliver(self._report_behind(action.pattern))
        elif isinstance(action, actions.ChangeTools):
            self._world.change_tools(action.tools)
            self._deliver(user_deltas.ChangeTools(self._world.offered_tools()))
        elif isinstance(action, actions.Crash):
            self._crash(action.down_ms)
        elif isinstance(action, actions.Fork):
            self._forget_all_in_flight()
            self._deliver(Forked(session_id=f"{SESSION}, forked at step {len(self._steps)}"))
        else:
            self._deliver(delta_of(action, self._names))

    def _report_behind(self, pattern: str) -> Delta:
        """The report that caused the last line that matches."""
        for line in reversed(self._lines):
            words = line.text.split()
            if not matches(pattern, line.text) or not (words[0] == "reply" or matches("tool * ended *", line.text)):
                continue
            delta: Delta | None = self._ends.get(self._operation_named(words))
            if delta is None:
                delta = self._steps[line.step].context.delta
            if isinstance(delta, FromModel | FromTool | ChildEnded):
                return delta
        raise RunStopped(f"no report stands behind a line that matches `{pattern}`{self._last_lines()}")

    def _operation_named(self, words: Sequence[str]) -> Operation:
        """The operation that a line `reply N ...` or `tool ID ended ...` is about."""
        if words[0] == "reply":
            return Operation(OperationKind.MODEL, int(words[1]))
        runs = [run.operation for run in self._runs.values() if run.call == words[1]]
        return Operation(OperationKind.RUN, runs[-1] if runs else 0)

    def _crash(self, down_ms: int) -> None:
        """The process dies: reports of work in flight never come. It is restarted from its log."""
        self._trigger([self._print(CRASHED)])
        self._forget_all_in_flight()
        self._now_ms += down_ms
        log = Recording(steps=tuple(self._steps), lines=(), runs=(), names=self._names).log
        self._state = refolded(log, self._transition)[-1].after
        self._deliver(Resumed())

    def _forget_all_in_flight(self) -> None:
        self._agenda.drop_all()
        self._held.clear()
        for run in self._runs.values():
            if run.ended_ms is None:
                run.ended_ms = self._now_ms


def _is_end(delta: Delta) -> TypeIs[EndReport]:
    """Whether this is the last report of an operation; that a run goes on in the background is not."""
    return isinstance(delta, EndReport) and not (isinstance(delta, ToolSucceeded) and delta.output.background)
