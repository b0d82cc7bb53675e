"""What stands between the steps of a round: hooks that the loop waits for, compactions, and sub-agents.

Each beside a plain round of the kernel and one of the floor, in the same run.
"""

from collections.abc import Callable
from functools import partial

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, StartChild, Summarise
from loopkernel.data.ids import CheckOperation, HookOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
from loopkernel.data.outside_deltas import ChildEnded, ChildProgress, HookAnswered, HookContinue, SummaryReady
from loopkernel.data.policy import Compaction, Hook, Policy
from loopkernel.data.states import Compacting, Done, Idle, Initial, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CompactNow, Say
from loopkernel.data.words import HookPoint, StopReason, TurnEndReason
from loopkernel.loop.transition import transition

from bench import floor
from bench.scheduling import seconds
from bench.workload import READ, UNENDING, contexts, round_of, streaming_after

ROUNDS = 200
TIMES = 20  # compactions of the same thread
LENGTHS = (1_000, 100_000)  # messages
HOOKED_TARGET = 2.0  # a round with two gated hooks, to a plain round
CHILD_TARGET = 3.0  # a sub-agent that answers at once, with its own kernel, to a plain round
GROWTH_TARGET = 1.3  # a compaction of 100,000 messages to one of 1,000
TASK = Tool(name="task", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, child=True))
HOOKS = tuple(Hook(point=point, name="lint", gated=True) for point in (HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL))


def begun(policy: Policy, *tools: Tool) -> State:
    """A session whose first request is under way."""
    state: State = Initial()
    opening = (Created(session_id="bench", policy=policy, tools=tools), Acquired(), Say(content=(TextBlock("Go."),)))
    for delta in opening:
        state = transition(state, Context(delta, 0)).next
    return state


def run(state: State, rounds: tuple[tuple[Delta, ...], ...]) -> State:
    """The kernel goes through the rounds."""
    for number, deltas in enumerate(rounds, start=1):
        for delta in deltas:
            state = transition(state, Context(delta, number)).next
    return state


def hooked_round(number: int) -> tuple[Delta, ...]:
    """Round `number`, with both of its hooks answered."""
    text, call, end, verdict, result = round_of(number)
    before, after = (HookAnswered(HookOperation(2 * number - place), HookContinue()) for place in (1, 0))
    return text, call, end, verdict, before, result, after


def child_round(number: int) -> tuple[tuple[Delta, ...], tuple[Delta, ...]]:
    """Round `number` of a parent up to the start of its sub-agent, and from what that says to the next request."""
    operation, task = ModelOperation(number), RunOperation(number)
    call = ModelCall(operation, provider_id="call", tool="task", input=Json.of({"prompt": f"Do part {number}."}))
    asked = ModelText(operation, "I hand it over."), call, ModelCompleted(operation, StopReason.TOOL_USE)
    said = ChildProgress(task, "It is done.")
    return (*asked, ToolChecked(CheckOperation(number), ValidCall())), (said, ended(number))


def ended(number: int) -> ChildEnded:
    """The end of the sub-agent of round `number`."""
    return ChildEnded(
        operation=RunOperation(number), reason=TurnEndReason.MODEL_STOP, text="It is done.", usage=Usage(10, 5)
    )


def with_children(state: State, rounds: int) -> State:
    """A parent goes through the rounds, and each of its sub-agents, a kernel of its own, answers at once."""
    for number in range(1, rounds + 1):
        before, after = child_round(number)
        started: StartChild | None = None
        for delta in before:
            state, effects = transition(state, Context(delta, number))
            started = next((effect for effect in effects if isinstance(effect, StartChild)), started)
        assert started is not None
        answer_as_child(started, number)
        for delta in after:
            state = transition(state, Context(delta, number)).next
    return state


def answer_as_child(started: StartChild, now_ms: int) -> None:
    """The sub-agent, from its creation to its end."""
    state: State = Initial()
    one = ModelOperation(1)
    task = Say(content=(TextBlock(started.task),))
    said = ModelText(one, "It is done."), ModelCompleted(one, StopReason.END_TURN, Usage(10, 5))
    for delta in (started.created, Acquired(), task, *said):
        state = transition(state, Context(delta, now_ms)).next
    assert isinstance(state, Done)


def idle_after(messages: int) -> State:
    """A session at rest whose thread holds so many messages, two a turn."""
    state: State = Initial()
    policy = Policy(compaction=Compaction(keep_turns=6, window_tokens=1_000_000_000))
    for opening in (Created(session_id="bench", policy=policy), Acquired()):
        state = transition(state, Context(opening, 0)).next
    said = Say(content=(TextBlock("And then?"),))
    for number in range(1, messages // 2 + 1):
        operation = ModelOperation(number)
        for delta in (said, ModelText(operation, "So it was."), ModelCompleted(operation, StopReason.END_TURN)):
            state = transition(state, Context(delta, number)).next
    assert isinstance(state, Idle)
    assert len(state.session.thread) == messages
    return state


def compactions(state: State) -> None:
    """The same thread is compacted, over and over."""
    for _ in range(TIMES):
        compacting, effects = transition(state, Context(CompactNow(), 0))
        assert isinstance(compacting, Compacting)
        assert any(isinstance(effect, Summarise) for effect in effects)
        after = transition(compacting, Context(SummaryReady(compacting.operation, "It went on."), 0)).next
        assert isinstance(after, Idle)


def plain_floor_round() -> float:
    """Microseconds of the floor for a plain round."""
    state = streaming_after(10)
    rounds = contexts(11, ROUNDS)

    def work() -> None:
        after: Streaming = state
        for text, call, end, verdict, result in rounds:
            assert isinstance(text.delta, ModelText)
            assert isinstance(call.delta, ModelCall)
            number = text.now_ms
            streaming = floor.increment(after, text, text.delta).next
            executing = floor.completed(floor.call(streaming, call, call.delta, number).next, end).next
            after = floor.succeeded(floor.checked(executing, verdict, number).next, result, number).next

    return seconds(work) / ROUNDS * 1e6


def measure() -> None:
    """Print the figures, each with its target."""
    bottom = plain_floor_round()
    plain = tuple(round_of(number) for number in range(1, ROUNDS + 1))
    hooked = tuple(hooked_round(number) for number in range(1, ROUNDS + 1))
    policy = Policy(max_turns=None, hooks=HOOKS, compaction=UNENDING.compaction)
    demand_hooks(begun(policy, READ), hooked[0])
    works: tuple[tuple[str, Callable[[], object], float | None], ...] = (
        ("plain", partial(run, begun(UNENDING, READ), plain), None),
        ("2 hooks", partial(run, begun(policy, READ), hooked), HOOKED_TARGET),
        ("sub-agent", partial(with_children, begun(UNENDING, TASK, READ), ROUNDS), CHILD_TARGET),
    )
    print("rounds with gates; microseconds")
    print(f"{'what':<12} {'kernel us':>10} {'x floor':>8} {'x plain':>8}")
    base = 0.0
    for name, work, target in works:
        cost = seconds(work) / ROUNDS * 1e6
        base = base or cost
        verdict = "" if target is None else f"  {met(cost / base, target)} (at most {target} x plain)"
        print(f"{name:<12} {cost:>10.2f} {cost / bottom:>8.2f} {cost / base:>8.2f}{verdict}")
    print("a compaction at rest that keeps 6 turns; microseconds")
    costs = []
    for length in LENGTHS:
        costs.append(seconds(partial(compactions, idle_after(length))) / TIMES * 1e6)
        print(f"{'compaction':<12} {length:>8,} {costs[-1]:>10.2f} {costs[-1] / bottom:>8.2f} x floor round")
    growth = costs[-1] / costs[0]
    print(f"{'growth':<12} {growth:>7.2f}  {met(growth, GROWTH_TARGET)} (at most {GROWTH_TARGET})")


def met(figure: float, target: float) -> str:
    """Whether the figure keeps its target."""
    return "met" if figure <= target else "MISSED"


def demand_hooks(state: State, deltas: tuple[Delta, ...]) -> None:
    """The hooked round really asks both of its hooks."""
    asked = 0
    for delta in deltas:
        state, effects = transition(state, Context(delta, 1))
        asked += sum(isinstance(effect, AskHook) for effect in effects)
    assert asked == len(HOOKS)
    assert isinstance(state, Streaming)
