"""From YAML text to nodes: its traps, its bombs, and any text at all."""

import os
import re
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.testing.scenarios.data.actions import Say
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format import nodes as scenario_nodes
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.nodes import (
    MAX_CHARACTERS,
    MAX_SHOWN,
    ScenarioError,
    ScenarioFault,
    _read,
    _read_by_libyaml,
    read_documents,
)

from tests.kernel.scenario_logs import FILES

DOCUMENT = """
scenario: a-document  # whose parts are damaged below
policy: {preset: amp, retry: {base_ms: 5_000, classes: [server]}}
tools:
  read: {effect: read_only, resources: [{field: path, mode: read}], takes_ms: 50, returns: "the text"}
model:
  - calls: [{id: c1, tool: read, input: {path: a.txt}}, {id: c2, tool: shell, raw: '{"cm'}]
  - text: |
      Very well.
user:
  - {at: 0, say: tidy up}
  - {when: ask c2, after_ms: 2_000, reject: {call: c2, why: not this one}}
expect:
  trace: [request 1, ask c2, cancelled user:cancelled, turn ended *]
  request: {2: {results: [c1, c2], contains: [not this one]}}
"""


def faults_of(text: str) -> tuple[ScenarioFault, ...]:
    with pytest.raises(ScenarioError) as raised:
        read_scenarios(text, "some.yaml")
    return raised.value.faults


def read_one(text: str) -> Scenario:
    (scenario,) = read_scenarios(text, "some.yaml")
    return scenario


@pytest.mark.parametrize(
    "bomb",
    ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000, "scenario: a\nmodel: " + "[" * 500],
    ids=["flow", "block", "mapping", "keys", "inside"],
)
def test_deep_nesting_is_refused(bomb: str) -> None:
    assert "nested deeper than" in faults_of(bomb)[0].message


def test_alias_bombs_are_refused() -> None:
    pairs = [(chr(97 + n), chr(98 + n)) for n in range(20)]
    doubled = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in pairs)
    assert "aliases repeat more than" in faults_of(doubled)[0].message
    long = f"scenario: a\nabout: &long {'x' * 5000}\nrules: [{'*long, ' * 400}]\n"
    assert "aliases repeat more than" in faults_of(long)[0].message
    deep = "a: &a [x]\n" + "".join(f"{new}: &{new} [[[[*{old}]]]]\n" for old, new in pairs)
    assert "nested deeper than" in faults_of(deep)[0].message
    (fault, *_) = faults_of("a: &a [*a]\n")
    assert "`*a` stands inside what it repeats" in fault.message


ANCHORED = """
scenario: anchored
tools: &tools
  read: &slow {takes_ms: 50, effect: read_only}
  write: {<<: *slow, effect: dangerous}
  grep: {<<: [*slow, {serial: true, takes_ms: 7}]}
children:
  c1: {model: [{text: &word done}], tools: *tools}
  c2: {model: [{text: *word}]}
"""
WRITTEN_OUT = """
scenario: anchored
tools:
  read: {takes_ms: 50, effect: read_only}
  write: {takes_ms: 50, effect: dangerous}
  grep: {serial: true, takes_ms: 50, effect: read_only}
children:
  c1:
    model: [{text: done}]
    tools:
      read: {takes_ms: 50, effect: read_only}
      write: {takes_ms: 50, effect: dangerous}
      grep: {serial: true, takes_ms: 50, effect: read_only}
  c2: {model: [{text: done}]}
"""


def test_anchors_aliases_and_merge_keys_stand_for_what_they_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _read_by_libyaml(ANCHORED, "some.yaml") is not None
    expected = evolve(read_one(WRITTEN_OUT), line=0)
    assert evolve(read_one(ANCHORED), line=0) == expected
    monkeypatch.setattr(scenario_nodes, "_HAS_LIBYAML", False)
    assert evolve(read_one(ANCHORED), line=0) == expected


def test_a_text_that_was_meant_as_one_is_no_anchor_and_no_alias() -> None:
    first, second = faults_of("scenario: a\nuser:\n  - say: &hello world\n  - say: *bye\n")
    assert (first.line, second.line) == (3, 4)
    assert "nothing repeats `&hello`; a text that begins with `*` or `&` must stand in quotes" in first.message
    assert "`*bye` has no anchor above it; a text that begins with" in second.message


def test_an_anchor_is_known_in_its_own_document_alone() -> None:
    (fault, *_) = faults_of("scenario: a\ntools: &tools {}\n---\nscenario: b\ntools: *tools\n")
    assert (fault.line, "has no anchor above it" in fault.message) == (5, True)


def test_a_fault_in_what_is_repeated_is_told_where_it_stands() -> None:
    faults = faults_of("scenario: a\ntools:\n  read: &slow {takes_ms: soon}\n  grep: {<<: *slow}\n")
    assert [(fault.line, fault.where) for fault in faults] == [(3, "tools.grep.takes_ms"), (3, "tools.read.takes_ms")]


def test_huge_files_are_refused() -> None:
    (fault,) = faults_of("#" * (MAX_CHARACTERS + 1))
    assert "split the file" in fault.message


def test_a_fault_does_not_repeat_huge_words() -> None:
    assert all(len(str(fault)) < 1000 for fault in faults_of(f"scenario: {'x y' * 9000}\n? {'z' * 9000}\n: 1"))


PLAIN_VALUES: list[tuple[str, object]] = [
    ("on", "on"),
    ("off", "off"),
    ("yes", "yes"),
    ("No", "No"),
    ("none", "none"),
    ("true", True),
    ("False", False),
    ("'true'", "true"),
    ("~", None),
    ("null", None),
    ("", None),
    ("'~'", "~"),
    ("''", ""),
    ("20_000", 20_000),
    ("-7", -7),
    ("0", 0),
    ("0.5", 0.5),
    ("1.0e+3", 1000.0),
    ("'5'", "5"),
    ("007", "007"),
    ("0x1f", "0x1f"),
    ("1e3", "1e3"),
    ("12:30", "12:30"),
    (".inf", ".inf"),
    (".nan", ".nan"),
    ("2024-01-01", "2024-01-01"),
    ("<<", "<<"),
    ("{<<: 1}", {"<<": 1}),
    ("{'<<': {a: 1}}", {"<<": {"a": 1}}),
    ("=", "="),
    ("[1, [x, {y: 2}]]", [1, ["x", {"y": 2}]]),
    ("{1: one, yes: true, $result: c1}", {"1": "one", "yes": True, "$result": "c1"}),
]


@pytest.mark.parametrize(("written", "meant"), PLAIN_VALUES)
def test_json_values_have_the_types_that_all_yaml_versions_agree_on(written: str, meant: object) -> None:
    scenario = read_one(f"scenario: a\nexpect:\n  inputs:\n    c1: {written}\n")
    value = scenario.expect.inputs["c1"]
    assert (type(value), value) == (type(meant), meant)


@pytest.mark.parametrize("written", ["yes", "off", "7", "0.10", "none", "true", "12:30", "a # b", "a:b"])
def test_a_text_is_taken_as_it_is_written(written: str) -> None:
    expected = re.sub(r" #.*", "", written)
    assert read_one(f"scenario: a\nuser: [{{at: 0, say: {written}\n  }}]").user[0].action == Say(expected)


def test_blocks_and_escapes_are_texts() -> None:
    text = 'scenario: a\nmodel:\n  - text: |\n      one\n      two\n  - {text: "caf\\u00e9 \\ud83d\\ude00"}\n'
    assert [entry.text for entry in read_one(text).model] == ["one\ntwo\n", "café \U0001f600"]


def test_question_marks_need_no_quotes_in_brackets() -> None:
    user = read_one("scenario: a\nuser: [{at: 0, say: why? who ?and why?}, {at: 0, say: ok?, }]").user
    assert [one.action for one in user] == [Say("why? who ?and why?"), Say("ok?")]


def test_a_message_of_many_faults_ends() -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenarios("scenario: a\n" + "\n".join(f"k{n}: 1" for n in range(MAX_SHOWN + 7)), "some.yaml")
    assert len(raised.value.faults) == MAX_SHOWN + 7
    assert str(raised.value).splitlines()[MAX_SHOWN:] == ["and 7 more faults"]


def test_the_document_that_is_damaged_below_is_whole() -> None:
    assert read_one(DOCUMENT).id == "a-document"


def read_or_refuse(text: str) -> None:
    """Any text gives scenarios, or faults that can be shown on one line each; by libyaml the same, or nothing."""
    fast = _read_by_libyaml(text, "some.yaml")
    if fast is not None:
        slow = _read(text, "some.yaml")
        assert (fast.documents, fast.faults) == (slow.documents, slow.faults)
    try:
        scenarios = read_scenarios(text, "some.yaml")
    except ScenarioError as error:
        assert error.faults
        assert all(1 <= fault.line <= len(re.split("\r\n|[\r\n\x85\u2028\u2029]", text)) + 1 for fault in error.faults)
    else:
        assert scenarios


# The slow parser takes its time: the quick suite reads every fourth file with it, that under another Python all.
READS_ALL = os.environ.get("HYPOTHESIS_PROFILE", "quick") != "quick"


@pytest.mark.parametrize("file", FILES if READS_ALL else FILES[::4], ids=lambda file: file.stem)
def test_both_parsers_read_the_same_in_every_scenario_file(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    fast, slow = _read_by_libyaml(text, "some.yaml"), _read(text, "some.yaml")
    assert slow.documents
    assert fast is None or (fast.documents, fast.faults) == (slow.documents, slow.faults)


def test_without_libyaml_the_other_parser_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_documents(DOCUMENT, "some.yaml")
    monkeypatch.setattr(scenario_nodes, "_HAS_LIBYAML", False)
    assert _read_by_libyaml(DOCUMENT, "some.yaml") is None
    assert read_documents(DOCUMENT, "some.yaml") == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


FRAGMENTS = [
    *"{}[]:,-?*&!|>'\"#%@`~ \n",
    "\n  ",
    ": ",
    "- ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "<<",
    "<<: *a",
    "&a ",
    "*a ",
    "scenario",
    "a-1",
    "policy",
    "model",
    "calls",
    "user",
    "at",
    "expect",
    "trace",
    "12",
    "none",
    "\\U",
    "\t",
    "\r",
    "\x85",
    "\ufeff",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join))
def test_any_broken_yaml_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


@given(st.integers(0, len(DOCUMENT)), st.integers(0, 12), st.sampled_from(["", *FRAGMENTS]))
def test_any_damage_to_a_document_is_read_or_refused(start: int, length: int, put: str) -> None:
    read_or_refuse(DOCUMENT[:start] + put + DOCUMENT[start + length :])
