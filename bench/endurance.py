"""What recovery and watching cost: a request that fails and is made again, and loop detection with a full window."""

from functools import partial

from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import LoopTiers
from loopkernel.data.states import Backoff, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.watches import Watch, WatchedCall
from loopkernel.data.words import ErrorClass
from loopkernel.loop.algorithms.loop_detection import assess
from loopkernel.loop.transition import transition

from bench.scheduling import seconds
from bench.workload import streaming_after

TIMES = 200
LENGTHS = (100, 10_000)
GROWTH_TARGET = 1.3  # a retry, thread of 10,000 rounds to thread of 100
WINDOW_TARGET_US = 250.0  # loop detection before a request, over 24 calls of one tool


def retries(state: Streaming) -> None:
    """A request fails, its countdown runs out, and it is made again, over and over from the same state."""
    failed = ModelFailed(operation=ModelOperation(state.reply.operation), error=ErrorClass.OVERLOADED)
    for _ in range(TIMES):
        waiting = transition(state, Context(failed, state.stamp.now_ms)).next
        assert isinstance(waiting, Backoff)
        fired = TimerFired(waiting.timer.operation)
        transition(waiting, Context(fired, waiting.timer.deadline_ms))


def full_watch(fields: int) -> Watch:
    """A full window of calls of one tool that are not similar, with so many fields in each input."""
    window = LoopTiers().window
    calls = (Json.of({f"field{place}": f"{number}-{place}" for place in range(fields)}) for number in range(window))
    return Watch(calls=tuple(WatchedCall("search", given) for given in calls))


def assessments(watch: Watch) -> None:
    """The check before a request, over and over."""
    for _ in range(TIMES):
        assess(watch, LoopTiers(), frozenset())


def measure() -> None:
    """Print the figures, each with its target."""
    print("a failed request and its retry; microseconds")
    costs = []
    for length in LENGTHS:
        state = streaming_after(length)
        costs.append(seconds(partial(retries, state)) / TIMES * 1e6)
        print(f"{'retry':<12} {length:>8,} {costs[-1]:>10.2f}")
    growth = costs[-1] / costs[0]
    print(f"{'growth':<12} {growth:>7.2f}  {'met' if growth <= GROWTH_TARGET else 'MISSED'} (at most {GROWTH_TARGET})")
    print(f"loop detection over {LoopTiers().window} calls of one tool; microseconds")
    for fields in (1, 5):
        cost = seconds(partial(assessments, full_watch(fields))) / TIMES * 1e6
        verdict = "met" if cost <= WINDOW_TARGET_US else "MISSED"
        print(f"{f'{fields} fields':<12} {cost:>19.2f}  {verdict} (at most {WINDOW_TARGET_US:g})")
