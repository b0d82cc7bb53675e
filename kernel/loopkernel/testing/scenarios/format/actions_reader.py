"""Reads what the user does: one decoder for each word of the action table, and the time of each action."""

from loopkernel.data.choices import ApprovalMode
from loopkernel.data.errors import PolicyError
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern, ResourcePattern
from loopkernel.data.remembered import RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.format.fields import (
    Decoder,
    Fields,
    Place,
    flag,
    integer,
    json_value,
    many,
    member,
    name,
    or_no_keys,
    pattern,
    suggestion,
    table,
    text,
    word,
)
from loopkernel.testing.scenarios.format.nodes import Mapping, Node, Scalar
from loopkernel.testing.scenarios.format.tools_reader import tool_changes


def _field_patterns(node: Node, place: Place) -> tuple[FieldPattern, ...]:
    return tuple(FieldPattern(*pair) for pair in table(text, text)(node, place).items())


def _resource_pattern(node: Node, place: Place) -> ResourcePattern:
    """`{pattern, mode}`, or the pattern alone."""
    mode: AccessMode | None = None
    pattern_text = ""
    if isinstance(node, Scalar):
        pattern_text = text(node, place)
    else:
        fields = Fields(node, place)
        pattern_text = fields.required("pattern", text, "*")
        mode = fields.optional("mode", member(AccessMode), None)
        fields.finish()
    try:
        return ResourcePattern(pattern_text, mode)
    except PolicyError as error:
        place.fault(node.line, "; ".join(map(str, error.faults)))
        return ResourcePattern("*")


def _discard(node: Node, place: Place) -> actions.Discard:
    if isinstance(node, Scalar) and node.text == "all":
        return actions.Discard(None)
    return actions.Discard(integer(1)(node, place))


def _edit(node: Node, place: Place) -> actions.Edit:
    fields = Fields(node, place)
    edit = actions.Edit(
        message=fields.required("message", integer(1), 1),
        text=fields.required("text", text, ""),
    )
    fields.finish()
    return edit


def _approve(node: Node, place: Place) -> actions.Approve:
    if not isinstance(node, Mapping):
        return actions.Approve(call=name(node, place))
    fields = Fields(node, place)
    approve = actions.Approve(
        call=fields.required("call", name, ""),
        remember=fields.optional("remember", member(actions.Remember), None),
        pattern=fields.optional("pattern", _field_patterns, ()),
    )
    fields.finish()
    if (approve.remember is actions.Remember.PATTERN) != fields.has("pattern"):
        place.fault(node.line, "`remember: pattern` and `pattern` go together; give both or neither")
    return approve


def _reject(node: Node, place: Place) -> actions.Reject:
    if not isinstance(node, Mapping):
        return actions.Reject(call=name(node, place))
    fields = Fields(node, place)
    reject = actions.Reject(call=fields.required("call", name, ""), why=fields.optional("why", text, None))
    fields.finish()
    return reject


def _correct(node: Node, place: Place) -> actions.Correct:
    fields = Fields(node, place)
    correct = actions.Correct(
        call=fields.required("call", name, ""),
        input=fields.required("input", json_value, None),
    )
    fields.finish()
    return correct


def _swap(node: Node, place: Place) -> actions.Swap:
    fields = Fields(node, place)
    swap = actions.Swap(
        call=fields.required("call", name, ""),
        tool=fields.required("tool", text, ""),
        input=fields.optional("input", json_value, {}),
    )
    fields.finish()
    return swap


def _answer(node: Node, place: Place) -> actions.Answer:
    fields = Fields(node, place)
    answer = actions.Answer(
        call=fields.required("call", name, ""),
        value=fields.required("value", json_value, None),
    )
    fields.finish()
    return answer


def _after_crash(node: Node, place: Place) -> actions.AfterCrash:
    fields = Fields(node, place)
    after_crash = actions.AfterCrash(
        call=fields.required("call", name, ""),
        verdict=fields.required("as", member(actions.CrashVerdict), actions.CrashVerdict.CANCEL),
        text=fields.optional("text", text, None),
    )
    fields.finish()
    return after_crash


def _cancel(node: Node, place: Place) -> actions.Cancel:
    call = name(node, place)
    return actions.Cancel(None if call == "all" else call)


def _permit(node: Node, place: Place) -> actions.Permit:
    fields = Fields(node, place)
    rule = ApprovalRule(
        decision=fields.required("decision", member(Decision), Decision.ALLOW),
        tool=fields.optional("tool", text, "*"),
        input=fields.optional("input", _field_patterns, ()),
        resources=fields.optional("resources", many(_resource_pattern), ()),
    )
    fields.finish()
    return actions.Permit(rule)


def _forget(node: Node, place: Place) -> actions.Forget:
    """`all`, or what was remembered: a tool, and its input or a pattern."""
    if isinstance(node, Scalar) and node.text == "all":
        return actions.Forget()
    fields = Fields(node, place)
    tool = fields.required("tool", text, "")
    kind = fields.given("input", "pattern")
    given = fields.optional("input", json_value, None)
    parts = fields.optional("pattern", _field_patterns, ())
    fields.finish()
    if kind is None:
        return actions.Forget(RememberedTool(tool))
    return actions.Forget(RememberedCall(tool, Json.of(given)) if kind == "input" else RememberedPattern(tool, parts))


def _crash(node: Node, place: Place) -> actions.Crash:
    fields = Fields(or_no_keys(node), place)
    crash = actions.Crash(
        down_ms=fields.optional("down_ms", integer(), 0),
        mode=fields.optional("mode", member(ApprovalMode), None),
        doubted=fields.optional("doubted", flag, False),
    )
    fields.finish()
    return crash


def _bare(action: actions.UserAction) -> Decoder[actions.UserAction]:
    """An action that has no more to say: `{}`, or nothing."""

    def decode(node: Node, place: Place) -> actions.UserAction:
        Fields(or_no_keys(node), place).finish()
        return action

    return decode


def _only(allowed: str, action: actions.UserAction) -> Decoder[actions.UserAction]:
    """An action whose only value is this word."""
    decode_word = word(allowed)

    def decode(node: Node, place: Place) -> actions.UserAction:
        decode_word(node, place)
        return action

    return decode


ACTIONS: dict[str, Decoder[actions.UserAction]] = {
    "say": lambda node, place: actions.Say(text(node, place)),
    "enqueue": lambda node, place: actions.Enqueue(text(node, place)),
    "steer": lambda node, place: actions.Steer(text(node, place)),
    "discard": _discard,
    "edit": _edit,
    "approve": _approve,
    "reject": _reject,
    "correct": _correct,
    "swap": _swap,
    "answer": _answer,
    "after_crash": _after_crash,
    "cancel": _cancel,
    "retry": _only("now", actions.RetryNow()),
    "dismiss": _only("error", actions.DismissError()),
    "compact": _only("now", actions.CompactNow()),
    "mode": lambda node, place: actions.ChangeMode(member(ApprovalMode)(node, place)),
    "permit": _permit,
    "forget": _forget,
    "handoff": lambda node, place: actions.StartHandoff(text(node, place)),
    "again": lambda node, place: actions.ReportAgain(pattern(node, place)),
    "crash": _crash,
    "dispose": _bare(actions.Dispose()),
    "fork": _bare(actions.Fork()),
    "tools": lambda node, place: actions.ChangeTools(tool_changes(node, place)),
}


def _timing(fields: Fields) -> actions.Timing:
    kind = fields.given("at", "when")
    at_ms = fields.optional("at", integer(), 0)
    line = fields.optional("when", pattern, "")
    nth = fields.optional("nth", integer(1), 1)
    after_ms = fields.optional("after_ms", integer(), 0)
    if kind != "when" and (fields.has("nth") or fields.has("after_ms")):
        fields.place.fault(fields.line, "`nth` and `after_ms` go with `when`")
    return actions.At(at_ms) if kind != "when" else actions.When(pattern=line, nth=nth, after_ms=after_ms)


def timed_action(node: Node, place: Place) -> actions.TimedAction:
    """A time, 0 if it is left out, and exactly one action."""
    fields = Fields(node, place)
    timing = _timing(fields)
    kind = fields.given(*ACTIONS)
    action: actions.UserAction = actions.Dispose()
    for key, decode in ACTIONS.items():
        action = fields.optional(key, decode, action)
    if fields.finish() and kind is None and not fields.broken:
        place.fault(node.line, f"no action here; {suggestion('', ACTIONS)}")
    return actions.TimedAction(timing=timing, action=action)
