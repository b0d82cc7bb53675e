"""The scenarios of the contract as worlds that can be played from outside: their model and their user, once each kind.

An agent has its own policy and tools, so what a scenario says of these is left out: each call becomes a command, and
each thing that its user says a process. Times become an order: of the calls of a reply, the slower sleep longer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import assert_never

from attrs import define, evolve, field
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.loop.transition import transition
from loopkernel.testing.contract import contract_folder
from loopkernel.testing.scenarios.command import scenario_files
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data.scenario import Scenario as ContractScenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.format.nodes import ScenarioError
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

from loopkernel_adapters.conform.catalogue import SCENARIOS
from loopkernel_adapters.conform.scenario import End, Life, Scenario
from loopkernel_adapters.conform.script import (
    BUSY,
    TOO_LONG,
    Answer,
    Called,
    Cut,
    Problem,
    Reply,
    Said,
    Stop,
    limited,
)
from loopkernel_adapters.conform.trace import answer_told

MOST_ANSWERS = 12
_MOST_SLEEP_S = 2
_MOST_WAIT_S = 3  # that a server asks for
_AFTER_KILL_S = 9  # a command that outlives its agent is still there when the next process asks
_WORDS = Said("so be it")
_STOPS = {
    StopReason.END_TURN: Stop.NATURAL,
    StopReason.TOOL_USE: Stop.CALLS,
    StopReason.MAX_TOKENS: Stop.OUTPUT_LIMIT,
}
_PROBLEMS = {
    ErrorClass.OVERLOADED: BUSY,
    ErrorClass.RATE_LIMITED: limited(0),
    ErrorClass.SERVER: Problem(status=500, kind="api_error"),
    ErrorClass.AUTH: Problem(status=401, kind="authentication_error"),
    ErrorClass.BAD_REQUEST: Problem(status=400, kind="invalid_request_error"),
    ErrorClass.PROMPT_TOO_LONG: TOO_LONG,
}


class ScenariosUnusable(Exception):
    """The files cannot be read; the message says where, and why."""


class NotPlayable(Exception):
    """The scenario needs what an agent from outside cannot be given; the message says what."""


def contract_scenarios(path: Path | None = None) -> tuple[Scenario, ...]:
    """Of the scenarios of a file or folder (of the contract), those that can be played, the first of each kind.

    Without those that the catalogue has. Raises ScenariosUnusable.
    """
    found = {_kind(each): "" for each in SCENARIOS}
    worlds: list[Scenario] = []
    for scenario in _read(contract_folder() / "scenarios" if path is None else path):
        try:
            played = outside(scenario)
        except NotPlayable:
            continue
        if found.setdefault(_kind(played), played.name) == played.name:
            worlds.append(played)
    return tuple(worlds)


def _read(path: Path) -> Iterator[ContractScenario]:
    try:
        for file in scenario_files(path):
            yield from read_scenario_file(file)
    except ScenarioError as error:
        raise ScenariosUnusable(str(error)) from error


def outside(scenario: ContractScenario) -> Scenario:
    """The scenario as an agent from outside meets it. Raises NotPlayable."""
    for what in ("hooks", "children", "handoffs", "start", "corrections", "summaries"):
        if getattr(scenario, what):
            raise NotPlayable(f"{what} are not to be had from outside")
    if not scenario.model or scenario.model_rest is not None or len(scenario.model) > MOST_ANSWERS:
        raise NotPlayable(f"a script of 1 to {MOST_ANSWERS} answers is needed")
    lives, held = _Lives(scenario).told()
    answers = tuple(_Script(scenario, held).answers())
    labels = _labels_in(answers)
    if len(set(labels)) < len(labels):
        raise NotPlayable("two calls have one name")
    if any(life.within is not None and life.within not in labels for life in lives):
        raise NotPlayable("a life ends within a call that is not made")
    about = " | ".join((*map(answer_told, answers), *([_lives_told(lives)] if len(lives) > 1 else [])))
    return Scenario(name=scenario.id, about=about, laws=(), answers=answers, lives=lives)


class _Lives:
    """The processes of the agent: one for each thing that is said, and one after each cancel or crash."""

    def __init__(self, scenario: ContractScenario) -> None:
        self._scenario = scenario
        self._lives: list[Life] = []
        self._held: dict[str, End] = {}
        self._over = False  # whether the latest has been ended, so that another has to follow

    def told(self) -> tuple[tuple[Life, ...], dict[str, End]]:
        """The lives, and the calls within which one is ended, each with how. Raises NotPlayable."""
        ends = iter(self._running_at_ends())
        for timed in self._scenario.user:
            match timed.action:
                case actions.Say() | actions.Enqueue():
                    self._lives.append(Life())
                    self._over = False
                case actions.Cancel(call=None):
                    self._end(End.CANCELLED, next(ends, None))
                case actions.Crash():
                    self._end(End.KILLED, next(ends, None))
                case other:
                    raise NotPlayable(f"a user who does `{type(other).__name__}`")
        if not self._lives:
            raise NotPlayable("nothing is said")
        if self._over:
            self._lives.append(Life())
        return tuple(self._lives), self._held

    def _end(self, end: End, running: tuple[int, tuple[str, ...]] | None) -> None:
        if self._over:
            self._lives.append(Life())
        turns, calls = running or (0, ())
        if not calls or turns != len(self._lives) - 1:
            raise NotPlayable("a process that is ended while no command of its turn runs")
        self._lives[-1] = Life(end=end, within=label_of(self._scenario, calls[0]))
        self._held |= dict.fromkeys(calls, end)
        self._over = True

    def _running_at_ends(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """At each cancel of everything and each crash: how many turns are over, and which calls run."""
        if not any(isinstance(timed.action, actions.Cancel | actions.Crash) for timed in self._scenario.user):
            return
        recording = Drive(self._scenario, effective_policy(self._scenario.policy), transition).run()
        started: list[str] = []
        ended: dict[str, int] = {}  # in what step
        turns = 0
        for line in recording.lines:
            match line.text.split():
                case ["tool", call, "started"]:
                    started.append(call)
                case ["tool", call, "ended", *_]:
                    ended[call] = line.step
                case ["turn", "ended", *_]:
                    turns += 1
                case ["cancelled", "user:cancelled"]:  # the calls that it stops have been told in its step, before it
                    yield turns, tuple(call for call in started if ended.get(call, line.step) == line.step)
                case ["crashed"]:
                    yield turns, tuple(call for call in started if call not in ended)
                case _:
                    pass


@define
class _Script:
    """What the model answers: each call a command that does as its tool does."""

    scenario: ContractScenario
    held: dict[str, End]
    _runs: Counter[str] = field(factory=Counter)
    _ids: dict[str, str] = field(factory=dict)

    def answers(self) -> Iterator[Answer]:
        """One for each entry of the script. Raises NotPlayable."""
        for entry in self.scenario.model:
            if entry.server_calls:
                raise NotPlayable("calls that the provider runs")
            yield self._answer(entry)

    def _answer(self, entry: world.ModelEntry) -> Answer:
        match entry.ending:
            case world.ModelCompletes(stop=stop, cut=cut):
                if stop not in _STOPS:
                    raise NotPlayable(f"a reply that stops by {stop.value}")
                parts = self._parts(entry, whole=True)
                half = None if cut is None else label_of(self.scenario, cut)
                return Reply(parts=tuple(_broken_off(part, half) for part in parts), stop=_STOPS[stop])
            case world.ModelEndsEarly():
                return Reply(parts=self._parts(entry, whole=False), cut=Cut.CLEAN)
            case world.ModelFails(error_class=ErrorClass.NETWORK):
                return Reply(parts=self._parts(entry, whole=False), cut=Cut.RESET)
            case world.ModelFails(error_class=error, retry_after_ms=wait):
                if error not in _PROBLEMS or entry.text or entry.calls or entry.pieces:
                    raise NotPlayable(f"a reply that fails so: {error.value}")
                problem = _PROBLEMS[error]
                return problem if wait is None else evolve(problem, retry_after_s=min(_MOST_WAIT_S, -(-wait // 1000)))
            case world.ModelHangs():
                raise NotPlayable("a model that falls silent, for which an agent would be waited for long")
            case _:
                assert_never(entry.ending)

    def _parts(self, entry: world.ModelEntry, *, whole: bool) -> tuple[Said | Called, ...]:
        """The parts of a reply; of one that breaks off, those that had come."""
        came = {piece.call for piece in entry.pieces if isinstance(piece, world.CallPiece)}
        calls = [call for call in entry.calls if whole or not entry.pieces or call.name in came]
        spoken = entry.text or any(isinstance(piece, world.TextPiece) for piece in entry.pieces)
        behaviours = [self._behaviour(call) for call in calls]
        times = sorted({behaviour.takes_ms for behaviour in behaviours})
        made = (
            self._call(call, behaviour, min(_MOST_SLEEP_S, times.index(behaviour.takes_ms)))
            for call, behaviour in zip(calls, behaviours, strict=True)
        )
        return (*((_WORDS,) if spoken else ()), *made)

    def _behaviour(self, call: world.ScriptedCall) -> world.Behaviour:
        tool = self.scenario.tools.get(call.tool, world.ToolScript())
        self._runs[call.tool] += 1
        behaviour = tool.behaviour_of(call.name, self._runs[call.tool])
        if behaviour.asks or behaviour.background or behaviour.final or behaviour.stops_loop:
            raise NotPlayable("a tool that asks, goes on in the background, or ends the turn")
        if isinstance(behaviour.outcome, world.ToolHangs) and call.name not in self.held:
            raise NotPlayable("a tool that never ends")
        return behaviour

    def _call(self, call: world.ScriptedCall, behaviour: world.Behaviour, sleeps_s: int) -> Called:
        label = label_of(self.scenario, call.name)
        first = self._ids.setdefault(call.id, label)
        shared = None if first == label else f"call_{first}"
        if call.tool not in self.scenario.tools:
            return Called(label=label, id=shared, tool="nowhere_to_be_found", raw="{}")
        if call.raw is not None:
            return Called(label=label, id=shared, raw='{"command": "echo')
        end = self.held.get(call.name)
        return Called(
            label=label,
            id=shared,
            held=end is not None,
            sleeps_s=_AFTER_KILL_S if end is End.KILLED else sleeps_s,
            status=1 if isinstance(behaviour.outcome, world.ToolFails) else 0,
        )


def label_of(scenario: ContractScenario, call: str) -> str:
    """The label of a call: a, b, ... in the order in which the script has them."""
    names = list(dict.fromkeys(each.name for entry in scenario.model for each in entry.calls))
    place = names.index(call) if call in names else len(names)
    return f"{'abcdefghijklmnopqrstuvwxyz'[place % 26]}{place // 26 or ''}"


def _lives_told(lives: Sequence[Life]) -> str:
    ends = [f"{life.end.value} within call {life.within}" for life in lives if life.within is not None]
    return f"{len(lives)} processes" + "".join(f", one {end}" for end in ends)


def _broken_off(part: Said | Called, half: str | None) -> Said | Called:
    return evolve(part, half=True) if isinstance(part, Called) and part.label == half else part


def _labels_in(answers: Iterable[Answer]) -> list[str]:
    return [call.label for answer in answers if isinstance(answer, Reply) for call in answer.calls]


def _kind(scenario: Scenario) -> tuple[Sequence[Answer], tuple[Life, ...]]:
    """What makes two scenarios the same: words are as good as others, and behind the last answer come words anyway."""
    answers = [
        evolve(answer, parts=tuple(_WORDS if isinstance(part, Said) else part for part in answer.parts))
        if isinstance(answer, Reply)
        else answer
        for answer in scenario.answers
    ]
    while answers and answers[-1] == Reply(parts=(_WORDS,)):
        answers.pop()
    return tuple(answers), scenario.lives
