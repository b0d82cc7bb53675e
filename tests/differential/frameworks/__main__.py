"""The command: `python -m tests.differential.frameworks NAME` judges a framework in this process, and shows its card.

Exit status: 0 where every law held, 1 where one is broken, 2 where the framework cannot be had.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path

from loopkernel.presets import PRESET_NAMES
from loopkernel_adapters.conform.choices import QUESTIONS, choices_seen
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.scorecard import Subject
from loopkernel_adapters.conform.scorecard_html import page_of
from loopkernel_adapters.conform.scorecard_json import document_of
from loopkernel_adapters.conform.scorecard_junit import junit_of
from loopkernel_adapters.conform.scorecard_text import lines_of

from tests.differential.environments import NotHad, Playing
from tests.differential.frameworks.catalogue import SCENARIOS
from tests.differential.frameworks.judging import card_of, play_all
from tests.differential.frameworks.known import AGENTS, STREAMING, WITHOUT_WAITS
from tests.differential.frameworks.play_loopkernel import play
from tests.differential.frameworks.port import record_of, script_of


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.frameworks", description=__doc__)
    parser.add_argument("name", choices=sorted(AGENTS))
    parser.add_argument("--scenario", help="this one alone, as a breach names it (seed-N is the one of a seed)")
    parser.add_argument("--seeds", type=int, default=200, help="how many generated scenarios to play (200)")
    parser.add_argument("--json", type=Path, help="write the card there, too")
    parser.add_argument("--junit", type=Path, help="as --json")
    parser.add_argument("--html", type=Path, help="as --json")
    options = parser.parse_args(arguments)
    environment = AGENTS[options.name]
    scenarios, seeds = _chosen(options.scenario, options.seeds)
    try:
        with Playing(environment) as playing:
            found = play_all(
                lambda scenario: record_of(scenario, playing.play(script_of(scenario))),
                streams=options.name in STREAMING,
                waits=options.name not in WITHOUT_WAITS,
                again=f"python -m tests.differential.frameworks {options.name}",
                scenarios=scenarios,
                seeds=seeds,
            )
    except NotHad as missing:
        print(missing, file=sys.stderr)
        return 2
    card = card_of(
        found,
        Subject(name=environment.package, version=environment.version, reached="in this process"),
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        (f"{len(seeds)} generated scenarios beside those that are listed",),
        presets_seen(),
    )
    print(*lines_of(card), sep="\n")
    for path, text in (
        (options.json, json.dumps(document_of(card), indent=2)),
        (options.junit, junit_of(card)),
        (options.html, page_of(card)),
    ):
        if path is not None:
            path.write_text(text, encoding="utf-8")
    return 0 if card.worst is None else 1


def presets_seen() -> dict[str, dict[str, str]]:
    """What each preset does at each choice, in this process."""
    found: dict[str, dict[str, str]] = {}
    for preset in PRESET_NAMES:
        for scenario in SCENARIOS:
            if scenario.name in QUESTIONS:
                record = record_of(scenario, play(script_of(scenario), preset))
                for name, does in choices_seen(record):
                    found.setdefault(name, {})[preset] = does
    return found


def _chosen(name: str | None, seeds: int) -> tuple[tuple[Scenario, ...], range]:
    if name is None:
        return SCENARIOS, range(seeds)
    if name.startswith("seed-"):
        seed = int(name.removeprefix("seed-"))
        return (), range(seed, seed + 1)
    return tuple(scenario for scenario in SCENARIOS if scenario.name == name), range(0)


if __name__ == "__main__":
    sys.exit(main())
