"""Runs one scenario and judges it: its expectations, every law after every step, and the replay of its log."""

import enum
from collections.abc import Iterator
from typing import final

from attrs import evolve, frozen

from loopkernel.data.errors import CodecError, PolicyError
from loopkernel.judging import KERNEL, check_all, check_trace
from loopkernel.loop.transition import transition as the_transition
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.judging.expectations import differences
from loopkernel.testing.scenarios.judging.replay_check import replay_difference
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.recording import Recording, TraceLine
from loopkernel.views.explain import explain


class ScenarioOutcome(enum.Enum):
    """What became of a scenario."""

    PASS = "pass"
    FAIL = "fail"


@final
@frozen(kw_only=True)
class Judgement:
    """The outcome; the first difference; all differences; the trace."""

    outcome: ScenarioOutcome
    difference: str | None = None
    differences: tuple[str, ...] = ()
    trace: tuple[TraceLine, ...] = ()


def run_scenario(scenario: Scenario, transition: Transition = the_transition, *, again: bool = True) -> Judgement:
    """Runs the scenario and judges it; `transition` is the kernel under test.

    Whatever rules it names, it is judged: they are for people. Unless `again`, the run is not taken once more: for the
    pair laws, and to be replayed.
    """
    try:
        policy = effective_policy(scenario.policy)
    except PolicyError as error:
        return _failed((f"the policy cannot hold: {'; '.join(map(str, error.faults))}",), ())
    try:
        run = Drive(scenario, policy, transition).run()
    except CodecError as error:
        return _failed((f"the scenario has a value that is not JSON: {'; '.join(map(str, error.faults))}",), ())
    broken = tuple(map(_on_one_line, broken_laws(run, transition, again=again)))
    found = _most_telling_first((*broken, *map(_on_one_line, unmet_expectations(scenario, run))))
    if not found:
        return Judgement(outcome=ScenarioOutcome.PASS, trace=run.lines)
    return _failed(found, run.lines)


def _most_telling_first(found: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, WHY last: it holds a kernel to this one's explanations, so that any other breach breaks it too."""
    return tuple(sorted(dict.fromkeys(found), key=lambda line: line.startswith("law WHY")))


def _failed(found: tuple[str, ...], trace: tuple[TraceLine, ...]) -> Judgement:
    return Judgement(outcome=ScenarioOutcome.FAIL, difference=found[0], differences=found, trace=trace)


def _on_one_line(text: str) -> str:
    return " / ".join(text.splitlines())


def unmet_expectations(scenario: Scenario, run: Recording) -> Iterator[str]:
    """Why the run could not go on to its end, if it could not; then in what it differs from what is expected."""
    if run.trouble is not None:
        yield run.trouble
    yield from differences(scenario.expect, run)


def broken_laws(run: Recording, transition: Transition, *, again: bool = True) -> Iterator[str]:
    """Which laws do not hold, and, where the run is to be taken `again`, whether the log replays to other bytes."""
    if run.raised is not None:
        yield run.raised
    for one in (run, *run.children):
        whose = f"in the sub-agent of {one.address}: " if one.address else ""
        yield from (f"{whose}{broken}" for broken in _breaches(one, transition, again=again))
        if again:
            yield from (f"{whose}{other}" for other in replay_difference(one, transition))


def _breaches(run: Recording, transition: Transition, *, again: bool) -> Iterator[str]:
    judged = evolve(KERNEL, transition=transition, explain=explain)
    check = check_all if again else check_trace
    for breach in check(run.steps, judged=judged).breaches:
        delta = type(run.steps[breach.step].context.delta).__name__ if breach.step < len(run.steps) else "end"
        yield f"law {breach.law} does not hold at step {breach.step} ({delta}): {breach.detail}"
