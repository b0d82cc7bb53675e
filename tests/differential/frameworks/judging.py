"""Plays the catalogue on an agent in this process, and makes the scorecard of what was seen."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen
from loopkernel_adapters.conform.choices import QUESTIONS, choices_seen
from loopkernel_adapters.conform.judges import judged
from loopkernel_adapters.conform.judges.judgement import Judgement, check
from loopkernel_adapters.conform.record import Record
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.scorecard import Breach, Choice, Played, Scorecard, Subject, Weight, verdicts_of
from loopkernel_adapters.conform.script import Reply
from loopkernel_adapters.conform.trace import lines_of

from tests.differential.frameworks.catalogue import SCENARIOS, generated, smaller, why_not

Play = Callable[[Scenario], Record]
Fault = tuple[str, Weight]


@frozen(kw_only=True)
class Found:
    """What playing the catalogue gave."""

    checks: Mapping[str, int]
    breaches: tuple[Breach, ...]
    choices: Mapping[str, str]
    scenarios: tuple[Played, ...]


def play_all(
    play: Play,
    *,
    again: str,
    streams: bool = True,
    waits: bool = True,
    seeds: Sequence[int] = (),
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> Found:
    """Play each scenario, and each seed's. A fault that only a seed shows is told with the smallest scenario for it."""
    checks: dict[str, int] = {}
    breaches: dict[tuple[str, str, Weight], Breach] = {}
    choices: dict[str, str] = {}
    played: list[Played] = []
    known: set[Fault] = set()
    for scenario in (*scenarios, *map(generated, seeds)):
        note = why_not(scenario, streams, waits)
        record = Record(scenario=scenario) if note else play(scenario)
        if not note and not record.exchanges:
            note = f"it asked the model nothing: {record.lives[0].last_words}"
        if scenario in scenarios:
            played.append(Played(name=scenario.name, about=scenario.about, note=note))
        if note:
            continue
        choices |= dict(choices_seen(record))
        for judgement in judgements_of(record):
            checks[judgement.law] = checks.get(judgement.law, 0) + 1
        for fault in faults_of(record):
            if scenario in scenarios or fault not in known:
                small = scenario if scenario in scenarios else _smallest(scenario, fault, play)
                breach = _breach(small, fault, play(small), f"{again} --scenario {scenario.name}")
                breaches.setdefault((*fault, breach.scenario), breach)  # type: ignore[arg-type]  # three values
                known.add(fault)
    return Found(checks=checks, breaches=tuple(breaches.values()), choices=choices, scenarios=tuple(played))


def judgements_of(record: Record) -> Iterator[Judgement]:
    """What the judges of any agent say, and whether each prompt and each answer was heard."""
    yield from judged(record)
    for number, life in enumerate(record.lives):
        if number:
            words = f"prompt {number + 1} was never put to the model: {life.last_words}"
            yield check("PROGRESS", not record.of_life(number), Weight.MUST, words)
        last = record.of_life(number)[-1:]
        if life.status == 0 and not life.signalled and last and isinstance(last[0].answer, Reply):
            ran = [call.label for call in last[0].answer.calls if record.count("end", call.label)]
            words = f"call {ran[0] if ran else ''} has run, and the turn has ended without its answer"
            yield check("PROGRESS", bool(ran), Weight.SHOULD, words)


def faults_of(record: Record) -> dict[Fault, str]:
    """The laws that are broken, each with its weight, and what was seen first."""
    found: dict[Fault, str] = {}
    for judgement in judgements_of(record):
        if judgement.weight is not None:
            found.setdefault((judgement.law, judgement.weight), judgement.detail)
    return found


def _smallest(scenario: Scenario, fault: Fault, play: Play) -> Scenario:
    for candidate in smaller(scenario):
        if fault in faults_of(play(candidate)):
            return _smallest(candidate, fault, play)
    return scenario


def _breach(scenario: Scenario, fault: Fault, record: Record, again: str) -> Breach:
    law, weight = fault
    trace = tuple(lines_of(record))
    words = tuple(f"it said last: {life.last_words}" for life in record.lives if life.last_words)
    return Breach(
        law=law,
        weight=weight,
        scenario=scenario.name,
        detail=faults_of(record)[fault],
        trace=(*trace, *words),
        again=again,
    )


def card_of(
    found: Found, subject: Subject, when: str, circumstances: tuple[str, ...], presets: Mapping[str, Mapping[str, str]]
) -> Scorecard:
    """The scorecard. `presets` is what each preset does at each choice."""
    return Scorecard(
        subject=subject,
        when=when,
        circumstances=circumstances,
        scenarios=found.scenarios,
        verdicts=verdicts_of(found.checks, found.breaches),
        choices=tuple(
            Choice(name=name, question=question, seen=found.choices[name], presets=presets.get(name, {}))
            for name, question in QUESTIONS.items()
            if name in found.choices
        ),
    )
