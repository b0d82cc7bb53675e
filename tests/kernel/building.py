"""Builders of small runs, states and deltas for the tests of the kernel.

Runs go through `transition`, so that the states are ones that the kernel really reaches. Operations, messages and
calls are numbered from 1, as the kernel numbers them.
"""

from typing import TypeVar

from loopkernel.data.blocks import RawInput, TextBlock, ToolCall, ToolResult
from loopkernel.data.choices import Lifetime, NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation, TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session
from loopkernel.data.states import (
    Backoff,
    Confirming,
    Dispatching,
    Executing,
    Finishing,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    Tool,
    ToolOutput,
    ToolProfile,
    ValidCall,
    Verdict,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import Enqueue, Say, Steer
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, StopReason
from loopkernel.loop.transition import transition

S = TypeVar("S")
E = TypeVar("E", bound=Effect)

READ = Tool(name="read", profile=ToolProfile(effect=EffectClass.READ_ONLY))
WRITE = Tool(name="write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT))
BARE = Tool(name="bare")
DANGER = Tool(name="danger", profile=ToolProfile(effect=EffectClass.DANGEROUS))
ASKS = Tool(name="asks", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, approval=Decision.ASK))
DENIED = Tool(name="denied", profile=ToolProfile(approval=Decision.DENY))
SERIAL = Tool(name="serial", profile=ToolProfile(effect=EffectClass.READ_ONLY, serial=True))
CHILD = Tool(name="child", profile=ToolProfile(child=True))
EARLY_READ = Tool(name="early_read", profile=ToolProfile(effect=EffectClass.READ_ONLY, early=True))
EARLY_WRITE = Tool(name="early_write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, early=True))
TOOLS = (READ, WRITE, BARE)
ALL_TOOLS = (*TOOLS, DANGER, ASKS, DENIED, SERIAL, CHILD, EARLY_READ, EARLY_WRITE)
# No call is asked about, and no timer runs but those of calls.
ASKING_NOBODY = Policy(no_profile_approval=NoProfileApproval.ALLOW, silence_ms=None)
TASK = Policy(lifetime=Lifetime.TASK, silence_ms=None)
NOTHING = Json.of({})
FREE = ValidCall()
ONE, TWO, THREE = ModelOperation(1), ModelOperation(2), ModelOperation(3)


# --- parts ----------------------------------------------------------------------------------------------


def text(words: str) -> tuple[TextBlock, ...]:
    """Content that is one text."""
    return (TextBlock(words),)


def say(words: str = "hello", key: str | None = None) -> Say:
    """The user says something."""
    return Say(content=text(words), key=key)


def enqueue(words: str, key: str | None = None) -> Enqueue:
    """A message for the end of the turn."""
    return Enqueue(content=text(words), key=key)


def steer(words: str, key: str | None = None) -> Steer:
    """A message for the next request."""
    return Steer(content=text(words), key=key)


def call_id(position: int, reply: int = 1) -> CallId:
    """The call at that position of a reply."""
    return CallId(ModelOperation(reply), position)


def reads(*keys: str) -> ValidCall:
    """The verdict on a call that reads these resources."""
    return ValidCall(tuple(Claim(key, AccessMode.READ) for key in keys))


def writes(*keys: str) -> ValidCall:
    """The verdict on a call that writes these resources."""
    return ValidCall(tuple(Claim(key, AccessMode.WRITE) for key in keys))


def run(number: int) -> RunOperation:
    """The nth run of the lineage."""
    return RunOperation(number)


def check(number: int) -> CheckOperation:
    """The nth check of the lineage."""
    return CheckOperation(number)


def timer(number: int) -> TimerOperation:
    """The nth timer of the lineage."""
    return TimerOperation(number)


def checked(number: int, verdict: Verdict = FREE) -> ToolChecked:
    """The nth check answers."""
    return ToolChecked(CheckOperation(number), verdict)


def succeeded(
    number: int, words: str = "out", *, final: bool = False, stops_loop: bool = False, background: bool = False
) -> ToolSucceeded:
    """The nth run returns."""
    output = ToolOutput(content=text(words), final=final, stops_loop=stops_loop, background=background)
    return ToolSucceeded(RunOperation(number), output)


def broken(number: int, words: str = "out") -> ToolFailed:
    """The nth run fails."""
    return ToolFailed(RunOperation(number), ToolOutput(content=text(words)))


def lost(number: int) -> ToolLost:
    """Nobody will say how the run has ended."""
    return ToolLost(RunOperation(number))


def stopped(number: int) -> ToolStopped:
    """The nth run has stopped."""
    return ToolStopped(RunOperation(number))


def fired(number: int) -> TimerFired:
    """The nth timer is due."""
    return TimerFired(TimerOperation(number))


def made_call(
    tool: str = "read",
    verdict: Verdict | None = FREE,
    *,
    reply: int = 1,
    provider_id: str = "p",
    call_input: Json | RawInput = NOTHING,
    needs: tuple[str, ...] = (),
) -> ModelCall:
    """The model makes a call; unless `verdict` is None the adapter's verdict comes with it."""
    return ModelCall(
        ModelOperation(reply), provider_id=provider_id, tool=tool, input=call_input, after=needs, verdict=verdict
    )


def recorded_call(
    position: int = 1, reply: int = 1, tool: str = "read", call_input: Json | RawInput = NOTHING
) -> ToolCall:
    """A call as the ledger and the thread hold it."""
    return ToolCall(id=call_id(position, reply), provider_id="p", tool=tool, input=call_input)


def completed(stop: StopReason = StopReason.END_TURN, reply: int = 1, usage: Usage = NO_USAGE) -> ModelCompleted:
    """The reply is complete."""
    return ModelCompleted(ModelOperation(reply), stop, usage)


def failed(error: ErrorClass = ErrorClass.SERVER, reply: int = 1, usage: Usage = NO_USAGE) -> ModelFailed:
    """The model call fails."""
    return ModelFailed(ModelOperation(reply), error=error, usage=usage)


# --- runs -----------------------------------------------------------------------------------------------


def step(state: State, delta: Delta, now_ms: int | None = None) -> Step[State]:
    """One delta applied, by default a millisecond after the last."""
    return transition(state, Context(delta, state.stamp.now_ms + 1 if now_ms is None else now_ms))


def after(state: State, *deltas: Delta) -> State:
    """The state that the deltas lead to."""
    for delta in deltas:
        state = step(state, delta).next
    return state


def effects_of(state: State, *deltas: Delta) -> tuple[Effect, ...]:
    """The effects of the last of the deltas."""
    return step(after(state, *deltas[:-1]), deltas[-1]).effects


def all_effects(state: State, *deltas: Delta) -> tuple[Effect, ...]:
    """The effects of all the deltas, in order."""
    effects: list[Effect] = []
    for delta in deltas:
        state, caused = step(state, delta)
        effects.extend(caused)
    return tuple(effects)


def a(kind: type[S], state: object) -> S:
    """The state, which must be of that kind."""
    assert isinstance(state, kind), f"{type(state).__name__} instead of {kind.__name__}"
    return state


def session_of(state: State) -> Session:
    """The session record, which must be there."""
    assert state.session is not None
    return state.session


def named(effects: tuple[Effect, ...]) -> list[str]:
    """The effects by the names of their classes."""
    return [type(effect).__name__ for effect in effects]


def of_kind(kind: type[E], effects: tuple[Effect, ...]) -> list[E]:
    """The effects of one class."""
    return [effect for effect in effects if isinstance(effect, kind)]


def created(policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Created:
    """The first record of a log."""
    return Created(session_id="s", policy=policy, tools=tools, instructions="be brief")


def at_rest(policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Idle:
    """A session that the driver has acquired."""
    return a(Idle, after(Initial(), created(policy, tools), Acquired()))


def asked(policy: Policy = ASKING_NOBODY, *deltas: Delta, tools: tuple[Tool, ...] = TOOLS) -> Streaming:
    """The user has said something, the model is asked, and these deltas have come since."""
    return a(Streaming, after(at_rest(policy, tools), say(), *deltas))


def working(*calls: ModelCall, policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = TOOLS) -> Executing:
    """The model has made these calls, and not all of them are answered."""
    return a(Executing, after(asked(policy, tools=tools), *calls, completed(StopReason.TOOL_USE)))


def asking(*calls: ModelCall, policy: Policy = ASKING_NOBODY, tools: tuple[Tool, ...] = ALL_TOOLS) -> Confirming:
    """The model has made these calls, and everything that is under way waits for a person."""
    return a(Confirming, after(asked(policy, tools=tools), *calls, completed(StopReason.TOOL_USE)))


def ledger_of(state: State) -> Ledger:
    """The calls of the last reply, which must not be in the thread yet."""
    assert isinstance(state, Streaming | Executing | Confirming | Dispatching | Initial)
    assert state.ledger is not None
    return state.ledger


def entries_of(state: State) -> tuple[LedgerEntry, ...]:
    """The calls of the last reply, in their order."""
    return tuple(ledger_of(state).entries)


def statuses(state: State) -> list[CallStatus]:
    """Where each call of the last reply stands."""
    return [entry.status for entry in entries_of(state)]


def results_of(state: State) -> tuple[ToolResult, ...]:
    """The answers to the last reply whose calls went into the thread."""
    messages = [message for message in session_of(state).thread if isinstance(message, ResultMessage)]
    return messages[-1].results


def starts(effects: tuple[Effect, ...]) -> list[CallId]:
    """The calls whose runs the effects start, in order."""
    return [effect.call for effect in effects if isinstance(effect, StartTool)]


def ends(effects: tuple[Effect, ...]) -> list[tuple[int, CallStatus, CancelReason | None]]:
    """The positions of the calls that the effects answer, with how and why, in order."""
    results = [effect.result for effect in effects if isinstance(effect, ToolEnded)]
    return [(result.call.position, result.status, result.reason) for result in results]


def pending_timers(state: State) -> list[Timer]:
    """Every timer that is pending: of calls, hooks, runs that are to stop, a stream or a retry, as they were minted."""
    timers: list[Timer | None] = [held.grace for held in session_of(state).held]
    if isinstance(state, Streaming):
        timers.append(state.silence)
    if isinstance(state, Backoff):
        timers.append(state.timer)
    if isinstance(state, Streaming) and state.after is not None:
        timers.append(state.after.gate.timer)
    if isinstance(state, Thinking | Finishing) and state.gate is not None:
        timers.append(state.gate.timer)
    if isinstance(state, Streaming | Executing | Confirming | Dispatching | Initial) and state.ledger is not None:
        timers += [entry.timer for entry in state.ledger.entries]
        timers += [entry.hooks.open.timer for entry in state.ledger.entries if entry.hooks.open is not None]
    return sorted((found for found in timers if found is not None), key=lambda found: found.operation)
