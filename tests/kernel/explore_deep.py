"""Every scope of the explorer, each in a process of its own, the longest first.

Usage: python -m tests.kernel.explore_deep [--seed N] [--states 12000] [--list] [SCOPE ...]. The seed draws which calls
the scopes named "drawn" offer. A scope with more states than --states is not exhausted, which is said of it:
whether each goal is met and rest is within reach can only be told of one that is. At a terminal, a bar shows how many
have ended.
After a breach, prints the run to it as a scenario and the command that repeats it, and exits 1.
"""

import argparse
import gc
import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random

from attrs import evolve, frozen
from loopkernel.data.choices import Schedule
from loopkernel.data.tools import InvalidCall, UnknownTool, ValidCall
from loopkernel.data.words import StopReason
from loopkernel.judging import check_step
from loopkernel.testing.explorer.explore import laws_of_an_edge
from loopkernel.testing.explorer.scope import Scope
from loopkernel_adapters.cli.progress import Progress
from typing_extensions import override

from tests.kernel.explore_care import OTHER_CARE, QUICK_CARE
from tests.kernel.explore_cases import (
    ALWAYS,
    ANSWERS,
    BACKGROUND,
    COMPARED,
    EARLY,
    EXACT,
    GRAPH,
    OTHERS,
    OUTPUTS,
    QUESTIONS,
    QUICK,
)
from tests.kernel.explore_endurance import OTHER_ENDURANCE, QUICK_ENDURANCE
from tests.kernel.explore_three_calls import MANY, SCHEDULES, three_calls
from tests.kernel.explore_world import Case, plain
from tests.kernel.exploring import explored, wrong_with_outlines, wrong_with_runs, wrong_with_search

LARGE = (
    Case(
        name="everything else",
        policy=plain(schedule=Schedule.SERIAL, queue_limit=1, max_turns=2),
        scope=Scope(
            calls=2,
            rounds=2,
            lives=True,
            crashes=True,
            progress=True,
            verdicts=(ValidCall(), UnknownTool(), InvalidCall("a")),
            stops=(StopReason.END_TURN, StopReason.PAUSE, StopReason.MAX_TOKENS, StopReason.REFUSAL),
        ),
        goals=(*ALWAYS, "the turn is disposed of", "the turn ends at its limit"),
    ),
    Case(
        name="three calls",
        policy=plain(schedule=Schedule.GRAPH, queue_limit=1, max_parallel=2),
        scope=Scope(calls=3, rounds=1, texts=False),
        goals=(*ALWAYS, "two calls run at once"),
    ),
    evolve(GRAPH, name="graph, two rounds", scope=evolve(GRAPH.scope, rounds=2)),
    evolve(EXACT, name="exact, two rounds", scope=evolve(EXACT.scope, rounds=2)),
    evolve(GRAPH, name="graph, runs that do not stop", scope=evolve(GRAPH.scope, held=1)),
)
# Those of the quick suite and of the matrix, here with the laws of a whole run at every edge but of the largest.
GATE = (*QUICK, *OTHERS, *QUICK_ENDURANCE, *OTHER_ENDURANCE, *QUICK_CARE, *OTHER_CARE)
BY_STEP_LAWS = {case.name for case in (GRAPH, *SCHEDULES)}
ALL_LAWS = tuple(
    evolve(case, laws=laws_of_an_edge) if case.laws is check_step and case.name not in BY_STEP_LAWS else case
    for case in GATE
)
OTHERWISE_SCHEDULED = tuple(
    evolve(case, name=f"{case.name}, {schedule.value}", policy=evolve(case.policy, schedule=schedule))
    for case in (ANSWERS, QUESTIONS, EARLY, BACKGROUND, *OUTPUTS)
    for schedule in (Schedule.SERIAL, Schedule.BATCHES)
)
OUTLINED = {case.name for case in (*COMPARED, *QUICK_ENDURANCE, *OTHER_ENDURANCE, *QUICK_CARE, *OTHER_CARE)}
OFFERED = (2, 3, 4)  # of the first, second and third call of a reply, among those of MANY
RUNS = 40  # of each scope, with noise, from its first state to its last
LIKE_STATES = 1_000


def drawn(seed: int) -> Iterator[Case]:
    """Three calls under each schedule: any tools and any dependencies, of which the seed draws a few."""
    dice = Random(seed)
    for schedule in Schedule:
        for slots in (2, 3):
            offers = tuple(tuple(dice.sample(calls, few)) for calls, few in zip(MANY, OFFERED, strict=True))
            case = three_calls(schedule, slots, offers, f"drawn, {slots} slots")
            yield evolve(case, goals=(), laws=laws_of_an_edge)  # whether a person is asked depends on the draw


def scopes(seed: int) -> dict[str, Case]:
    """By name, those that take longest first."""
    return {case.name: case for case in (*LARGE, *drawn(seed), *ALL_LAWS, *OTHERWISE_SCHEDULED)}


@frozen(kw_only=True)
class Seen:
    """What came of a scope."""

    name: str
    states: int
    edges: int
    complete: bool
    seconds: float
    wrong: tuple[str, ...]

    @override
    def __str__(self) -> str:
        """In a line."""
        told = "" if self.complete else "; NOT EXHAUSTED, so neither goals nor rest are judged"
        return f"{self.name}: {self.states:,} states, {self.edges:,} steps, {self.seconds:.0f} s of processor{told}"


def judged(name: str, seed: int, states: int) -> Seen:
    """Explore a scope."""
    gc.set_threshold(100_000, 50, 100)
    begun, case = time.process_time(), scopes(seed)[name]
    found = explored(case, states)
    wrong = list(wrong_with_search(case, found))
    if not wrong:
        wrong += wrong_with_runs(case, found, RUNS)
        wrong += wrong_with_outlines(case, LIKE_STATES) if name in OUTLINED else ()
    is_complete = found.complete or found.breach is not None
    seconds = time.process_time() - begun
    return Seen(
        name=name,
        states=found.states,
        edges=found.edges,
        complete=is_complete,
        seconds=seconds,
        wrong=tuple(wrong),
    )


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; a seed is drawn where none is given."""
    parser = argparse.ArgumentParser(description="Explore every scope.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="draws what some scopes offer")
    parser.add_argument("--states", type=int, default=12_000, help="the most that are explored of a scope")
    parser.add_argument("--list", action="store_true", help="name the scopes, and explore none")
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help="explore these alone")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Explore them, print each as it ends, and at the end what was seen; 1 after a breach."""
    arguments = parsed(words)
    every = scopes(arguments.seed)
    unknown = [name for name in arguments.scopes if name not in every]
    if unknown or arguments.list:
        print("\n".join(every) if not unknown else f"no such scope: {', '.join(unknown)}; --list names them")
        return 2 if unknown else 0
    names = arguments.scopes or list(every)
    workers = max(1, int(os.environ.get("WORKERS", "2")))
    seen: list[Seen] = []
    progress = Progress(len(names))
    with ProcessPoolExecutor(workers) as processes:
        under_way = [processes.submit(judged, name, arguments.seed, arguments.states) for name in names]
        progress.at(0, "")
        for ended in as_completed(under_way):
            seen.append(ended.result())
            progress.clear()
            print(f"{len(seen)} of {len(names)}: {seen[-1]}", flush=True)
            if seen[-1].wrong:
                processes.shutdown(wait=True, cancel_futures=True)
                break
            progress.at(len(seen), "")
    progress.clear()
    print("\n".join((*repeats(seen, arguments.seed, arguments.states), summary(seen, len(names)))))
    return 1 if any(one.wrong for one in seen) else 0


def repeats(seen: Sequence[Seen], seed: int, states: int) -> Iterator[str]:
    """What is wrong, and how to see it again."""
    for one in seen:
        yield from (f"{one.name}: {wrong}" for wrong in one.wrong)
        if one.wrong:
            options = f"--seed {seed} --states {states} {shlex.quote(one.name)}"
            yield f"A breach was found. To repeat it:\n  .venv/bin/python -m tests.kernel.explore_deep {options}"


def summary(seen: Sequence[Seen], scopes_in_all: int) -> str:
    """In a line."""
    left = [one.name for one in seen if not one.complete]
    states, edges = (sum(each) for each in zip(*((one.states, one.edges) for one in seen), strict=True))
    ended_early = len(seen) < scopes_in_all or any(one.wrong for one in seen)
    told = f"; not exhausted: {', '.join(left)}" if left else "" if ended_early else "; all were exhausted"
    return f"{len(seen)} of {scopes_in_all} scopes, {states:,} states, {edges:,} steps{told}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
