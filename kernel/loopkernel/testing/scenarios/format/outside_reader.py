"""Reads the answers of hooks, summariser, correction, handoffs and sub-agents; and the first thread."""

from loopkernel.data.words import OPEN_STATUSES, CallStatus, HookPoint
from loopkernel.testing.scenarios.data.world import (
    DEFAULT_HANDOFF,
    DEFAULT_SUMMARY,
    ChildScript,
    CorrectionScript,
    HandoffDone,
    HandoffFails,
    HandoffScript,
    HookAnswerKind,
    HookFails,
    HookHangs,
    HookReplies,
    HookScript,
    Role,
    StartMessage,
    StartResult,
    SummaryFails,
    SummaryScript,
    SummaryText,
)
from loopkernel.testing.scenarios.format.fields import (
    Fields,
    Place,
    integer,
    is_none,
    json_value,
    many,
    member,
    name,
    only_true,
    text,
)
from loopkernel.testing.scenarios.format.model_reader import call, entries, entry, usage
from loopkernel.testing.scenarios.format.nodes import Node
from loopkernel.testing.scenarios.format.tools_reader import tools


def _hook_outcome(fields: Fields) -> HookReplies | HookFails | HookHangs:
    kind = fields.given("answer", "hangs", "fails")
    replies = HookReplies(
        answer=fields.optional("answer", member(HookAnswerKind), HookAnswerKind.CONTINUE),
        why=fields.optional("why", text, None),
        input=fields.optional("input", json_value, None),
        result=fields.optional("result", text, None),
        text=fields.optional("text", text, None),
    )
    fields.optional("hangs", only_true, None)
    failed = fields.optional("fails", text, "")
    if kind == "hangs":
        return HookHangs()
    return HookFails(failed) if kind == "fails" else replies


def hook(node: Node, place: Place) -> HookScript:
    """The answer of a gated hook: `continue`, if the entry does not say."""
    fields = Fields(node, place)
    script = HookScript(
        point=fields.required("point", member(HookPoint), HookPoint.STOP),
        call=fields.optional("call", name, None),
        takes_ms=fields.optional("takes_ms", integer(), 0),
        outcome=_hook_outcome(fields),
    )
    fields.finish()
    return script


def summary(node: Node, place: Place) -> SummaryScript:
    """`{text, usage}`, where a text that is left out is some short one; or `{fails: text}`."""
    fields = Fields(node, place)
    kind = fields.given("text", "fails")
    done = SummaryText(fields.optional("text", text, DEFAULT_SUMMARY), fields.optional("usage", usage, None))
    failed = SummaryFails(fields.optional("fails", text, ""))
    takes_ms = fields.optional("takes_ms", integer(), 0)
    fields.finish()
    return SummaryScript(outcome=failed if kind == "fails" else done, takes_ms=takes_ms)


def correction(node: Node, place: Place) -> CorrectionScript:
    """`{text}`, or `none`."""
    if is_none(node):
        return CorrectionScript()
    fields = Fields(node, place)
    script = CorrectionScript(
        text=fields.optional("text", text, None),
        takes_ms=fields.optional("takes_ms", integer(), 0),
    )
    fields.finish()
    return script


def handoff(node: Node, place: Place) -> HandoffScript:
    """`{thread: id}`, where a thread that is left out is some new one; or `{fails: text}`."""
    fields = Fields(node, place)
    kind = fields.given("thread", "fails")
    done = HandoffDone(fields.optional("thread", text, DEFAULT_HANDOFF))
    failed = HandoffFails(fields.optional("fails", text, ""))
    takes_ms = fields.optional("takes_ms", integer(), 0)
    fields.finish()
    return HandoffScript(outcome=failed if kind == "fails" else done, takes_ms=takes_ms)


def child(node: Node, place: Place) -> ChildScript:
    """A sub-agent's model, and its tools, if it has its own."""
    fields = Fields(node, place)
    script = ChildScript(
        model=fields.required("model", entries, ()),
        model_rest=fields.optional("model_rest", entry, None),
        tools=fields.optional("tools", tools, None),
    )
    fields.finish()
    return script


def _start_result(node: Node, place: Place) -> StartResult:
    fields = Fields(node, place)
    result = StartResult(
        call=fields.required("call", name, ""),
        status=fields.optional("status", member(CallStatus, *OPEN_STATUSES), CallStatus.DONE),
        text=fields.optional("text", text, ""),
    )
    fields.finish()
    return result


def start_message(node: Node, place: Place) -> StartMessage:
    """A message of the thread to begin from. Any mixture of parts is allowed: the thread may be broken."""
    fields = Fields(node, place)
    message = StartMessage(
        role=fields.required("role", member(Role), Role.USER),
        text=fields.optional("text", text, None),
        calls=fields.optional("calls", many(call), ()),
        results=fields.optional("results", many(_start_result), ()),
    )
    fields.finish()
    return message
