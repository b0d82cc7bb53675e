"""The pages of specs/rules have the form that readers, scenarios and the traceability test rely on."""

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs.rule_documents import (
    RULES_FOLDER,
    Rule,
    RuleDocumentError,
    RuleStatus,
    parse,
    rules,
    rules_in_order,
)

SPECS = RULES_FOLDER.parent

# How many rules each topic has, and on which page; a new rule changes this and the table in specs/README.md.
TOPICS = {
    "STATE": (9, "states.md"),
    "DELTA": (8, "deltas.md"),
    "INFER": (15, "inference.md"),
    "TOOL": (20, "tools.md"),
    "ASK": (7, "approval.md"),
    "CALL": (6, "calls.md"),
    "INPUT": (6, "input.md"),
    "CANCEL": (5, "cancel.md"),
    "RETRY": (7, "errors.md"),
    "LIMIT": (4, "limits.md"),
    "COMPACT": (5, "compaction.md"),
    "HOOK": (4, "hooks.md"),
    "CHILD": (3, "children.md"),
    "HANDOFF": (1, "handoff.md"),
    "RESUME": (8, "restart.md"),
}
ORIGINS = {"Amp", "Amodal", "Claude", "Strands", "Calls"}

_CLAUSE = re.compile(r"^([0-9]+)\. ", re.MULTILINE)
_REFERENCE = re.compile(rf"\b({'|'.join(TOPICS)})-([0-9]+)(?:\.([0-9]+))?\b")
_TOPIC_ROW = re.compile(r"^\| ([A-Z]+) \| \[[^]]+\]\(rules/([a-z]+\.md)\) \| ([0-9]+) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ORIGIN = re.compile(r"^Origin: (.*)$", re.MULTILINE)

_WORDS = st.from_regex(r"[A-Za-z`]+( [a-z,]+){0,4}", fullmatch=True)
_NUMBERS = st.integers(min_value=1, max_value=999)


@st.composite
def a_rule(draw: st.DrawFn) -> Rule:
    return Rule(
        id=f"{draw(st.sampled_from(sorted(TOPICS)))}-{draw(_NUMBERS)}",
        title=draw(_WORDS),
        status=draw(st.sampled_from(RuleStatus)),
        text=draw(_WORDS),
        file="page.md",
    )


def written(rule: Rule) -> str:
    return f"### {rule.id} — {rule.title}\n\nStatus: {rule.status}\n\n{rule.text}\n\n"


@given(st.lists(a_rule(), max_size=4))
def test_what_is_written_in_the_form_is_read_back(page: list[Rule]) -> None:
    text = "# A page\n\nWhat it is about.\n\n" + "".join(map(written, page))
    assert parse(text, "page.md") == tuple(page)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("### TOOL-8 - Title\n\nStatus: built\n", "page.md:1: not of the form"),
        ("### TOOL-08 — Title\n\nStatus: built\n", "page.md:1: not of the form"),
        ("#### TOOL-8 — Title\n\nStatus: built\n", "page.md:1: not of the form"),
        ("### TOOL-8 — \n\nStatus: built\n", "page.md:1: not of the form"),
        ("### TOOL-8 — Title\n\nText.\n", "page.md:3: after its heading"),
        ("### TOOL-8 — Title\n", "page.md:1: after its heading"),
        ("### TOOL-8 — Title\n\nStatus: nearly built\n", "page.md:3: after its heading"),
        ("### TOOL-8 — Title\n\nStatus: built in part\n", "page.md:3: after its heading"),
        ("### TOOL-8 — Title\n\nStatus: not built — the rest\n", "page.md:3: after its heading"),
        ("### TOOL-8 — Title\n\nStatus: built\n\nStatus: built\n", "2 status lines for 1 rules"),
        ("Status: built\n", "1 status lines for 0 rules"),
    ],
)
def test_a_page_that_breaks_the_form_is_refused_with_its_place(page: str, fault: str) -> None:
    with pytest.raises(RuleDocumentError) as raised:
        parse(page, "page.md")
    assert fault in str(raised.value)


def test_an_id_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("### TOOL-8 — Title\n\nStatus: built\n\nText.\n", encoding="utf-8")
    with pytest.raises(RuleDocumentError, match=r"TOOL-8 stands in one\.md and again in two\.md"):
        rules(tmp_path)


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_has_its_rules_in_order_on_its_own_page(topic: str) -> None:
    count, page = TOPICS[topic]
    expected = [(f"{topic}-{number}", page) for number in range(1, count + 1)]
    assert [(rule.id, rule.file) for rule in rules_in_order() if rule.topic == topic] == expected


def test_there_is_no_rule_of_another_topic() -> None:
    assert {rule.topic for rule in rules().values()} == set(TOPICS)


def test_each_rule_says_something() -> None:
    assert [rule.id for rule in rules().values() if not _ORIGIN.sub("", rule.text).strip()] == []


def test_the_clauses_of_a_rule_are_numbered_from_one_without_a_gap() -> None:
    for rule in rules().values():
        numbers = [int(number) for number in _CLAUSE.findall(rule.text)]
        assert numbers == list(range(1, len(numbers) + 1)), f"{rule.id} in {rule.file}"


def test_an_origin_is_one_of_the_five_loops() -> None:
    for rule in rules().values():
        for line in _ORIGIN.findall(rule.text):
            names = line.removesuffix(".").split(", ")
            assert set(names) <= ORIGINS, f"{rule.id} in {rule.file}: {line}"


def test_every_rule_is_built() -> None:
    assert [rule.id for rule in rules().values() if rule.status is not RuleStatus.BUILT] == []


def test_every_rule_and_clause_that_the_specification_refers_to_exists() -> None:
    known = rules()
    for path in sorted(SPECS.rglob("*.md")):
        for topic, number, clause in _REFERENCE.findall(path.read_text(encoding="utf-8")):
            rule = known.get(f"{topic}-{number}")
            assert rule is not None, f"{path.name} refers to {topic}-{number}, and there is no such rule"
            assert not clause or clause in _CLAUSE.findall(rule.text), f"{path.name}: {rule.id}.{clause}"


def test_every_link_of_the_specification_leads_somewhere() -> None:
    for path in sorted(SPECS.rglob("*.md")):
        for target in _LINK.findall(path.read_text(encoding="utf-8")):
            place, _, anchor = target.partition("#")
            page = (path.parent / place).resolve() if place else path
            assert page.exists(), f"{path.relative_to(SPECS)} links to {target}, and there is no such page"
            if anchor:
                assert anchor in _anchors(page), f"{path.relative_to(SPECS)}: #{anchor}"


@cache
def _anchors(page: Path) -> set[str]:
    """The places within a page that a link may name, as they are made from its headings."""
    found = _HEADING.findall(page.read_text(encoding="utf-8"))
    headings = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in found)
    return {heading.replace(" ", "-") for heading in headings}


def test_the_table_of_topics_in_the_readme_agrees() -> None:
    readme = (SPECS / "README.md").read_text(encoding="utf-8")
    rows = _TOPIC_ROW.findall(readme)
    assert {topic: (int(count), page) for topic, page, count in rows} == TOPICS
