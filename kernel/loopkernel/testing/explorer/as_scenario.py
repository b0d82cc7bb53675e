"""A run of the explorer as a scenario: the same model, tools and user, told in the scenario format.

Each delta gets an instant of its own, `TICK_MS` apart; only checks, which the format has none of, answer at once, and
a delay that has passed gets the instant at which it does. A call found unknown names a tool that is not listed, one
found invalid has arguments that do not parse. What the format cannot say (reports on what was never begun, delays that
pass too early, wishes that it has no word for) is told in `about`: nothing is dropped in silence. A scenario takes time
where the explorer's clock stands still; a budget of time may be spent in it sooner.
"""

from collections.abc import Iterable, Sequence

from attrs import Factory, define, evolve, field

from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CancelTimer, CheckCall, Effect, StartTimer, StartTool
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation, TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Streaming
from loopkernel.data.steps import is_refused
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import InvalidCall, ToolOutput, UnknownTool
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import AnswerQuestion, Correct, Reject, Swap
from loopkernel.laws.step_laws import pending_timers
from loopkernel.loop.transition import transition as kernel_transition
from loopkernel.replaying import LogRecord, StepRecord, Transition, fold
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.writer import write_scenarios
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.effective_policy import choice_for
from loopkernel.testing.scenarios.player.user_inputs import Naming, action_for
from loopkernel.testing.scenarios.player.verdicts import adapter_verdict

TICK_MS = 10

RunReport = ToolSucceeded | ToolFailed | ToolStopped | ToolLost | ToolProgress | ToolAsked
HANGS = world.Behaviour(outcome=world.ToolHangs())


def scenario_text(
    run: Sequence[LogRecord], finding: str, *, name: str = "explored", transition: Transition = kernel_transition
) -> str:
    """The run as YAML; `finding` says what it shows. A last delta that makes the step raise is left to `about`."""
    try:
        steps = fold(run, transition=transition)
    except Exception:  # the finding itself: all but the last delta can be told
        steps = fold(run[:-1], transition=transition)
    left = [record.delta for record in run[len(steps) :]]
    return write_scenarios([_Teller(name=name).told(steps, left, finding)])


def _told_usage(delta: ModelCompleted | ModelFailed) -> Usage | None:
    return None if delta.usage == NO_USAGE else delta.usage


@define
class _Run:
    """A run as far as it is told."""

    call: CallId
    started_ms: int
    behaviour: world.Behaviour = HANGS
    answered_ms: int | None = None  # when its question was
    aborted_at: int | None = None  # the step that did

    def delay_ms(self, at_ms: int) -> int:
        """How long the run takes to the instant, without the time that its question waited for an answer."""
        asks = self.behaviour.asks
        if asks is None or self.answered_ms is None:
            return at_ms - self.started_ms
        return asks.at_ms + at_ms - self.answered_ms


@define(kw_only=True)
class _Teller:
    """Collects the parts of the scenario, delta by delta."""

    name: str
    policy: Policy = Policy()
    tools: dict[str, world.ToolScript] = Factory(dict)
    entries: dict[ModelOperation, world.ModelEntry] = Factory(dict)
    asked_ms: dict[ModelOperation, int] = Factory(dict)
    runs: dict[RunOperation, _Run] = Factory(dict)
    ran: dict[str, list[RunOperation]] = Factory(dict)  # the runs of each tool, in the order of their starts
    checks: dict[CheckOperation, CallId] = Factory(dict)
    names: dict[CallId, str] = Factory(dict)
    edits: dict[CallId, int] = Factory(dict)  # where in `wanted` the edit stands that is being checked
    timers: dict[TimerOperation, int] = Factory(dict)  # when each of those pending fires, in the scenario
    messages: CallNames = Factory(CallNames)  # the numbers of those that the user sent
    wanted: list[actions.TimedAction] = Factory(list)
    untold: list[str] = Factory(list)
    acquired: bool = field(default=False)

    def told(self, steps: Sequence[StepRecord], last: Iterable[Delta], finding: str) -> Scenario:
        at_ms = 0
        for number, step in enumerate(steps):
            refused = is_refused(step.effects)
            at_ms = self._instant(step, refused, at_ms)
            self._tell(step.context.delta, refused, at_ms, number)
            self._learn(step, at_ms, number)
        for delta in last:
            self._tell(delta, True, at_ms + TICK_MS, len(steps))
        about = finding
        if self.untold:
            about += " | What the format cannot say: " + "; ".join(self.untold)
        return Scenario(
            id=self.name,
            about=about,
            policy=choice_for(self.policy),
            tools={name: self._with_runs(name, self.tools[name]) for name in self.tools if name in self._named()},
            model=tuple(self.entries.values()),
            model_rest=world.ModelEntry(ending=world.ModelHangs()),
            user=tuple(self.wanted),
        )

    def _instant(self, step: StepRecord, refused: bool, last_ms: int) -> int:
        """When the delta comes: a tick after the one before it, or when the delay that has passed does."""
        delta = step.context.delta
        if isinstance(delta, Created | Acquired | ToolChecked) or self._goes_aside_at_once(delta, last_ms):
            return last_ms
        fired = delta.operation if isinstance(delta, TimerFired) else None
        others = [due_ms for timer, due_ms in self.timers.items() if timer != fired]
        at_ms = min((last_ms + TICK_MS, *(due_ms - 1 for due_ms in others if due_ms - 1 > last_ms)))
        if isinstance(delta, TimerFired) and not refused and delta.operation in self.timers:
            at_ms = max(at_ms, self.timers.pop(delta.operation))
            due = (timer.deadline_ms for timer in pending_timers(step.before) if timer.operation == delta.operation)
            if any(step.context.now_ms < deadline_ms for deadline_ms in due):
                self.untold.append(f"{at_ms} ms: timer {delta.operation} fires before its time")
        for timer, due_ms in [*self.timers.items()]:
            if due_ms <= at_ms:
                self.untold.append(f"{due_ms} ms: timer {timer} does not fire")
                del self.timers[timer]
        return at_ms

    def _goes_aside_at_once(self, delta: Delta, last_ms: int) -> bool:
        """Whether a run that has just started says that it goes on in the background."""
        if not isinstance(delta, ToolSucceeded) or not delta.output.background:
            return False
        run = self.runs.get(delta.operation)
        return run is not None and run.started_ms == last_ms

    def _learn(self, step: StepRecord, at_ms: int, number: int) -> None:
        """What the step began: requests wait for an answer, runs for an end, delays pass."""
        after = step.after
        if isinstance(after, Streaming) and after.reply.operation not in self.entries:
            self.entries[after.reply.operation] = world.ModelEntry(ending=world.ModelHangs())
            self.asked_ms[after.reply.operation] = at_ms
        self.messages.learn(step.effects)
        before = dict(self.timers)
        if isinstance(step.context.delta, Resumed) and not is_refused(step.effects):
            self.timers.clear()  # they died with the process; those that are still wanted are started again
        for effect in step.effects:
            self._learn_effect(effect, at_ms, number)
            if isinstance(effect, StartTimer):
                self.timers[effect.operation] = at_ms + effect.deadline_ms - after.stamp.now_ms
        if isinstance(after, Backoff) and isinstance(step.before, Backoff) and after.timer != step.before.timer:
            due_ms = before.get(step.before.timer.operation)  # a countdown keeps its time
            if due_ms is not None:
                self.timers[after.timer.operation] = due_ms
        if isinstance(after, Streaming) and after.silence is not None and after.heard_ms == after.stamp.now_ms:
            self._hear(after, after.silence, step.context.delta, at_ms)

    def _hear(self, state: Streaming, silence: Timer, delta: Delta, at_ms: int) -> None:
        """The stream has been heard of, so that there is more time until it has been silent for too long."""
        if isinstance(delta, ModelDelta) and delta.operation == state.reply.operation:
            self.timers[silence.operation] = at_ms + (state.session.settings.policy.silence_ms or 0)

    def _learn_effect(self, effect: Effect, at_ms: int, number: int) -> None:
        if isinstance(effect, StartTool):
            self.runs[effect.operation] = _Run(effect.call, at_ms)
            self.ran.setdefault(effect.tool, []).append(effect.operation)
        elif isinstance(effect, AbortTool):
            self.runs[effect.operation].aborted_at = number
        elif isinstance(effect, CheckCall):
            self.checks[effect.operation] = effect.call
        elif isinstance(effect, CancelTimer):
            self.timers.pop(effect.operation, None)

    def _tell(self, delta: Delta, refused: bool, at_ms: int, number: int) -> None:
        if isinstance(delta, Created):
            self._begin(delta, refused, at_ms)
        elif isinstance(delta, ModelText | ModelReasoning | ModelCall | ModelCompleted | ModelFailed):
            self._tell_model(delta, refused, at_ms)
        elif isinstance(delta, RunReport):
            self._tell_run(delta, refused, at_ms, number)
        elif isinstance(delta, ToolChecked):
            self._tell_verdict(delta, refused, at_ms)
        elif isinstance(delta, Acquired) and not self.acquired:
            self.acquired = True  # every scenario begins so
        elif refused or not isinstance(delta, TimerFired):
            self._tell_wish(delta, refused, at_ms)

    def _begin(self, delta: Created, refused: bool, at_ms: int) -> None:
        if refused:
            self._leave_untold(delta, at_ms)
            return
        self.policy = delta.policy
        self.tools = {tool.name: world.ToolScript(profile=tool.profile) for tool in delta.tools}

    def _leave_untold(self, delta: Delta, at_ms: int) -> None:
        self.untold.append(f"{at_ms} ms: {delta!r}")

    def _act(self, action: actions.UserAction, at_ms: int) -> None:
        self.wanted.append(actions.TimedAction(timing=actions.At(at_ms), action=action))

    # --- the model --------------------------------------------------------------------------------------

    def _tell_model(
        self, delta: ModelText | ModelReasoning | ModelCall | ModelCompleted | ModelFailed, refused: bool, at_ms: int
    ) -> None:
        number = delta.operation
        if refused or number not in self.entries:
            self._again(delta, at_ms)
            return
        entry, after_ms = self.entries[number], at_ms - self.asked_ms[number]
        match delta:
            case ModelText(text=text):
                piece: world.Piece = world.TextPiece(after_ms, text)
                entry = evolve(entry, text=entry.text + text, pieces=(*entry.pieces, piece))
            case ModelReasoning(text=text):
                piece = world.ReasoningPiece(after_ms, text)
                entry = evolve(entry, reasoning=entry.reasoning + text, pieces=(*entry.pieces, piece))
            case ModelCall():
                call = self._scripted(delta, len(entry.calls) + 1)
                piece = world.CallPiece(after_ms, call.name)
                entry = evolve(entry, calls=(*entry.calls, call), pieces=(*entry.pieces, piece))
            case ModelCompleted(stop=stop):
                cut = entry.calls[-1].name if delta.cut_call and entry.calls else None
                ending, usage = world.ModelCompletes(stop, cut), _told_usage(delta)
                entry = evolve(entry, ending=ending, takes_ms=after_ms, usage=usage, redaction=delta.redaction)
            case ModelFailed(error=error, retry_after_ms=wait_ms, unfinished=unfinished):
                fails = world.ModelFails(error, wait_ms, unfinished)
                entry = evolve(entry, ending=fails, takes_ms=after_ms, usage=_told_usage(delta))
        self.entries[number] = entry

    def _scripted(self, delta: ModelCall, position: int) -> world.ScriptedCall:
        name = f"c{delta.operation}{position}"
        self.names[CallId(delta.operation, position)] = name
        raw = delta.input.text if isinstance(delta.input, RawInput) else None
        return world.ScriptedCall(
            id=delta.provider_id,
            name=name,
            tool=delta.tool,
            input={} if isinstance(delta.input, RawInput) else delta.input.value(),
            raw=raw,
            after=delta.after,
        )

    def _tell_verdict(self, delta: ToolChecked, refused: bool, at_ms: int) -> None:
        call = self.checks.get(delta.operation)
        if refused or call is None:
            self._leave_untold(delta, at_ms)
        elif call in self.edits:
            self._tell_verdict_on_edit(delta, self.edits.pop(call), at_ms)
        else:
            self._tell_verdict_on_call(delta, call, at_ms)

    def _tell_verdict_on_call(self, delta: ToolChecked, call: CallId, at_ms: int) -> None:
        entry = self.entries[call.reply]
        scripted = entry.calls[call.position - 1]
        if isinstance(delta.verdict, UnknownTool):
            scripted = evolve(scripted, tool=f"unlisted-{scripted.tool}")
        elif isinstance(delta.verdict, InvalidCall):
            scripted = evolve(scripted, raw="{")
        elif adapter_verdict(self.tools, scripted.tool, Json.of(scripted.input)) != delta.verdict:
            self._leave_untold(delta, at_ms)
        calls = (*entry.calls[: call.position - 1], scripted, *entry.calls[call.position :])
        self.entries[call.reply] = evolve(entry, calls=calls)

    def _tell_verdict_on_edit(self, delta: ToolChecked, place: int, at_ms: int) -> None:
        """An edit that is found invalid swaps the call for a tool that is not listed; no correction can be so."""
        timed = self.wanted[place]
        if isinstance(delta.verdict, InvalidCall | UnknownTool):
            if isinstance(timed.action, actions.Swap):
                unlisted = evolve(timed.action, tool=f"unlisted-{timed.action.tool}")
                self.wanted[place] = evolve(timed, action=unlisted)
            else:
                self._leave_untold(delta, at_ms)

    def _again(self, delta: Delta, at_ms: int) -> None:
        """A report that came a second time can be told; one about what was never begun cannot."""
        pattern = None
        if isinstance(delta, ModelCompleted) and delta.operation in self.entries:
            pattern = f"reply {delta.operation} *"
        elif isinstance(delta, RunReport) and delta.operation in self.runs:
            pattern = f"tool {self._name(self.runs[delta.operation].call)} ended *"
        if pattern is None:
            self._leave_untold(delta, at_ms)
        else:
            self._act(actions.ReportAgain(pattern), at_ms)

    # --- the tools --------------------------------------------------------------------------------------

    def _tell_run(self, delta: RunReport, refused: bool, at_ms: int, number: int) -> None:
        run = self.runs.get(delta.operation)
        if run is None:
            self._leave_untold(delta, at_ms)
            return
        behaviour, delay_ms = run.behaviour, run.delay_ms(at_ms)
        if isinstance(delta, ToolStopped) and run.aborted_at == number - 1:
            return  # it heeds its abort, as every run does that is not said to ignore it
        if isinstance(delta, ToolLost):
            self._leave_untold(delta, at_ms)  # no tool of a scenario vanishes
        elif not isinstance(behaviour.outcome, world.ToolHangs):
            self._again(delta, at_ms)
        elif isinstance(delta, ToolProgress):
            progress = (*behaviour.progress, world.Progress(delay_ms, delta.text))
            run.behaviour = evolve(behaviour, progress=progress)
        elif isinstance(delta, ToolAsked):
            if refused or behaviour.asks is not None:
                self._leave_untold(delta, at_ms)
            else:
                run.behaviour = evolve(behaviour, asks=world.ToolQuestion(delay_ms, delta.question))
        elif isinstance(delta, ToolSucceeded) and delta.output.background and not refused:
            run.behaviour = evolve(behaviour, background=True)
            if delay_ms:
                self.untold.append(f"{at_ms} ms: that run {delta.operation} goes on in the background, and not before")
        else:
            self._tell_end(run, delta, delay_ms)

    def _tell_end(self, run: _Run, delta: ToolSucceeded | ToolFailed | ToolStopped, delay_ms: int) -> None:
        """The run ends; one that stops by itself fails, in a scenario."""
        output = ToolOutput() if isinstance(delta, ToolStopped) else delta.output
        text, done = text_of(output.content), isinstance(delta, ToolSucceeded)
        run.behaviour = evolve(
            run.behaviour,
            takes_ms=delay_ms,
            outcome=world.ToolReturns(text) if done else world.ToolFails(text),
            final=output.final,
            stops_loop=output.stops_loop,
            ignores_abort=run.aborted_at is not None,  # and its report comes all the same
        )

    def _named(self) -> set[str]:
        """The tools that are called, or swapped for."""
        called = {call.tool for entry in self.entries.values() for call in entry.calls}
        swapped = {timed.action.tool for timed in self.wanted if isinstance(timed.action, actions.Swap)}
        return {*called, *swapped, *self.ran}

    def _with_runs(self, tool: str, script: world.ToolScript) -> world.ToolScript:
        """The tool, whose runs hang but for what they have reported: by call, or by run where a call ran twice."""
        started = [self.runs[operation] for operation in self.ran.get(tool, ())]
        if not started:
            return script
        names = [self._name(run.call) for run in started]
        behaviours = tuple(run.behaviour for run in started)
        if len(set(names)) == len(names):
            return evolve(script, behaviour=HANGS, calls=dict(zip(names, behaviours, strict=True)))
        return evolve(script, behaviour=HANGS, runs=behaviours)

    # --- the user ---------------------------------------------------------------------------------------

    def _tell_wish(self, delta: Delta, refused: bool, at_ms: int) -> None:
        action = action_for(delta, Naming(self._name, self.messages.number_of))
        if action is None:
            self._leave_untold(delta, at_ms)
            return
        self._act(action, at_ms)
        if refused:
            return
        if isinstance(delta, Correct | Swap):
            self.edits[delta.call] = len(self.wanted) - 1
        elif isinstance(delta, AnswerQuestion | Reject):
            for run in self.runs.values():
                if run.call == delta.call and run.behaviour.asks is not None:
                    run.answered_ms = at_ms

    def _name(self, call: CallId) -> str:
        return self.names.get(call, str(call))
