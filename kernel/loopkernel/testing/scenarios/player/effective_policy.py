"""The policy that a scenario runs under: a preset and the options that replace parts of it; and a policy as options."""

import enum
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import attrs

from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.policy import ApprovalRule, Compaction, FieldPattern, Hook, Policy, ResourcePattern
from loopkernel.data.words import HookPoint
from loopkernel.presets import preset
from loopkernel.testing.scenarios.data.scenario import PolicyChoice
from loopkernel.testing.scenarios.data.world import JsonValue

_KEEPS = ("keep_turns", "keep_messages", "keep_ratio")


def effective_policy(choice: PolicyChoice) -> Policy:
    """The preset with the options put in place. Raises PolicyError when the outcome cannot hold.

    In scenarios, tools without a profile are allowed unless the policy says otherwise.
    """
    wanted = {field.name: field.type for field in attrs.fields(Policy)}
    changes: dict[str, Any] = {}  # Any: each value has the type of its own option, which no single type says
    changes["no_profile_approval"] = NoProfileApproval.ALLOW
    for name, value in choice.options.items():
        if name == "hooks":
            changes[name] = _hooks(value)
        else:
            changes[name] = _typed(value, wanted[name])
    return attrs.evolve(preset(choice.preset), **changes)


def _typed(value: JsonValue, wanted: object) -> object:
    """The value of a document as the policy wants it: words as choices, lists as tuples, mappings as parts.

    Keys that a mapping does not give have the values of the `default` preset, which are the parts' defaults.
    """
    for kind in (wanted, *get_args(wanted)):
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and isinstance(value, str):
            return kind(value)
    if get_origin(wanted) is tuple:
        return _tuple(value, get_args(wanted)[0])
    if isinstance(value, dict):
        return _part(value, next(kind for kind in (wanted, *get_args(wanted)) if attrs.has(kind)))
    if type(value) is int and float in (wanted, *get_args(wanted)):
        return float(value)
    return value


def _tuple(value: JsonValue, wanted: object) -> tuple[object, ...]:
    if isinstance(value, dict):  # patterns over input fields
        return tuple(FieldPattern(name, str(pattern)) for name, pattern in value.items())
    assert isinstance(value, list), "the reader gives a list for each option that is a list"
    return tuple(_typed(item, wanted) for item in value)


def _part(given: Mapping[str, JsonValue], kind: type[attrs.AttrsInstance]) -> object:
    """A part of the policy. One `keep_*` of a compaction drops the others."""
    if kind is Compaction and any(keep in given for keep in _KEEPS):
        given = {**dict.fromkeys(_KEEPS), **given}
    wanted = {field.name: field.type for field in attrs.fields(kind)}
    return kind(**{name: _typed(value, wanted[name]) for name, value in given.items()})


def _hooks(value: JsonValue) -> tuple[Hook, ...]:
    """The hooks of all points: `off`, one hook named after its point, or those of a list."""
    assert isinstance(value, dict), "the reader gives a mapping of points"
    hooks: list[Hook] = []
    for name, asked in value.items():
        point = HookPoint(name)
        for one in asked if isinstance(asked, list) else []:
            assert isinstance(one, dict), "the reader gives a mapping for each hook"
            hooks.append(Hook(point=point, name=str(one["name"]), gated=one.get("gated") is True))
        if asked in ("observed", "gated"):
            hooks.append(Hook(point=point, name=name, gated=asked == "gated"))
    return tuple(hooks)


# --- and the other way ------------------------------------------------------------------------------------


def choice_for(policy: Policy) -> PolicyChoice:
    """The options in which the policy differs from what a scenario has by itself. Hooks are left out."""
    usual = Policy(no_profile_approval=NoProfileApproval.ALLOW)
    return PolicyChoice(preset="default", options=_differing(policy, usual, "hooks"))


def _differing(value: object, usual: object, *left_out: str) -> dict[str, JsonValue]:
    """The fields of an attrs object that are not as in another of its class."""
    found: dict[str, JsonValue] = {}
    for field in attrs.fields(type(value)):  # type: ignore[arg-type]  # a policy, or a part of one: attrs classes
        mine = getattr(value, field.name)
        if mine == getattr(usual, field.name) or field.name in left_out:
            continue
        if mine is None and field.name.startswith("keep_"):
            continue  # another measure of what is kept is given instead
        found[field.name] = _option(mine)
    return found


def _option(value: object) -> JsonValue:
    """A part of a policy as the document has it."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, ApprovalRule):
        fields: dict[str, JsonValue] = {part.field: part.pattern for part in value.input}
        about: dict[str, JsonValue] = {"resources": _option(value.resources)} if value.resources else {}
        return {"decision": value.decision.value, "tool": value.tool, "input": fields, **about}
    if isinstance(value, ResourcePattern):
        return {"pattern": value.pattern, **({} if value.mode is None else {"mode": value.mode.value})}
    if isinstance(value, tuple):
        return [_option(part) for part in value]
    return _differing(value, type(value)())
