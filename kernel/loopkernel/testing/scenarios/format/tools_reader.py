"""Reads tools: their profiles, and how their runs go."""

from loopkernel.data.tools import (
    AccessMode,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    ResourceRule,
    ToolProfile,
)
from loopkernel.testing.scenarios.data.world import (
    Behaviour,
    JsonValue,
    Progress,
    ToolFails,
    ToolHangs,
    ToolOutcome,
    ToolQuestion,
    ToolReturns,
    ToolScript,
)
from loopkernel.testing.scenarios.format.fields import (
    Decoder,
    Fields,
    Place,
    flag,
    integer,
    is_none,
    json_value,
    many,
    many_or_none,
    member,
    name,
    only_true,
    or_no_keys,
    or_none,
    table,
    text,
    wants,
    word,
)
from loopkernel.testing.scenarios.format.nodes import Node

_PROFILE_KEYS = (
    "effect",
    "serial",
    "resources",
    "approval",
    "early",
    "polling",
    "timeout_ms",
    "child",
    "commands",
    "unbounded",
)


def _resource(node: Node, place: Place) -> ResourceRule:
    """`{field, mode}`, with `tree` for all that lies within, or `{key, mode}` for a fixed one."""
    fields = Fields(node, place)
    kind = fields.given("field", "key")
    mode = fields.required("mode", member(AccessMode), AccessMode.WRITE)
    key = fields.optional("key", text, "")
    if kind != "key":
        fields.demand("field")
    named = fields.optional("field", text, "")
    tree = False if kind == "key" else fields.optional("tree", flag, False)
    fields.finish()
    return FixedResource(key, mode) if kind == "key" else FieldResource(named, mode, tree=tree)


def _schema(node: Node, place: Place) -> JsonValue:
    """A JSON Schema: a mapping, true or false."""
    schema = json_value(node, place)
    if not isinstance(schema, dict | bool):
        wants("a JSON Schema (a mapping, true or false)", node, place)
    return schema


def _progress(node: Node, place: Place) -> Progress:
    fields = Fields(node, place)
    progress = Progress(
        at_ms=fields.optional("at_ms", integer(), 0),
        text=fields.required("text", text, ""),
    )
    fields.finish()
    return progress


def _question(node: Node, place: Place) -> ToolQuestion:
    fields = Fields(node, place)
    question = ToolQuestion(
        at_ms=fields.optional("at_ms", integer(), 0),
        question=fields.required("question", text, ""),
    )
    fields.finish()
    return question


def _outcome(fields: Fields, usual: ToolOutcome) -> ToolOutcome:
    kind = fields.given("returns", "fails", "hangs")
    returned = fields.optional("returns", text, "ok")
    failed = fields.optional("fails", text, "")
    fields.optional("hangs", only_true, None)
    match kind:
        case "hangs":
            return ToolHangs()
        case "fails":
            return ToolFails(failed)
        case "returns":
            return ToolReturns(returned)
        case _:
            return usual


def _behaviour_fields(fields: Fields, usual: Behaviour) -> Behaviour:
    return Behaviour(
        takes_ms=fields.optional("takes_ms", integer(), usual.takes_ms),
        outcome=_outcome(fields, usual.outcome),
        progress=fields.optional("progress", many_or_none(_progress), usual.progress),
        final=fields.optional("final", flag, usual.final),
        stops_loop=fields.optional("stops_loop", flag, usual.stops_loop),
        ignores_abort=fields.optional("ignores_abort", flag, usual.ignores_abort),
        asks=fields.optional("asks", or_none(_question), usual.asks),
        background=fields.optional("background", flag, usual.background),
    )


def _behaviour(usual: Behaviour) -> Decoder[Behaviour]:
    """How one run goes: what is left out is taken from the tool."""

    def decode(node: Node, place: Place) -> Behaviour:
        fields = Fields(node, place)
        behaviour = _behaviour_fields(fields, usual)
        fields.finish()
        return behaviour

    return decode


def _profile(fields: Fields) -> ToolProfile | None:
    profile = ToolProfile(
        effect=fields.optional("effect", member(EffectClass), EffectClass.DANGEROUS),
        serial=fields.optional("serial", flag, False),
        resources=fields.optional("resources", many(_resource), ()),
        approval=fields.optional("approval", member(Decision), Decision.ALLOW),
        timeout_ms=fields.optional("timeout_ms", integer(), None),
        child=fields.optional("child", flag, False),
        early=fields.optional("early", flag, False),
        polling=fields.optional("polling", flag, False),
        commands=fields.optional("commands", many(text), ()),
        unbounded=fields.optional("unbounded", flag, False),
    )
    if not fields.has("profile"):
        return profile
    fields.optional("profile", or_none(word("none")), None)
    for key in filter(fields.has, _PROFILE_KEYS):
        fields.place.fault(fields.line, f"`{key}` is part of a profile, which `profile: none` denies; drop one")
    return None


def tool(node: Node, place: Place) -> ToolScript:
    """A tool's profile and behaviour."""
    if is_none(node) and or_no_keys(node) is node:
        place.fault(node.line, "write {} for a tool with the default profile, {profile: none} for none")
        return ToolScript()
    fields = Fields(or_no_keys(node), place)
    usual = _behaviour_fields(fields, Behaviour())
    script = ToolScript(
        profile=_profile(fields),
        input_schema=fields.optional("input", _schema, {}),
        behaviour=usual,
        runs=fields.optional("runs", many(_behaviour(usual)), ()),
        calls=fields.optional("calls", table(name, _behaviour(usual)), {}),
    )
    fields.finish()
    return script


tools = table(text, tool)
tool_changes = table(text, or_none(tool))
