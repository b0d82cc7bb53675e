"""What is written is read back as the same: over scenarios of every kind."""

import json
import string
from typing import TypeVar, get_args

import yaml
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import Redaction
from loopkernel.data.policy import ApprovalRule, FieldPattern
from loopkernel.data.remembered import RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, FixedResource, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.words import (
    OPEN_STATUSES,
    CallStatus,
    ErrorClass,
    HookPoint,
    RequestReason,
    StopReason,
    TurnEndReason,
)
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data import expectations as expected
from loopkernel.testing.scenarios.data.marks import INTERACTIONS, STATES
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.policy import PRESETS
from loopkernel.testing.scenarios.format.special import ACTIONS as ACTION_WORDS
from loopkernel.testing.scenarios.format.writer import write_scenarios

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["none", "true", "~", "1_0", "07", "1e3", "12:30", "on", "* a", "a: b", "a #b", "<<", "=", " a ", "x\n\ny\n"]
)
NAMES = st.text(alphabet=string.ascii_letters + string.digits + "/:-_é", min_size=1, max_size=6).filter(
    lambda name: name != "all"
)
LINES = st.lists(NAMES | st.just("*"), min_size=1, max_size=4).map(" ".join)
COUNTS = st.integers(0, 10**6)
POSITIVE = st.integers(1, 99)
FLAGS = st.booleans()
JSON = st.recursive(
    st.none() | FLAGS | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


T = TypeVar("T")


def few(one: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(one, max_size=2).map(tuple)


def named(one: st.SearchStrategy[T], names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[dict[str, T]]:
    return st.dictionaries(names, one, max_size=2)


def maybe(one: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | one


RESOURCES = st.builds(FieldResource, TEXTS, st.sampled_from(AccessMode)) | st.builds(
    FixedResource, TEXTS, st.sampled_from(AccessMode)
)
PROFILES = st.builds(
    ToolProfile,
    effect=st.sampled_from(EffectClass),
    serial=FLAGS,
    resources=few(RESOURCES),
    approval=st.sampled_from(Decision),
    timeout_ms=maybe(COUNTS),
    child=FLAGS,
    early=FLAGS,
    polling=FLAGS,
)
BEHAVIOURS = st.builds(
    world.Behaviour,
    takes_ms=COUNTS,
    outcome=st.builds(world.ToolReturns, TEXTS) | st.builds(world.ToolFails, TEXTS) | st.just(world.ToolHangs()),
    progress=few(st.builds(world.Progress, COUNTS, TEXTS)),
    final=FLAGS,
    stops_loop=FLAGS,
    ignores_abort=FLAGS,
    asks=maybe(st.builds(world.ToolQuestion, COUNTS, TEXTS)),
    background=FLAGS,
)
TOOLS = st.builds(
    world.ToolScript,
    profile=maybe(PROFILES),
    input_schema=FLAGS | st.dictionaries(TEXTS, JSON, max_size=2),
    behaviour=BEHAVIOURS,
    runs=few(BEHAVIOURS),
    calls=named(BEHAVIOURS),
)
USAGE = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS)


@st.composite
def calls(draw: st.DrawFn) -> world.ScriptedCall:
    name = draw(NAMES)
    raw = draw(maybe(TEXTS))
    return world.ScriptedCall(
        id=draw(st.just(name) | TEXTS.filter(lambda text: text.split() != [text])),
        name=name,
        tool=draw(TEXTS),
        input=draw(JSON) if raw is None else {},
        raw=raw,
        after=draw(few(NAMES)),
    )


ENDINGS = (
    st.builds(world.ModelCompletes, st.sampled_from(StopReason))
    | st.builds(
        world.ModelFails, st.sampled_from(sorted(set(ErrorClass) - {ErrorClass.MAX_TOKENS}, key=str)), maybe(COUNTS)
    )
    | st.just(world.ModelHangs())
    | st.just(world.ModelEndsEarly())
)


REDACTIONS = st.builds(Redaction, maybe(TEXTS), maybe(TEXTS))


@st.composite
def entries(draw: st.DrawFn) -> world.ModelEntry:
    made = draw(st.lists(calls(), max_size=3, unique_by=lambda call: call.name))
    names = [call.name for call in made]
    pieces: st.SearchStrategy[world.Piece] = st.builds(world.TextPiece, COUNTS, TEXTS)
    pieces |= st.builds(world.ReasoningPiece, COUNTS, TEXTS)
    pieces |= st.builds(world.UsagePiece, COUNTS, st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS))
    ending = draw(ENDINGS)
    if names:
        pieces |= st.builds(world.CallPiece, COUNTS, st.sampled_from(names))
        if ending == world.ModelCompletes(StopReason.MAX_TOKENS):
            ending = world.ModelCompletes(StopReason.MAX_TOKENS, draw(st.sampled_from([None, *names])))
    by_provider = draw(st.integers(0, len(made)))
    return world.ModelEntry(
        text=draw(TEXTS),
        reasoning=draw(TEXTS),
        calls=tuple(made[by_provider:]),
        server_calls=tuple(made[:by_provider]),
        usage=draw(maybe(USAGE)),
        takes_ms=draw(COUNTS),
        pieces=draw(few(pieces)),
        model_name=draw(maybe(TEXTS)),
        redaction=draw(maybe(REDACTIONS)) if isinstance(ending, world.ModelCompletes) else None,
        ending=ending,
    )


PATTERNS = st.dictionaries(TEXTS, TEXTS, max_size=2).map(
    lambda patterns: tuple(FieldPattern(*pair) for pair in patterns.items())
)
RULES = st.builds(ApprovalRule, decision=st.sampled_from(Decision), tool=TEXTS, input=PATTERNS)
REMEMBERED = (
    st.builds(RememberedTool, TEXTS)
    | st.builds(RememberedCall, TEXTS, JSON.map(Json.of))
    | st.builds(RememberedPattern, TEXTS, PATTERNS)
)
ACTIONS: list[st.SearchStrategy[actions.UserAction]] = [
    st.builds(actions.Say, TEXTS),
    st.builds(actions.Enqueue, TEXTS),
    st.builds(actions.Steer, TEXTS),
    st.builds(actions.Discard, maybe(POSITIVE)),
    st.builds(actions.Edit, POSITIVE, TEXTS),
    st.builds(
        actions.Approve,
        call=NAMES,
        remember=st.sampled_from([None, actions.Remember.CALL, actions.Remember.TOOL]),
        pattern=st.just(()),
    ),
    st.builds(actions.Approve, call=NAMES, remember=st.just(actions.Remember.PATTERN), pattern=PATTERNS),
    st.builds(actions.Reject, call=NAMES, why=maybe(TEXTS)),
    st.builds(actions.Correct, call=NAMES, input=JSON),
    st.builds(actions.Swap, call=NAMES, tool=TEXTS, input=JSON),
    st.builds(actions.Answer, call=NAMES, value=JSON),
    st.builds(actions.AfterCrash, call=NAMES, verdict=st.sampled_from(actions.CrashVerdict), text=maybe(TEXTS)),
    st.builds(actions.Cancel, maybe(NAMES)),
    st.just(actions.RetryNow()),
    st.just(actions.DismissError()),
    st.just(actions.CompactNow()),
    st.builds(actions.ChangeMode, st.sampled_from(ApprovalMode)),
    st.builds(actions.Permit, RULES),
    st.builds(actions.Forget, st.none() | REMEMBERED),
    st.builds(actions.StartHandoff, TEXTS),
    st.builds(actions.ReportAgain, LINES),
    st.builds(actions.Crash, down_ms=COUNTS),
    st.just(actions.Dispose()),
    st.just(actions.Fork()),
    st.builds(actions.ChangeTools, named(maybe(TOOLS), TEXTS)),
]
TIMINGS = st.builds(actions.At, COUNTS) | st.builds(actions.When, pattern=LINES, nth=POSITIVE, after_ms=COUNTS)
REPLIES = st.builds(
    world.HookReplies,
    answer=st.sampled_from(world.HookAnswerKind),
    why=maybe(TEXTS),
    input=JSON,
    result=maybe(TEXTS),
    text=maybe(TEXTS),
)
HOOKS = st.builds(
    world.HookScript,
    point=st.sampled_from(HookPoint),
    call=maybe(NAMES),
    takes_ms=COUNTS,
    outcome=REPLIES | st.builds(world.HookFails, TEXTS) | st.just(world.HookHangs()),
)
SUMMARIES = st.builds(
    world.SummaryScript,
    outcome=st.builds(world.SummaryText, TEXTS, maybe(USAGE)) | st.builds(world.SummaryFails, TEXTS),
    takes_ms=COUNTS,
)
HANDOFFS = st.builds(
    world.HandoffScript,
    outcome=st.builds(world.HandoffDone, TEXTS) | st.builds(world.HandoffFails, TEXTS),
    takes_ms=COUNTS,
)
STATUSES = st.sampled_from(sorted(set(CallStatus) - OPEN_STATUSES, key=str))
ROLES = maybe(few(st.sampled_from(world.Role)))
MESSAGES = st.builds(
    world.StartMessage,
    role=st.sampled_from(world.Role),
    text=maybe(TEXTS),
    calls=few(calls()),
    results=few(st.builds(world.StartResult, call=NAMES, status=STATUSES, text=TEXTS)),
)
ALLOWED_STATES = few(st.sampled_from(STATES))
ALLOWED_INTERACTIONS = few(st.sampled_from(INTERACTIONS))
GROUPS = few(st.lists(NAMES, min_size=2, max_size=3).map(tuple))
EXPECTED_TIMES = st.tuples(maybe(COUNTS), maybe(COUNTS)).map(
    lambda bounds: expected.ExpectedTime(
        min_ms=bounds[0],
        max_ms=None if bounds[1] is None else bounds[1] + (bounds[0] or 0),
    )
)
EXPECTATIONS = st.builds(
    expected.Expectations,
    trace=few(LINES),
    counts=named(COUNTS, LINES),
    never=few(LINES),
    after=named(few(LINES), LINES),
    together=GROUPS,
    apart=GROUPS,
    inputs=named(JSON),
    at=few(
        st.builds(
            expected.ExpectedMoment,
            when=LINES,
            nth=POSITIVE,
            state=ALLOWED_STATES,
            interaction=ALLOWED_INTERACTIONS,
            open=maybe(few(NAMES)),
            queue=maybe(COUNTS),
        )
    ),
    requests=maybe(COUNTS),
    request=st.dictionaries(
        POSITIVE,
        st.builds(
            expected.ExpectedRequest,
            why=maybe(st.sampled_from(RequestReason)),
            roles=ROLES,
            messages=maybe(COUNTS),
            results=maybe(few(NAMES)),
            contains=few(TEXTS),
            lacks=few(TEXTS),
            last=few(TEXTS),
            tools=maybe(st.frozensets(TEXTS, max_size=2)),
            lacks_tools=few(TEXTS),
            max_output_tokens=maybe(COUNTS | st.just("none")),
            model=maybe(TEXTS),
            forced_tool=maybe(TEXTS),
        ),
        max_size=2,
    ),
    results=named(
        st.builds(
            expected.ExpectedResult,
            status=maybe(STATUSES),
            reason=maybe(TEXTS),
            contains=few(TEXTS),
            lacks=few(TEXTS),
            ran=maybe(FLAGS),
            runs=maybe(COUNTS),
        )
    ),
    thread=maybe(
        st.builds(expected.ExpectedThread, roles=ROLES, messages=maybe(COUNTS), contains=few(TEXTS), lacks=few(TEXTS))
    ),
    state=ALLOWED_STATES,
    interaction=ALLOWED_INTERACTIONS,
    reason=few(st.sampled_from([reason.value for reason in TurnEndReason])),
    usage=maybe(st.builds(expected.ExpectedUsage, input=maybe(COUNTS), output=maybe(COUNTS))),
    queue=maybe(COUNTS),
    open=few(NAMES),
    elapsed_ms=maybe(EXPECTED_TIMES),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "lifetime": st.sampled_from(["task", "session"]),
        "max_turns": maybe(COUNTS),
        "max_cost_usd": maybe(st.floats(0, 1e9)),
        "retry": maybe(st.fixed_dictionaries({}, optional={"base_ms": COUNTS, "classes": st.just(["server"])})),
        "hooks": st.just({"stop": "off", "before_tool": [{"name": "on", "gated": False}]}),
        "output_required": FLAGS,
        "output_tool": maybe(TEXTS.filter(lambda text: text != "none")),
    },
)
SCENARIOS = st.builds(
    Scenario,
    id=st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True),
    about=TEXTS,
    rules=few(st.sampled_from(["TOOL-7", "ONE-END", "ASK-12", "PAIR"])),
    policy=st.builds(PolicyChoice, preset=st.sampled_from(PRESETS), options=OPTIONS),
    tools=named(TOOLS, TEXTS),
    model=few(entries()),
    model_rest=maybe(entries()),
    user=few(st.builds(actions.TimedAction, timing=TIMINGS, action=st.one_of(ACTIONS))),
    hooks=few(HOOKS),
    summaries=few(SUMMARIES),
    corrections=few(st.builds(world.CorrectionScript, text=maybe(TEXTS), takes_ms=COUNTS)),
    handoffs=few(HANDOFFS),
    children=named(
        st.builds(
            world.ChildScript,
            model=few(entries()),
            model_rest=maybe(entries()),
            tools=maybe(named(TOOLS, TEXTS)),
        )
    ),
    start=few(MESSAGES),
    expect=EXPECTATIONS,
)


@given(st.lists(SCENARIOS, min_size=1, max_size=2, unique_by=lambda scenario: scenario.id))
def test_what_is_written_is_read_back(scenarios: list[Scenario]) -> None:
    assert read_scenarios(write_scenarios(scenarios), "written.yaml") == tuple(scenarios)


@given(st.one_of(ACTIONS), TIMINGS)
def test_every_action_is_read_back(action: actions.UserAction, timing: actions.Timing) -> None:
    scenario = Scenario(id="a", user=(actions.TimedAction(timing=timing, action=action),))
    assert read_scenarios(write_scenarios([scenario]), "written.yaml") == (scenario,)


def test_every_action_has_a_class_and_is_drawn_above() -> None:
    # Approve is drawn in two ways: with a pattern, and without.
    assert len(ACTIONS) - 1 == len(get_args(actions.UserAction)) == len(ACTION_WORDS)


@given(JSON)
def test_json_that_pyyaml_writes_means_the_same_here(value: world.JsonValue) -> None:
    document = yaml.safe_dump({"scenario": "a", "expect": {"inputs": {"c1": value}}})
    (scenario,) = read_scenarios(document, "dumped.yaml")
    assert json.dumps(scenario.expect.inputs["c1"], sort_keys=True) == json.dumps(value, sort_keys=True)
