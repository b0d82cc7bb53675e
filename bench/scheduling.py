"""What scheduling costs: the plan by resource beside comparing pairs, and one result among many pending calls."""

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial

from loopkernel.data.choices import ApprovalMode, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.plans import Plan
from loopkernel.data.policy import Policy
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.loop.algorithms.scheduling import Claimant, add, conflict, end, start_all
from loopkernel.loop.transition import transition

SAMPLES = 5
SIZES = (10, 1_000, 10_000)
PAIRWISE_SIZES = (10, 1_000)  # at 10,000 calls comparing pairs takes minutes
LINEAR_TARGET = 2.0  # per call, 10,000 calls to 10
RESULT_TARGET = 1.5  # one result, 10,000 pending calls to 10
WRITE = Tool(name="write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT))


def calls(count: int) -> list[Claimant]:
    """Writers of files in folders: each file is written twice, and each hundredth call reads a whole folder."""
    found: list[Claimant] = []
    for place in range(count):
        folder = f"src/part{place // 20}"
        if place % 100 == 99:
            found.append(Claimant((Claim(folder, AccessMode.READ),)))
        else:
            found.append(Claimant((Claim(f"{folder}/file{place % 10}.py", AccessMode.WRITE),)))
    return found


def by_plan(made: list[Claimant]) -> int:
    """All calls planned, started as soon as they may, and ended in the order of their starts."""
    plan = Plan(schedule=Schedule.GRAPH)
    for call in made:
        plan = add(plan, call)
    running: list[int] = []
    ended = 0
    while plan.open:
        plan, started = start_all(plan)
        running.extend(started)
        plan = end(plan, running[ended])
        ended += 1
    return ended


def pairwise(made: list[Claimant]) -> int:
    """The same, with the conflicts found by comparing each call with every earlier one."""
    after: list[list[int]] = [[] for _ in made]
    before = [0] * len(made)
    for later, call in enumerate(made):
        for earlier in range(later):
            if conflict(made[earlier], call):
                after[earlier].append(later)
                before[later] += 1
    running = [place for place, count in enumerate(before) if count == 0]
    ended = 0
    while ended < len(made):
        for later in after[running[ended]]:
            before[later] -= 1
            if before[later] == 0:
                running.append(later)
        ended += 1
    return ended


def seconds(work: Callable[[], object]) -> float:
    """Median CPU seconds of the work."""
    spent: list[float] = []
    for _ in range(SAMPLES):
        gc.collect()
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return statistics.median(spent)


def executing(pending: int) -> tuple[State, RunOperation]:
    """A state with so many calls running, and one of their runs."""
    state: State = Initial()
    starts: list[RunOperation] = []
    policy = Policy(max_parallel=None, approval_mode=ApprovalMode.BYPASS)
    reply = ModelOperation(1)
    deltas: list[Delta] = [Created(session_id="bench", policy=policy, tools=(WRITE,)), Acquired(), Say(content=())]
    for place in range(pending):
        verdict = ValidCall((Claim(f"file{place}", AccessMode.WRITE),))
        made = ModelCall(reply, provider_id=f"c{place}", tool="write", input=Json.of({"n": place}), verdict=verdict)
        deltas.append(made)
    for delta in (*deltas, ModelCompleted(reply, StopReason.TOOL_USE)):
        state, effects = transition(state, Context(delta, 0))
        starts.extend(effect.operation for effect in effects if isinstance(effect, StartTool))
    return state, starts[pending // 2]


def one_result(pending: int, times: int = 300) -> float:
    """CPU seconds of one result among so many pending calls."""
    state, run = executing(pending)
    context = Context(ToolSucceeded(run), 0)

    def work() -> None:
        for _ in range(times):
            transition(state, context)

    return seconds(work) / times


def measure() -> None:
    """Print the tables, with their targets, met or missed."""
    print("scheduling: microseconds of CPU per call, from its plan to its end")
    print(f"{'calls':>8} {'by plan':>10} {'pairwise':>10}")
    planned: dict[int, float] = {}
    for size in SIZES:
        made = calls(size)
        planned[size] = seconds(partial(by_plan, made)) / size * 1e6
        beside = f"{seconds(partial(pairwise, made)) / size * 1e6:.1f}" if size in PAIRWISE_SIZES else "-"
        print(f"{size:>8,} {planned[size]:>10.1f} {beside:>10}")
    growth = planned[SIZES[-1]] / planned[SIZES[0]]
    print(f"growth {growth:.2f}, target at most {LINEAR_TARGET}: {'met' if growth <= LINEAR_TARGET else 'MISSED'}")
    results = {size: one_result(size) * 1e6 for size in SIZES}
    print("one result among pending calls: " + ", ".join(f"{size:,}: {cost:.1f} us" for size, cost in results.items()))
    growth = results[SIZES[-1]] / results[SIZES[0]]
    print(f"growth {growth:.2f}, target at most {RESULT_TARGET}: {'met' if growth <= RESULT_TARGET else 'MISSED'}")
