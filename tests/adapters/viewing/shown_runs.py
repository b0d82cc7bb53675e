"""Runs to look at: those of all scenarios, and their documents step by step."""

import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel_adapters.viewing.run import RunDocument

FOLDER = Path(__file__).parents[3] / "specs" / "scenarios"
SHARE = 9 if os.environ.get("HYPOTHESIS_PROFILE", "quick") in ("quick", "again") else 1  # one scenario in so many
Told = dict[str, Any]  # a document as a reader of JSON has it


@cache
def logs() -> tuple[tuple[str, tuple[LogRecord, ...]], ...]:
    """The logs of scenarios, by their ids; those of sub-agents too."""
    return tuple(islice(_logs(), 0, None, SHARE))


def _logs() -> Iterator[tuple[str, tuple[LogRecord, ...]]]:
    for file in sorted(FOLDER.glob("*.yaml")):
        for scenario in read_scenario_file(file):
            run = Drive(scenario, effective_policy(scenario.policy), transition).run()
            yield scenario.id, run.log
            yield from ((f"{scenario.id} {child.address}", child.log) for child in run.children)


@cache
def documents() -> tuple[Told, ...]:
    """The documents of these logs."""
    return tuple(told(records) for _, records in logs())


def told(records: Sequence[LogRecord]) -> Told:
    """The document of the log, as the page reads it."""
    document = RunDocument(name="a run")
    document.take(records)
    read: Told = json.loads(json.dumps(document.as_json()))
    return read
