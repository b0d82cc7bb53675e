"""The pages of conformance: the results are those of the scorecards, and the guide names what there is."""

import json
import re
from pathlib import Path

from loopkernel.laws import LAWS
from loopkernel.presets import PRESETS
from loopkernel_adapters.conform.agent_file import shipped
from loopkernel_adapters.conform.catalogue import scenario_named
from loopkernel_adapters.conform.choices import QUESTIONS
from loopkernel_adapters.conform.running import presets
from loopkernel_adapters.conform.scorecard import Outcome

from scripts import conform_results

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "conformance"
GUIDE = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_page_of_results_is_that_of_the_scorecards() -> None:
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(conform_results.FOLDER.glob("*.json"))]
    page = "\n".join(conform_results.page_of(cards)) + "\n"
    assert (FOLDER / "results.md").read_text(encoding="utf-8") == page, "print it anew: scripts/conform_results.py"
    assert len(cards) >= 4


def test_each_scorecard_is_of_a_shipped_agent() -> None:
    for path in conform_results.FOLDER.glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["agent"] == path.stem
        assert path.stem in shipped()


def test_the_faults_that_are_looked_for_are_of_laws_and_scenarios_that_there_are() -> None:
    for _, law, scenarios in conform_results.FAULTS:
        assert law in {each.id for each in LAWS}
        assert all(law in scenario_named(name).laws or law == "SHOWN" for name in scenarios)


def test_the_guide_tells_each_outcome_and_each_law_that_is_judged() -> None:
    assert all(f"| {outcome}" in GUIDE for outcome in Outcome)
    laws = {law.id for law in LAWS}
    judged = {
        law["law"]
        for path in conform_results.FOLDER.glob("*.json")
        for law in json.loads(path.read_text(encoding="utf-8"))["laws"]
        if law["checks"]
    }
    assert judged <= set(re.findall(r"[A-Z][A-Z-]+[A-Z]", GUIDE)) & laws


def test_what_presets_choose_is_known_for_each_question() -> None:
    found = presets()
    assert list(found) == list(QUESTIONS)
    assert all(list(seen) == list(PRESETS) for seen in found.values())
