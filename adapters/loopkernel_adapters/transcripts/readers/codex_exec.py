"""What `codex exec --json` prints: events of a thread, in which a call and its result are one item.

A reply has no id: what the model said in a row, until an item of a tool ends, is one. The events never hold the prompt.
"""

from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.blocks import ReasoningBlock, ServerCall, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    CallStarted,
    Entry,
    Finding,
    FindingKind,
    Inferred,
    Interrupted,
    ModelTrouble,
    Outcome,
    Place,
    ReplyPart,
    ResultSeen,
)
from loopkernel_adapters.transcripts.fields import (
    Record,
    at,
    call_of,
    content_of,
    items_at,
    kept,
    record_at,
    text_at,
)
from loopkernel_adapters.transcripts.readers.codex import usage_of
from loopkernel_adapters.transcripts.source import Head, Reader, Source

EVENTS = ("thread.", "turn.", "item.")
# The items that are calls, each with the fields that the model gave.
CALLS = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "mcp_tool_call": ("arguments",),
    "collab_tool_call": ("prompt", "receiver_thread_ids"),
}
OUTCOMES = {
    "completed": Outcome.DONE,
    "failed": Outcome.ERROR,
    "declined": Outcome.REJECTED,
    "cancelled": Outcome.CANCELLED,
}
SAID = frozenset(["agent_message", "plan"])


class CodexExec(Reader):
    """The reader."""

    name = "codex-exec"

    @override
    def fits(self, head: Head) -> bool:
        return any(_is_thread(line) or _is_item(line) for line in head.lines)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        reading = _Reading()
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            else:
                yield from reading.entries_of(Place(line.number), record_at(line.value))


def _is_thread(line: JsonValue) -> bool:
    return text_at(line, "type") == "thread.started" and text_at(line, "thread_id") is not None


def _is_item(line: JsonValue) -> bool:
    kind = text_at(line, "type") or ""
    return kind.startswith("item.") and text_at(line, "item", "type") is not None


@define
class _Reading:
    """What is known of the file so far."""

    group: int = 0  # the number of the reply
    closed: bool = True  # what the model says next is another reply
    called: set[str] = Factory(set)  # the calls that have no result yet
    answered: bool = False  # whether the model said something in this turn
    error: str = ""  # the latest one: the end of the turn says it again

    def entries_of(self, place: Place, event: Record) -> Iterator[Entry]:
        """What an event says."""
        kind = text_at(event, "type") or ""
        match kind:
            case "turn.started":
                self.closed, self.answered, self.error = True, False, ""
                yield Bookkeeping(place=place, kind=kind)
            case "item.started" | "item.completed":
                yield from self._item(place, kind, record_at(event, "item"))
            case "tool.call.required":
                call = call_of(at(event, "call_id"), at(event, "tool_name"), at(event, "arguments"))
                yield self._part(place, (call,))
            case "turn.completed":
                final = text_at(event, "final_response", "text")
                if final is not None and not self.answered:
                    yield self._part(place, (TextBlock(final),))
                yield from self._usage(place, record_at(event, "usage"))
            case "error" | "turn.failed":
                words = text_at(event, "message") or text_at(event, "error", "message") or ""
                if words == self.error and kind == "turn.failed":
                    yield Bookkeeping(place=place, kind=kind)
                else:
                    self.error = words
                    yield ModelTrouble(
                        place=place, at_ms=None, conversation="", error=ErrorClass.UNKNOWN, message=words
                    )
            case "turn.aborted" | "turn.interrupted":
                yield Interrupted(place=place, at_ms=None, conversation="", reason=text_at(event, "reason") or kind)
            case _ if kind.startswith(EVENTS):
                yield Bookkeeping(place=place, kind=kind)
            case _:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an event of unknown type {kind!r}")

    def _item(self, place: Place, event: str, item: Record) -> Iterator[Entry]:
        kind = text_at(item, "type") or ""
        ended = event == "item.completed"
        if kind in CALLS:
            yield from self._call(place, kind, item, ended=ended)
        elif not ended:
            yield Bookkeeping(place=place, kind=f"{event} {kind}")  # it is told whole when it is complete
        elif kind in SAID:
            yield self._part(place, (TextBlock(text_at(item, "text") or ""),))
        elif kind == "reasoning":
            yield self._part(place, (ReasoningBlock(text_at(item, "text") or ""),))
        elif kind == "web_search":
            given = kept({"query": text_at(item, "query") or ""})
            yield self._part(place, (ServerCall(provider_id=text_at(item, "id") or "", tool=kind, input=given),))
        elif kind in ("todo_list", "error"):  # a list beside the conversation; a warning
            yield Bookkeeping(place=place, kind=f"{event} {kind}")
        else:
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an item of unknown type {kind!r}")

    def _call(self, place: Place, kind: str, item: Record, *, ended: bool) -> Iterator[Entry]:
        name = text_at(item, "id") or ""
        started = name in self.called
        if not started:
            self.called.add(name)
            given = at(item, "arguments") if kind == "mcp_tool_call" else {key: at(item, key) for key in CALLS[kind]}
            yield self._part(place, (call_of(name, _tool(kind, item), given),))
            if not ended:
                yield CallStarted(place=place, at_ms=None, conversation="", call=name)
        elif not ended:
            yield Bookkeeping(place=place, kind=f"item.started {kind} again")
        if ended:
            self.called.discard(name)
            self.closed = True
            outcome = OUTCOMES.get(text_at(item, "status") or "")
            yield ResultSeen(
                place=place,
                at_ms=None,
                conversation="",
                call=name,
                outcome=outcome or Outcome.DONE,
                content=tuple(_output(item)),
                tool=_tool(kind, item),
                inferred=frozenset() if outcome else frozenset({Inferred.STATUS}),
            )

    def _part(self, place: Place, content: tuple[ForeignBlock, ...]) -> ReplyPart:
        if self.closed:
            self.closed = False
            self.group += 1
        self.answered |= any(isinstance(block, TextBlock) for block in content)
        return ReplyPart(
            place=place,
            at_ms=None,
            conversation="",
            reply=f"reply {self.group}",
            content=content,
            inferred=frozenset({Inferred.REPLY}),
        )

    def _usage(self, place: Place, usage: Record) -> Iterator[Entry]:
        """The tokens of the turn, which its last reply gets: of each reply, they are not told."""
        self.closed = True
        if not usage or not self.group:
            yield Bookkeeping(place=place, kind="turn.completed")
            return
        yield ReplyPart(
            place=place,
            at_ms=None,
            conversation="",
            reply=f"reply {self.group}",
            content=(),
            counted="",
            usage=usage_of(usage),
        )


def _tool(kind: str, item: Record) -> str:
    """The tool that the item is a call of; Codex names its own ones nowhere, so they have the name of the item."""
    own = text_at(item, "tool")
    server = text_at(item, "server")
    return kind if own is None else f"{server}__{own}" if server else own


def _output(item: Record) -> Iterator[UserBlock]:
    """What the item says of how it ended."""
    if (output := text_at(item, "aggregated_output")) is not None:
        yield TextBlock(output)
    if (code := at(item, "exit_code")) not in (None, 0):
        yield TextBlock(f"(exit code {code})")
    content = tuple(content_of(items_at(item, "result", "content")))
    yield from content
    if not content and (structured := at(item, "result", "structured_content")) is not None:
        yield TextBlock(kept(structured).text)  # what else a server of tools says, it says in its content too
    if (error := text_at(item, "error", "message")) is not None:
        yield TextBlock(error)
    if states := record_at(item, "agents_states"):
        yield TextBlock(kept(states).text)
