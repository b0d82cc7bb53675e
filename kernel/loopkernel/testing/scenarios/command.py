"""The command: `python -m loopkernel.testing.scenarios [PATH...]` runs scenario files and says what became of each.

Without a path it runs the scenarios of the contract. Exit status: 0 unless a scenario fails or a file cannot be read,
then 1; 2 for wrong usage, or without PyYAML.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import final

from attrs import evolve, frozen

from loopkernel.testing.contract import contract_folder
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.format.nodes import ScenarioError, ScenarioFault
from loopkernel.testing.scenarios.judge import ScenarioOutcome, run_scenario
from loopkernel.testing.scenarios.player.recording import TraceLine

SUFFIXES = (".yaml", ".yml")


@final
@frozen(kw_only=True)
class Verdict:
    """What is told of one scenario, or of a file that cannot be read (`scenario` is None)."""

    scenario: str | None
    file: str
    outcome: ScenarioOutcome
    difference: str | None = None
    more: tuple[str, ...] = ()
    trace: tuple[TraceLine, ...] = ()


def run_paths(paths: Iterable[str]) -> Iterator[Verdict]:
    """A verdict for each scenario of the files and folders, in order, as each is reached."""
    places: dict[str, str] = {}
    for path in paths:
        try:
            files = scenario_files(Path(path))
        except ScenarioError as error:
            yield _unreadable(path, error)
            continue
        for file in files:
            for verdict in _run_file(file):
                first = places.setdefault(verdict.scenario or "", verdict.file)
                if verdict.scenario is not None and Path(first).resolve() != Path(verdict.file).resolve():
                    told = f"the id {verdict.scenario} is taken by a scenario of {first}; ids are unique"
                    verdict = evolve(verdict, outcome=ScenarioOutcome.FAIL, difference=told)
                yield verdict


def scenario_files(path: Path) -> list[Path]:
    """The scenario files at a path. Raises ScenarioError when there are none."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if found:
            return found
        fault = "no scenario files in this folder: name one that has *.yaml or *.yml files in it"
    elif path.is_file():
        return [path]
    else:
        fault = "no such file or folder: check the path"
    raise ScenarioError([ScenarioFault(str(path), 1, "", fault)])


def _run_file(file: Path) -> Iterator[Verdict]:
    try:
        scenarios = read_scenario_file(file)
    except ScenarioError as error:
        yield _unreadable(str(file), error)
        return
    for scenario in scenarios:
        judgement = run_scenario(scenario)
        yield Verdict(
            scenario=scenario.id,
            file=str(file),
            outcome=judgement.outcome,
            difference=judgement.difference,
            more=judgement.differences[1:],
            trace=judgement.trace,
        )


def _unreadable(file: str, error: ScenarioError) -> Verdict:
    first, *more = map(str, error.faults)
    return Verdict(scenario=None, file=file, outcome=ScenarioOutcome.FAIL, difference=first, more=tuple(more))


def _as_text(verdict: Verdict, verbose: bool) -> str:
    """`pass ID` or `fail ID: first difference`."""
    told = verdict.difference or ""
    if verdict.scenario is None:
        return "\n".join([f"fail {told}", *(f"     {fault}" for fault in verdict.more)])
    match verdict.outcome:
        case ScenarioOutcome.PASS:
            return f"pass {verdict.scenario}"
        case ScenarioOutcome.FAIL:
            lines = [f"fail {verdict.scenario}: {told}"]
            if verbose:
                lines += [f"     {difference}" for difference in verdict.more]
                lines += [f"     {line.at_ms:>7} ms  {line.text}" for line in verdict.trace]
            return "\n".join(lines)


def _as_json(verdict: Verdict) -> str:
    """One object on one line."""
    told = {
        "scenario": verdict.scenario,
        "file": verdict.file,
        "outcome": verdict.outcome.value,
        "difference": verdict.difference,
    }
    return json.dumps(told)


def _summary(outcomes: Counter[ScenarioOutcome]) -> str:
    passed, failed = outcomes[ScenarioOutcome.PASS], outcomes[ScenarioOutcome.FAIL]
    return f"{outcomes.total()} scenarios: {passed} passed, {failed} failed"


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m loopkernel.testing.scenarios",
        description="Run scenarios against the kernel in virtual time, and say what became of each.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        default=[str(contract_folder() / "scenarios")],
        help="a scenario file, or a folder of them (without any: the scenarios of the contract)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, and nothing else")
    parser.add_argument("--verbose", action="store_true", help="with a failure, all differences and the trace")
    options = parser.parse_args(arguments)
    try:
        return _run_and_print(options.paths, as_json=options.json, verbose=options.verbose)
    except BrokenPipeError:
        sys.stdout = None  # whoever read the lines has gone; nothing is left to flush to
        return 1
    except OSError as error:
        sys.stdout = None
        print(f"the verdicts cannot be written: {error.strerror}; send them elsewhere", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the scenarios after the last line were not run", file=sys.stderr)
        return 130


def _run_and_print(paths: Sequence[str], *, as_json: bool, verbose: bool) -> int:
    outcomes: Counter[ScenarioOutcome] = Counter()
    for verdict in run_paths(paths):
        outcomes[verdict.outcome] += 1
        print(_as_json(verdict) if as_json else _as_text(verdict, verbose), flush=True)
    if not as_json:
        print(_summary(outcomes))
    return 1 if outcomes[ScenarioOutcome.FAIL] else 0
