"""Every run within small scopes: the laws at every edge, every goal met, rest always within reach."""

from collections.abc import Iterable
from functools import cache

import pytest
from attrs import evolve
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.laws import Breach, check_pairs, check_trace
from loopkernel.replay import LogRecord, StepRecord
from loopkernel.testing.explore import Exploration, explore
from loopkernel.testing.explore_scenario import scenario_text
from loopkernel.testing.explore_strays import strays
from loopkernel.testing.explore_views import outline, whole
from loopkernel.transition import transition

from tests.kernel.explore_care import DEEP_CARE, OTHER_CARE, QUICK_CARE
from tests.kernel.explore_care_goals import GOALS_OF_CARE
from tests.kernel.explore_cases import (
    ANSWERS,
    BACKGROUND,
    CASES,
    EARLY,
    GRAPH,
    IS_DEEP,
    MOST_RUNS,
    OUTPUTS,
    PROFILE,
    QUESTIONS,
    RELEASED,
    SERIAL,
    of_profile,
)
from tests.kernel.explore_endurance import OTHER_ENDURANCE, QUICK_ENDURANCE
from tests.kernel.explore_endurance_goals import GOALS_OF_ENDURANCE
from tests.kernel.explore_goals import GOALS
from tests.kernel.explore_three_calls import SCHEDULES
from tests.kernel.explore_world import Case

EVERY_GOAL = {**GOALS, **GOALS_OF_ENDURANCE, **GOALS_OF_CARE}
ENDURANCE = of_profile(QUICK_ENDURANCE, OTHER_ENDURANCE)
OUTLINED_CARE = of_profile(QUICK_CARE, OTHER_CARE)
CARE = (*OUTLINED_CARE, *(DEEP_CARE if IS_DEEP else ()))
ALL_CASES = (*CASES, *ENDURANCE, *CARE)


@cache
def explored(case: Case) -> Exploration:
    """Everything within the case's scope."""
    goals = {name: EVERY_GOAL[name] for name in case.goals}
    return explore(case.start, case.moves, laws=case.laws, view=case.view, goals=goals)


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_every_run_holds_the_laws_and_can_come_to_rest(case: Case) -> None:
    found = explored(case)
    if found.breach is not None:
        run = (*case.beginning, *found.breach.run)
        pytest.fail(f"{found.breach.breach}\n{scenario_text(run, str(found.breach.breach))}")
    assert found.stranded is None
    assert found.unmet == ()
    assert found.complete
    assert found.held
    assert found.edges > 3 * found.states > 200


LIKE_STATES = 400 if PROFILE == "quick" else 1_000  # of each case, where those of one outline are compared


def noisy(case: Case, run: Iterable[LogRecord]) -> list[StepRecord]:
    """The run, with everything ill-timed that can come before each of its deltas, by a clock that has gone back."""
    state: State = Initial()
    steps: list[StepRecord] = []
    for due in (*case.beginning, *run):
        disturbances = strays(state) if state.session is not None else ()
        contexts = [Context(delta, state.stamp.now_ms - 1) for delta in disturbances]
        for context in (*contexts, Context(due.delta, due.now_ms)):
            after, effects = transition(state, context)
            steps.append(StepRecord(state, context, after, effects))
            state = after
    return steps


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_the_shortest_runs_hold_the_laws_of_whole_runs(case: Case) -> None:
    found = explored(case)
    numbers = range(found.states)[:: found.states // MOST_RUNS + 1]
    assert len(numbers) > MOST_RUNS // 3
    for number in numbers:
        steps = noisy(case, found.run_to(number))
        for report in (check_trace(steps), check_pairs(steps)):
            assert report.held, str(report)


COMPARED = (GRAPH, SERIAL, *SCHEDULES, ANSWERS, QUESTIONS, EARLY, BACKGROUND, RELEASED, *OUTPUTS)
ALIKE = (*(case for case in COMPARED if case in CASES), *ENDURANCE, *OUTLINED_CARE)


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_an_outline_hides_nothing_that_matters(case: Case) -> None:
    """States of one outline lead, by deltas of the same kinds, to states of the same outlines."""
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
    explore(small.start, small.moves, laws=note, view=whole, limit=LIKE_STATES)
    told_apart = 0
    for alike in led.values():
        first, *others = alike.values()
        assert all(other == first for other in others)
        told_apart += len(others)
    assert told_apart > LIKE_STATES // 10
