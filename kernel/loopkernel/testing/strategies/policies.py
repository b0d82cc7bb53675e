"""Strategies for policies: every option, valid by construction, the default first."""

from contextlib import suppress
from typing import Any, get_args

from attrs import evolve, fields
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data import choices
from loopkernel.data.errors import PolicyError
from loopkernel.data.json_text import Json
from loopkernel.data.policy import (
    RETRYABLE,
    ROOM_FOR_PATH,
    ApprovalRule,
    ChildLimits,
    ClearResults,
    Compaction,
    CourseCorrection,
    FieldPattern,
    Hook,
    LoopTiers,
    OnRestart,
    Policy,
    Prices,
    ResourcePattern,
    ResultLimit,
    Retry,
    Truncation,
)
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.data.words import ErrorClass, HookPoint
from loopkernel.testing.strategies.values import json_texts, models, names, raw_texts, resource_keys

_small = st.integers(0, 5)
_positive = st.integers(1, 5)
_tiers = st.none() | st.integers(2, 5)
_amounts = st.sampled_from((0.0, 0.5, 1.0, 3.75)) | st.floats(0, 100, allow_nan=False)
_prices = st.just(1_000_000.0) | _amounts  # a dollar a token, so that small runs reach what they may cost
_ratios = st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0, 1, allow_nan=False)

field_patterns: SearchStrategy[FieldPattern] = st.builds(
    FieldPattern, st.just("path") | raw_texts, st.sampled_from(("*", "a*", "a", "**")) | raw_texts
)
resource_patterns: SearchStrategy[ResourcePattern] = st.builds(
    ResourcePattern, st.sampled_from(("*", "a*", "a", "a/", ".")), st.none() | st.sampled_from(AccessMode)
)
approval_rules: SearchStrategy[ApprovalRule] = st.builds(
    ApprovalRule,
    decision=st.sampled_from(Decision),
    tool=st.just("*") | names,
    input=st.lists(field_patterns, max_size=1).map(tuple),
    resources=st.just(()) | st.lists(resource_patterns, max_size=1).map(tuple),
)
remembered: SearchStrategy[Remembered] = st.one_of(
    st.builds(RememberedTool, names),
    st.builds(RememberedCall, names, json_texts | resource_keys.map(lambda key: Json.of({"path": key}))),
    st.builds(RememberedPattern, names, st.lists(field_patterns, max_size=1).map(tuple)),
)
prices: SearchStrategy[Prices] = st.builds(Prices, input=_prices, output=_prices)
truncations: SearchStrategy[Truncation] = st.builds(
    Truncation,
    escalate_to=st.lists(_positive, max_size=2).map(tuple),
    continuations=_small,
    then=st.sampled_from(choices.TruncationEnd),
    calls=st.sampled_from(choices.TruncatedCalls),
)
retries: SearchStrategy[Retry] = st.builds(
    Retry,
    base_ms=_small,
    factor=st.sampled_from((1, 2, 1.5)),
    cap_ms=_small,
    retries=_small,
    jitter_ms=_small,
    classes=st.just(RETRYABLE) | st.lists(st.sampled_from(ErrorClass), unique=True, max_size=2).map(tuple),
    unstreamed=st.sampled_from(((), RETRYABLE)) | st.lists(st.sampled_from(ErrorClass), max_size=1).map(tuple),
)
loop_tiers: SearchStrategy[LoopTiers] = st.builds(
    LoopTiers, note=_tiers, disable=_tiers, disable_turns=_positive, stop=_tiers, window=st.integers(2, 5)
)


@st.composite
def compactions(draw: DrawFn) -> Compaction:
    """A way to make the thread smaller, with exactly one measure of what is kept."""
    measure = draw(st.sampled_from(("keep_turns", "keep_messages", "keep_ratio")))
    keeps: dict[str, Any] = {"keep_turns": None}  # Any: a count or a ratio, by name
    keeps[measure] = draw(_ratios if measure == "keep_ratio" else _positive)
    strategy = draw(st.sampled_from(choices.CompactionStrategy))
    moments = list(choices.CompactionMoment)
    if strategy is choices.CompactionStrategy.SUMMARISE:
        moments.remove(choices.CompactionMoment.TURN_END)
    return Compaction(
        strategy=strategy,
        window_tokens=draw(_positive),
        trigger_ratio=draw(st.none() | _ratios),
        trigger_tokens=draw(st.none() | _positive),
        when=draw(st.sampled_from(moments)),
        failures=draw(_positive),
        cooldown_ms=draw(_small),
        shorten_results=draw(st.none() | _small),
        **keeps,
    )


@st.composite
def result_limits(draw: DrawFn) -> ResultLimit:
    """Head and tail that fit into the limit."""
    head, tail, preview = draw(_small), draw(_small), draw(_small)
    oversize = draw(st.sampled_from(choices.Oversize))
    room = 2 * preview + ROOM_FOR_PATH if oversize is choices.Oversize.SPILL else 0
    chars = max(head + tail, room) + draw(_small)
    return ResultLimit(chars=chars, head=head, tail=tail, oversize=oversize, preview=preview)


clear_results: SearchStrategy[ClearResults] = st.builds(
    ClearResults, above=_small, keep=_small, when=st.sampled_from(choices.ClearMoment)
)
_can_be_gated = st.sampled_from([point for point in HookPoint if point.can_be_gated])
hooks: SearchStrategy[Hook] = st.one_of(
    st.builds(Hook, point=_can_be_gated, name=names, gated=st.booleans()),
    st.builds(Hook, point=st.sampled_from(HookPoint), name=names),
)
course_corrections: SearchStrategy[CourseCorrection] = st.builds(
    CourseCorrection, after_calls=_small, after_writes=_small
)
child_limits: SearchStrategy[ChildLimits] = st.builds(
    ChildLimits,
    max_turns=st.none() | _positive,
    max_output_tokens=st.none() | _positive,
    timeout_ms=st.none() | _small,
    depth=_small,
)
restarts: SearchStrategy[OnRestart] = st.builds(
    OnRestart,
    read_only=st.sampled_from(choices.RestartSafe),
    idempotent=st.sampled_from(choices.RestartSafe),
    dangerous=st.sampled_from(choices.RestartDangerous),
    child=st.sampled_from(choices.RestartChild),
)


def _by_type(name: str, annotation: Any) -> SearchStrategy[Any]:  # Any: a type or a union of types
    """The values of an option whose type says it all: words, yes or no, and small numbers from the least it takes."""
    if type(None) in get_args(annotation):
        (kind,) = (one for one in get_args(annotation) if one is not type(None))
        return st.none() | _by_type(name, kind)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(_least(name), 5)
    return st.sampled_from(annotation)


def _least(name: str) -> int:
    """The least number that the option takes."""
    for number in range(5):
        with suppress(PolicyError):
            Policy(**{name: number})  # type: ignore[arg-type]  # only called where it is a number
            return number
    raise AssertionError(f"{name} takes no small number: say in WITHIN what it takes")


# What cannot be told from the type of the option alone.
WITHIN: dict[str, SearchStrategy[Any]] = {  # Any: each option has a type of its own; the constructor checks the value
    "model": models,
    "fallback_models": st.lists(models, max_size=2).map(tuple),
    "max_cost_usd": st.none() | _amounts,
    "prices": prices,
    "on_truncation": truncations,
    "retry": st.none() | retries,
    "loop": st.none() | loop_tiers,
    "compaction": st.none() | compactions(),
    "clear_results": st.none() | clear_results,
    "result_limit": st.none() | result_limits(),
    "approval_rules": st.lists(approval_rules, max_size=2).map(tuple),
    "output_tool": st.none() | names,
    "hooks": st.lists(hooks, max_size=4).map(tuple),
    "course_correction": st.none() | course_corrections,
    "child": child_limits,
    "on_restart": restarts,
    "seed": st.integers(0, 2**40),
}
OPTIONS: dict[str, SearchStrategy[Any]] = {  # Any: as in WITHIN
    option.name: WITHIN[option.name] if option.name in WITHIN else _by_type(option.name, option.type)
    for option in fields(Policy)
}

# What decides how the phases that run today go on; the schedule is drawn apart, each as often as any other.
RUNNING_OPTIONS = tuple(name for name in OPTIONS if name not in ("model", "prices", "schedule"))

# What decides how a run goes on that is watched over by hooks, corrected, compacted and helped by sub-agents.
CARE_OPTIONS = (
    "lifetime",
    "max_turns",
    "max_total_tokens",
    "max_wall_ms",
    "retry",
    "clear_results",
    "hooks",
    "hook_failure",
    "hook_timeout_ms",
    "stop_hook_limit",
    "course_correction",
    "compaction",
    "child",
    "on_restart",
    "on_busy",
    "approval_mode",
    "seed",
)

# What decides how a run that fails, repeats itself or spends too much goes on.
ENDURANCE_OPTIONS = (
    "lifetime",
    "fallback_models",
    "max_turns",
    "max_total_tokens",
    "max_tool_calls",
    "max_wall_ms",
    "max_reply_chars",
    "max_cost_usd",
    "max_output_tokens",
    "on_truncation",
    "retry",
    "retry_after_cap_ms",
    "errors",
    "on_error",
    "on_broken_stream",
    "missing_call_retries",
    "silence_ms",
    "loop",
    "clear_results",
    "run_calls",
    "early_start",
    "seed",
)


@st.composite
def policies(draw: DrawFn, options: tuple[str, ...] = tuple(OPTIONS), most: int = 5) -> Policy:
    """A policy that leaves the default in at most `most` of the options."""
    values: dict[str, Any] = {}  # Any: as in WITHIN
    # An option and its value are drawn one after the other, so that shrinking can take both out at once.
    while len(values) < min(most, len(options)) and draw(st.integers(0, most)):
        name = draw(st.sampled_from(options))
        values[name] = draw(OPTIONS[name])
    if values.get("output_required") and values.get("output_tool") is None:
        values["output_tool"] = draw(names)
    if values.get("max_cost_usd") is not None:
        values["prices"] = draw(prices.filter(lambda drawn: bool(drawn.input or drawn.output)))
    return Policy(**values)


# Policies that decide how runs go, under each schedule as often as under any other.
running_policies: SearchStrategy[Policy] = st.builds(
    evolve,
    policies(RUNNING_OPTIONS, most=8) | policies(ENDURANCE_OPTIONS, most=8) | policies(CARE_OPTIONS, most=8),
    schedule=st.sampled_from(choices.Schedule),
)
