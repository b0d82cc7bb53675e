"""The scenarios that are played in this process: those of agents from outside, some of its own, and generated ones."""

import random
from collections.abc import Callable

from attrs import evolve
from loopkernel_adapters.conform.catalogue import SCENARIOS as FROM_OUTSIDE
from loopkernel_adapters.conform.scenario import End, Life, Scenario
from loopkernel_adapters.conform.script import TOO_LONG, Answer, Called, Cut, Problem, Reply, Said, Stop, calling, said

from tests.differential.frameworks.stage import RAISES

_DONE = said("done")
_REFUSED = Problem(status=401, kind="authentication_error", message="invalid key")

OWN: tuple[Scenario, ...] = (
    Scenario(
        name="tool-raises",
        about="a tool raises what no tool should; then the person goes on",
        laws=("PAIR", "SHOWN", "CONSERVE"),
        answers=(calling(Called(label="a", status=RAISES)), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="tool-raises-beside-another",
        about="of two calls one raises what no tool should; then the person goes on",
        laws=("PAIR", "SIBLING", "SHOWN"),
        answers=(calling(Called(label="a", status=RAISES), Called(label="b")), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="tool-fails-twice",
        about="a tool fails in two rounds, as tools do; then the person goes on",
        laws=("RESULT", "PAIR"),
        answers=(calling(Called(label="a", status=3)), calling(Called(label="b", status=3)), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="bad-arguments-twice",
        about="two calls, one after the other, fit nothing",
        laws=("TOTAL", "PAIR"),
        answers=(
            calling(Called(label="u", raw='{"nothing":1}')),
            calling(Called(label="v", raw='{"nothing":1}')),
            _DONE,
        ),
    ),
    Scenario(
        name="id-twice-then-prompt",
        about="two calls of one reply have the same id; then the person goes on",
        laws=("PAIR", "RESULT"),
        answers=(calling(Called(label="a", id="call_same"), Called(label="b", id="call_same")), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="unknown-tool-then-prompt",
        about="a call of a tool that is not offered; then the person goes on",
        laws=("PAIR", "TOTAL"),
        answers=(calling(Called(label="u", tool="nowhere_to_be_found", raw="{}")), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="unreadable-arguments-then-prompt",
        about="a whole call whose arguments are not JSON; then the person goes on",
        laws=("PAIR", "TOTAL"),
        answers=(calling(Called(label="u", raw='{"command": "echo')), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="half-call-output-limit-then-prompt",
        about="the output limit is reached within a call; then the person goes on",
        laws=("PAIR", "FINAL-ARGS"),
        answers=(calling(Called(label="a", half=True), stop=Stop.OUTPUT_LIMIT), _DONE, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="refused-after-a-call",
        about="a call has run, and the server refuses the key; then the person goes on",
        laws=("SHOWN", "PAIR", "CONSERVE"),
        answers=(calling(Called(label="a")), _REFUSED, _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="id-reused-over-prompts",
        about="a call of a second prompt has the id of one of the first",
        laws=("RESULT", "PAIR", "AT-MOST-ONCE"),
        answers=(
            calling(Called(label="a", id="call_same")),
            _DONE,
            calling(Called(label="b", id="call_same")),
            _DONE,
        ),
        lives=(Life(), Life()),
    ),
)
SCENARIOS = (*FROM_OUTSIDE, *OWN)


def why_not(scenario: Scenario, streams: bool, waits: bool = True) -> str:
    """Why it is not played in this process; empty where it is."""
    if any(life.end is End.KILLED for life in scenario.lives):
        return "an agent in this process cannot be killed alone"
    problems = [answer for answer in scenario.answers if isinstance(answer, Problem)]
    if not waits and any(problem.retry_after_s is not None for problem in problems):
        return "the failure by which a model behind this port tells of it does not say how long to wait"
    cuts = {answer.cut for answer in scenario.answers if isinstance(answer, Reply)}
    if Cut.SILENCE in cuts:
        return "how long a silent stream is waited for is the affair of the model behind the port"
    if Cut.CLEAN in cuts and not streams:
        return "replies come whole through the port of this framework"
    return ""


def generated(seed: int) -> Scenario:
    """The scenario of that seed: the same on every machine."""
    dice = random.Random(seed)
    labels = (f"g{number}" for number in range(100))
    answers: list[Answer] = []
    for _ in range(dice.randint(1, 5)):
        answers.append(_answer(dice, lambda: next(labels)))
    lives = tuple(Life() for _ in range(dice.choice((1, 2, 2, 3))))
    called = [call.label for each in answers if isinstance(each, Reply) for call in each.calls if call.sleeps_s]
    if called and dice.random() < 0.2:
        lives = (Life(end=End.CANCELLED, within=dice.choice(called)), Life())
    return Scenario(name=f"seed-{seed}", about="generated", laws=(), answers=tuple(answers), lives=lives)


def _answer(dice: random.Random, label: Callable[[], str]) -> Answer:
    roll = dice.random()
    if roll < 0.08:
        return dice.choice((_REFUSED, TOO_LONG))
    if roll < 0.35:
        return said("well", dice.choice((Stop.NATURAL, Stop.NATURAL, Stop.OUTPUT_LIMIT)))
    if dice.random() < 0.05:
        return calling(Called(label=label(), half=True), stop=Stop.OUTPUT_LIMIT)
    calls = [_call(dice, label()) for _ in range(dice.choice((1, 1, 2, 3)))]
    if dice.random() < 0.1:
        # By its id alone is a call known that has no command.
        calls = [call if call.tool or call.raw else evolve(call, id="call_same") for call in calls]
    parts = (*((Said("let me see"),) if dice.random() < 0.3 else ()), *calls)
    return Reply(parts=parts, stop=Stop.NATURAL if dice.random() < 0.1 else Stop.CALLS)


def _call(dice: random.Random, label: str) -> Called:
    roll = dice.random()
    if roll < 0.1:
        return Called(label=label, tool="nowhere_to_be_found", raw="{}")
    if roll < 0.2:
        return Called(label=label, raw=dice.choice(('{"nothing":1}', '{"command": "echo')))
    if roll < 0.4:
        return Called(label=label, status=dice.choice((3, RAISES)))
    return Called(label=label, sleeps_s=dice.choice((0, 0, 3)))


def smaller(scenario: Scenario) -> list[Scenario]:
    """The scenarios that are one step smaller, the largest steps first."""
    answers, lives = scenario.answers, scenario.lives
    found = [evolve(scenario, answers=answers[:at] + answers[at + 1 :]) for at in range(len(answers))]
    found += [evolve(scenario, lives=lives[:at] + lives[at + 1 :]) for at in range(len(lives)) if len(lives) > 1]
    for at, answer in enumerate(answers):
        if not isinstance(answer, Reply):
            continue
        parts = answer.parts
        for place in range(len(parts) if len(parts) > 1 else 0):
            shorter = evolve(answer, parts=parts[:place] + parts[place + 1 :])
            found.append(evolve(scenario, answers=(*answers[:at], shorter, *answers[at + 1 :])))
    return found
