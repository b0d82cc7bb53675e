"""The policy of a scenario: a preset and options, every key name and every value shape checked."""

import enum

from loopkernel.data import choices
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.data.words import ErrorClass, HookPoint
from loopkernel.testing.scenarios.data.scenario import PolicyChoice
from loopkernel.testing.scenarios.data.world import JsonValue
from loopkernel.testing.scenarios.format.fields import (
    Decoder,
    Fields,
    Place,
    flag,
    integer,
    many_or_none,
    number,
    or_none,
    table,
    text,
    word,
)
from loopkernel.testing.scenarios.format.nodes import Mapping, Node, Scalar

Options = dict[str, Decoder[JsonValue]]

PRESETS = ("default", "amp", "amodal", "claude", "strands", "calls")


def _choice(kind: type[enum.Enum]) -> Decoder[JsonValue]:
    """The word of a choice, kept as text."""
    return word(*(str(one.value) for one in kind))


def _list_of(decode: Decoder[JsonValue]) -> Decoder[JsonValue]:
    decode_list = many_or_none(decode)
    return lambda node, place: list(decode_list(node, place))


def _nested(options: Options, *required: str) -> Decoder[JsonValue]:
    """A mapping of these keys; those that are not given are left out."""

    def decode(node: Node, place: Place) -> JsonValue:
        fields = Fields(node, place)
        value = _given(fields, options)
        for key in required:
            fields.demand(key)
        fields.finish()
        return value

    return decode


def _given(fields: Fields, options: Options) -> dict[str, JsonValue]:
    values = {key: fields.optional(key, decode, None) for key, decode in options.items()}
    return {key: value for key, value in values.items() if fields.has(key)}


def _patterns(node: Node, place: Place) -> JsonValue:
    """Patterns over input fields."""
    return dict(table(text, text)(node, place))


def _resource_pattern(node: Node, place: Place) -> JsonValue:
    """`{pattern, mode}`, or the pattern alone."""
    if isinstance(node, Scalar):
        return {"pattern": text(node, place)}
    return _nested({"pattern": text, "mode": _choice(AccessMode)}, "pattern")(node, place)


def _hooks_at_a_point(node: Node, place: Place) -> JsonValue:
    """`off`, `observed`, `gated`, or a list of hooks by name."""
    if isinstance(node, Scalar):
        return word("off", "observed", "gated")(node, place)
    return _list_of(_nested({"name": text, "gated": flag}, "name"))(node, place)


_WHOLE: Decoder[JsonValue] = integer()
_LIMIT: Decoder[JsonValue] = or_none(integer())
_AMOUNT: Decoder[JsonValue] = or_none(number)

RULE: Options = {
    "decision": _choice(Decision),
    "tool": text,
    "input": _patterns,
    "resources": _list_of(_resource_pattern),
}

_TRUNCATION: Options = {
    "escalate_to": _list_of(_WHOLE),
    "continuations": _WHOLE,
    "then": _choice(choices.TruncationEnd),
    "calls": _choice(choices.TruncatedCalls),
}
_RETRY: Options = {
    "base_ms": _WHOLE,
    "factor": number,
    "cap_ms": _WHOLE,
    "retries": _WHOLE,
    "jitter_ms": _WHOLE,
    "classes": _list_of(word(*(one.value for one in ErrorClass if one is not ErrorClass.MAX_TOKENS))),
}
_COMPACTION: Options = {
    "strategy": _choice(choices.CompactionStrategy),
    "window_tokens": _WHOLE,
    "trigger_ratio": _AMOUNT,
    "trigger_tokens": _LIMIT,
    "keep_turns": _LIMIT,
    "keep_messages": _LIMIT,
    "keep_ratio": _AMOUNT,
    "when": _choice(choices.CompactionMoment),
    "failures": _WHOLE,
    "cooldown_ms": _WHOLE,
}
_RESTART: Options = {
    "read_only": _choice(choices.RestartSafe),
    "idempotent": _choice(choices.RestartSafe),
    "dangerous": _choice(choices.RestartDangerous),
    "child": _choice(choices.RestartChild),
}

OPTIONS: Options = {
    "lifetime": _choice(choices.Lifetime),
    "max_turns": _LIMIT,
    "max_total_tokens": _LIMIT,
    "max_tool_calls": _LIMIT,
    "max_wall_ms": _LIMIT,
    "turn_limit_counts": _choice(choices.TurnLimitCounts),
    "max_cost_usd": _AMOUNT,
    "prices": _nested({"input": number, "output": number}),
    "schedule": _choice(choices.Schedule),
    "max_parallel": _LIMIT,
    "early_start": _choice(choices.EarlyStart),
    "no_profile": _choice(choices.NoProfile),
    "no_profile_approval": _choice(choices.NoProfileApproval),
    "write_conflict": _choice(choices.WriteConflict),
    "run_calls": _choice(choices.RunCalls),
    "on_reject": _choice(choices.OnReject),
    "on_tool_failure": _choice(choices.OnToolFailure),
    "on_busy": _choice(choices.OnBusy),
    "queue_limit": _WHOLE,
    "max_output_tokens": _LIMIT,
    "max_reply_chars": _LIMIT,
    "on_truncation": _nested(_TRUNCATION),
    "retry": or_none(_nested(_RETRY)),
    "retry_after_cap_ms": _WHOLE,
    "fallback_models": _list_of(text),
    "errors": _choice(choices.ErrorDisplay),
    "on_error": _choice(choices.OnError),
    "silence_ms": _LIMIT,
    "tool_timeout_ms": _LIMIT,
    "approval_timeout_ms": _LIMIT,
    "hook_timeout_ms": _LIMIT,
    "loop": or_none(_nested(dict.fromkeys(("note", "disable", "disable_turns", "stop", "window"), _LIMIT))),
    "compaction": or_none(_nested(_COMPACTION)),
    "clear_results": or_none(
        _nested({"above": _WHOLE, "keep": _WHOLE, "when": _choice(choices.ClearMoment)}),
    ),
    "result_limit": or_none(_nested(dict.fromkeys(("chars", "head", "tail", "media_chars"), _WHOLE))),
    "approval_mode": _choice(choices.ApprovalMode),
    "approval_rules": _list_of(_nested(RULE, "decision")),
    "output_tool": or_none(text),
    "output_calls": _choice(choices.OutputCalls),
    "output_required": flag,
    "empty_reply_nudges": _WHOLE,
    "hooks": _nested({point.value: _hooks_at_a_point for point in HookPoint}),
    "hook_failure": _choice(choices.HookFailure),
    "stop_hook_limit": _WHOLE,
    "course_correction": or_none(_nested(dict.fromkeys(("after_calls", "after_writes"), _WHOLE))),
    "child": _nested(
        {"max_turns": _LIMIT, "max_output_tokens": _LIMIT, "timeout_ms": _LIMIT, "depth": _WHOLE},
    ),
    "on_restart": _nested(_RESTART),
}


def policy(node: Node, place: Place) -> PolicyChoice:
    """A preset's name, or a mapping of a preset (`default`, if not given) and options."""
    if not isinstance(node, Mapping):
        return PolicyChoice(preset=word(*PRESETS)(node, place))
    fields = Fields(node, place)
    preset = fields.optional("preset", word(*PRESETS), "default")
    options = _given(fields, OPTIONS)
    fields.finish()
    return PolicyChoice(preset=preset, options=options)
