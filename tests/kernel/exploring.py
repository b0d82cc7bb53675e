"""What is judged of a scope of the explorer: the search itself, the runs to some of its states, what outlines merge."""

from collections.abc import Iterable, Iterator

from attrs import evolve
from loopkernel.data.states import State
from loopkernel.judging import check_pairs, check_trace
from loopkernel.laws import Breach
from loopkernel.replaying import LogRecord, StepRecord
from loopkernel.testing.explorer.as_scenario import scenario_text
from loopkernel.testing.explorer.explore import Exploration, explore
from loopkernel.testing.explorer.strays import strays
from loopkernel.testing.explorer.views import outline, whole
from loopkernel.testing.run import Run

from tests.kernel.explore_care_goals import GOALS_OF_CARE
from tests.kernel.explore_endurance_goals import GOALS_OF_ENDURANCE
from tests.kernel.explore_goals import GOALS
from tests.kernel.explore_world import Case

EVERY_GOAL = {**GOALS, **GOALS_OF_ENDURANCE, **GOALS_OF_CARE}
LEAST_STATES = 60  # a scope with fewer shows nothing


def explored(case: Case, limit: int = 1_000_000) -> Exploration:
    """Everything within the case's scope, but for what is left out when so many states have been seen."""
    goals = {name: EVERY_GOAL[name] for name in case.goals}
    return explore(case.start, case.moves, laws=case.laws, view=case.view, goals=goals, limit=limit)


def wrong_with_search(case: Case, found: Exploration) -> Iterator[str]:
    """A breach with the run to it, no way to rest, and goals that nothing has met."""
    if found.breach is not None:
        run = (*case.beginning, *found.breach.run)
        yield f"{found.breach.breach}\n{scenario_text(run, str(found.breach.breach))}"
        return
    if found.stranded is not None:
        reason = "what is owed leads from here to no rest"
        yield f"{reason}\n{scenario_text((*case.beginning, *found.stranded), reason)}"
    if found.unmet:
        yield f"no step met: {', '.join(found.unmet)}"
    if not found.edges > 3 * found.states > 3 * LEAST_STATES:
        yield f"too little was seen: {found.states} states, {found.edges} steps"


def wrong_with_runs(case: Case, found: Exploration, most: int) -> Iterator[str]:
    """Breaches of the laws of whole runs, by the shortest runs to so many states, from the first to the last."""
    for number in range(found.states)[:: found.states // most + 1]:
        steps = noisy(case, found.run_to(number))
        for report in (check_trace(steps), check_pairs(steps)):
            if not report.held:
                yield f"{report}\n{scenario_text((*case.beginning, *found.run_to(number)), 'breaks a law, with noise')}"


def noisy(case: Case, run: Iterable[LogRecord]) -> list[StepRecord]:
    """The run, with everything ill-timed that can come before each of its deltas, by a clock that has gone back."""
    disturbed = Run()
    for due in (*case.beginning, *run):
        state = disturbed.state
        for delta in strays(state) if state.session is not None else ():
            disturbed.take(delta, state.stamp.now_ms - 1)
        disturbed.take(due.delta, due.now_ms)
    return disturbed.steps


def wrong_with_outlines(case: Case, limit: int) -> Iterator[str]:
    """States of one outline that lead, by deltas of the same kinds, to states of other outlines; among so many."""
    led: dict[object, dict[object, set[object]]] = {}
    known: tuple[State | None, set[object]] = (None, set())

    def note(record: StepRecord) -> tuple[Breach, ...]:
        nonlocal known
        if known[0] is not record.before:  # the steps from one state come one after another
            known = record.before, led.setdefault(outline(record.before), {}).setdefault(whole(record.before), set())
        if record.after is not record.before:
            known[1].add((type(record.context.delta), outline(record.after)))
        return ()

    small = evolve(case, scope=evolve(case.scope, calls=2, rounds=1, turns=None, strays=False))
    explore(small.start, small.moves, laws=note, view=whole, limit=limit)
    told_apart = 0
    for alike in led.values():
        first, *others = alike.values()
        yield from (f"one outline leads to {first}, and to {other}" for other in others if other != first)
        told_apart += len(others)
    if told_apart <= limit // 10:
        yield f"outlines merge too little to be judged: {told_apart} states"
