"""The real Strands beside the preset `strands`: each difference is of a known class (specs/differential.md)."""

import collections
import json
import os
from collections.abc import Iterator

import pytest

from tests.differential.strands.classes import CLASSES, Class, class_of
from tests.differential.strands.comparing import Difference, first_difference
from tests.differential.strands.minimising import minimised
from tests.differential.strands.ours import play
from tests.differential.strands.real_strands import VERSION, NotHad, RealStrands, ensure_strands
from tests.differential.strands.scripts import Script, generated

SCRIPTS = int(os.environ.get("SCRIPTS", "2000"))
SEED = int(os.environ.get("SEED", "0"))
SHOWN = 3  # so many faults are minimised and shown


@pytest.fixture(scope="module")
def real() -> Iterator[RealStrands]:
    """The real loop, or a skip that says why there is none."""
    try:
        ensure_strands()
    except NotHad as missing:
        pytest.skip(str(missing))
    with RealStrands() as strands:
        yield strands


def _difference(real: RealStrands, script: Script) -> Difference | None:
    ours = json.loads(json.dumps(play(script)))  # in the form in which theirs comes
    return first_difference(ours, real.seen_of(script))


def test_every_difference_is_of_a_known_class(real: RealStrands) -> None:
    found: collections.Counter[str] = collections.Counter()
    faults: list[Script] = []
    for seed in range(SEED, SEED + SCRIPTS):
        script = generated(seed)
        difference = _difference(real, script)
        if difference is None:
            found["the same"] += 1
            continue
        kind = class_of(script, difference)
        found[_row(kind)] += 1
        if kind is None:
            faults.append(script)
    print(f"\nStrands {VERSION} beside the preset `strands`, {SCRIPTS} scripts from seed {SEED}:")
    for row, count in found.most_common():
        print(f"{count:6}  {row}")
    if faults:
        pytest.fail("\n\n".join(_told(real, script) for script in faults[:SHOWN]), pytrace=False)


def _row(kind: Class | None) -> str:
    return "ours, of no known class" if kind is None else f"{kind.side.value} ({kind.because}): {kind.name}"


def _told(real: RealStrands, script: Script) -> str:
    """The fault in the smallest script that shows it."""
    first = _difference(real, script)
    assert first is not None
    kind = first.what.rpartition(" ")[2]

    def is_fault(smaller: Script) -> bool:
        found = _difference(real, smaller)
        return found is not None and found.what.endswith(kind) and class_of(smaller, found) is None

    smallest = minimised(script, is_fault)
    difference = _difference(real, smallest)
    assert difference is not None
    where = "at the end" if difference.prompt is None else f"prompt {difference.prompt + 1}"
    return (
        f"script {script['seed']}, made smaller: {json.dumps(smallest)}\n{where}, {difference.what}:\n"
        f"  ours:   {difference.ours}\n  theirs: {difference.theirs}"
    )


def test_each_class_has_a_name_of_its_own() -> None:
    assert len({each.name for each in CLASSES}) == len(CLASSES)
