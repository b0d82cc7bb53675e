"""Messages of the Agent Client Protocol, one a line: the updates of a session, and the requests around them if kept.

A reply has no end of its own: what the agent says in a row, with no result and no word of the user between, is one.
Pieces of a text are put together. A call is told when all of its input is there: when it runs, or something follows.
"""

import re
from collections.abc import Iterator

from attrs import Factory, define, evolve
from loopkernel.data.blocks import MediaBlock, OpaqueBlock, ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import ErrorClass, StopReason
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
    UserSaid,
)
from loopkernel_adapters.transcripts.fields import (
    Record,
    at,
    content_of,
    given_input,
    items_at,
    kept,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

UPDATE, PROMPT, CANCEL = "session/update", "session/prompt", "session/cancel"
PERMISSION = "session/request_permission"
OF_AGENT = (PERMISSION, "fs/", "terminal/")  # what the agent asks of the client; each side numbers its own requests
METHODS = ("initialize", "authenticate", "logout", "session/", "fs/", "terminal/", "_", "$/")
CHUNKS = frozenset(["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"])
KNOWN = frozenset(
    [
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    ]
)
ENDS = {"completed": Outcome.DONE, "failed": Outcome.ERROR, "cancelled": Outcome.CANCELLED}
STOPS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}
NAME = re.compile(r"[\w.-]{1,64}")
REPLY = frozenset({Inferred.REPLY})


class AgentClientProtocol(Reader):
    """The reader."""

    name = "acp"

    @override
    def fits(self, head: Head) -> bool:
        return any(_update(line) is not None for line in head.lines)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        reading = _Reading()
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            else:
                yield from reading.entries_of(Place(line.number), line.value)
        for session in reading.sessions.values():
            yield from session.flushed()


def _update(message: JsonValue) -> str | None:
    """The kind of update that the message is; None where it is something else."""
    is_update = (text_at(message, "method") or "").endswith(UPDATE)
    return text_at(message, "params", "update", "sessionUpdate") if is_update else None


@define
class _Session:
    """What is known of a session so far."""

    name: str
    group: int = 0
    closed: bool = True
    messages: dict[str, str] = Factory(dict)  # the id of the latest message of each kind of chunk
    chunk: str = ""  # of which kind the texts are that wait to be put together
    begun: tuple[Place, int | None] = (Place(0), None)  # where they, or the calls, begin
    texts: list[str] = Factory(list)
    others: list[UserBlock] = Factory(list)
    waiting: dict[str, tuple[Place, int | None, ForeignCall]] = Factory(dict)  # calls that are not told yet
    known: set[str] = Factory(set)  # all calls
    started: set[str] = Factory(set)
    ended: set[str] = Factory(set)
    contents: dict[str, tuple[UserBlock, ...]] = Factory(dict)  # of calls, as far as they have come
    rejected: set[str] = Factory(set)
    prompted: str = ""  # what the user asked, which some agents tell once more

    def flushed(self) -> Iterator[Entry]:
        """What waits, now that something else follows."""
        place, time = self.begun
        text, others = "".join(self.texts), tuple(self.others)
        kind, self.chunk, self.texts, self.others = self.chunk, "", [], []
        if kind == "user_message_chunk" and text and text == self.prompted:
            yield Bookkeeping(place=place, kind="what the user asked, once more", conversation=self.name)
        elif kind == "user_message_chunk":
            self.closed = True
            content = (TextBlock(text), *others) if text else others
            yield UserSaid(place=place, at_ms=time, conversation=self.name, content=content)
        elif kind == "agent_thought_chunk":
            yield self.part(place, time, ReasoningBlock(text))
        elif kind == "agent_message_chunk":
            yield self.part(place, time, TextBlock(text))
        for place, time, call in self.waiting.values():
            yield self.part(place, time, call)
        self.waiting.clear()

    def part(self, place: Place, time: int | None, *content: ForeignBlock, stop: StopReason | None = None) -> ReplyPart:
        """The next part of the reply, or the first one of another."""
        if self.closed:
            self.closed = False
            self.group += 1
        return ReplyPart(
            place=place,
            at_ms=time,
            conversation=self.name,
            reply=f"reply {self.group}",
            content=content,
            stop=stop,
            inferred=REPLY,
        )

    def add(self, place: Place, time: int | None, kind: str, update: Record) -> Iterator[Entry]:
        """A piece of a message."""
        message, before = text_at(update, "messageId"), self.messages.get(kind)
        content = record_at(update, "content")
        text = text_at(content, "text")
        apart = text is None and bool(content) and kind != "user_message_chunk"
        if apart or kind != self.chunk or message not in (None, before):
            yield from self.flushed()
            if kind == "agent_message_chunk" and None not in (message, before):
                self.closed |= message != before
            self.chunk, self.begun = "" if apart else kind, (place, time)
        if message is not None:
            self.messages[kind] = message
        if apart:
            block = _block(content)
            yield self.part(place, time, block if isinstance(block, TextBlock) else OpaqueBlock("", kept(content)))
        elif text is None and kind == "user_message_chunk":
            self.others.append(_block(content))
        else:
            self.texts.append(text or "")

    def call(self, place: Place, time: int | None, update: Record) -> Iterator[Entry]:
        """A call, or what is new of one."""
        name = text_at(update, "toolCallId") or ""
        if name not in self.known or (text_at(update, "sessionUpdate") == "tool_call" and name in self.ended):
            self.known.add(name)
            self.ended.discard(name)
            if self.chunk:
                yield from self.flushed()
            call = ForeignCall(provider_id=name, tool=_tool(update), input=given_input(at(update, "rawInput")))
            self.waiting[name] = place, time, call
        elif name in self.waiting and "rawInput" in update:
            first, at_ms, call = self.waiting[name]
            self.waiting[name] = first, at_ms, evolve(call, input=given_input(update["rawInput"]))
        if content := _output(update):
            self.contents[name] = content
        status = text_at(update, "status") or ""
        if status not in ("", "pending"):
            yield from self.flushed()
        if status == "in_progress" and name not in self.started:
            self.started.add(name)
            yield CallStarted(place=place, at_ms=time, conversation=self.name, call=name)
        elif status in ENDS and name not in self.ended:
            self.ended.add(name)
            self.closed = True
            yield ResultSeen(
                place=place,
                at_ms=time,
                conversation=self.name,
                call=name,
                outcome=Outcome.REJECTED if name in self.rejected else ENDS[status],
                content=self.contents.pop(name, ()),
                tool=_tool(update),
            )


@define
class _Reading:
    sessions: dict[str, _Session] = Factory(dict)
    asked: dict[tuple[bool, str], tuple[_Session, str, Record]] = Factory(dict)  # what waits, by whether of the agent

    def entries_of(self, place: Place, value: JsonValue) -> Iterator[Entry]:
        """What a message of the protocol says."""
        message, time = record_at(value), time_at(value, "timestamp")
        method, given = text_at(message, "method") or "", record_at(message, "params")
        name = text_at(given, "sessionId") or ""
        session = self.sessions.setdefault(name, _Session(name.replace("/", "-"))) if method else _Session("")
        kind = _update(message)
        if method and "id" in message:
            self.asked[method.startswith(OF_AGENT), kept(message["id"]).text] = session, method, given
        if kind in CHUNKS:
            yield from session.add(place, time, kind, record_at(given, "update"))
        elif kind in ("tool_call", "tool_call_update"):
            yield from session.call(place, time, record_at(given, "update"))
        elif method == PROMPT:
            yield from session.flushed()
            session.closed = True
            content = content_of(items_at(given, "prompt"), _block)
            session.prompted = "".join(block.text for block in content if isinstance(block, TextBlock))
            yield UserSaid(place=place, at_ms=time, conversation=session.name, content=content)
        elif method == CANCEL:
            yield from session.flushed()
            yield Interrupted(place=place, at_ms=time, conversation=session.name, reason="cancelled")
        elif method == PERMISSION and text_at(given, "toolCall", "toolCallId"):
            yield Bookkeeping(place=place, kind=method)
            yield from session.call(place, time, {**record_at(given, "toolCall"), "status": "pending"})
        elif kind in KNOWN or (kind is None and method.startswith(METHODS)):
            yield Bookkeeping(place=place, kind=kind or method)
        elif not method and ("result" in message or "error" in message):
            yield from self._response(place, time, message)
        else:
            text = f"an update of unknown kind {kind!r}" if kind else f"a message of unknown method {method!r}"
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=text)

    def _response(self, place: Place, time: int | None, message: Record) -> Iterator[Entry]:
        """How a request went: what the user decided of a call, or how a turn ended."""
        name = kept(message.get("id")).text
        stop = text_at(message, "result", "stopReason") or ""
        of_agent = not stop and (True, name) in self.asked  # where both wait, the agent asks within the user's prompt
        session, method, given = self.asked.pop((of_agent, name), (None, "", {}))
        yield Bookkeeping(place=place, kind="response")
        if session is None:
            return
        if method == PERMISSION:
            chosen = text_at(message, "result", "outcome", "optionId")
            kinds = {
                text_at(each, "optionId"): text_at(each, "kind") for each in records_in(items_at(given, "options"))
            }
            if (kinds.get(chosen) or "").startswith("reject"):
                session.rejected.add(text_at(given, "toolCall", "toolCallId") or "")
        elif method == PROMPT:
            yield from session.flushed()
            if words := text_at(message, "error", "message"):
                error = ErrorClass.UNKNOWN
                yield ModelTrouble(place=place, at_ms=time, conversation=session.name, error=error, message=words)
            elif stop == "max_turn_requests":
                yield Interrupted(place=place, at_ms=time, conversation=session.name, reason=stop)
            elif stop in STOPS and not session.closed:
                yield session.part(place, time, stop=STOPS[stop])


def _tool(update: Record) -> str:
    """The name of the tool: what agents add of their own, a title that is a name, else the kind of tool."""
    added = [text_at(each, "name") or text_at(each, "toolName") for each in record_at(update, "_meta").values()]
    title = text_at(update, "title") or ""
    named = next(filter(None, added), None) or (title if NAME.fullmatch(title) else None)
    return named or text_at(update, "kind") or title


def _output(update: Record) -> tuple[UserBlock, ...]:
    """What a call has given so far: its content, or what the tool gave back as it is."""
    found: list[UserBlock] = []
    for part in records_in(items_at(update, "content")):
        inner = record_at(part, "content")
        found.append(_block(inner) if inner else TextBlock(kept(part).text))
    raw = at(update, "rawOutput")
    if not found and raw is not None:
        text = raw if isinstance(raw, str) else text_at(raw, "text")
        found.append(TextBlock(kept(raw).text if text is None else text))
    return tuple(found)


def _block(content: Record) -> UserBlock:
    text = text_at(content, "text") or text_at(content, "resource", "text")
    if text is not None:
        return TextBlock(text)
    data = text_at(content, "data") or text_at(content, "resource", "blob")
    data = data or text_at(content, "uri") or text_at(content, "resource", "uri")
    kind = text_at(content, "mimeType") or text_at(content, "resource", "mimeType")
    kind = kind or f"{text_at(content, 'type') or 'application'}/*"
    return TextBlock(kept(content).text) if data is None else MediaBlock(kind, data)
