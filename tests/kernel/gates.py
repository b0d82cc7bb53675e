"""Builders of hooks, compactions and sub-agents for the tests of the kernel: policies, tools and reports."""

from attrs import evolve
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.effects import AskHook, Effect, TellHook
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import CallId, HookOperation, ModelOperation, RunOperation, SummaryOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    SummaryFailed,
    SummaryReady,
)
from loopkernel.data.policy import Compaction, CourseCorrection, Hook, Policy
from loopkernel.data.states import Finishing, State, Streaming, Thinking
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import HookPoint, TurnEndReason

from tests.kernel.building import ASKING_NOBODY, made_call, of_kind

BEFORE_TURN, AFTER_TURN = HookPoint.BEFORE_INVOCATION, HookPoint.AFTER_INVOCATION
BEFORE_MODEL, AFTER_MODEL = HookPoint.BEFORE_MODEL, HookPoint.AFTER_MODEL
BEFORE_TOOL, AFTER_TOOL = HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL
STOP, ADDED = HookPoint.STOP, HookPoint.MESSAGE_ADDED
GO_ON = HookContinue()

AGENT = Tool(name="agent", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, child=True))
EARLY_AGENT = Tool(name="early_agent", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, child=True, early=True))
TASK_INPUT = Json.of({"prompt": "look it up"})
# A turn that corrects itself after one call that writes.
CORRECTING = evolve(ASKING_NOBODY, course_correction=CourseCorrection(after_calls=1, after_writes=1))


# --- hooks ----------------------------------------------------------------------------------------------


def gated(point: HookPoint, name: str = "gate") -> Hook:
    """A hook that the loop waits for."""
    return Hook(point=point, name=name, gated=True)


def observed(point: HookPoint, name: str = "watch") -> Hook:
    """A hook that is only told."""
    return Hook(point=point, name=name)


def hooked(*hooks: Hook, policy: Policy = ASKING_NOBODY) -> Policy:
    """The policy with these hooks, which may take as long as they like."""
    return evolve(policy, hooks=hooks, hook_timeout_ms=None)


def says(number: int, answer: HookAnswer = GO_ON) -> HookAnswered:
    """The nth hook that was asked answers."""
    return HookAnswered(HookOperation(number), answer)


def blocks(number: int, why: str = "not so") -> HookAnswered:
    """The nth hook that was asked blocks."""
    return says(number, HookBlock(why))


def gate_of(state: State) -> OpenHook:
    """The hook that the whole loop waits for."""
    if isinstance(state, Streaming):
        assert state.after is not None
        return state.after.gate
    assert isinstance(state, Thinking | Finishing)
    assert isinstance(state.gate, OpenHook)
    return state.gate


def asked_of(effects: tuple[Effect, ...]) -> list[tuple[HookPoint, str]]:
    """The hooks that the effects ask, in order."""
    return [(asked.context.point, asked.context.name) for asked in of_kind(AskHook, effects)]


def told_of(effects: tuple[Effect, ...]) -> list[tuple[HookPoint, str]]:
    """The hooks that the effects only tell, in order."""
    return [(told.context.point, told.context.name) for told in of_kind(TellHook, effects)]


# --- compaction -----------------------------------------------------------------------------------------


def compacting(
    strategy: CompactionStrategy = CompactionStrategy.SUMMARISE,
    *,
    messages: int | None = None,
    turns: int | None = None,
    ratio: float | None = None,
    tokens: int | None = 1,
    policy: Policy = ASKING_NOBODY,
) -> Policy:
    """The policy that compacts whenever the thread holds so many tokens, and keeps so much."""
    compaction = Compaction(
        strategy=strategy,
        trigger_ratio=None,
        trigger_tokens=tokens,
        keep_turns=turns,
        keep_messages=messages,
        keep_ratio=ratio,
    )
    return evolve(policy, compaction=compaction)


def summary(number: int = 1, words: str = "so far", usage: Usage = NO_USAGE) -> SummaryReady:
    """The nth summary is there."""
    return SummaryReady(SummaryOperation(number), words, usage)


def no_summary(number: int = 1, usage: Usage = NO_USAGE) -> SummaryFailed:
    """The nth summary cannot be made."""
    return SummaryFailed(SummaryOperation(number), "too busy", usage)


# --- sub-agents -----------------------------------------------------------------------------------------


def agent_call(tool: str = "agent", reply: int = 1) -> ModelCall:
    """A call to a sub-agent."""
    return made_call(tool, reply=reply, call_input=TASK_INPUT)


def child_ended(
    number: int = 1,
    reason: TurnEndReason = TurnEndReason.MODEL_STOP,
    words: str = "found",
    usage: Usage = NO_USAGE,
    tool_calls: int = 0,
) -> ChildEnded:
    """The nth run, a sub-agent, has ended."""
    return ChildEnded(operation=RunOperation(number), reason=reason, text=words, usage=usage, tool_calls=tool_calls)


def child_asks(number: int, *positions: int) -> ChildAsks:
    """The nth run, a sub-agent, waits for a person about these calls of its first reply."""
    return ChildAsks(RunOperation(number), tuple(below(position) for position in positions))


def below(position: int) -> ChildCall:
    """A call within a sub-agent."""
    return ChildCall((CallId(ModelOperation(1), position),))
