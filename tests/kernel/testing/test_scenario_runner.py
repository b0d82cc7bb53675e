"""The runner can fail: each key of `expect` can hold, and when it does not, the difference says what was seen."""

import pytest
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judge import Judgement, ScenarioOutcome, run_scenario

# Two calls side by side, a queued message, and a last reply that never comes.
BASE = """
scenario: base
policy: {preset: default, silence_ms: none, tool_timeout_ms: none}
tools:
  read: {effect: read_only, takes_ms: 20, returns: page text}
  search: {effect: read_only, takes_ms: 50, fails: no index}
  never: {effect: read_only}
model:
  - text: Looking.
    calls: [{id: c1, tool: read, input: {path: a.txt, lines: [1, 2]}}, {id: c2, tool: search, input: {query: b}}]
    usage: {input: 10, output: 2}
  - {text: Done., takes_ms: 30, usage: {input: 20, output: 3}}
  - {hangs: true}
user:
  - {at: 0, say: look}
  - {at: 60, say: later}
  - {at: 90, say: much later}
expect: {KEY}
"""
# The same reply, whose calls never end.
HANGING = """
scenario: hanging
policy: {preset: default, tool_timeout_ms: none}
tools:
  wait: {effect: read_only, hangs: true}
  read: {effect: read_only, takes_ms: 40}
model:
  - calls: [{id: c1, tool: wait}, {id: c2, tool: wait}, {id: c3, tool: read}]
  - text: Done.
user:
  - {at: 0, say: look}
expect: {KEY}
"""


def judged(base: str, expect: str) -> Judgement:
    (scenario,) = read_scenarios(base.replace("KEY", expect), "some.yaml")
    return run_scenario(scenario)


# What holds in BASE, what does not, and the difference that is told.
KEYS = [
    (
        "trace: [request 1, reply 1 tool_use, tool c2 started, tool c1 ended done, tool * ended error, request 2]",
        "trace: [request 1, tool c2 ended error, tool c1 ended done, request 2]",
        "`trace`: line 3, `tool c1 ended done`, did not come after `tool c2 ended error` at 50 ms; "
        "what came then: `request 2`, `queued 1`",
    ),
    (
        "trace: [queued 2]",
        "trace: [queued 3]",
        "`trace`: line 1, `queued 3`, did not come at all; what came then: `request 1`",
    ),
    ("counts: {tool * started: 2}", "counts: {tool * started: 3}", "expected 3 of `tool * started`, saw 2 (at 0 ms"),
    ("counts: {crashed: 0}", "counts: {crashed: 1}", "expected 1 of `crashed`, saw 0; the trace: `request 1`"),
    ("never: [tool c1 ended error]", "never: [crashed, tool * ended done]", "saw `tool c1 ended done` at 20 ms"),
    (
        'after: {request 2: ["tool * *", tool c1 started], crashed: [request 1]}',
        'after: {tool c1 ended done: ["tool * ended *"]}',
        "`after` `tool c1 ended done`: expected no `tool * ended *`, saw `tool c2 ended error` at 50 ms",
    ),
    ("together: [[c1, c2]]", "apart: [[c1, c2]]", "`apart`: the runs of c1 and c2 overlapped; c1 ran from 0 to 20"),
    ("apart: [[c1, c9]]", "together: [[c1, c9]]", "the runs of c1 and c9 did not overlap; c1 ran from 0 to 20 ms, c9"),
    ("inputs: {c1: {path: a.txt}}", "inputs: {c1: {path: b.txt}}", "expected c1 to receive {'path': 'b.txt'}, its"),
    ("inputs: {c1: {lines: [1, 2]}}", "inputs: {c1: {lines: [1]}}", '"lines":[1,2]'),
    ("inputs: {c2: {}}", "inputs: {c9: {}}", "`inputs`: c9 never ran"),
    ("inputs: {c1: {lines: [1, 2]}}", "inputs: {c1: {lines: [true, 2]}}", "`inputs`: expected c1"),
    (
        "at: [{when: tool * ended *, state: Executing}]",
        "at: [{when: tool * ended *, nth: 2, state: Executing}]",
        "(50 ms): expected state Executing, saw Streaming",
    ),
    (
        "at: [{when: tool c1 ended done, interaction: [busy, tool-running]}]",
        "at: [{when: tool c1 ended done, interaction: [busy, handoff]}]",
        "(20 ms): expected interaction busy or handoff, saw tool-running",
    ),
    (
        "at: [{when: tool c1 started, open: [c2, c1]}, {when: tool c1 ended done, open: [c2]}]",
        "at: [{when: tool c1 ended done, open: []}]",
        "expected open calls none, saw c2",
    ),
    ("at: [{when: queued 1, queue: 1}]", "at: [{when: queued 1, queue: 0}]", "expected 0 queued inputs, saw 1"),
    ("at: [{when: queued 2, nth: 1}]", "at: [{when: queued 2, nth: 2}]", "line 2 that matches `queued 2`: there is no"),
    ("requests: 3", "requests: 2", "`requests`: expected 2, saw 3"),
    ("request: {2: {why: next_turn}}", "request: {2: {why: user}}", "request 2: expected why user, saw next_turn"),
    ("request: {3: {why: user}}", "request: {4: {why: user}}", "request 4: there is none; 3 were made"),
    (
        "request: {3: {roles: [user, assistant, user, assistant, user]}}",
        "request: {3: {roles: [user, assistant]}}",
        "expected the roles user, assistant, saw user, assistant, user, assistant, user",
    ),
    ("request: {2: {messages: 3}}", "request: {2: {messages: 4}}", "request 2: expected 4 messages, saw 3"),
    (
        "request: {1: {results: []}, 2: {results: [c1, c2]}}",
        "request: {2: {results: [c2, c1]}}",
        "request 2: expected the results of c2, c1, saw c1, c2",
    ),
    (
        "request: {2: {contains: [look, Looking., a.txt, page text, no index]}}",
        "request: {2: {contains: [page text, Done.]}}",
        "request 2: expected `Done.` in it, and it reads `",
    ),
    ("request: {2: {lacks: [Done.]}}", "request: {2: {lacks: [no index]}}", "expected no `no index` in it, and it is"),
    ("request: {2: {last: page text}}", "request: {2: {last: Looking.}}", "expected `Looking.` in its last message"),
    (
        "request: {1: {tools: [search, never, read]}}",
        "request: {1: {tools: [search, read]}}",
        "expected the tools read, search, saw never, read, search",
    ),
    ("request: {1: {lacks_tools: [grep]}}", "request: {1: {lacks_tools: [read]}}", "expected the tool read not to be"),
    (
        "request: {1: {max_output_tokens: 32000}}",
        "request: {1: {max_output_tokens: none}}",
        "expected max_output_tokens none, saw 32000",
    ),
    ("request: {1: {model: default}}", "request: {1: {model: other}}", "expected model other, saw default"),
    ("request: {1: {forced_tool: none}}", "request: {1: {forced_tool: read}}", "expected the forced tool read, saw"),
    ("results: {c1: done, c2: error}", "results: {c1: error}", "the result of c1: expected status error, saw done"),
    ("results: {c1: {reason: none}}", "results: {c1: {reason: 'user:cancelled'}}", "reason user:cancelled, saw none"),
    ("results: {c1: {contains: text}}", "results: {c1: {contains: index}}", "expected `index` in it, and it reads"),
    ("results: {c1: {lacks: index}}", "results: {c1: {lacks: text}}", "expected no `text` in it"),
    ("results: {c1: {ran: true}}", "results: {c1: {ran: false}}", "expected that c1 did not run, saw 1 runs"),
    ("results: {c1: {runs: 1}}", "results: {c1: {runs: 2}}", "expected 2 runs, saw 1"),
    ("results: {c2: error}", "results: {c3: done}", "`results`: c3 was never answered"),
    (
        "thread: {roles: [user, assistant, user, assistant, user]}",
        "thread: {roles: [user, assistant, user]}",
        "the thread at the end: expected the roles user, assistant, user, saw user, assistant, user, assistant, user",
    ),
    ("thread: {messages: 5}", "thread: {messages: 6}", "expected 6 messages, saw 5"),
    ("thread: {contains: [page text, later]}", "thread: {contains: gone}", "expected `gone` in it, and it reads `look"),
    ("thread: {lacks: much later}", "thread: {lacks: later}", "expected no `later` in it"),
    ("state: Streaming", "state: [Idle, Done]", "at the end: expected state Idle or Done, saw Streaming"),
    ("interaction: [busy, handoff]", "interaction: user-message-reply", "expected interaction user-message-reply, saw"),
    ("reason: model_stop", "reason: [error, stuck]", "expected reason error or stuck, saw model_stop"),
    ("usage: {input: 30, output: 5}", "usage: {input: 31}", "expected 31 input tokens, saw 30"),
    ("usage: {output: 5}", "usage: {output: 4}", "expected 4 output tokens, saw 5"),
    ("queue: 1", "queue: 2", "at the end: expected 2 queued inputs, saw 1"),
    ("open: []", "open: [c1]", "at the end: expected open calls c1, saw none"),
    ("elapsed_ms: 90", "elapsed_ms: 91", "`elapsed_ms`: expected the last trace line at 91 ms, saw it at 90 ms"),
    ("elapsed_ms: {min: 90}", "elapsed_ms: {min: 91}", "expected the last trace line at 91 to any ms, saw it at 90 ms"),
    ("elapsed_ms: {max: 90}", "elapsed_ms: {max: 89}", "expected the last trace line at 0 to 89 ms, saw it at 90 ms"),
]  # fmt: skip


@pytest.mark.parametrize(("holds", "fails", "difference"), KEYS)
def test_each_expectation_can_hold_and_can_fail(holds: str, fails: str, difference: str) -> None:
    good = judged(BASE, holds)
    assert (good.outcome, good.difference) == (ScenarioOutcome.PASS, None)
    bad = judged(BASE, fails)
    assert bad.outcome is ScenarioOutcome.FAIL
    assert bad.difference is not None
    assert difference in bad.difference


def test_no_call_may_be_open_at_the_end_unless_it_is_named() -> None:
    assert judged(HANGING, "open: [c2, c1]").outcome is ScenarioOutcome.PASS
    assert judged(HANGING, "requests: 1").difference == "at the end: expected open calls none, saw c1, c2"


def test_a_run_that_never_ends_overlaps_what_starts_after_it() -> None:
    assert judged(HANGING, "together: [[c1, c2, c3]], open: [c1, c2]").outcome is ScenarioOutcome.PASS


def test_a_run_without_any_line_ends_at_zero_and_no_turn_has_a_reason() -> None:
    empty = "scenario: empty\nexpect: {KEY}"
    assert judged(empty, "elapsed_ms: 0, usage: {input: 0}, thread: {messages: 0}").outcome is ScenarioOutcome.PASS
    assert judged(empty, "reason: model_stop").difference == (
        "at the end: expected reason model_stop, saw no turn has ended"
    )
    assert judged(empty, "request: {1: {why: user}}").difference == "request 1: there is none; 0 were made"


def test_all_differences_are_kept_behind_the_first() -> None:
    judgement = judged(BASE, "requests: 7, queue: 8, state: Idle")
    assert judgement.difference == judgement.differences[0] == "`requests`: expected 7, saw 3"
    assert [difference.split(": ")[0] for difference in judgement.differences[1:]] == ["at the end", "at the end"]


def test_a_difference_is_one_line() -> None:
    judgement = judged(BASE, 'request: {1: {contains: "two\\nlines"}}')
    assert judgement.difference is not None
    assert "`two / lines`" in judgement.difference


def test_the_reason_of_a_run_that_is_done_is_the_runs_own() -> None:
    task = "scenario: task\npolicy: {lifetime: task}\nmodel: [{text: Hi.}]\nuser: [{at: 0, say: hi}]\nexpect: {KEY}"
    assert judged(task, "state: Done, reason: model_stop").outcome is ScenarioOutcome.PASS
    assert judged(task, "reason: error").difference == "at the end: expected reason error, saw model_stop"
