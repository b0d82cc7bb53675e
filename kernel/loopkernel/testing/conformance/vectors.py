"""Golden logs: runs recorded by one release, which every later release folds to the same states and effects.

A vector is one line of JSON: the scenario that it was recorded from, the log, and digests (SHA-256, hex) of what
folding the log gives. `python -m loopkernel.testing.conformance.vectors record PATH...` prints the vectors of
scenarios, `check FILE...` folds vectors again.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from loopkernel.codec import STATE_VERSION, effects_to_text, record_from_text, record_to_text, state_to_text
from loopkernel.data.errors import CodecError, Fault, OtherRules
from loopkernel.data.json_text import MAX_DOCUMENT_DEPTH, JsonValue, exact_text, parse_json
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import State
from loopkernel.loop.transition import transition
from loopkernel.replaying import fold
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.format.nodes import ScenarioError
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

FIRST_STATE_VERSION = 6  # of states under the present version of the rules


@frozen
class GoldenLog:
    """A recorded run: its log, and the digests of its effects and of its last state."""

    scenario: str
    log: tuple[LogRecord, ...]
    effects: str
    state: str


def digests(steps: Sequence[StepRecord]) -> tuple[str, str]:
    """The digests of all effects of the steps, and of the state after the last."""
    effects = hashlib.sha256()
    for step in steps:
        effects.update(effects_to_text(step.effects).encode() + b"\n")
    return effects.hexdigest(), hashlib.sha256(state_to_text(steps[-1].after).encode()).hexdigest()


def record(path: Path) -> Iterator[GoldenLog]:
    """A golden log of each scenario of a file. Raises ScenarioError if it cannot be read."""
    for scenario in read_scenario_file(path):
        run = Drive(scenario, effective_policy(scenario.policy), transition).run()
        yield GoldenLog(scenario.id, run.log, *digests(run.steps))


def to_line(golden: GoldenLog) -> str:
    """The golden log as one line, without its end."""
    log: JsonValue = [parse_json(record_to_text(each), MAX_DOCUMENT_DEPTH) for each in golden.log]
    return exact_text({"scenario": golden.scenario, "log": log, "effects": golden.effects, "state": golden.state})


def from_line(line: str) -> GoldenLog:
    """The golden log that a line holds. Raises CodecError if it holds none."""
    value = parse_json(line, MAX_DOCUMENT_DEPTH)
    if not isinstance(value, dict) or set(value) != {"scenario", "log", "effects", "state"}:
        raise CodecError([Fault("$", "is not a golden log: it needs scenario, log, effects and state, and no more")])
    log, texts = value["log"], [value[key] for key in ("scenario", "effects", "state")]
    if not isinstance(log, list) or not log:
        raise CodecError([Fault("$.log", "must be a list of records, and hold one")])
    scenario, effects, state = (text if isinstance(text, str) else exact_text(text) for text in texts)
    return GoldenLog(scenario, tuple(record_from_text(exact_text(each)) for each in log), effects, state)


def divergence(golden: GoldenLog) -> str | None:
    """What folding the log gives that it did not give when it was recorded; None if it is the same."""
    try:
        steps = fold(golden.log)
    except OtherRules as error:
        return str(error)
    effects, _ = digests(steps)
    if effects != golden.effects:
        return "other effects"
    return None if golden.state in _state_digests(steps[-1].after) else "another state at the end"


def _state_digests(state: State) -> Iterator[str]:
    """The digest of the state's document in each version that logs of these rules have been recorded under.

    These versions differ in fields that such a log leaves at their defaults, so a document differs in its number alone.
    """
    text = state_to_text(state)
    for version in range(FIRST_STATE_VERSION, STATE_VERSION + 1):
        numbered = text.replace(f'"version":{STATE_VERSION}', f'"version":{version}', 1)
        yield hashlib.sha256(numbered.encode()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print golden logs, or fold them again. Exit status: 1 if one diverges, 2 if one cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m loopkernel.testing.conformance.vectors", description=__doc__)
    parser.add_argument("action", choices=("record", "check"))
    parser.add_argument("path", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.action == "record":
            for path in options.path:
                for golden in record(path):
                    print(to_line(golden))
            return 0
        return _check(options.path)
    except (CodecError, ScenarioError, OSError) as error:
        print(f"{error}", file=sys.stderr)
        return 2


def _check(paths: Sequence[Path]) -> int:
    diverged = 0
    for path in paths:
        for line in path.read_text(encoding="ascii").splitlines():
            golden = from_line(line)
            found = divergence(golden)
            diverged += found is not None
            print(f"{golden.scenario}: {'the same' if found is None else found}")
    return 1 if diverged else 0


if __name__ == "__main__":
    sys.exit(main())
