"""The scripted world: what the model, tools, hooks and the others answer to the commands of the kernel.

It knows no time of its own: each answer is a list of reports with their delays.
"""

from collections import Counter
from collections.abc import Mapping
from typing import assert_never, final

from attrs import define, evolve, frozen

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AskHook,
    CallModel,
    CheckCall,
    CheckCorrection,
    HandOff,
    StartChild,
    StartTool,
    Summarise,
)
from loopkernel.data.json_text import Json
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookFault,
    HookModify,
    HookRetry,
    SummaryFailed,
    SummaryReady,
)
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolProgress, ToolSucceeded
from loopkernel.data.tools import Tool, ToolOutput
from loopkernel.data.usage import NO_USAGE
from loopkernel.testing.scenarios.data import world as script
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta, Reply, reply_of
from loopkernel.testing.scenarios.player.verdicts import adapter_verdict


class RunStopped(Exception):
    """The run cannot go on; the text says why."""


@final
@frozen(kw_only=True)
class RunScript:
    """A run of a tool: what it reports, and what only after its question is answered."""

    reports: tuple[DelayedDelta, ...]
    after_answer: tuple[DelayedDelta, ...] = ()
    ignores_abort: bool = False


@define
class Answers:
    """The answers to hooks, summaries, corrections and handoffs that are not used up; sub-agents take of them too."""

    hooks: list[script.HookScript]
    summaries: list[script.SummaryScript]
    corrections: list[script.CorrectionScript]
    handoffs: list[script.HandoffScript]


class World:
    """One world for one kernel: it remembers which answers are used up.

    That of a sub-agent has an `address`, and within it `model`, `model_rest` and tools of its own.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.tools: dict[str, script.ToolScript] = dict(scenario.tools)
        self.address = ""
        self._scenario = scenario
        self._model = scenario.model
        self._model_rest = scenario.model_rest
        self._own_tools = True
        self._requests = 0
        self._runs: Counter[str] = Counter()
        self._answers = Answers(
            hooks=list(scenario.hooks),
            summaries=list(scenario.summaries),
            corrections=list(scenario.corrections),
            handoffs=list(scenario.handoffs),
        )

    @property
    def whose(self) -> str:
        """For a message: of which sub-agent it tells, if of any."""
        return f"in the sub-agent of {self.address}: " if self.address else ""

    def for_child(self, call: str, command: StartChild) -> "World":
        """The world of the sub-agent that runs for the call. Raises RunStopped when it has no script."""
        address = self.addressed(call)
        found = self._scenario.children.get(address) or self._scenario.children.get(call)
        if found is None:
            raise RunStopped(f"the sub-agent of {address} has no script: `children` has no entry `{address}`")
        world = World(self._scenario)
        world.address = address
        world._model, world._model_rest = found.model, found.model_rest
        world._answers = self._answers
        world._own_tools = found.tools is not None
        if found.tools is not None:
            world.tools = dict(found.tools)
        else:
            offered = {tool.name for tool in command.created.tools}
            world.tools = {name: tool for name, tool in self.tools.items() if name in offered}
            world._runs = self._runs  # the same tools, whose runs are counted together
        return world

    def addressed(self, call: str) -> str:
        """The name of a call of this kernel, as it is called from above."""
        return f"{self.address}/{call}" if self.address else call

    def created(self, created: Created) -> Created:
        """How a sub-agent begins: with tools of its own, where the scenario gives it some."""
        return evolve(created, tools=self.offered_tools()) if self._own_tools else created

    def offered_tools(self) -> tuple[Tool, ...]:
        """The tools, as the kernel is told of them."""
        return tuple(
            Tool(name=name, input_schema=Json.of(tool.input_schema), profile=tool.profile)
            for name, tool in self.tools.items()
        )

    def change_tools(self, changes: Mapping[str, script.ToolScript | None]) -> None:
        """Tools come, change or go (None)."""
        for name, tool in changes.items():
            if tool is None:
                self.tools.pop(name, None)
            else:
                self.tools[name] = tool

    def reply(self, command: CallModel) -> Reply:
        """The answer to the next request. Raises RunStopped when there is none, or another model was meant."""
        entries = self._model
        entry = entries[self._requests] if self._requests < len(entries) else self._model_rest
        self._requests += 1
        if entry is None:
            raise RunStopped(
                f"{self.whose}request {command.operation} has no answer: `model` has {len(entries)} entries,"
                " and there is no `model_rest`"
            )
        model = command.request.model
        if entry.model_name not in (None, model):
            raise RunStopped(
                f"{self.whose}request {command.operation} was to be asked of model {entry.model_name},"
                f" and was asked of {model}"
            )
        return reply_of(entry, command.operation, model)

    def check(self, command: CheckCall) -> DelayedDelta:
        """The verdict, at once."""
        return DelayedDelta(0, ToolChecked(command.operation, adapter_verdict(self.tools, command.tool, command.input)))

    def run(self, command: StartTool, call: str) -> RunScript:
        """What the run does; `call` is the scenario's name of the call."""
        self._runs[command.tool] += 1
        tool = self.tools.get(command.tool, script.ToolScript())
        named = next((name for name in (self.addressed(call), call) if name in tool.calls), call)
        behaviour = tool.behaviour_of(named, self._runs[command.tool])
        reports = [
            DelayedDelta(progress.at_ms, ToolProgress(command.operation, progress.text))
            for progress in behaviour.progress
        ]
        if behaviour.background:
            reports.insert(0, DelayedDelta(0, ToolSucceeded(command.operation, ToolOutput(background=True))))
        end = _end_of_run(command, behaviour)
        if end is not None:
            reports.append(DelayedDelta(behaviour.lasts_ms, end))
        reports.sort(key=lambda report: report.delay_ms)
        if behaviour.asks is None:
            return RunScript(reports=tuple(reports), ignores_abort=behaviour.ignores_abort)
        asked_ms = behaviour.asks.at_ms
        before = [report for report in reports if report.delay_ms < asked_ms]
        question = DelayedDelta(asked_ms, ToolAsked(command.operation, behaviour.asks.question))
        return RunScript(
            reports=(*before, question),
            after_answer=tuple(
                DelayedDelta(report.delay_ms - asked_ms, report.delta) for report in reports[len(before) :]
            ),
            ignores_abort=behaviour.ignores_abort,
        )

    def hook(self, command: AskHook, call: str | None) -> tuple[DelayedDelta, ...]:
        """The first unused answer for this point and call; without one the hook continues."""
        names = (None,) if call is None else (None, call, self.addressed(call))
        for index, hook in enumerate(self._answers.hooks):
            if hook.point is command.context.point and hook.call in names:
                del self._answers.hooks[index]
                answer = _hook_answer(hook.outcome)
                delta = None if answer is None else HookAnswered(command.operation, answer)
                return () if delta is None else (DelayedDelta(hook.takes_ms, delta),)
        return (DelayedDelta(0, HookAnswered(command.operation, HookContinue())),)

    def summary(self, command: Summarise) -> DelayedDelta:
        """The next summary, or a short default."""
        entry = self._answers.summaries.pop(0) if self._answers.summaries else None
        if entry is None:
            return DelayedDelta(0, SummaryReady(command.operation, script.DEFAULT_SUMMARY))
        match entry.outcome:
            case script.SummaryText(text, usage):
                return DelayedDelta(entry.takes_ms, SummaryReady(command.operation, text, usage or NO_USAGE))
            case script.SummaryFails(text):
                return DelayedDelta(entry.takes_ms, SummaryFailed(command.operation, text))
            case other:
                assert_never(other)

    def correction(self, command: CheckCorrection) -> DelayedDelta:
        """The next correction, or none."""
        waiting = self._answers.corrections
        entry = waiting.pop(0) if waiting else script.CorrectionScript()
        return DelayedDelta(entry.takes_ms, CorrectionAnswered(command.operation, entry.text))

    def handoff(self, command: HandOff) -> DelayedDelta:
        """The next thread, or a default one."""
        entry = self._answers.handoffs.pop(0) if self._answers.handoffs else None
        if entry is None:
            return DelayedDelta(0, HandoffDone(command.operation, script.DEFAULT_HANDOFF))
        match entry.outcome:
            case script.HandoffDone(thread):
                return DelayedDelta(entry.takes_ms, HandoffDone(command.operation, thread))
            case script.HandoffFails(text):
                return DelayedDelta(entry.takes_ms, HandoffFailed(command.operation, text))
            case other:
                assert_never(other)


def _end_of_run(command: StartTool, behaviour: script.Behaviour) -> Delta | None:
    """The last report of a run; None if it never comes."""
    match behaviour.outcome:
        case script.ToolReturns(text):
            output = ToolOutput(
                content=(TextBlock(text),),
                final=behaviour.final,
                stops_loop=behaviour.stops_loop,
            )
            return ToolSucceeded(command.operation, output)
        case script.ToolFails(text):
            output = ToolOutput(content=(TextBlock(text),), final=behaviour.final, stops_loop=behaviour.stops_loop)
            return ToolFailed(command.operation, output)
        case script.ToolHangs():
            return None
        case other:
            assert_never(other)


def _hook_answer(outcome: script.HookReplies | script.HookFails | script.HookHangs) -> HookAnswer | None:
    match outcome:
        case script.HookFails(text):
            return HookFault(text)
        case script.HookHangs():
            return None
        case script.HookReplies():
            match outcome.answer:
                case script.HookAnswerKind.CONTINUE:
                    return HookContinue()
                case script.HookAnswerKind.BLOCK:
                    return HookBlock(outcome.why or "")
                case script.HookAnswerKind.MODIFY:
                    changed = None if outcome.input is None else Json.of(outcome.input)
                    return HookModify(changed, outcome.result, outcome.text)
                case script.HookAnswerKind.RETRY:
                    return HookRetry()
                case kind:
                    assert_never(kind)
        case other:
            assert_never(other)
