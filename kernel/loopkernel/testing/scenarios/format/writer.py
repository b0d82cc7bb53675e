"""Writes scenarios as YAML, which `document` reads back as the same. Defaults are left out.

The keys of a document are the field names of the data, except for what the tables and functions below say.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias, assert_never

import attrs
import yaml

from loopkernel.data.policy import FieldPattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data.expectations import ExpectedTime
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario

Document: TypeAlias = dict[str, object]

_RENAMED: dict[tuple[type, str], str] = {
    (Scenario, "id"): "scenario",
    (world.ToolScript, "input_schema"): "input",
    (world.ToolReturns, "text"): "returns",
    (world.ToolFails, "text"): "fails",
    (world.ReasoningPiece, "text"): "reasoning",
    (world.ModelFails, "error_class"): "fails",
    (world.HookFails, "text"): "fails",
    (world.SummaryFails, "text"): "fails",
    (world.HandoffFails, "text"): "fails",
    (actions.At, "ms"): "at",
    (actions.When, "pattern"): "when",
    (actions.AfterCrash, "verdict"): "as",
    (ExpectedTime, "min_ms"): "min",
    (ExpectedTime, "max_ms"): "max",
}
_RARE_BREAK = re.compile("[\r\x85\u2028\u2029]")
_FLAT = frozenset({"outcome", "ending", "behaviour"})  # their keys stand among those of their owner
_NOT_WRITTEN = frozenset({"source", "line"})


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: a value that occurs twice is written twice."""

    @override
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text in the style that fits; a rare line break only survives as an escape between double quotes."""
    style = '"' if _RARE_BREAK.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def write_scenarios(scenarios: Iterable[Scenario]) -> str:
    """The text of a scenario file, one document a scenario."""
    documents = [_fields(scenario) for scenario in scenarios]
    return yaml.dump_all(documents, Dumper=_Dumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=110)


def _plain(value: object) -> object:
    """The value as YAML's own types."""
    match value:
        case enum.Enum():
            return value.value
        case PolicyChoice():
            return {"preset": value.preset, **value.options}
        case world.ScriptedCall():
            return _call(value)
        case world.ToolScript():
            return _tool(value)
        case world.ModelEntry() if value.calls and isinstance(value.ending, world.ModelCompletes):
            return {**_fields(value, "ending"), **_fields(value.ending)}  # with calls, the default is another
        case world.ToolHangs() | world.ModelHangs() | world.HookHangs():
            return {"hangs": True}
        case world.ModelEndsEarly():
            return {"ends": "early"}
        case world.CorrectionScript() if value == world.CorrectionScript():
            return None
        case actions.TimedAction():
            return {**_fields(value.timing), **_action(value.action)}
        case Mapping():
            return {key: _plain(one) for key, one in value.items()}
        case frozenset():
            return sorted(map(str, value))
        case tuple() | list():
            return [_plain(one) for one in value]
        case _:
            return _fields(value) if attrs.has(type(value)) else value


def _fields(value: object, *left_out: str) -> Document:
    """What a frozen class holds, as far as it is not at its defaults."""
    document: Document = {}
    kind = type(value)
    for one in attrs.fields(kind) if attrs.has(kind) else ():
        held = getattr(value, one.name)
        factory = getattr(one.default, "factory", None)
        default = one.default if factory is None else factory()
        if one.name in _NOT_WRITTEN or one.name in left_out or held == default:
            continue
        written = _plain(held)
        if one.name in _FLAT and isinstance(written, dict):
            document |= written
        else:
            document[_RENAMED.get((kind, one.name), one.name)] = written
    return document


def _tool(tool: world.ToolScript) -> Document:
    """A tool; of its runs and calls, what differs from the tool itself."""
    profile = {"profile": "none"} if tool.profile is None else _fields(tool.profile)
    document = {**profile, **_fields(tool, "profile", "runs", "calls")}
    if tool.runs:
        document["runs"] = [_differing(run, tool.behaviour) for run in tool.runs]
    if tool.calls:
        document["calls"] = {call: _differing(run, tool.behaviour) for call, run in tool.calls.items()}
    return document


def _differing(run: world.Behaviour, usual: world.Behaviour) -> Document:
    document: Document = {}
    for one in attrs.fields(world.Behaviour):
        held = getattr(run, one.name)
        if held == getattr(usual, one.name):
            continue
        if one.name == "outcome":
            document |= {"returns": held.text} if isinstance(held, world.ToolReturns) else _outcome(held)
        else:
            document[one.name] = "none" if held is None else _plain(held)
    return document


def _outcome(outcome: world.ToolFails | world.ToolHangs) -> Document:
    return {"fails": outcome.text} if isinstance(outcome, world.ToolFails) else {"hangs": True}


def _call(call: world.ScriptedCall) -> Document:
    document = _fields(call, "name", "input", "raw")
    if call.name != call.id:
        document["as"] = call.name
    return document | ({"input": call.input} if call.raw is None else {"raw": call.raw})


def _patterns(patterns: tuple[FieldPattern, ...]) -> dict[str, str]:
    return {one.field: one.pattern for one in patterns}


def _rule(permit: actions.Permit) -> Document:
    rule = permit.rule
    about = {"resources": _plain(rule.resources)} if rule.resources else {}
    return {"decision": rule.decision.value, "tool": rule.tool, "input": _patterns(rule.input), **about}


def _forgotten(remembered: Remembered | None) -> Document | str:
    match remembered:
        case None:
            return "all"
        case RememberedCall():
            return {"tool": remembered.tool, "input": remembered.input.value()}
        case RememberedTool():
            return {"tool": remembered.tool}
        case RememberedPattern():
            return {"tool": remembered.tool, "pattern": _patterns(remembered.fields)}
        case _:
            assert_never(remembered)


def _approve(approve: actions.Approve) -> Document:
    patterns = {"pattern": _patterns(approve.pattern)} if approve.remember is actions.Remember.PATTERN else {}
    return {**_fields(approve, "pattern"), **patterns}


def _action(action: actions.UserAction) -> Document:
    """The word of the action, and its value."""
    match action:
        case actions.Say(text):
            return {"say": text}
        case actions.Enqueue(text):
            return {"enqueue": text}
        case actions.Steer(text):
            return {"steer": text}
        case actions.Discard(number):
            return {"discard": "all" if number is None else number}
        case actions.Edit():
            return {"edit": _fields(action)}
        case actions.Approve():
            return {"approve": _approve(action)}
        case actions.Reject():
            return {"reject": _fields(action)}
        case actions.Correct():
            return {"correct": _fields(action)}
        case actions.Swap():
            return {"swap": _fields(action)}
        case actions.Answer():
            return {"answer": _fields(action)}
        case actions.AfterCrash():
            return {"after_crash": _fields(action)}
        case actions.Cancel(call):
            return {"cancel": "all" if call is None else call}
        case actions.RetryNow():
            return {"retry": "now"}
        case actions.DismissError():
            return {"dismiss": "error"}
        case actions.CompactNow():
            return {"compact": "now"}
        case actions.ChangeMode(mode):
            return {"mode": mode.value}
        case actions.Permit():
            return {"permit": _rule(action)}
        case actions.Forget(remembered):
            return {"forget": _forgotten(remembered)}
        case actions.StartHandoff(goal):
            return {"handoff": goal}
        case actions.ReportAgain(pattern):
            return {"again": pattern}
        case actions.Crash():
            return {"crash": _fields(action)}
        case actions.Dispose():
            return {"dispose": {}}
        case actions.Fork():
            return {"fork": {}}
        case actions.ChangeTools(tools):
            return {"tools": _plain(tools)}
        case _:
            assert_never(action)
