"""The classes of the format that are not simply a mapping of their fields, and what must hold of several fields."""

import re
from typing import Any, TypeAlias

from attrs import evolve

from loopkernel.data.json_text import Json
from loopkernel.data.policy import FieldPattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import ToolProfile
from loopkernel.data.words import StopReason
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data.expectations import ExpectedTime
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.format.fields import (
    Decoder,
    Fields,
    Place,
    integer,
    is_none,
    json_value,
    many,
    name,
    or_no_keys,
    or_none,
    suggestion,
    table,
    text,
    wants,
    word,
)
from loopkernel.testing.scenarios.format.forms import (
    CHECKS,
    SPECIAL,
    WRITTEN,
    Document,
    Form,
    field_forms,
    form_of,
    read_fields,
    read_record,
    read_variant,
    write_record,
)
from loopkernel.testing.scenarios.format.nodes import Mapping, Node
from loopkernel.testing.scenarios.format.policy import policy

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def _record(kind: type) -> Form:
    return Form(lambda node, place: read_record(kind, node, place), write_record)


# --- tools ------------------------------------------------------------------------------------------------


def _behaviour(usual: world.Behaviour) -> Decoder[world.Behaviour]:
    """How one run goes: what is left out is taken from the tool."""

    def decode(node: Node, place: Place) -> world.Behaviour:
        fields = Fields(node, place)
        behaviour = world.Behaviour(**read_fields(world.Behaviour, fields, usual))
        fields.finish()
        return behaviour

    return decode


def _profile(fields: Fields) -> ToolProfile | None:
    profile = ToolProfile(**read_fields(ToolProfile, fields))
    if not fields.has("profile"):
        return profile
    fields.optional("profile", or_none(word("none")), None)
    for one in field_forms(ToolProfile):
        if fields.has(one.key):
            message = f"`{one.key}` is part of a profile, which `profile: none` denies; drop one"
            fields.place.fault(fields.line, message)
    return None


def _read_tool(node: Node, place: Place) -> world.ToolScript:
    """A tool's profile and behaviour in one mapping."""
    if is_none(node) and or_no_keys(node) is node:
        place.fault(node.line, "write {} for a tool with the default profile, {profile: none} for none")
        return world.ToolScript()
    fields = Fields(or_no_keys(node), place)
    forms = {one.name: one for one in field_forms(world.ToolScript)}
    usual: world.Behaviour = read_variant(forms["behaviour"].variants, fields, world.Behaviour())
    script = world.ToolScript(
        profile=_profile(fields),
        input_schema=fields.optional(forms["input_schema"].key, forms["input_schema"].form.read, {}),
        behaviour=usual,
        runs=fields.optional("runs", many(_behaviour(usual)), ()),
        calls=fields.optional("calls", table(name, _behaviour(usual)), {}),
    )
    fields.finish()
    return script


def _write_tool(tool: world.ToolScript) -> Document:
    """A tool; of its runs and calls, what differs from the tool itself."""
    profile = {"profile": "none"} if tool.profile is None else write_record(tool.profile)
    document = write_record(evolve(tool, profile=ToolProfile(), runs=(), calls={}))
    runs = {"runs": [_differing(run, tool.behaviour) for run in tool.runs]} if tool.runs else {}
    calls = {call: _differing(run, tool.behaviour) for call, run in tool.calls.items()}
    return {**profile, **document, **runs, **({"calls": calls} if calls else {})}


def _differing(run: world.Behaviour, usual: world.Behaviour) -> Document:
    document: Document = {}
    for one in field_forms(world.Behaviour):
        held = getattr(run, one.name)
        if held != getattr(usual, one.name):
            document |= _written_outcome(held) if one.variants else {one.key: one.form.write(held)}
    return document


def _written_outcome(outcome: world.ToolOutcome) -> Document:
    return {"returns": outcome.text} if isinstance(outcome, world.ToolReturns) else write_record(outcome)


# --- the model ----------------------------------------------------------------------------------------------


def _read_call(node: Node, place: Place) -> world.ScriptedCall:
    """A call. The provider's id may be any text if `as` gives the scenario its own name for the call."""
    fields = Fields(node, place)
    fields.given("input", "raw")
    provider_id = fields.required("id", text if fields.has("as") else name, "")
    call = world.ScriptedCall(
        id=provider_id,
        name=fields.optional("as", name, provider_id),
        tool=fields.required("tool", text, ""),
        input=fields.optional("input", json_value, {}),
        raw=fields.optional("raw", text, None),
        after=fields.optional("after", many(name), ()),
    )
    fields.finish()
    return call


def _write_call(call: world.ScriptedCall) -> Document:
    document = write_record(evolve(call, input={}, raw=None))
    named = {} if document.pop("name") == call.id else {"as": call.name}
    return {**document, **named, **({"input": call.input} if call.raw is None else {"raw": call.raw})}


def _check_entry(fields: Fields, entry: world.ModelEntry) -> world.ModelEntry:
    """Pieces and `cut` name calls of the entry, no two of its calls have one name, and with calls it stops for them."""
    ending = entry.ending
    if fields.has("cut") and not (isinstance(ending, world.ModelCompletes) and ending.stop is StopReason.MAX_TOKENS):
        fields.place.fault(fields.line, "`cut` goes with `stop: max_tokens`")
    for key in ("retry_after_ms", "unfinished"):
        if fields.has(key) and not isinstance(ending, world.ModelFails):
            fields.place.fault(fields.line, f"`{key}` goes with `fails`")
    names = [one.name for one in (*entry.calls, *entry.server_calls)]
    for twice in sorted({one for one in names if names.count(one) > 1}):
        fields.place.fault(fields.line, f"two calls are named `{twice}`; rename one of them with `as`")
    named = [piece.call for piece in entry.pieces if isinstance(piece, world.CallPiece)]
    if entry.redaction is not None and not isinstance(ending, world.ModelCompletes):
        fields.place.fault(fields.line, "`redaction` goes with a reply that is complete")
    if isinstance(ending, world.ModelCompletes) and ending.cut is not None:
        named.append(ending.cut)
    for missing in sorted(set(named).difference(names)):
        fields.place.fault(fields.line, f"the call `{missing}` is not defined in `calls` of this entry")
    if entry.calls and isinstance(ending, world.ModelCompletes) and not fields.has("stop"):
        return evolve(entry, ending=evolve(ending, stop=StopReason.TOOL_USE))
    return entry


def _write_entry(entry: world.ModelEntry, document: Document) -> Document:
    """With calls, the default of `stop` is another."""
    always = entry.calls and isinstance(entry.ending, world.ModelCompletes)
    return document | write_record(entry.ending) if always else document


# --- what the others answer ---------------------------------------------------------------------------------


def _read_correction(node: Node, place: Place) -> world.CorrectionScript:
    if is_none(node):
        return world.CorrectionScript()
    script: world.CorrectionScript = read_record(world.CorrectionScript, node, place)
    return script


def _write_correction(script: world.CorrectionScript) -> Document | None:
    return write_record(script) or None


# --- the user -----------------------------------------------------------------------------------------------

ActionClass: TypeAlias = Any  # the class of an action: no type says that each is built from its own fields
# The word of each action. One with a single field that has no name there is written as that value alone.
ACTIONS: dict[str, ActionClass] = {
    "say": actions.Say,
    "enqueue": actions.Enqueue,
    "steer": actions.Steer,
    "discard": actions.Discard,
    "edit": actions.Edit,
    "approve": actions.Approve,
    "reject": actions.Reject,
    "correct": actions.Correct,
    "swap": actions.Swap,
    "answer": actions.Answer,
    "after_crash": actions.AfterCrash,
    "cancel": actions.Cancel,
    "retry": actions.RetryNow,
    "dismiss": actions.DismissError,
    "compact": actions.CompactNow,
    "mode": actions.ChangeMode,
    "permit": actions.Permit,
    "forget": actions.Forget,
    "handoff": actions.StartHandoff,
    "again": actions.ReportAgain,
    "crash": actions.Crash,
    "dispose": actions.Dispose,
    "fork": actions.Fork,
    "tools": actions.ChangeTools,
}
_ONLY_WORDS: dict[type, str] = {actions.RetryNow: "now", actions.DismissError: "error", actions.CompactNow: "now"}
_WORD_OF = {kind: word for word, kind in ACTIONS.items()}


def _action(kind: ActionClass) -> Form:
    """What stands behind the word of the action."""
    if kind in _ONLY_WORDS:
        only = word(_ONLY_WORDS[kind])
        return Form(lambda node, place: (only(node, place), kind())[1], lambda _: _ONLY_WORDS[kind])
    forms = field_forms(kind)
    if len(forms) == 1 and not forms[0].attribute.kw_only:
        (one,) = forms
        return Form(
            lambda node, place: kind(one.form.read(node, place)),
            lambda action: one.form.write(getattr(action, one.name)),
        )
    bare = all(not one.required for one in forms)
    return Form(lambda node, place: read_record(kind, or_no_keys(node) if bare else node, place), write_record)


def _check_approval(fields: Fields, approve: actions.Approve) -> actions.Approve:
    if (approve.remember is actions.Remember.PATTERN) != fields.has("pattern"):
        fields.place.fault(fields.line, "`remember: pattern` and `pattern` go together; give both or neither")
    return approve


def _write_approval(approve: actions.Approve, document: Document) -> Document:
    document.pop("pattern", None)
    by_pattern = approve.remember is actions.Remember.PATTERN
    return document | ({"pattern": SPECIAL[_PATTERNS].write(approve.pattern)} if by_pattern else {})


def _read_remembered(node: Node, place: Place) -> Remembered:
    """What was remembered: a tool, and its input or a pattern."""
    fields = Fields(node, place)
    tool = fields.required("tool", text, "")
    kind = fields.given("input", "pattern")
    given: Json = fields.optional("input", form_of(Json).read, Json.of(None))
    parts = fields.optional("pattern", SPECIAL[_PATTERNS].read, ())
    fields.finish()
    if kind is None:
        return RememberedTool(tool)
    return RememberedCall(tool, given) if kind == "input" else RememberedPattern(tool, parts)


def _write_remembered(remembered: Remembered) -> Document:
    match remembered:
        case RememberedCall(tool, given):
            return {"tool": tool, "input": given.value()}
        case RememberedPattern(tool, parts):
            return {"tool": tool, "pattern": SPECIAL[_PATTERNS].write(parts)}
        case RememberedTool(tool):
            return {"tool": tool}


def _read_timed(node: Node, place: Place) -> actions.TimedAction:
    """A time, 0 if it is left out, and exactly one action."""
    fields = Fields(node, place)
    timing: actions.Timing = read_variant((actions.At, actions.When), fields, actions.At(0))
    if isinstance(timing, actions.At) and (fields.has("nth") or fields.has("after_ms")):
        fields.place.fault(fields.line, "`nth` and `after_ms` go with `when`")
    kind = fields.given(*ACTIONS)
    action: actions.UserAction = actions.Dispose()
    for key, action_class in ACTIONS.items():
        action = fields.optional(key, _action(action_class).read, action)
    if fields.finish() and kind is None and not fields.broken:
        place.fault(node.line, f"no action here; {suggestion('', ACTIONS)}")
    return actions.TimedAction(timing=timing, action=action)


def _write_timed(timed: actions.TimedAction) -> Document:
    kind = type(timed.action)
    timing = {"at": timed.timing.ms} if isinstance(timed.timing, actions.At) else write_record(timed.timing)
    return {**timing, _WORD_OF[kind]: _action(kind).write(timed.action)}


# --- what is expected, and the whole --------------------------------------------------------------------------


def _read_time(node: Node, place: Place) -> ExpectedTime:
    """A number of milliseconds, or bounds."""
    if not isinstance(node, Mapping):
        exact = integer()(node, place)
        return ExpectedTime(min_ms=exact, max_ms=exact)
    elapsed: ExpectedTime = read_record(ExpectedTime, node, place)
    if elapsed.min_ms is not None and elapsed.max_ms is not None and elapsed.min_ms > elapsed.max_ms:
        place.fault(node.line, "`min` must not pass `max`")
    return elapsed


def _read_scenario(node: Node, place: Place) -> Scenario:
    scenario: Scenario = read_record(Scenario, node, place)
    return evolve(scenario, source=place.source, line=node.line)


def _check_id(fields: Fields, scenario: Scenario) -> Scenario:
    def decode(node: Node, place: Place) -> None:
        if scenario.id and not _ID.fullmatch(scenario.id):
            wants("an id of lower-case letters and digits in words joined by hyphens", node, place)

    fields.optional("scenario", decode, None)
    return scenario


def _read_patterns(node: Node, place: Place) -> tuple[FieldPattern, ...]:
    return tuple(FieldPattern(*pair) for pair in table(text, text)(node, place).items())


_PATTERNS: Any = tuple[FieldPattern, ...]  # a type as a value, which has no type of its own
_REMEMBERED: Any = Remembered

SPECIAL.update(
    {
        Scenario: Form(_read_scenario, write_record),
        PolicyChoice: Form(policy, lambda choice: {"preset": choice.preset, **choice.options}),
        world.ToolScript: Form(_read_tool, _write_tool),
        world.ScriptedCall: Form(_read_call, _write_call),
        world.CorrectionScript: Form(_read_correction, _write_correction),
        actions.TimedAction: Form(_read_timed, _write_timed),
        ExpectedTime: Form(_read_time, write_record),
        _PATTERNS: Form(_read_patterns, lambda patterns: {one.field: one.pattern for one in patterns}),
        _REMEMBERED: Form(_read_remembered, _write_remembered),
    }
)
CHECKS.update({world.ModelEntry: _check_entry, actions.Approve: _check_approval, Scenario: _check_id})
WRITTEN.update({world.ModelEntry: _write_entry, actions.Approve: _write_approval})
SCENARIO = form_of(Scenario)
