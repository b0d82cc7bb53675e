"""What a reply of many calls costs the laws: counted in Python calls, and not timed."""

import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import EarlyStart, Schedule
from loopkernel.data.differences import different_items
from loopkernel.data.policy import Hook, LoopTiers, Policy, Prices
from loopkernel.data.vector import Vector
from loopkernel.data.words import HookPoint, TimerPurpose
from loopkernel.judging import KERNEL
from loopkernel.laws.catalogue import PAIR_CHECKS, RUN_LAWS
from loopkernel.laws.judging import judge_run, judge_steps
from loopkernel.laws.shadow import memory
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord
from loopkernel.testing.played.player import Player
from loopkernel.testing.played.tools import POLICY, SUB_CALL, TO_ASK, Call, path_of, read, write

from tests.kernel.counting import python_calls

LOOKS_FURTHER = os.environ.get("HYPOTHESIS_PROFILE", "quick") in ("fuzz", "deep")
FEW, MANY = (64, 128) if LOOKS_FURTHER else (33, 66)  # calls of one reply: more than a leaf of their sequence holds
MOST_GROWTH = 2.25  # of what judging costs, from few calls to twice as many: it would be 4 if each looked at all others
LITTLE = 1_000  # Python calls, below which growth says nothing
# Each call is compared with those within the window: a short one is full before the growth is measured.
ALL_AT_ONCE = evolve(POLICY, schedule=Schedule.ALL, max_parallel=None, tool_timeout_ms=None, loop=LoopTiers(window=6))

Steps = tuple[StepRecord, ...]


@frozen
class Reply:
    """A reply of so many calls: the policy, what is called, and how the runs go."""

    call: Callable[[int], Call]
    runs: Callable[[Player], None]
    policy: Policy

    def played(self, calls: int) -> Steps:
        """The steps of its run."""
        player = Player(transition)
        player.begin(self.policy)
        player.say("go")
        player.reply(*map(self.call, range(calls)))
        self.runs(player)
        player.settle()
        return tuple(player.steps)


def writes(_: int) -> Call:
    return write("a")


def reads(number: int) -> Call:
    return read(f"a{number}")


def glances(number: int) -> Call:
    return Call("glance", path_of(f"a{number}"))


def end_from_both_sides(player: Player) -> None:
    while player.runs:
        player.end(0 if len(player.runs) % 2 else len(player.runs) - 1)


def fail(player: Player) -> None:
    while player.runs:
        player.end(fails=True)


def run_out_of_time(player: Player) -> None:
    while player.runs:
        player.expire(TimerPurpose.TOOL_TIMEOUT)
        player.stop()


def lose(player: Player) -> None:
    while player.runs:
        player.lose()


HOOK = Hook(name="h", point=HookPoint.BEFORE_TOOL)
REPLIES = {
    "recorded": Reply(reads, end_from_both_sides, ALL_AT_ONCE),
    "slots": Reply(reads, fail, evolve(ALL_AT_ONCE, max_parallel=8)),
    "approvals": Reply(lambda _: TO_ASK, Player.settle, ALL_AT_ONCE),
    "hooks": Reply(reads, Player.settle, evolve(ALL_AT_ONCE, hooks=(HOOK,))),
    "timers": Reply(reads, run_out_of_time, evolve(ALL_AT_ONCE, tool_timeout_ms=100_000)),
    "lost": Reply(reads, lose, ALL_AT_ONCE),
    "graph": Reply(reads, fail, evolve(ALL_AT_ONCE, schedule=Schedule.GRAPH)),
    "one file": Reply(writes, Player.settle, evolve(ALL_AT_ONCE, schedule=Schedule.GRAPH)),
    "serial": Reply(reads, Player.settle, evolve(ALL_AT_ONCE, schedule=Schedule.SERIAL)),
    "read runs": Reply(writes, Player.settle, evolve(ALL_AT_ONCE, schedule=Schedule.READ_RUNS)),
    "sub-agents": Reply(lambda _: SUB_CALL, Player.settle, ALL_AT_ONCE),
    "sub-agents that share": Reply(
        lambda _: SUB_CALL,
        Player.settle,
        evolve(ALL_AT_ONCE, max_total_tokens=1_000_000, max_cost_usd=10.0, prices=Prices(output=1.0)),
    ),
    "early": Reply(glances, Player.settle, evolve(ALL_AT_ONCE, early_start=EarlyStart.GATED)),
}
QUICK = ("recorded",)  # the others are judged by a fuzzing round


def judges() -> Iterator[tuple[str, Callable[[Steps], object]]]:
    """Each law of a run by its name, and the laws of a step together."""

    yield "steps", lambda steps: judge_steps(steps, KERNEL).breaches
    yield from ((law, partial(judge_run, law, judged=KERNEL)) for law in (*RUN_LAWS, *PAIR_CHECKS))


@pytest.mark.parametrize("name", [name for name in REPLIES if name in QUICK or LOOKS_FURTHER])
def test_judging_a_reply_takes_as_long_as_it_has_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FIRST_WAITS", 0)  # or a short run has the waits of all its steps judged
    monkeypatch.setattr(memory, "FIRST_LOOKS", 0)
    few, many = REPLIES[name].played(FEW), REPLIES[name].played(MANY)
    assert len(few) > 3 * FEW
    assert [law for law, judge in judges() if judge(few)] == []
    grown = {law: (python_calls(judge, few), python_calls(judge, many)) for law, judge in judges()}
    assert {law: cost for law, cost in grown.items() if cost[1] > MOST_GROWTH * max(cost[0], LITTLE)} == {}


@pytest.mark.parametrize("name", ["graph", "one file"])
def test_the_laws_of_a_step_look_at_what_has_changed_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FIRST_WAITS", 0)
    monkeypatch.setattr(memory, "FIRST_LOOKS", 0)
    few, many = (REPLIES[name].played(count) for count in (20, 40))
    # A few waits of each step are judged, so that it is a little more than twice; looking at all others made it 3.3.
    judge = partial(judge_steps, judged=KERNEL)
    assert python_calls(judge, many) < 2.8 * python_calls(judge, few)


@given(st.integers(0, 1_100), st.lists(st.integers(0, 1_099), max_size=4), st.integers(0, 40), st.booleans())
def test_what_differs_is_found_wherever_it_stands(size: int, changed: list[int], more: int, turned: bool) -> None:
    older = Vector[object].of(range(size))
    newer = older
    for place in changed:
        newer = newer.replace(place, object()) if place < size else newer
    for _ in range(more):
        newer = newer.append(object())
    newer = newer if len(changed) % 2 else newer.first(size // 2 + more)
    left, right = (newer, older) if turned else (older, newer)
    both = range(max(len(left), len(right)))
    pairs = [(place, *(one[place] if place < len(one) else None for one in (left, right))) for place in both]
    assert list(different_items(left, right)) == [pair for pair in pairs if pair[1] is not pair[2]]


def test_what_is_shared_is_not_looked_at() -> None:
    def compared(items: Vector[int]) -> list[int]:
        return [place for place, _, _ in different_items(items, items.replace(1, -1))]

    few, many = (python_calls(compared, Vector.of(range(size))) for size in (1_000, 30_000))
    assert many < 2 * few
