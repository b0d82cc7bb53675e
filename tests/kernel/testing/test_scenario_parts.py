"""The parts of a scenario: each key of tools, model, hooks and the rest, each action, each expectation."""

import pytest
from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import Redaction
from loopkernel.data.policy import ApprovalRule, FieldPattern
from loopkernel.data.remembered import RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, FixedResource, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, ErrorClass, HookPoint, RequestReason, StopReason
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data import expectations as expected
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.special import ACTIONS


def read_one(text: str) -> Scenario:
    (scenario,) = read_scenarios(f"scenario: a\n{text}\n", "some.yaml")
    return scenario


OK = world.ToolReturns("ok")
ASKING = world.Behaviour(
    outcome=world.ToolFails("always"),
    final=True,
    asks=world.ToolQuestion(0, "which?"),
    progress=(world.Progress(0, "a"),),
)
TOOLS: list[tuple[str, world.ToolScript]] = [
    ("{}", world.ToolScript(profile=ToolProfile(), behaviour=world.Behaviour(takes_ms=0, outcome=OK))),
    ("{profile: none}", world.ToolScript(profile=None)),
    ("{profile: none, input: true, takes_ms: 5}",
     world.ToolScript(profile=None, input_schema=True, behaviour=world.Behaviour(takes_ms=5))),
    ("{effect: idempotent, serial: true, approval: deny, early: true, polling: true, timeout_ms: 9, child: true}",
     world.ToolScript(profile=ToolProfile(effect=EffectClass.IDEMPOTENT, serial=True, approval=Decision.DENY,
                                          early=True, polling=True, timeout_ms=9, child=True))),
    ("{resources: [{field: path, mode: write}, {key: disk, mode: read}]}",
     world.ToolScript(profile=ToolProfile(resources=(FieldResource("path", AccessMode.WRITE),
                                                     FixedResource("disk", AccessMode.READ))))),
    ("{input: {type: object, required: [a]}}",
     world.ToolScript(input_schema={"type": "object", "required": ["a"]})),
    ("{returns: 42}", world.ToolScript(behaviour=world.Behaviour(outcome=world.ToolReturns("42")))),
    ("{fails: boom}", world.ToolScript(behaviour=world.Behaviour(outcome=world.ToolFails("boom")))),
    ("{hangs: true}", world.ToolScript(behaviour=world.Behaviour(outcome=world.ToolHangs()))),
    ("{progress: [{at_ms: 5, text: half}, {text: start}]}",
     world.ToolScript(behaviour=world.Behaviour(progress=(world.Progress(5, "half"), world.Progress(0, "start"))))),
    ("{final: true, stops_loop: true, ignores_abort: true, background: true}",
     world.ToolScript(behaviour=world.Behaviour(final=True, stops_loop=True, ignores_abort=True, background=True))),
    ("{asks: {at_ms: 3, question: which?}}",
     world.ToolScript(behaviour=world.Behaviour(asks=world.ToolQuestion(3, "which?")))),
    ("{fails: always, final: true, asks: {question: which?}, progress: [{text: a}],"
     " calls: {c1: {returns: x, asks: none}}, runs: [{progress: []}, {takes_ms: 3, final: false}]}",
     world.ToolScript(behaviour=ASKING, calls={"c1": evolve(ASKING, outcome=world.ToolReturns("x"), asks=None)},
                      runs=(evolve(ASKING, progress=()), evolve(ASKING, takes_ms=3, final=False)))),
    ("{takes_ms: 9, runs: [{fails: once}, {}], calls: {c1: {hangs: true}}}",
     world.ToolScript(behaviour=world.Behaviour(takes_ms=9),
                      runs=(world.Behaviour(takes_ms=9, outcome=world.ToolFails("once")), world.Behaviour(takes_ms=9)),
                      calls={"c1": world.Behaviour(takes_ms=9, outcome=world.ToolHangs())})),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), TOOLS)
def test_a_tool_is_read(written: str, meant: world.ToolScript) -> None:
    assert read_one(f"tools: {{'a tool': {written}}}").tools == {"a tool": meant}


def test_a_call_then_a_run_then_the_tool_decides_on_a_run() -> None:
    (_, script) = TOOLS[-1]
    assert script.behaviour_of("c1", 1).outcome == world.ToolHangs()
    assert script.behaviour_of("c2", 1).outcome == world.ToolFails("once")
    assert script.behaviour_of("c2", 2) == world.Behaviour(takes_ms=9)
    assert script.behaviour_of("c2", 3) == world.Behaviour(takes_ms=9)


C1 = world.ScriptedCall(id="c1", name="c1", tool="t", input={})
MODEL: list[tuple[str, world.ModelEntry]] = [
    ("{}", world.ModelEntry(text="", ending=world.ModelCompletes(StopReason.END_TURN))),
    ("{text: hi, reasoning: why, takes_ms: 7, model_name: small}",
     world.ModelEntry(text="hi", reasoning="why", takes_ms=7, model_name="small")),
    ("{text: so, stop: guardrail_intervened, redaction: {user_text: x, reply_text: y}}",
     world.ModelEntry(text="so", redaction=Redaction("x", "y"),
                      ending=world.ModelCompletes(StopReason.GUARDRAIL_INTERVENED))),
    ("{redaction: {reply_text: y}}", world.ModelEntry(redaction=Redaction(reply_text="y"))),
    ("{usage: {input: 1, output: 2, cache_read: 3, cache_write: 4}}",
     world.ModelEntry(usage=Usage(input=1, output=2, cache_read=3, cache_write=4))),
    ("{usage: {}}", world.ModelEntry(usage=Usage())),
    ("{calls: [{id: c1, tool: t}]}",
     world.ModelEntry(calls=(C1,), ending=world.ModelCompletes(StopReason.TOOL_USE))),
    ("{calls: [{id: c1, tool: t}], stop: end_turn}",
     world.ModelEntry(calls=(C1,), ending=world.ModelCompletes(StopReason.END_TURN))),
    ("{calls: [{id: 'a b', as: c2, tool: '', input: {x: {$result: c1}}, after: [c1, c9]}], stop: pause}",
     world.ModelEntry(
         calls=(world.ScriptedCall(id="a b", name="c2", tool="", input={"x": {"$result": "c1"}},
                                   after=("c1", "c9")),),
         ending=world.ModelCompletes(StopReason.PAUSE))),
    ("""{calls: [{id: c1, tool: t, raw: '{"pa'}]}""",
     world.ModelEntry(calls=(world.ScriptedCall(id="c1", name="c1", tool="t", raw='{"pa'),),
                      ending=world.ModelCompletes(StopReason.TOOL_USE))),
    ("{calls: [{id: c1, tool: t}], stop: max_tokens, cut: c1}",
     world.ModelEntry(calls=(C1,), ending=world.ModelCompletes(StopReason.MAX_TOKENS, "c1"))),
    ("{server_calls: [{id: s1, tool: web, input: {q: x}}]}",
     world.ModelEntry(server_calls=(world.ScriptedCall(id="s1", name="s1", tool="web", input={"q": "x"}),))),
    ("{calls: [{id: c1, tool: t}], pieces: [{at_ms: 1, text: a}, {at_ms: 2, reasoning: b}, {at_ms: 3, call: c1}]}",
     world.ModelEntry(calls=(C1,), pieces=(world.TextPiece(1, "a"), world.ReasoningPiece(2, "b"),
                                           world.CallPiece(3, "c1")),
                      ending=world.ModelCompletes(StopReason.TOOL_USE))),
    ("{hangs: true, pieces: [{at_ms: 4, usage: {input: 1, output: 2}}]}",
     world.ModelEntry(pieces=(world.UsagePiece(4, Usage(input=1, output=2)),), ending=world.ModelHangs())),
    ("{fails: rate_limited, retry_after_ms: 9, usage: {input: 1}}",
     world.ModelEntry(usage=Usage(input=1), ending=world.ModelFails(ErrorClass.RATE_LIMITED, 9))),
    ("{fails: server}", world.ModelEntry(ending=world.ModelFails(ErrorClass.SERVER))),
    ("{hangs: true}", world.ModelEntry(ending=world.ModelHangs())),
    ("{ends: early}", world.ModelEntry(ending=world.ModelEndsEarly())),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), MODEL)
def test_a_model_entry_is_read(written: str, meant: world.ModelEntry) -> None:
    scenario = read_one(f"model: [{written}, {written}]\nmodel_rest: {written}")
    assert scenario.model == (meant, meant)
    assert scenario.model_rest == meant


@pytest.mark.parametrize("stop", StopReason)
def test_every_stop_reason_is_known(stop: StopReason) -> None:
    assert read_one(f"model: [{{stop: {stop.value}}}]").model[0].ending == world.ModelCompletes(stop)


@pytest.mark.parametrize(
    "error", [error for error in ErrorClass if error is not ErrorClass.MAX_TOKENS], ids=lambda error: error.value
)
def test_every_error_class_is_known(error: ErrorClass) -> None:
    assert read_one(f"model: [{{fails: {error.value}}}]").model[0].ending == world.ModelFails(error)


RULE = ApprovalRule(decision=Decision.DENY, tool="sh*", input=(FieldPattern("cmd", "rm *"),))
USER: list[tuple[str, actions.UserAction]] = [
    ("say: tidy up", actions.Say("tidy up")),
    ("enqueue: then this", actions.Enqueue("then this")),
    ("steer: not so", actions.Steer("not so")),
    ("discard: 2", actions.Discard(2)),
    ("discard: all", actions.Discard(None)),
    ("edit: {message: 1, text: new}", actions.Edit(1, "new")),
    ("approve: c1", actions.Approve(call="c1")),
    ("approve: c1/k1", actions.Approve(call="c1/k1")),
    ("approve: {call: c1}", actions.Approve(call="c1")),
    ("approve: {call: c1, remember: call}", actions.Approve(call="c1", remember=actions.Remember.CALL)),
    ("approve: {call: c1, remember: tool}", actions.Approve(call="c1", remember=actions.Remember.TOOL)),
    ("approve: {call: c1, remember: pattern, pattern: {cmd: 'rm *'}}",
     actions.Approve(call="c1", remember=actions.Remember.PATTERN, pattern=(FieldPattern("cmd", "rm *"),))),
    ("reject: c1", actions.Reject(call="c1")),
    ("reject: {call: c1, why: no}", actions.Reject(call="c1", why="no")),
    ("correct: {call: c1, input: {a: [1, null]}}", actions.Correct(call="c1", input={"a": [1, None]})),
    ("swap: {call: c1, tool: t, input: {a: 1}}", actions.Swap(call="c1", tool="t", input={"a": 1})),
    ("answer: {call: c1, value: yes}", actions.Answer(call="c1", value="yes")),
    ("answer: {call: c1, value: {ok: true}}", actions.Answer(call="c1", value={"ok": True})),
    ("answer: {call: c1, value: ~}", actions.Answer(call="c1", value=None)),
    ("after_crash: {call: c1, as: done, text: it was}",
     actions.AfterCrash(call="c1", verdict=actions.CrashVerdict.DONE, text="it was")),
    ("after_crash: {call: c1, as: rerun}", actions.AfterCrash(call="c1", verdict=actions.CrashVerdict.RERUN)),
    ("after_crash: {call: c1, as: cancel}", actions.AfterCrash(call="c1", verdict=actions.CrashVerdict.CANCEL)),
    ("cancel: all", actions.Cancel(None)),
    ("cancel: c1", actions.Cancel("c1")),
    ("retry: now", actions.RetryNow()),
    ("dismiss: error", actions.DismissError()),
    ("compact: now", actions.CompactNow()),
    *((f"mode: {mode.value}", actions.ChangeMode(mode)) for mode in ApprovalMode),
    ("permit: {decision: deny, tool: 'sh*', input: {cmd: 'rm *'}}", actions.Permit(RULE)),
    ("forget: all", actions.Forget()),
    ("forget: {tool: sh}", actions.Forget(RememberedTool("sh"))),
    ("forget: {tool: sh, input: {a: [1]}}", actions.Forget(RememberedCall("sh", Json.of({"a": [1]})))),
    ("forget: {tool: sh, pattern: {cmd: a}}", actions.Forget(RememberedPattern("sh", (FieldPattern("cmd", "a"),)))),
    ("permit: {decision: ask}", actions.Permit(ApprovalRule(decision=Decision.ASK))),
    ("handoff: finish it", actions.StartHandoff("finish it")),
    ("again: reply 1 *", actions.ReportAgain("reply 1 *")),
    ("crash: {}", actions.Crash()),
    ("crash: {down_ms: 5}", actions.Crash(down_ms=5)),
    ("dispose: {}", actions.Dispose()),
    ("fork: {}", actions.Fork()),
    ("tools: {a: {serial: true}, b: none, c: {profile: none}}",
     actions.ChangeTools({"a": world.ToolScript(profile=ToolProfile(serial=True)), "b": None,
                          "c": world.ToolScript(profile=None)})),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), USER)
def test_an_action_is_read(written: str, meant: actions.UserAction) -> None:
    assert read_one(f"user: [{{at: 0, {written}}}]").user == (actions.TimedAction(timing=actions.At(0), action=meant),)


def test_every_action_has_an_example_above() -> None:
    assert {written.split(":")[0] for written, _ in USER} == set(ACTIONS)


TIMINGS: list[tuple[str, actions.Timing]] = [
    ("at: 1_200", actions.At(1200)),
    ("when: ask c2", actions.When(pattern="ask c2", nth=1, after_ms=0)),
    ("when: tool *  ended done, nth: 2", actions.When(pattern="tool * ended done", nth=2)),
    ("when: '* 1', after_ms: 50", actions.When(pattern="* 1", after_ms=50)),
    ("when: cancelled user:cancelled", actions.When(pattern="cancelled user:cancelled")),
]


@pytest.mark.parametrize(("written", "meant"), TIMINGS)
def test_a_timing_is_read(written: str, meant: actions.Timing) -> None:
    assert read_one(f"user: [{{{written}, say: hi}}]").user[0].timing == meant


def test_actions_keep_their_order() -> None:
    user = read_one("user:\n  - {at: 5, say: a}\n  - say: b\n    at: 0\n").user
    assert [one.action for one in user] == [actions.Say("a"), actions.Say("b")]


HOOKS: list[tuple[str, world.HookScript]] = [
    *((f"{{point: {point.value}}}", world.HookScript(point=point)) for point in HookPoint),
    ("{point: stop, answer: continue}", world.HookScript(point=HookPoint.STOP)),
    ("{point: before_tool, call: c1, answer: block, why: no, takes_ms: 5}",
     world.HookScript(point=HookPoint.BEFORE_TOOL, call="c1", takes_ms=5,
                      outcome=world.HookReplies(answer=world.HookAnswerKind.BLOCK, why="no"))),
    ("{point: before_tool, answer: modify, input: {a: 1}}",
     world.HookScript(point=HookPoint.BEFORE_TOOL,
                      outcome=world.HookReplies(answer=world.HookAnswerKind.MODIFY, input={"a": 1}))),
    ("{point: after_tool, answer: modify, result: less}",
     world.HookScript(point=HookPoint.AFTER_TOOL,
                      outcome=world.HookReplies(answer=world.HookAnswerKind.MODIFY, result="less"))),
    ("{point: after_model, answer: modify, text: other}",
     world.HookScript(point=HookPoint.AFTER_MODEL,
                      outcome=world.HookReplies(answer=world.HookAnswerKind.MODIFY, text="other"))),
    ("{point: after_model, answer: retry}",
     world.HookScript(point=HookPoint.AFTER_MODEL,
                      outcome=world.HookReplies(answer=world.HookAnswerKind.RETRY))),
    ("{point: stop, hangs: true}", world.HookScript(point=HookPoint.STOP, outcome=world.HookHangs())),
    ("{point: stop, fails: boom}", world.HookScript(point=HookPoint.STOP, outcome=world.HookFails("boom"))),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), HOOKS)
def test_a_hook_answer_is_read(written: str, meant: world.HookScript) -> None:
    assert read_one(f"hooks: [{written}]").hooks == (meant,)


def test_summaries_corrections_and_handoffs_are_read() -> None:
    scenario = read_one(
        "summaries: [{text: short, usage: {output: 3}, takes_ms: 5}, {text: s}, {fails: boom, takes_ms: 1}, "
        "{takes_ms: 2}]\n"
        "corrections: [{text: look again}, none, ~, {takes_ms: 5}, {text: late, takes_ms: 2}]\n"
        "handoffs: [{thread: t-2}, {fails: boom, takes_ms: 9}, {takes_ms: 3}]"
    )
    assert scenario.summaries == (
        world.SummaryScript(outcome=world.SummaryText("short", Usage(output=3)), takes_ms=5),
        world.SummaryScript(outcome=world.SummaryText("s")),
        world.SummaryScript(outcome=world.SummaryFails("boom"), takes_ms=1),
        world.SummaryScript(outcome=world.SummaryText(world.DEFAULT_SUMMARY), takes_ms=2),
    )
    assert scenario.corrections == (
        world.CorrectionScript(text="look again"),
        world.CorrectionScript(text=None),
        world.CorrectionScript(text=None),
        world.CorrectionScript(text=None, takes_ms=5),
        world.CorrectionScript(text="late", takes_ms=2),
    )
    assert scenario.handoffs == (
        world.HandoffScript(outcome=world.HandoffDone("t-2")),
        world.HandoffScript(outcome=world.HandoffFails("boom"), takes_ms=9),
        world.HandoffScript(outcome=world.HandoffDone(world.DEFAULT_HANDOFF), takes_ms=3),
    )


def test_children_are_read() -> None:
    scenario = read_one(
        "children:\n"
        "  c1: {model: [{text: found}]}\n"
        "  c2: {model: [], model_rest: {text: more}, tools: {look: {effect: read_only}}}\n"
    )
    assert scenario.children == {
        "c1": world.ChildScript(model=(world.ModelEntry(text="found"),), tools=None),
        "c2": world.ChildScript(
            model=(),
            model_rest=world.ModelEntry(text="more"),
            tools={"look": world.ToolScript(profile=ToolProfile(effect=EffectClass.READ_ONLY))},
        ),
    }


def test_a_start_is_read_however_broken() -> None:
    scenario = read_one(
        "start:\n"
        "  - {role: user, text: hi}\n"
        "  - {role: assistant, text: '', calls: [{id: c1, tool: t}]}\n"
        "  - {role: user, results: [{call: c1, status: error, text: boom}, {call: c9}]}\n"
        "  - {role: user}\n"
    )
    assert scenario.start == (
        world.StartMessage(role=world.Role.USER, text="hi"),
        world.StartMessage(role=world.Role.ASSISTANT, text="", calls=(C1,)),
        world.StartMessage(
            role=world.Role.USER,
            results=(
                world.StartResult(call="c1", status=CallStatus.ERROR, text="boom"),
                world.StartResult(call="c9", status=CallStatus.DONE, text=""),
            ),
        ),
        world.StartMessage(role=world.Role.USER, text=None),
    )


ROLES = (world.Role.USER, world.Role.ASSISTANT)
REQUEST = (
    "{why: nudge, roles: [user, assistant], messages: 3, results: [], contains: [a], lacks: [b], last: c, "
    "tools: [x, y], lacks_tools: [z], max_output_tokens: 9, model: small, forced_tool: finish}"
)
EXPECTATIONS: list[tuple[str, expected.Expectations]] = [
    ("{}", expected.Expectations(open=())),
    ("{trace: [request 1, 'retry in 5000', '* * *']}",
     expected.Expectations(trace=("request 1", "retry in 5000", "* * *"))),
    ("{counts: {request *: 2, tool * started: 0}}",
     expected.Expectations(counts={"request *": 2, "tool * started": 0})),
    ("{never: [refused * stale]}", expected.Expectations(never=("refused * stale",))),
    ("{after: {turn ended *: [request *, tool * started]}}",
     expected.Expectations(after={"turn ended *": ("request *", "tool * started")})),
    ("{together: [[c1, c2]], apart: [[c1, c3], [c2, c3, c4]]}",
     expected.Expectations(together=(("c1", "c2"),), apart=(("c1", "c3"), ("c2", "c3", "c4")))),
    ("{inputs: {c1: {path: a, n: 1}, c2: [], c3: {}}}",
     expected.Expectations(inputs={"c1": {"path": "a", "n": 1}, "c2": [], "c3": {}})),
    ("{at: [{when: ask *, nth: 2, state: Confirming, interaction: [busy, handoff], open: [], queue: 0}]}",
     expected.Expectations(at=(expected.ExpectedMoment(when="ask *", nth=2, state=("Confirming",),
                                                       interaction=("busy", "handoff"), open=(), queue=0),))),
    ("{at: [{when: reply 1 *}]}", expected.Expectations(at=(expected.ExpectedMoment(when="reply 1 *", nth=1),))),
    ("{requests: 0, queue: 0, open: [c1]}", expected.Expectations(requests=0, queue=0, open=("c1",))),
    (f"{{request: {{1: {REQUEST}}}}}",
     expected.Expectations(request={1: expected.ExpectedRequest(
         why=RequestReason.NUDGE, roles=ROLES, messages=3, results=(), contains=("a",), lacks=("b",), last=("c",),
         tools=frozenset({"x", "y"}), lacks_tools=("z",), max_output_tokens=9, model="small",
         forced_tool="finish")})),
    ("{request: {2: {max_output_tokens: none, forced_tool: none, tools: []}, 3: {}}}",
     expected.Expectations(request={2: expected.ExpectedRequest(max_output_tokens="none", forced_tool="none",
                                                                tools=frozenset()),
                                    3: expected.ExpectedRequest()})),
    ("{results: {c1: done, c2: {status: cancelled, reason: user:cancelled, contains: not run, lacks: [x, y],"
     " ran: false, runs: 0}, c3: {ran: true}}}",
     expected.Expectations(results={
         "c1": expected.ExpectedResult(status=CallStatus.DONE),
         "c2": expected.ExpectedResult(status=CallStatus.CANCELLED, reason="user:cancelled",
                                       contains=("not run",), lacks=("x", "y"), ran=False, runs=0),
         "c3": expected.ExpectedResult(ran=True)})),
    ("{thread: {roles: [user, assistant], messages: 2, contains: [a], lacks: [b]}}",
     expected.Expectations(thread=expected.ExpectedThread(roles=ROLES, messages=2, contains=("a",),
                                                          lacks=("b",)))),
    ("{state: Idle, interaction: user-message-reply, reason: model_stop}",
     expected.Expectations(state=("Idle",), interaction=("user-message-reply",), reason=("model_stop",))),
    ("{state: [Idle, Done], interaction: [busy], reason: [error, handed_off]}",
     expected.Expectations(state=("Idle", "Done"), interaction=("busy",), reason=("error", "handed_off"))),
    ("{usage: {input: 5}}", expected.Expectations(usage=expected.ExpectedUsage(input=5, output=None))),
    ("{elapsed_ms: 50}", expected.Expectations(elapsed_ms=expected.ExpectedTime(min_ms=50, max_ms=50))),
    ("{elapsed_ms: {min: 5, max: 9}}",
     expected.Expectations(elapsed_ms=expected.ExpectedTime(min_ms=5, max_ms=9))),
    ("{elapsed_ms: {max: 9}}", expected.Expectations(elapsed_ms=expected.ExpectedTime(max_ms=9))),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), EXPECTATIONS)
def test_an_expectation_is_read(written: str, meant: expected.Expectations) -> None:
    assert read_one(f"expect: {written}").expect == meant


@pytest.mark.parametrize("status", ["done", "error", "cancelled", "rejected-by-user", "unknown", "lost"])
def test_every_terminal_status_is_known(status: str) -> None:
    expect = read_one(f"expect: {{results: {{c1: {status}}}}}").expect
    assert expect.results["c1"].status == CallStatus(status)


def test_every_request_reason_is_known() -> None:
    for why in RequestReason:
        expect = read_one(f"expect: {{request: {{1: {{why: {why.value}}}}}}}").expect
        assert expect.request[1].why is why
