"""Sub-agents in the virtual-time driver: kernels of their own, driven by the script of `children`."""

from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.states import Done
from loopkernel.loop.transition import transition
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judge import broken_laws
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.recording import Recording


def drive(text: str, kernel: Transition = transition) -> Recording:
    (scenario,) = read_scenarios(f"scenario: driven\n{text}", "some.yaml")
    return Drive(scenario, effective_policy(scenario.policy), kernel).run()


def trace(run: Recording) -> list[str]:
    """The trace of a run that comes to its end, each line with its time; the laws hold, of sub-agents too."""
    assert run.trouble is None
    assert list(broken_laws(run, transition)) == []
    return [f"{line.at_ms} {line.text}" for line in run.lines]


AGENT = """
tools:
  agent: {effect: read_only, child: true}
  look: {effect: read_only, takes_ms: 30, returns: a view}
  push: {effect: dangerous, approval: ask, takes_ms: 10, returns: pushed}
model:
  - calls: [{id: c1, tool: agent, input: {task: look at it}}]
  - text: I see.
user:
  - {at: 0, say: go}
"""
LOOKS = """
children:
  c1:
    model:
      - {calls: [{id: k1, tool: look}], usage: {input: 5, output: 1}, takes_ms: 10}
      - {text: It is green., usage: {input: 7, output: 2}}
"""
PUSHES = """
children:
  c1:
    model:
      - calls: [{id: k1, tool: push}]
      - text: It is out.
"""


def test_a_sub_agent_is_driven_in_the_same_time_and_only_its_end_is_seen() -> None:
    run = drive(AGENT + LOOKS)
    assert trace(run) == [
        "0 request 1",
        "0 reply 1 tool_use",
        "0 child c1 started",
        "40 child c1 ended model_stop",
        "40 tool c1 ended done",
        "40 request 2",
        "40 reply 2 end_turn",
        "40 turn ended model_stop",
    ]
    session = run.last_state.session
    assert session is not None
    assert (session.usage.input, session.usage.output) == (12, 3)
    (child,) = run.children
    assert child.address == "c1"
    assert isinstance(child.last_state, Done)
    assert [(one.call, one.started_ms, one.ended_ms) for one in run.runs] == [("c1", 0, 40)]
    assert [(one.call, one.started_ms, one.ended_ms) for one in child.runs] == [("k1", 10, 40)]


def test_what_a_sub_agent_asks_of_a_person_is_answered_by_its_address() -> None:
    lines = trace(drive(AGENT + "  - {when: ask c1/k1, after_ms: 100, approve: c1/k1}\n" + PUSHES))
    assert lines[3:6] == ["0 ask c1/k1", "110 child c1 ended model_stop", "110 tool c1 ended done"]


def test_an_answer_that_a_sub_agent_does_not_take_is_seen_to_be_refused() -> None:
    wrong = "  - {when: ask c1/k1, approve: c1/k9}\n  - {when: refused approve unknown, reject: c1/k1}\n"
    lines = trace(drive(AGENT + wrong + PUSHES))
    assert lines[3:6] == ["0 ask c1/k1", "0 refused approve unknown", "0 child c1 ended model_stop"]
    assert "0 refused approve unknown" in trace(drive(AGENT + "  - {at: 0, approve: c9/k1}\n" + LOOKS))


def test_a_cancel_stops_the_sub_agent_and_counts_once_what_it_has_used() -> None:
    for what, ended in (("all", "turn ended user_abort"), ("c1", "turn ended user_abort")):
        run = drive(AGENT + f"  - {{at: 20, cancel: {what}}}\n" + LOOKS)
        lines = trace(run)
        assert lines[3:5] == ["20 child c1 ended user_abort", "20 tool c1 ended cancelled"]
        assert f"20 {ended}" in lines
        assert [line for line in lines if "lease broken" in line or "refused" in line] == ["20 refused report stale"]
        session = run.last_state.session
        assert session is not None
        assert (session.usage.input, session.held) == (5, ())
        assert [one.ended_ms for one in run.children[0].runs] == [20]


def test_a_cancelled_sub_agent_that_has_used_nothing_just_stops() -> None:
    run = drive(AGENT + "  - {at: 5, cancel: all}\n" + LOOKS)
    assert not [line for line in trace(run) if "refused" in line]
    session = run.last_state.session
    assert session is not None
    assert session.held == ()


def test_a_restart_takes_a_sub_agent_up_again_from_its_own_log() -> None:
    run = drive(AGENT + "  - {at: 20, crash: {down_ms: 100}}\n" + LOOKS)
    lines = trace(run)
    assert [line for line in lines if "child" in line] == ["0 child c1 started", "150 child c1 ended model_stop"]
    assert len(run.children) == 1
    assert [(one.started_ms, one.ended_ms) for one in run.runs] == [(0, 150)]
    assert [one.started_ms for one in run.children[0].runs] == [10, 120]


def test_a_sub_agent_that_waits_for_a_person_still_waits_after_a_restart() -> None:
    wants = "  - {at: 20, crash: {}}\n  - {at: 50, approve: c1/k1}\n"
    lines = trace(drive(AGENT + wants + PUSHES))
    assert lines[-4] == "60 tool c1 ended done"


def test_a_fork_leaves_the_sub_agent_behind() -> None:
    lines = trace(drive(AGENT + "  - {at: 20, fork: {}}\n  - {at: 30, approve: c1/k1}\n" + LOOKS))
    assert lines[-1] == "30 refused approve unknown"


def test_a_sub_agent_without_a_script_fails_the_scenario() -> None:
    assert drive(AGENT).trouble == "the sub-agent of c1 has no script: `children` has no entry `c1`"
    run = drive(AGENT + "children: {c1: {model: []}}\n")
    assert run.trouble is not None
    assert run.trouble.startswith("in the sub-agent of c1: request 1 has no answer")


def test_a_sub_agent_may_have_tools_of_its_own() -> None:
    own = LOOKS + "    tools: {look: {effect: read_only, takes_ms: 70}}\n"
    assert "80 child c1 ended model_stop" in trace(drive(AGENT + own))


def test_its_hooks_take_of_the_same_answers() -> None:
    hooks = """
policy: {hooks: {before_tool: gated}}
hooks:
  - {point: before_tool, call: c1/k1, answer: block, why: not that}
"""
    run = drive(hooks + AGENT + LOOKS)
    assert [line for line in trace(run) if "hook" in line] == ["0 hook before_tool"]
    assert run.children[0].runs == ()


def test_the_end_of_a_sub_agent_is_delivered_once_more() -> None:
    run = drive(AGENT + "  - {when: tool c1 ended done, again: tool c1 ended *}\n" + LOOKS)
    assert "40 refused report duplicate" in trace(run)
    ends = [step for step in run.steps if isinstance(step.context.delta, ChildEnded)]
    assert len(ends) == 2


NESTED = """
policy: {child: {depth: 2}}
tools:
  agent: {effect: read_only, child: true}
  push: {effect: dangerous, approval: ask}
model:
  - calls: [{id: c1, tool: agent}]
  - text: I see.
children:
  c1:
    model:
      - calls: [{id: k1, tool: agent}]
      - text: It said so.
  c1/k1:
    model:
      - calls: [{id: j1, tool: push}]
      - {text: Pushed., usage: {input: 3}}
user:
  - {at: 0, say: go}
"""


def test_a_sub_agent_of_a_sub_agent_is_addressed_by_a_path() -> None:
    run = drive(NESTED + "  - {when: ask c1/k1/j1, after_ms: 5, approve: c1/k1/j1}\n")
    assert trace(run)[3:6] == ["0 ask c1/k1/j1", "5 child c1 ended model_stop", "5 tool c1 ended done"]
    assert [child.address for child in run.children] == ["c1", "c1/k1"]


def test_a_law_that_a_sub_agent_breaks_is_told_with_its_address() -> None:
    run = drive(AGENT + LOOKS)
    told = list(broken_laws(run, lambda state, context: transition(state, context)))
    assert told == []
    steps = run.children[0].steps
    broken = Recording(steps=steps[:-1] + steps[-1:] * 2, lines=(), runs=(), names=run.names, address="c1")
    whole = Recording(steps=run.steps, lines=run.lines, runs=run.runs, names=run.names, children=(broken,))
    assert any(line.startswith("in the sub-agent of c1: ") for line in broken_laws(whole, transition))
