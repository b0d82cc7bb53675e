"""Reads what a scenario expects."""

from typing import Literal

from loopkernel.data.words import OPEN_STATUSES, CallStatus, RequestReason, TurnEndReason
from loopkernel.testing.scenarios.data.expectations import (
    Expectations,
    ExpectedMoment,
    ExpectedRequest,
    ExpectedResult,
    ExpectedThread,
    ExpectedTime,
    ExpectedUsage,
)
from loopkernel.testing.scenarios.data.world import Role
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
    pattern,
    table,
    text,
    word,
)
from loopkernel.testing.scenarios.format.nodes import Mapping, Node

# As rule STATE-2 spells them.
STATES = (
    "Initial",
    "Idle",
    "Thinking",
    "Streaming",
    "Executing",
    "Confirming",
    "Dispatching",
    "Compacting",
    "Backoff",
    "Finishing",
    "HandingOff",
    "Cancelled",
    "Done",
)
# The labels of rule STATE-6.
INTERACTIONS = (
    "handoff",
    "busy",
    "user-message-initial",
    "user-message-reply",
    "user-tool-approval",
    "tool-running",
)

_STATUS = member(CallStatus, *OPEN_STATUSES)
_states = many(word(*STATES))
_interactions = many(word(*INTERACTIONS))
_reasons = many(word(*(reason.value for reason in TurnEndReason)))
_texts = many(text)
_names = many_or_none(name)
_roles: Decoder[tuple[Role, ...]] = many(member(Role))


def _group(node: Node, place: Place) -> tuple[str, ...]:
    """The calls whose runs are compared."""
    group = _names(node, place)
    if len(group) == 1:
        place.fault(node.line, "one call has nothing to be compared with; name at least two")
    return group


def _moment(node: Node, place: Place) -> ExpectedMoment:
    fields = Fields(node, place)
    moment = ExpectedMoment(
        when=fields.required("when", pattern, ""),
        nth=fields.optional("nth", integer(1), 1),
        state=fields.optional("state", _states, ()),
        interaction=fields.optional("interaction", _interactions, ()),
        open=fields.optional("open", _names, None),
        queue=fields.optional("queue", integer(), None),
    )
    fields.finish()
    return moment


def _output_limit(node: Node, place: Place) -> int | Literal["none"]:
    return "none" if is_none(node) else integer()(node, place)


def _forced_tool(node: Node, place: Place) -> str:
    return "none" if is_none(node) else text(node, place)


def _request(node: Node, place: Place) -> ExpectedRequest:
    fields = Fields(node, place)
    tools = fields.optional("tools", many_or_none(text), None)
    request = ExpectedRequest(
        why=fields.optional("why", member(RequestReason), None),
        roles=fields.optional("roles", _roles, None),
        messages=fields.optional("messages", integer(), None),
        results=fields.optional("results", _names, None),
        contains=fields.optional("contains", _texts, ()),
        lacks=fields.optional("lacks", _texts, ()),
        last=fields.optional("last", _texts, ()),
        tools=None if tools is None else frozenset(tools),
        lacks_tools=fields.optional("lacks_tools", many(text), ()),
        max_output_tokens=fields.optional("max_output_tokens", _output_limit, None),
        model=fields.optional("model", text, None),
        forced_tool=fields.optional("forced_tool", _forced_tool, None),
    )
    fields.finish()
    return request


def _result(node: Node, place: Place) -> ExpectedResult:
    """A status, or a mapping."""
    if not isinstance(node, Mapping):
        return ExpectedResult(status=_STATUS(node, place))
    fields = Fields(node, place)
    result = ExpectedResult(
        status=fields.optional("status", _STATUS, None),
        reason=fields.optional("reason", text, None),
        contains=fields.optional("contains", _texts, ()),
        lacks=fields.optional("lacks", _texts, ()),
        ran=fields.optional("ran", flag, None),
        runs=fields.optional("runs", integer(), None),
    )
    fields.finish()
    return result


def _thread(node: Node, place: Place) -> ExpectedThread:
    fields = Fields(node, place)
    thread = ExpectedThread(
        roles=fields.optional("roles", _roles, None),
        messages=fields.optional("messages", integer(), None),
        contains=fields.optional("contains", _texts, ()),
        lacks=fields.optional("lacks", _texts, ()),
    )
    fields.finish()
    return thread


def _usage(node: Node, place: Place) -> ExpectedUsage:
    fields = Fields(node, place)
    usage = ExpectedUsage(
        input=fields.optional("input", integer(), None),
        output=fields.optional("output", integer(), None),
    )
    fields.finish()
    return usage


def _elapsed(node: Node, place: Place) -> ExpectedTime:
    """A number of milliseconds, or bounds."""
    if not isinstance(node, Mapping):
        exact = integer()(node, place)
        return ExpectedTime(min_ms=exact, max_ms=exact)
    fields = Fields(node, place)
    elapsed = ExpectedTime(
        min_ms=fields.optional("min", integer(), None),
        max_ms=fields.optional("max", integer(), None),
    )
    fields.finish()
    if elapsed.min_ms is not None and elapsed.max_ms is not None and elapsed.min_ms > elapsed.max_ms:
        place.fault(node.line, "`min` must not pass `max`")
    return elapsed


def expectations(node: Node, place: Place) -> Expectations:
    """All of `expect`."""
    fields = Fields(node, place)
    patterns = many(pattern)
    expect = Expectations(
        trace=fields.optional("trace", patterns, ()),
        counts=fields.optional("counts", table(pattern, integer()), {}),
        never=fields.optional("never", patterns, ()),
        after=fields.optional("after", table(pattern, patterns), {}),
        together=fields.optional("together", many(_group), ()),
        apart=fields.optional("apart", many(_group), ()),
        inputs=fields.optional("inputs", table(name, json_value), {}),
        at=fields.optional("at", many(_moment), ()),
        requests=fields.optional("requests", integer(), None),
        request=fields.optional("request", table(integer(1), _request), {}),
        results=fields.optional("results", table(name, _result), {}),
        thread=fields.optional("thread", _thread, None),
        state=fields.optional("state", _states, ()),
        interaction=fields.optional("interaction", _interactions, ()),
        reason=fields.optional("reason", _reasons, ()),
        usage=fields.optional("usage", _usage, None),
        queue=fields.optional("queue", integer(), None),
        open=fields.optional("open", _names, ()),
        elapsed_ms=fields.optional("elapsed_ms", _elapsed, None),
    )
    fields.finish()
    return expect
