"""Scenario files: the form of a document, its faults, and YAML's traps."""

import re
import textwrap
from pathlib import Path

import pytest
from attrs import fields
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, ToolProfile
from loopkernel.data.words import CallStatus, ErrorClass, HookPoint, LimitName, StopReason
from loopkernel.testing.scenarios.data.actions import At, Reject, Say, TimedAction, When
from loopkernel.testing.scenarios.data.expectations import Expectations, ExpectedRequest, ExpectedResult
from loopkernel.testing.scenarios.data.marks import INTERACTIONS
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.data.world import (
    Behaviour,
    ModelCompletes,
    ModelEntry,
    ScriptedCall,
    ToolReturns,
    ToolScript,
)
from loopkernel.testing.scenarios.format.document import read_scenario_file, read_scenarios
from loopkernel.testing.scenarios.format.nodes import MAX_CHARACTERS, ScenarioError, ScenarioFault
from loopkernel.testing.scenarios.format.policy import PRESETS
from loopkernel.testing.scenarios.format.special import ACTIONS

EXAMPLE = """
# A comment, and an empty line before it.
scenario: one-of-two-is-refused
about: "Two calls: one runs, the other waits for a person."
rules: [ASK-2, TOOL-7, ONE-END]
policy: {preset: amp, on_reject: continue}
tools:
  read: {effect: read_only, resources: [{field: path, mode: read}], takes_ms: 50, returns: "the text"}
  shell: {effect: dangerous, approval: ask}
model:
  - calls: [{id: c1, tool: read, input: {path: a.txt}}, {id: c2, tool: shell, input: {cmd: rm a.txt}}]
  - text: Very well.
user:
  - {at: 0, say: tidy up}
  - {when: ask c2, after_ms: 2_000, reject: {call: c2, why: not this one}}
expect:
  requests: 2
  trace: [request 1, ask c2, tool c2 ended rejected-by-user, cancelled user:cancelled, turn ended *]
  never: [tool c2 started]
  request: {2: {results: [c1, c2], contains: [not this one]}}
  results: {c1: done, c2: {status: rejected-by-user, ran: false}}
"""


def faults_of(text: str) -> tuple[ScenarioFault, ...]:
    with pytest.raises(ScenarioError) as raised:
        read_scenarios(textwrap.dedent(text), "some.yaml")
    return raised.value.faults


def read_one(text: str) -> Scenario:
    (scenario,) = read_scenarios(textwrap.dedent(text), "some.yaml")
    return scenario


def test_a_whole_document_is_read() -> None:
    read = ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),))
    assert read_one(EXAMPLE) == Scenario(
        id="one-of-two-is-refused",
        about="Two calls: one runs, the other waits for a person.",
        rules=("ASK-2", "TOOL-7", "ONE-END"),
        policy=PolicyChoice(preset="amp", options={"on_reject": "continue"}),
        tools={
            "read": ToolScript(profile=read, behaviour=Behaviour(takes_ms=50, outcome=ToolReturns("the text"))),
            "shell": ToolScript(profile=ToolProfile(approval=Decision.ASK)),
        },
        model=(
            ModelEntry(
                calls=(
                    ScriptedCall(id="c1", name="c1", tool="read", input={"path": "a.txt"}),
                    ScriptedCall(id="c2", name="c2", tool="shell", input={"cmd": "rm a.txt"}),
                ),
                ending=ModelCompletes(StopReason.TOOL_USE),
            ),
            ModelEntry(text="Very well."),
        ),
        user=(
            TimedAction(timing=At(0), action=Say("tidy up")),
            TimedAction(timing=When(pattern="ask c2", after_ms=2000), action=Reject(call="c2", why="not this one")),
        ),
        expect=Expectations(
            requests=2,
            trace=(
                "request 1",
                "ask c2",
                "tool c2 ended rejected-by-user",
                "cancelled user:cancelled",
                "turn ended *",
            ),
            never=("tool c2 started",),
            request={2: ExpectedRequest(results=("c1", "c2"), contains=("not this one",))},
            results={
                "c1": ExpectedResult(status=CallStatus.DONE),
                "c2": ExpectedResult(status=CallStatus.REJECTED_BY_USER, ran=False),
            },
        ),
    )


def test_only_the_id_is_required() -> None:
    assert read_one("scenario: a-1") == Scenario(id="a-1")


def test_documents_know_their_place_and_empty_ones_are_passed_over() -> None:
    scenarios = read_scenarios("---\nscenario: a\n---\n---\n\nscenario: b\n---\n", "some.yaml")
    assert [(one.id, one.source, one.line) for one in scenarios] == [("a", "some.yaml", 2), ("b", "some.yaml", 6)]


# As one may write it, and as it is written here: a way to write that leaves no doubt is never refused.
WAYS = [
    ("rules: TOOL-7", "rules: [TOOL-7]"),
    ("model: {text: hi}", "model: [{text: hi}]"),
    ("user: [{say: hi}, {fork: }, {crash: }]", "user: [{at: 0, say: hi}, {at: 0, fork: {}}, {at: 0, crash: {}}]"),
    ("user: {at: '20', say: hi}", "user: [{at: 20, say: hi}]"),
    ("user: [{at: 20.0, say: hi}]", "user: [{at: 20, say: hi}]"),
    ("tools: {x: , y: {early: yes, serial: Off, child: 'true'}}", "tools: {x: {}, y: {early: true, child: true}}"),
    ("tools: {x: {resources: {field: path, mode: read}}}", "tools: {x: {resources: [{field: path, mode: read}]}}"),
    ("policy: {fallback_models: m, max_turns: '3'}", "policy: {fallback_models: [m], max_turns: 3}"),
    ("policy: {on_truncation: {escalate_to: none}}", "policy: {on_truncation: {escalate_to: []}}"),
    ("policy: {hooks: {stop: {name: a, gated: yes}}}", "policy: {hooks: {stop: [{name: a, gated: true}]}}"),
    ("corrections: none", "corrections: [none]"),
    ("hooks: {point: stop}", "hooks: [{point: stop}]"),
    ("expect: {trace: request 1, never: ask *}", "expect: {trace: [request 1], never: [ask *]}"),
    ("expect: {after: {request 1: ask *}, open: none}", "expect: {after: {request 1: [ask *]}, open: []}"),
    ("expect: {open: c1, counts: {request *: '2'}}", "expect: {open: [c1], counts: {request *: 2}}"),
    ('{"expect": {"request": {"2": {"tools": "none"}}}}', "expect: {request: {2: {tools: []}}}"),
    ("expect: {results: {c1: {contains: none, ran: no}}}", "expect: {results: {c1: {contains: [none], ran: false}}}"),
    ("user: [{at: 0, answer: {call: c, value: yes}}]", "user: [{at: 0, answer: {call: c, value: 'yes'}}]"),
]


@pytest.mark.parametrize(("written", "meant"), WAYS)
def test_what_leaves_no_doubt_is_never_refused(written: str, meant: str) -> None:
    begun = '{"scenario": "a", ' + written[1:] if written.startswith("{") else f"scenario: a\n{written}"
    assert read_scenarios(begun, "some.yaml") == read_scenarios(f"scenario: a\n{meant}", "some.yaml")


# Every fault: a document, and line, key and words of the one fault that it has.
FAULTS = [
    ("", 1, "", "no scenario here"),
    ("# only a comment\n---\n", 1, "", "no scenario here"),
    ("about: x", 1, "", "`scenario` is missing"),
    ("[scenario]", 1, "", "must be a mapping, and is a list"),
    ("scenario: One", 1, "scenario", "must be an id of lower-case letters"),
    ("scenario: a--b", 1, "scenario", "must be an id"),
    ("scenario: [a]", 1, "scenario", "must be text"),
    ("scenario:", 1, "scenario", "must be text"),
    ("scenario: a\n\nabuot: x", 3, "", "unknown key `abuot`; did you mean `about`?"),
    ("scenario: a\nrules:", 2, "rules", "must be a list ([] for an empty one), and is nothing"),
    ("scenario: a\nrules: {TOOL-7: 1}", 2, "rules", "must be text"),
    ("scenario: a\nabout: x\nabout: y", 3, "`about`", "given twice, first on line 2"),
    ("scenario: a\ntools: {x: {calls: {c: {}, c: {}}}}", 2, "`c`", "given twice"),
    ("scenario: a\ntools: {? [b] : {}}", 2, "", "a key must be a single word or text"),
    ("scenario: a\n---\nscenario: b\n---\nscenario: a", 5, "scenario", "the id `a` is taken by the scenario of line 1"),
    ("scenario: a\npolicy: dafault", 2, "policy", "did you mean `default`?"),
    ("scenario: a\npolicy: {presett: amp}", 2, "policy", "did you mean `preset`?"),
    ("scenario: a\npolicy: {retry: {\n  base: 1}}", 3, "policy.retry", "did you mean `base_ms`?"),
    ("scenario: a\nuser:\n  - {at: 0, shout: hi}", 3, "user[1]", "unknown key `shout`"),
    ("scenario: a\nuser: [{at: 0}]", 2, "user[1]", "no action here"),
    ("scenario: a\nuser: [{nth: 2, say: hi}]", 2, "user[1]", "go with `when`"),
    ("scenario: a\nuser: [{at: 0, when: ask c1, say: hi}]", 2, "user[1]", "`at` and `when` exclude each other"),
    ("scenario: a\nuser: [{at: 0, nth: 2, say: hi}]", 2, "user[1]", "go with `when`"),
    ("scenario: a\nuser: [{at: 0, say: hi, steer: ho}]", 2, "user[1]", "`say` and `steer` exclude each other"),
    ("scenario: a\nuser: [{at: -1, say: hi}]", 2, "user[1].at", "must be a whole number of at least 0"),
    ("scenario: a\nuser: [{at: 1.5, say: hi}]", 2, "user[1].at", "must be a whole number"),
    ('scenario: a\nuser: [{at: "1.5", say: hi}]', 2, "user[1].at", "is the text `1.5`"),
    ("scenario: a\nuser: [{at: 5s, say: hi}]", 2, "user[1].at", "must be a whole number"),
    ("scenario: a\nuser: [{at: true, say: hi}]", 2, "user[1].at", "must be a whole number"),
    ("scenario: a\nuser: [{when: '', say: hi}]", 2, "user[1].when", "must be a trace line"),
    ("scenario: a\nuser: [{when: ask c*, say: hi}]", 2, "user[1].when", "`*` stands for a whole word"),
    ("scenario: a\nuser: [{when: ask c1, nth: 0, say: hi}]", 2, "user[1].nth", "of at least 1"),
    ("scenario: a\nuser: [{at: 0, say: ~}]", 2, "user[1].say", "must be text"),
    ("scenario: a\nuser: [{at: 0, retry: later}]", 2, "user[1].retry", "known: now"),
    ("scenario: a\nuser: [{at: 0, fork: {now: 1}}]", 2, "user[1].fork", "unknown key `now`"),
    ("scenario: a\nuser: [{at: 0, discard: none}]", 2, "user[1].discard", "must be a whole number"),
    ("scenario: a\nuser: [{at: 0, approve: {call: c, remember: pattern}}]", 2, "user[1].approve", "go together"),
    ("scenario: a\nuser: [{at: 0, approve: {call: c, pattern: {a: b}}}]", 2, "user[1].approve", "go together"),
    ("scenario: a\nuser: [{at: 0, reject: {why: no}}]", 2, "user[1].reject", "`call` is missing"),
    ("scenario: a\nuser: [{at: 0, reject: c 1}]", 2, "user[1].reject", "must be one word"),
    ("scenario: a\ntools: {x: ~}", 2, "tools.x", "write {} for a tool with the default profile"),
    ("scenario: a\ntools: {x: {returns: a, hangs: true}}", 2, "tools.x", "`returns` and `hangs` exclude"),
    ("scenario: a\ntools: {x: {hangs: false}}", 2, "tools.x.hangs", "must be true (leave out the key"),
    ("scenario: a\ntools: {x: {early: 1}}", 2, "tools.x.early", "must be true or false, and is `1`"),
    ("scenario: a\ntools: {x: {early: maybe}}", 2, "tools.x.early", "must be true or false, and is `maybe`"),
    ("scenario: a\ntools: {x: {profile: none, serial: true}}", 2, "tools.x", "`serial` is part of a profile"),
    ("scenario: a\ntools: {x: {profile: all}}", 2, "tools.x.profile", "known: none"),
    ("scenario: a\ntools: {x: {resources: [{mode: read}]}}", 2, "tools.x.resources[1]", "`field` or `key` is missing"),
    ("scenario: a\ntools: {x: {resources: [{field: a}]}}", 2, "tools.x.resources[1]", "`mode` is missing"),
    ("scenario: a\ntools: {x: {input: text}}", 2, "tools.x.input", "must be a JSON Schema"),
    ("scenario: a\nmodel: hi", 2, "model", "must be a mapping, and is `hi`"),
    ("scenario: a\nmodel: [{calls: [{id: c}]}]", 2, "model[1].calls[1]", "`tool` is missing"),
    ("scenario: a\nmodel: [{calls: [{id: c, tool: t, input: {}, raw: x}]}]", 2, "model[1].calls[1]", "exclude"),
    ("scenario: a\nmodel: [{calls: [{id: c, tool: t}, {id: c, tool: t}]}]", 2, "model[1]", "named `c`"),
    ("scenario: a\nmodel: [{pieces: [{at_ms: 1, call: c}]}]", 2, "model[1]", "`c` is not defined in `calls`"),
    ("scenario: a\nmodel: [{pieces: [{at_ms: 1}]}]", 2, "model[1].pieces[1]", "`text`, `reasoning`, `call` or `usage`"),
    ("scenario: a\nmodel: [{stop: done}]", 2, "model[1].stop", "known: end_turn"),
    ("scenario: a\nmodel: [{fails: max_tokens}]", 2, "model[1].fails", "known: overloaded"),
    ("scenario: a\nmodel: [{fails: server, hangs: true}]", 2, "model[1]", "`fails` and `hangs` exclude"),
    ("scenario: a\nmodel: [{retry_after_ms: 5}]", 2, "model[1]", "`retry_after_ms` goes with `fails`"),
    ("scenario: a\nmodel: [{calls: [{id: c, tool: t}], cut: c}]", 2, "model[1]", "`cut` goes with"),
    ("scenario: a\nmodel: [{ends: late}]", 2, "model[1].ends", "known: early"),
    ("scenario: a\nhooks: [{answer: block}]", 2, "hooks[1]", "`point` is missing"),
    ("scenario: a\nhooks: [{point: stop, answer: block, hangs: true}]", 2, "hooks[1]", "exclude each other"),
    ("scenario: a\nsummaries: [{text: a, fails: b}]", 2, "summaries[1]", "`text` and `fails` exclude each other"),
    ("scenario: a\nhandoffs: [{thread: a, fails: b}]", 2, "handoffs[1]", "`thread` and `fails` exclude each other"),
    ("scenario: a\nchildren: {c1: {}}", 2, "children.c1", "`model` is missing"),
    ("scenario: a\nstart: [{text: hi}]", 2, "start[1]", "`role` is missing"),
    ("scenario: a\nexpect: {state: idle}", 2, "expect.state", "did you mean `Idle`?"),
    ("scenario: a\nexpect: {apart: [[c1]]}", 2, "expect.apart[1]", "name at least two"),
    ("scenario: a\nexpect: {request: {a: {}}}", 2, "expect.request.a", "must be a whole number of at least 1"),
    ("scenario: a\nexpect: {request: {0: {}}}", 2, "expect.request.0", "must be a whole number of at least 1"),
    ("scenario: a\nexpect: {results: {c1: in-progress}}", 2, "expect.results.c1", "known: done"),
    ("scenario: a\nexpect: {elapsed_ms: {min: 2, max: 1}}", 2, "expect.elapsed_ms", "`min` must not pass `max`"),
    (
        "scenario: a\nabout: &x b",
        2,
        "",
        "nothing repeats `&x`; a text that begins with `*` or `&` must stand in quotes",
    ),
    ("scenario: a\nabout: *x", 2, "", "`*x` has no anchor above it; a text that begins with `*` or `&` must"),
    ("scenario: a\nabout: !!str b", 2, "", "tags are not allowed; a text that begins with `!` must stand in quotes"),
    ("scenario: a\nmodel: !x []", 2, "", "tags are not allowed; a text that begins with `!` must stand in quotes"),
    ("scenario: a\nexpect: {trace: [* 1]}", 2, "", "a text that begins with `*` or `&` must stand in quotes"),
    ("scenario: a\n\tabout: x", 2, "", "indent with spaces"),
    ("scenario: a\nabout: x: y", 2, "", "must stand in quotes"),
    ("scenario: a\nabout: 'x", 2, "", "not YAML"),
    ("scenario: a\nabout: \x07", 2, "", "YAML does not allow the character U+0007"),
    ('scenario: a\nabout: "\\ud800"', 2, "", "half of a surrogate pair"),
    ('scenario: a\nabout: "\\UFFFFFFFF"', 2, "", "an impossible number"),
    ("scenario: a\ntools: {x: {input: {a: " + "9" * 1001 + "}}}", 2, "tools.x.input.a", "is too large"),
    ("scenario: a\ntools: {x: {input: {a: 1.0e+999}}}", 2, "tools.x.input.a", "is too large"),
]


@pytest.mark.parametrize(("text", "line", "where", "words"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_names_its_line_its_key_and_what_to_do(text: str, line: int, where: str, words: str) -> None:
    (fault,) = faults_of(text)
    assert (fault.source, fault.line, fault.where) == ("some.yaml", line, where)
    assert words in fault.message


def test_the_error_tells_all_faults_of_a_file_in_order() -> None:
    text = """
        scenario: a
        user:
          - {at: soon, shout: hi}
          - {at: 1, reject: {cal: c1}}
        ---
        scenario: b
        policy: {loop: {stop: many}, prices: {in: 1}}
        expect: {requests: none}
        """
    with pytest.raises(ScenarioError) as raised:
        read_scenarios(textwrap.dedent(text), "some.yaml")
    assert [(fault.line, fault.where) for fault in raised.value.faults] == [
        (4, "user[1]"),
        (4, "user[1].at"),
        (5, "user[2].reject"),
        (5, "user[2].reject"),
        (8, "policy.loop.stop"),
        (8, "policy.prices"),
        (9, "expect.requests"),
    ]
    assert str(raised.value).splitlines()[0].startswith("some.yaml:4: user[1]: unknown key `shout`")


def test_faults_of_a_document_are_told_though_a_later_one_is_not_yaml() -> None:
    assert [fault.line for fault in faults_of("scenario: A\n---\nscenario: 'b")] == [1, 3]


def test_a_part_of_an_unquoted_text_is_recognised() -> None:
    (fault,) = faults_of("scenario: a\nuser: [{at: 0, say: tidy up, now}]")
    assert "unknown key `now`" in fault.message
    assert "put that text in quotes" in fault.message


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("scenario: a\nabout: é\n", encoding="utf-8")
    assert [(one.about, one.source) for one in read_scenario_file(path)] == [("é", str(path))]


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"scenario: a\nabout: \xff\n")
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (4 * MAX_CHARACTERS + 100))
    for path, line, words in (
        (binary, 2, "not UTF-8"),
        (huge, 1, "split the file"),
        (tmp_path / "absent.yaml", 1, "cannot be read: No such file"),
        (tmp_path, 1, "cannot be read: Is a directory"),
    ):
        with pytest.raises(ScenarioError) as raised:
            read_scenario_file(path)
        (fault,) = raised.value.faults
        assert (fault.source, fault.line) == (str(path), line)
        assert words in fault.message


README = Path(__file__).parents[3] / "specs" / "scenarios" / "README.md"
HOOK_RULES = Path(__file__).parents[3] / "specs" / "rules" / "hooks.md"


def test_the_example_of_the_reference_page_is_a_scenario() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert read_one(example).expect.elapsed_ms is not None


def test_the_reference_page_names_every_key_and_word() -> None:
    page = README.read_text(encoding="utf-8")
    words = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    keys = {
        one.name
        for kind in (Scenario, Expectations, ExpectedRequest, ExpectedResult, Behaviour)
        for one in fields(kind)
    }
    keys -= {"source", "line", "outcome", "ending", "name"}  # not keys of the format
    vocabulary = {str(one.value) for kind in (StopReason, ErrorClass, LimitName) for one in kind}
    assert (keys | vocabulary | set(ACTIONS) | set(PRESETS) | set(INTERACTIONS)) - words == set()


@pytest.mark.rule("HOOK-1")
def test_the_rule_of_hooks_to_which_that_page_sends_its_reader_has_a_row_for_each_point() -> None:
    table = HOOK_RULES.read_text(encoding="utf-8").partition("| point | reached |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^ *\| `(\w+)` \|", table, re.MULTILINE)) == sorted(point.value for point in HookPoint)
