"""Print the page of results from the scorecards that were written by `loopkernel conform --report`.

python -m scripts.conform_results > docs/conformance/results.md
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopkernel.data.json_text import JsonValue
from loopkernel_adapters.conform.agent_file import agent_of, agent_text, shipped
from loopkernel_adapters.conform.asked import listed, mapping, word
from loopkernel_adapters.conform.scorecard import GROUPS

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "conformance" / "scorecards"
_ABOUT = """# Results

What `loopkernel conform` saw of these agents on one machine, each as it is installed from its registry, with the agent
file that is shipped and without a change. A version tells which; later ones may have mended what is told here. Only
what a scenario can show is judged: a law that held here is not proved. The machine had two processors, and much else to
do on 2026-11-28, so that races within an agent show sooner than on an idle one. The [guide](README.md) says how to read
this.
"""
_LOOKED_FOR = """
## Faults that were looked for

An earlier trial, on eight agents, found six faults. Where each stands now, in the versions above; an agent that is in
neither column was not played with any of the scenarios.
"""
_WITHOUT_CARD = """
## Without a scorecard

Agent files that were not played with every scenario, and how far they were tried.
"""
# What each is, the law that names it, and the scenarios that show it.
FAULTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("half a command is run after a clean early end", "FINAL-ARGS", ("half-call-clean-end",)),
    ("half a command is run after an output limit", "FINAL-ARGS", ("half-call-output-limit",)),
    ("an old result is given for an id that is used again", "RESULT", ("id-reused", "id-twice")),
    ("a call that ran is lost from the history", "SHOWN", ("id-reused", "id-twice", "cancel-within-two")),
    ("a command is run again after a cancel", "AT-MOST-ONCE", ("cancel-within-command", "cancel-within-two")),
    ("calls are forgotten after a kill", "WRITE-AHEAD", ("kill-within-command", "kill-after-command")),
)


def page_of(cards: Sequence[dict[str, JsonValue]]) -> Iterator[str]:
    """The page, line by line."""
    yield _ABOUT
    yield "| agent | version | wire | date | held | broken | scorecard |"
    yield "|---|---|---|---|---|---|---|"
    for card in cards:
        counts = [_outcomes(card).count(outcome) for outcome in ("held", "broken")]
        name = card["agent"]
        links = f"[JSON](scorecards/{name}.json)"
        wire = str(card["reached"]).removeprefix("over ")
        yield f"| {name} | {card['version']} | {wire} | {card['when']} | {counts[0]} | {counts[1]} | {links} |"
    yield ""
    yield "| law | " + " | ".join(str(card["agent"]) for card in cards) + " |"
    yield "|---" * (len(cards) + 1) + "|"
    for law in (law for laws in GROUPS.values() for law in laws):
        cells = [_cell(card, law) for card in cards]
        if any(cells):
            yield f"| {law} | {' | '.join(cells)} |"
    yield ""
    yield "Empty: not observable in what was played."
    yield from _looked_for(cards)
    for card in cards:
        yield from _breaches(card)
    yield _WITHOUT_CARD
    for name in shipped():
        if name not in {card["agent"] for card in cards}:
            tried = agent_of(agent_text(name)).tried
            yield f"- {name}: {tried or 'written from its documentation, and not run'}"


def _looked_for(cards: Sequence[dict[str, JsonValue]]) -> Iterator[str]:
    yield _LOOKED_FOR
    yield "| fault | found by | shown by | not shown by |"
    yield "|---|---|---|---|"
    for fault, law, scenarios in FAULTS:
        shown = [card for card in cards if _shows(card, law, scenarios)]
        held = [card for card in cards if card not in shown and not _left_out(card, scenarios)]
        found_by = f"{law}: {', '.join(f'`{name}`' for name in scenarios)}"
        yield f"| {fault} | {found_by} | {_named(shown)} | {_named(held)} |"


def _shows(card: dict[str, JsonValue], name: str, scenarios: Sequence[str]) -> bool:
    law = next(each for each in _laws(card) if each["law"] == name)
    return any(mapping(breach).get("scenario") in scenarios for breach in listed(law["breaches"]))


def _left_out(card: dict[str, JsonValue], scenarios: Sequence[str]) -> bool:
    """Whether all of them were left out."""
    played = {mapping(each)["name"] for each in listed(card["scenarios"]) if not mapping(each).get("not_played")}
    return not played & set(scenarios)


def _named(cards: Sequence[dict[str, JsonValue]]) -> str:
    return ", ".join(str(card["agent"]) for card in cards) or "nobody"


def _laws(card: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    return [mapping(each) for each in listed(card["laws"])]


def _outcomes(card: dict[str, JsonValue]) -> list[str]:
    return [str(law["outcome"]) for law in _laws(card)]


def _cell(card: dict[str, JsonValue], name: str) -> str:
    law = next(each for each in _laws(card) if each["law"] == name)
    if law["outcome"] == "not observable":
        return ""
    return "held" if law["weight"] is None else f"**{law['weight']}**"


def _breaches(card: dict[str, JsonValue]) -> Iterator[str]:
    yield f"\n## {card['agent']} {card['version']}\n"
    found = False
    for law in _laws(card):
        for breach in map(mapping, listed(law["breaches"])):
            found = True
            where = f"({word(breach['weight'])}), `{word(breach['scenario'])}`"
            yield f"- {law['law']} {where}: {breach['detail']}"
    if not found:
        yield "No law that was judged is broken."
    left = [mapping(each) for each in listed(card["scenarios"]) if mapping(each).get("not_played")]
    if left:
        yield "\nNot played: " + "; ".join(f"`{each['name']}` ({each['not_played']})" for each in left) + "."


def main() -> None:
    """Print the page."""
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    sys.stdout.write("\n".join(page_of(cards)) + "\n")


if __name__ == "__main__":
    main()
