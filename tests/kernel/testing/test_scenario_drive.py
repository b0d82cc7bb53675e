"""The virtual-time driver: who comes first at one instant, what `when` means, when a run is over, and its bounds."""

import pytest
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step
from loopkernel.loop.transition import transition
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.recording import Recording
from loopkernel.testing.scenarios.player.stage import MAX_DELTAS


def drive(text: str) -> Recording:
    (scenario,) = read_scenarios(f"scenario: driven\n{text}", "some.yaml")
    return Drive(scenario, effective_policy(scenario.policy), transition).run()


def trace(text: str) -> list[str]:
    """The trace of a run that comes to its end, each line with its time."""
    run = drive(text)
    assert run.trouble is None
    return [f"{line.at_ms} {line.text}" for line in run.lines]


TWO_TOOLS = """
tools:
  slow: {effect: read_only, takes_ms: 100}
  quick: {effect: read_only, takes_ms: 50}
"""


def test_at_one_instant_reports_come_in_the_order_of_their_starts() -> None:
    lines = trace(
        f"""
policy: {{preset: default, max_parallel: 2}}
{TWO_TOOLS}
model:
  - calls: [{{id: c1, tool: slow}}, {{id: c2, tool: quick}}, {{id: c3, tool: quick}}]
  - text: Done.
user: [{{at: 0, say: go}}]
"""
    )
    assert lines[4:8] == [
        "50 tool c2 ended done",
        "50 tool c3 started",
        "100 tool c1 ended done",
        "100 tool c3 ended done",
    ]


def test_at_one_instant_an_operation_that_takes_no_time_comes_before_the_user() -> None:
    lines = trace(
        """
model: [{text: One.}, {text: Two.}]
user: [{at: 0, say: first}, {at: 0, say: second}]
"""
    )
    assert lines == [
        "0 request 1",
        "0 reply 1 end_turn",
        "0 turn ended model_stop",
        "0 request 2",
        "0 reply 2 end_turn",
        "0 turn ended model_stop",
    ]


def test_at_one_instant_the_user_acts_in_the_order_of_the_file() -> None:
    lines = trace(
        """
model: [{text: One., takes_ms: 100}, {text: Two.}, {text: Three.}]
user: [{at: 0, say: first}, {when: request 1, after_ms: 50, say: second}, {at: 50, discard: 1}]
"""
    )
    assert "50 discarded 1" in lines
    lines = trace(
        """
model: [{text: One., takes_ms: 100}, {text: Two.}, {text: Three.}]
user: [{at: 0, say: first}, {at: 50, discard: 1}, {when: request 1, after_ms: 50, say: second}]
"""
    )
    assert "50 refused discard unknown" in lines


def test_an_action_after_a_line_comes_right_after_its_step() -> None:
    lines = trace(
        f"""
{TWO_TOOLS}
model:
  - calls: [{{id: c1, tool: quick}}, {{id: c2, tool: quick}}, {{id: c3, tool: slow}}]
user:
  - {{at: 0, say: go}}
  - {{when: tool c1 ended done, cancel: all}}
"""
    )
    assert lines[5:] == [
        "50 tool c1 ended done",
        "50 tool c2 ended cancelled",
        "50 tool c3 ended cancelled",
        "50 cancelled user:cancelled",
        "50 turn ended user_abort",
    ]


def test_what_an_action_triggers_comes_before_the_next_action_that_its_line_triggered() -> None:
    lines = trace(
        """
model: [{text: One., takes_ms: 100}, {text: Two.}]
user:
  - {at: 0, say: first}
  - {when: request 1, enqueue: a}
  - {when: request 1, enqueue: b}
  - {when: queued 1, discard: all}
model_rest: {text: More.}
"""
    )
    assert lines[:5] == ["0 request 1", "0 queued 1", "0 discarded 1", "0 queued 2", "100 reply 1 end_turn"]


def test_an_action_waits_for_the_nth_line_and_then_for_its_delay() -> None:
    lines = trace(
        f"""
{TWO_TOOLS}
model:
  - calls: [{{id: c1, tool: quick}}, {{id: c2, tool: slow}}]
  - {{text: Done., takes_ms: 100}}
user:
  - {{at: 0, say: go}}
  - {{when: tool * ended *, nth: 2, after_ms: 7, enqueue: late}}
model_rest: {{text: More.}}
"""
    )
    assert "107 queued 1" in lines


def test_an_abort_that_is_heeded_leaves_nothing_to_wait_for() -> None:
    body = """
tools: {slow: {effect: read_only, takes_ms: 100, progress: [{at_ms: 50, text: half}], IGNORES}}
model: [{calls: [{id: c1, tool: slow}]}]
user: [{at: 0, say: go}, {at: 40, cancel: all}]
"""
    heeded = drive(body.replace(", IGNORES", ""))
    assert heeded.lines[-1].text == "turn ended user_abort"
    assert [(run.started_ms, run.ended_ms) for run in heeded.runs] == [(0, 40)]
    ignored = drive(body.replace("IGNORES", "ignores_abort: true"))
    assert [(line.at_ms, line.text) for line in ignored.lines[-2:]] == [
        (50, "refused report stale"),
        (100, "refused report stale"),
    ]
    assert [(run.started_ms, run.ended_ms) for run in ignored.runs] == [(0, 100)]


def test_a_model_call_that_is_aborted_says_no_more() -> None:
    lines = trace(
        """
model: [{pieces: [{at_ms: 10, text: a}, {at_ms: 60, text: b}], takes_ms: 100, usage: {input: 5}}]
user: [{at: 0, say: go}, {at: 40, cancel: all}]
"""
    )
    assert lines[-1] == "40 turn ended user_abort"


def test_a_hang_is_not_waited_for() -> None:
    run = drive("policy: {silence_ms: null}\nmodel: [{hangs: true}]\nuser: [{at: 0, say: go}]")
    assert run.trouble is None
    assert [line.text for line in run.lines] == ["request 1"]


def test_pieces_stream_at_their_times_and_the_rest_at_the_end() -> None:
    run = drive(
        """
tools: {read: {effect: read_only}}
model:
  - text: abc
    reasoning: hm
    calls: [{id: c1, tool: read}, {id: c2, tool: read}]
    pieces: [{at_ms: 10, text: a}, {at_ms: 20, call: c2}]
    takes_ms: 30
  - text: Done.
user: [{at: 0, say: go}]
"""
    )
    assert run.trouble is None
    seen = [
        (step.context.now_ms, type(step.context.delta).__name__, getattr(step.context.delta, "text", ""))
        for step in run.steps
        if type(step.context.delta).__name__.startswith("Model")
    ]
    assert seen[:8] == [
        (10, "ModelStarted", ""),
        (10, "ModelText", "a"),
        (20, "ModelCall", ""),
        (30, "ModelReasoning", "hm"),
        (30, "ModelText", "bc"),
        (30, "ModelCall", ""),
        (30, "ModelCompleted", ""),
        (30, "ModelStarted", ""),
    ]
    # The call that streamed first is the reply's first.
    assert [line.text for line in run.lines if line.text.endswith("started")] == ["tool c2 started", "tool c1 started"]


@pytest.mark.parametrize(
    ("entry", "lines"),
    [
        ("{fails: auth, takes_ms: 20}", ["20 reply 1 failed auth"]),
        ("{ends: early, takes_ms: 20}", ["20 reply 1 failed network"]),
        ("{text: cut, fails: auth}", ["0 reply 1 failed auth"]),
        ("{calls: [{id: c1, tool: t}], pieces: [{at_ms: 5, text: x}], ends: early}", ["5 reply 1 failed network"]),
    ],
)
def test_what_happens_instead_of_an_answer(entry: str, lines: list[str]) -> None:
    seen = trace(f"policy: {{preset: default, retry: none}}\nmodel: [{entry}]\nuser: [{{at: 0, say: go}}]")
    assert [line for line in seen if "reply 1 failed" in line] == lines
    assert not any("tool" in line for line in seen)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("user: [{at: 0, say: go}]", "request 1 has no answer: `model` has 0 entries, and there is no `model_rest`"),
        (
            "model: [{text: a, model_name: other}]\nuser: [{at: 0, say: go}]",
            "request 1 was to be asked of model other, and was asked of default",
        ),
        ("user: [{at: 86400001, say: go}]", "never settled: the run went on beyond 24 h of virtual time"),
        ("user: [{at: 0, again: reply 1 *}]", "no report stands behind a line that matches `reply 1 *`"),
        (
            "tools: {t: {}}\nmodel: [{calls: [{id: c1, tool: t}]}, {text: a}]\n"
            "user: [{at: 0, say: go}, {at: 9, again: tool c1 started}]",
            "no report stands behind a line that matches `tool c1 started`",
        ),
    ],
)
def test_a_run_that_cannot_go_on_says_why(text: str, trouble: str) -> None:
    seen = drive(text).trouble
    assert seen is not None
    assert seen.startswith(trouble)


def test_a_run_that_goes_on_for_ever_is_stopped() -> None:
    run = drive(
        """
policy: {preset: default, max_turns: none, loop: none}
tools: {read: {effect: read_only}}
model_rest: {calls: [{id: c1, tool: read}]}
user: [{at: 0, say: go}]
"""
    )
    assert len(run.steps) == MAX_DELTAS
    assert run.trouble is not None
    assert run.trouble.startswith(f"never settled: {MAX_DELTAS} deltas by 0 ms, and the run still goes on; the last")


def test_a_name_that_is_used_again_means_the_latest_call() -> None:
    lines = trace(
        """
tools: {read: {effect: read_only, takes_ms: 50}}
model: [{calls: [{id: c1, tool: read}]}, {calls: [{id: c1, tool: read}]}]
user: [{at: 0, say: go}, {at: 70, cancel: c1}]
"""
    )
    assert lines[-3:] == ["50 tool c1 started", "70 tool c1 ended cancelled", "70 turn ended user_abort"]


def test_a_report_is_delivered_again_as_it_was() -> None:
    run = drive(
        """
tools: {read: {effect: read_only, takes_ms: 50}}
model: [{calls: [{id: c1, tool: read}, {id: c2, tool: nobody}]}, {text: Done.}]
user:
  - {at: 0, say: go}
  - {at: 60, again: tool c1 ended *}
  - {at: 70, again: reply 2 *}
  - {at: 80, again: tool c2 ended *}
"""
    )
    assert run.trouble is None
    *_, tool, reply, check = (step.context.delta for step in run.steps)
    earlier = [step.context.delta for step in run.steps[:-3]]
    assert [type(delta).__name__ for delta in (tool, reply, check)] == [
        "ToolSucceeded",
        "ModelCompleted",
        "ToolChecked",
    ]
    assert all(delta in earlier for delta in (tool, reply, check))
    assert [line.text for line in run.lines[-3:]] == ["refused report duplicate"] * 3


def test_a_line_that_no_report_caused_has_none_to_deliver_again() -> None:
    run = drive("model: [{hangs: true}]\nuser: [{at: 0, say: go}, {at: 5, cancel: all}, {at: 9, again: reply 1 *}]")
    assert run.trouble is not None
    assert run.trouble.startswith("no report stands behind a line that matches `reply 1 *`")


def test_tools_come_change_and_go() -> None:
    run = drive(
        """
tools: {read: {effect: read_only}, write: {}}
model: [{text: One.}, {calls: [{id: c1, tool: write}, {id: c2, tool: search}]}, {text: Two.}]
user:
  - {at: 0, say: go}
  - {at: 10, tools: {write: none, search: {effect: read_only, returns: found}}}
  - {at: 20, say: on}
"""
    )
    assert [[tool.name for tool in request.tools] for request in run.requests] == [
        ["read", "write"],
        ["read", "search"],
        ["read", "search"],
    ]
    assert {name: result.status.value for name, result in run.results.items()} == {"c1": "error", "c2": "done"}


def test_a_crash_loses_what_is_in_flight_and_takes_its_time() -> None:
    run = drive(
        """
tools: {slow: {effect: read_only, takes_ms: 100}}
model: [{calls: [{id: c1, tool: slow}]}, {text: Done.}]
user: [{at: 0, say: go}, {at: 40, crash: {down_ms: 500}}]
"""
    )
    lines = [(line.at_ms, line.text) for line in run.lines]
    assert lines[lines.index((40, "crashed")) + 1] == (540, "resumed")
    assert [(one.started_ms, one.ended_ms) for one in run.runs] == [(0, 40), (540, 640)]


def test_a_kernel_that_raises_is_told_with_what_it_raised_on() -> None:
    def broken(state: State, ctx: Context) -> Step[State]:
        if ctx.now_ms == 5:
            raise KeyError("lost")
        return transition(state, ctx)

    (scenario,) = read_scenarios("scenario: a\nuser: [{at: 5, say: go}]", "some.yaml")
    run = Drive(scenario, Policy(), broken).run()
    assert run.raised == run.trouble == "transition raised KeyError ('lost') on Say in Idle at 5 ms"


def test_an_action_whose_line_never_comes_lapses() -> None:
    run = drive("model: [{text: Done.}]\nuser: [{at: 0, say: go}, {when: ask c1, approve: c1}]")
    assert run.trouble is None
    assert [line.text for line in run.lines][-1] == "turn ended model_stop"


def test_a_check_whose_call_is_closed_is_reported_by_nobody() -> None:
    run = drive(
        "tools: {read: {effect: read_only}}\n"
        "model: [{text: no, calls: [{id: c1, tool: read}], stop: refusal}]\n"
        "user: [{at: 0, say: go}]"
    )
    assert "tool c1 ended cancelled" in [line.text for line in run.lines]
    assert not [line.text for line in run.lines if line.text.startswith("refused")]
