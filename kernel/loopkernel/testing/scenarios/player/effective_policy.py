"""The policy that a scenario runs under: a preset, and the options that replace parts of it."""

import enum
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import attrs

from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.policy import Compaction, FieldPattern, Hook, Policy
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
