"""A run of the explorer as a scenario: the same model, tools and user, told in the scenario format.

Each delta gets an instant of its own, `TICK_MS` apart; only checks, which the format has none of, answer at once. A
call found unknown names a tool that is not listed, one found invalid has arguments that do not parse. What the format
cannot say (reports on what was never begun, wishes that it has no word for) is told in `about`: nothing is dropped in
silence.
"""

import enum
from collections.abc import Iterable, Sequence

import attrs
from attrs import Factory, define, evolve

from loopkernel.data.blocks import RawInput, UserBlock, text_of
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, ModelReasoning, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Streaming
from loopkernel.data.steps import is_refused
from loopkernel.data.thread_deltas import Acquired, Created, Disposed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolProgress, ToolStopped, ToolSucceeded
from loopkernel.data.tools import InvalidCall, ToolOutput, UnknownTool
from loopkernel.data.user_deltas import (
    CancelAll,
    CancelCall,
    ChangeMode,
    CompactNow,
    Discard,
    DismissError,
    Enqueue,
    Permit,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
)
from loopkernel.replay import LogRecord, StepRecord, Transition, fold
from loopkernel.testing import scenario_actions as actions
from loopkernel.testing import scenario_world as world
from loopkernel.testing.scenario_data import PolicyChoice, Scenario
from loopkernel.testing.scenario_writer import write_scenarios
from loopkernel.transition import transition as kernel_transition

TICK_MS = 10

RunReport = ToolSucceeded | ToolFailed | ToolStopped | ToolProgress  # a run that stops fails, in a scenario


def scenario_text(
    deltas: Sequence[Delta], finding: str, *, name: str = "explored", transition: Transition = kernel_transition
) -> str:
    """The run as YAML; `finding` says what it shows. A last delta that makes the step raise is left to `about`."""
    records = [LogRecord(delta, 0) for delta in deltas]
    try:
        steps = fold(records, transition=transition)
    except Exception:  # the finding itself: all but the last delta can be told
        steps = fold(records[:-1], transition=transition)
    return write_scenarios([_Teller(name=name).told(steps, deltas[len(steps) :], finding)])


HANGS = world.Behaviour(outcome=world.ToolHangs())


@define(kw_only=True)
class _Teller:
    """Collects the parts of the scenario, delta by delta."""

    name: str
    policy: Policy = Policy()
    tools: dict[str, world.ToolScript] = Factory(dict)
    entries: dict[ModelOperation, world.ModelEntry] = Factory(dict)
    asked_ms: dict[ModelOperation, int] = Factory(dict)
    runs: dict[RunOperation, tuple[CallId, str, int]] = Factory(dict)
    checks: dict[CheckOperation, CallId] = Factory(dict)
    names: dict[CallId, str] = Factory(dict)
    wanted: list[actions.TimedAction] = Factory(list)
    untold: list[str] = Factory(list)

    def told(self, steps: Sequence[StepRecord], last: Iterable[Delta], finding: str) -> Scenario:
        at_ms = 0
        for step in steps:
            if not isinstance(step.context.delta, Created | Acquired | ToolChecked):
                at_ms += TICK_MS
            self._tell(step.context.delta, is_refused(step.effects), at_ms)
            self._learn(step, at_ms)
        for delta in last:
            self._tell(delta, True, at_ms + TICK_MS)
        about = finding
        if self.untold:
            about += " | What the format cannot say: " + "; ".join(self.untold)
        return Scenario(
            id=self.name,
            about=about,
            policy=_choice(self.policy),
            tools=self.tools,
            model=tuple(self.entries.values()),
            model_rest=world.ModelEntry(ending=world.ModelHangs()),
            user=tuple(self.wanted),
        )

    def _learn(self, step: StepRecord, at_ms: int) -> None:
        """What the step began: requests wait for an answer, runs for an end."""
        after = step.after
        if isinstance(after, Streaming) and after.reply.operation not in self.entries:
            self.entries[after.reply.operation] = world.ModelEntry(ending=world.ModelHangs())
            self.asked_ms[after.reply.operation] = at_ms
        for effect in step.effects:
            if isinstance(effect, StartTool):
                self.runs[effect.operation] = (effect.call, effect.tool, at_ms)
            elif isinstance(effect, CheckCall):
                self.checks[effect.operation] = effect.call

    def _tell(self, delta: Delta, refused: bool, at_ms: int) -> None:
        if isinstance(delta, Created):
            self._begin(delta, refused, at_ms)
        elif isinstance(delta, ModelText | ModelReasoning | ModelCall | ModelCompleted | ModelFailed):
            self._tell_model(delta, refused, at_ms)
        elif isinstance(delta, RunReport):
            self._tell_run(delta, refused, at_ms)
        elif isinstance(delta, ToolChecked):
            self._tell_verdict(delta, refused, at_ms)
        elif not isinstance(delta, Acquired):
            action = self._action(delta)
            if action is None:
                self._leave_untold(delta, at_ms)
            else:
                self._act(action, at_ms)

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
                entry = evolve(entry, ending=world.ModelCompletes(stop), takes_ms=after_ms)
            case ModelFailed(error=error):
                entry = evolve(entry, ending=world.ModelFails(error), takes_ms=after_ms)
        self.entries[number] = entry

    def _scripted(self, delta: ModelCall, position: int) -> world.ScriptedCall:
        name = f"c{delta.operation}{position}"
        self.names[CallId(delta.operation, position)] = name
        self._behave(delta.tool, name, HANGS)
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
            return
        entry = self.entries[call.reply]
        scripted = entry.calls[call.position - 1]
        if isinstance(delta.verdict, UnknownTool):
            scripted = evolve(scripted, tool=f"unlisted-{scripted.tool}")
        elif isinstance(delta.verdict, InvalidCall):
            scripted = evolve(scripted, raw="{")
        calls = (*entry.calls[: call.position - 1], scripted, *entry.calls[call.position :])
        self.entries[call.reply] = evolve(entry, calls=calls)

    def _again(self, delta: Delta, at_ms: int) -> None:
        """A report that came a second time can be told; one about what was never begun cannot."""
        pattern = None
        if isinstance(delta, ModelCompleted) and delta.operation in self.entries:
            pattern = f"reply {delta.operation} *"
        elif isinstance(delta, RunReport) and delta.operation in self.runs:
            pattern = f"tool {self.names.get(self.runs[delta.operation][0], '*')} ended *"
        if pattern is None:
            self._leave_untold(delta, at_ms)
        else:
            self._act(actions.ReportAgain(pattern), at_ms)

    # --- the tools --------------------------------------------------------------------------------------

    def _tell_run(self, delta: RunReport, refused: bool, at_ms: int) -> None:
        if delta.operation not in self.runs:
            self._leave_untold(delta, at_ms)
            return
        call, tool, started_ms = self.runs[delta.operation]
        after_ms = at_ms - started_ms
        script = self.tools.get(tool, world.ToolScript())
        behaviour = script.calls.get(self.names[call], HANGS)
        if not isinstance(behaviour.outcome, world.ToolHangs):
            self._again(delta, at_ms)
        elif isinstance(delta, ToolProgress):
            progress = (*behaviour.progress, world.Progress(after_ms, delta.text))
            self._behave(tool, self.names[call], evolve(behaviour, progress=progress))
        else:
            output = ToolOutput() if isinstance(delta, ToolStopped) else delta.output
            text, done = text_of(output.content), isinstance(delta, ToolSucceeded)
            ended = evolve(
                behaviour,
                takes_ms=after_ms,
                outcome=world.ToolReturns(text) if done else world.ToolFails(text),
                final=output.final,
                stops_loop=output.stops_loop,
                ignores_abort=refused,  # the call is answered already, and here is its report
            )
            self._behave(tool, self.names[call], ended)

    def _behave(self, tool: str, call: str, behaviour: world.Behaviour) -> None:
        script = self.tools.get(tool)
        if script is not None:
            self.tools[tool] = evolve(script, calls={**script.calls, call: behaviour})

    # --- the user ---------------------------------------------------------------------------------------

    def _action(self, delta: Delta) -> actions.UserAction | None:
        """The action of that name; None where the format has none."""
        if isinstance(delta, Say):
            return actions.Say(_said(delta.content))
        if isinstance(delta, Enqueue):
            return actions.Enqueue(_said(delta.content))
        if isinstance(delta, Steer):
            return actions.Steer(_said(delta.content))
        if isinstance(delta, Discard):
            return actions.Discard(delta.queued)
        if isinstance(delta, CancelCall):
            return actions.Cancel(self.names.get(delta.call, str(delta.call)))
        if isinstance(delta, ChangeMode):
            return actions.ChangeMode(delta.mode)
        if isinstance(delta, Permit):
            return actions.Permit(delta.rule)
        if isinstance(delta, StartHandoff):
            return actions.StartHandoff(delta.goal)
        return _WORDS.get(type(delta))


# What is said by a word alone.
_WORDS: dict[type, actions.UserAction] = {
    CancelAll: actions.Cancel(None),
    RetryNow: actions.RetryNow(),
    DismissError: actions.DismissError(),
    CompactNow: actions.CompactNow(),
    Disposed: actions.Dispose(),
}


def _said(content: tuple[UserBlock, ...]) -> str:
    return text_of(content) or "..."


def _choice(policy: Policy) -> PolicyChoice:
    """The options in which the policy differs from the default, where one word or number says it."""
    options: dict[str, world.JsonValue] = {}
    for field in attrs.fields(Policy):
        value = getattr(policy, field.name)
        if value == getattr(Policy(), field.name):
            continue
        word = value.value if isinstance(value, enum.Enum) else value
        if word is None or isinstance(word, str | int | float | bool):
            options[field.name] = word
    return PolicyChoice(preset="default", options=options)
