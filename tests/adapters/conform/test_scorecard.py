"""The scorecard: every law has its place, and each form shows what was found, whatever the text of it is."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.later_typing import override
from loopkernel.laws import LAWS
from loopkernel_adapters.conform.catalogue import SCENARIOS
from loopkernel_adapters.conform.laws_outside import OUTSIDE, in_words
from loopkernel_adapters.conform.scorecard import (
    GROUPS,
    Breach,
    Choice,
    Outcome,
    Played,
    Scorecard,
    Subject,
    Weight,
    verdicts_of,
)
from loopkernel_adapters.conform.scorecard_html import page_of
from loopkernel_adapters.conform.scorecard_json import document_of
from loopkernel_adapters.conform.scorecard_junit import junit_of
from loopkernel_adapters.conform.scorecard_text import lines_of, sentence_of

TEXTS = st.text(st.characters(codec=None), max_size=30)
HOSTILE = "<script>alert(1)</script>]]>&\"'\x00\u202e"


def card(*breaches: Breach, checks: dict[str, int] | None = None, choices: tuple[Choice, ...] = ()) -> Scorecard:
    """A card with these breaches."""
    return Scorecard(
        subject=Subject(name="stranger", version="1", reached="over a wire"),
        when="today",
        circumstances=("in a box",),
        scenarios=(Played(name="one", about="a call"), Played(name="two", about="a cancel", note="it has no signal")),
        verdicts=verdicts_of({"PAIR": 3, "ORDER": 1} if checks is None else checks, breaches),
        choices=choices,
    )


def breach(detail: str = "no answer", law: str = "PAIR", weight: Weight = Weight.MUST) -> Breach:
    """A breach of a law."""
    return Breach(law=law, weight=weight, scenario="one", detail=detail, trace=(detail,), again=f"again {detail}")


def test_each_law_that_a_scenario_shows_is_told_in_the_words_of_one_who_stands_outside() -> None:
    laws = {law.id: law for law in LAWS}
    assert {law for scenario in SCENARIOS for law in scenario.laws} == set(OUTSIDE)
    for name, words in OUTSIDE.items():
        told = card(checks={name: 1})
        assert words == in_words(laws[name])
        assert f"{name:<13} {words}" in "\n".join(lines_of(told))
        assert words in page_of(told)
    assert in_words(laws["LINEAR"]) == laws["LINEAR"].statement


def test_each_law_stands_in_one_group() -> None:
    assert sorted(law for laws in GROUPS.values() for law in laws) == sorted(law.id for law in LAWS)


def test_a_law_that_nothing_spoke_of_has_not_held() -> None:
    outcomes = {verdict.law.id: verdict.outcome for verdict in card(breach()).verdicts}
    assert outcomes["PAIR"] is Outcome.BROKEN
    assert outcomes["ORDER"] is Outcome.HELD
    assert outcomes["PURE"] is Outcome.NOT_OBSERVABLE


def test_a_name_that_is_not_a_law_is_refused() -> None:
    with pytest.raises(ValueError, match="PEAR"):
        verdicts_of({"PEAR": 1}, ())


def test_the_worst_breach_comes_first() -> None:
    found = card(breach("odd", weight=Weight.NOTED), breach("bad"), breach("meh", weight=Weight.SHOULD))
    assert [each.detail for each in found.breaches] == ["bad", "meh", "odd"]
    assert found.worst is Weight.MUST
    assert card().worst is None


def test_the_text_tells_what_is_broken_and_how_to_see_it_again() -> None:
    text = "\n".join(lines_of(card(breach())))
    assert "BROKEN (must)    PAIR" in text
    assert "again: again no answer" in text
    assert "not played: two: it has no signal" in text
    assert "All 2 laws that were judged held." in "\n".join(lines_of(card()))


def test_a_breach_that_is_only_noted_fails_no_case() -> None:
    root = ElementTree.fromstring(junit_of(card(breach(weight=Weight.NOTED), breach(law="ORDER"))))
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["ORDER"]
    assert sum(int(suite.get("failures", "")) for suite in root.iter("testsuite")) == 1


def test_it_resembles_the_preset_with_the_most_in_common() -> None:
    choices = (
        Choice(name="order", question="Runs?", seen="parallel", presets={"a": "serial", "b": "parallel"}),
        Choice(name="empty", question="Empty?", seen="ends", presets={"a": "ends", "b": "ends"}),
    )
    found = card(choices=choices)
    assert found.resemblance() == (("b", 2, 2), ("a", 1, 2))
    assert "It resembles the preset b most: 2 of 2 choices." in "\n".join(lines_of(found)).replace("  It", "It")


@given(TEXTS, st.sampled_from(Weight))
def test_every_form_takes_any_text(text: str, weight: Weight) -> None:
    found = card(breach(text + HOSTILE, weight=weight))
    assert json.loads(json.dumps(document_of(found)))["worst"] == weight
    ElementTree.fromstring(junit_of(found))
    assert sentence_of(found) in "\n".join(lines_of(found))
    page = page_of(found)
    page.encode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page)
    assert _tags(page).isdisjoint({"script", "img", "a", "iframe", "link"})


def _tags(page: str) -> set[str]:
    found: set[str] = set()

    class Tags(HTMLParser):
        @override
        def handle_starttag(self, tag: str, attrs: object) -> None:
            found.add(tag)

    Tags().feed(page)
    return found
