"""Sessions of opencode: events of its server, what `opencode run --format json` prints, an export, or its storage.

Events stand a line each, or as the server streams them, and perhaps in a frame of whoever wrote them down. An export is
a document with the messages of a session; of the storage, each session, message and part is a file of its own, in a
folder that is named as a whole.
"""

import re
from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.json_text import JsonValue
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Bookkeeping, CallStarted, Entry, Finding, FindingKind, Place, Undone
from loopkernel_adapters.transcripts.fields import (
    Record,
    at,
    items_at,
    nearly_all,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.readers.opencode_messages import Message, Telling, trouble
from loopkernel_adapters.transcripts.source import Head, Line, Reader, Source, parsed, torn

TOLD = frozenset(
    ["message.updated", "message.part.updated", "message.part.delta", "session.created", "session.updated"]
)
ALIVE = frozenset(["server.connected", "server.heartbeat"])  # what the server says when nothing happens
PRINTED = frozenset(["step_start", "step_finish", "text", "reasoning", "tool_use"])
QUIET = (
    "command.",
    "file.",
    "ide.",
    "installation.",
    "lsp.",
    "mcp.",
    "permission.",
    "project.",
    "pty.",
    "question.",
    "server.",
    "session.",
    "storage.",
    "todo.",
    "tui.",
    "vcs.",
    "workspace.",
    "worktree.",
)
# An event behind the mark of server-sent events, in its frame or without one.
STREAMED = re.compile(
    rf'(?m)^data:\s*\{{.*"type":\s*"(?:{"|".join(map(re.escape, sorted(TOLD | ALIVE)))})",\s*"properties":\s*\{{'
)
YES = frozenset(["once", "always"])


class OpenCode(Reader):
    """The reader."""

    name = "opencode"
    takes_folders = True

    @override
    def fits(self, head: Head) -> bool:
        if head.is_folder:
            return any(map(_is_message, head.lines)) and all(map(_is_stored, head.lines))
        if _is_export(head.document) or STREAMED.search(head.text) is not None:
            return True
        return any(_is_event(line) or _is_printed(line) for line in head.lines)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        head = source.head()
        if _is_export(head.document):
            yield from _exported(head.document)
        elif head.is_folder:
            yield from _lying(source)
        else:
            reading = _Events()
            for line in _streamed(source) if STREAMED.search(head.text) else source.lines():
                if isinstance(line, Finding):
                    yield line
                else:
                    yield from reading.entries_of(Place(line.number), record_at(line.value))
            yield from reading.finished()


def _streamed(source: Source) -> Iterator[Line | Finding]:
    """The events of a stream, each of which is a line behind its mark; other lines name them, or keep it alive."""
    for raw in source.raw_lines():
        if not raw.content.startswith(b"data:"):
            continue
        value = parsed(raw.content.removeprefix(b"data:"))
        if value is not None:
            yield Line(raw.number, value)
        elif raw.ended:
            text = f"line {raw.number} is an event that is not JSON; it was passed over"
            yield Finding(place=Place(raw.number), kind=FindingKind.BROKEN_RECORD, text=text)
        else:
            yield torn(raw.number)


def _framed(value: JsonValue) -> Record:
    """The event, without the frame that somebody wrote it down in."""
    record = record_at(value)
    for key in ("event", "payload"):
        if "type" not in record and text_at(record, key, "type") is not None:
            return record_at(record, key)
    return record


def _is_event(value: JsonValue) -> bool:
    event = _framed(value)
    return text_at(event, "type") in TOLD | ALIVE and isinstance(event.get("properties"), dict)


def _is_printed(value: JsonValue) -> bool:
    return (
        text_at(value, "type") in PRINTED and text_at(value, "sessionID") is not None and bool(record_at(value, "part"))
    )


def _is_message(value: JsonValue) -> bool:
    """Whether it is a message as it lies in the storage."""
    of_session = text_at(value, "sessionID") is not None and text_at(value, "role") in ("user", "assistant")
    return of_session and text_at(value, "id") is not None and bool(record_at(value, "time"))


def _is_stored(value: JsonValue) -> bool:
    """Whether it lies in the storage: a message, a part of one, a session, or what is kept beside them."""
    part = text_at(value, "messageID") is not None and text_at(value, "type") is not None
    return _is_message(value) or part or "projectID" in record_at(value) or isinstance(value, list)


def _is_export(document: JsonValue) -> bool:
    messages = document if isinstance(document, list) else items_at(document, "messages")
    return nearly_all(messages, _is_exported)


def _is_exported(message: JsonValue) -> bool:
    return text_at(message, "info", "sessionID") is not None and isinstance(at(message, "parts"), list)


# --- sessions --------------------------------------------------------------------------------------------


@define
class _Sessions:
    """The sessions, and which conversation each is: the first that has no parent is the main one."""

    names: dict[str, str] = Factory(dict)
    parents: dict[str, str] = Factory(dict)

    def learn(self, header: Record) -> None:
        """Which session this one belongs to, if it is a sub-agent's."""
        name, parent = text_at(header, "id"), text_at(header, "parentID")
        if name is not None and parent is not None and parent != name:
            self.parents.setdefault(name, parent)

    def conversation(self, session: str) -> str:
        """What its conversation is called."""
        known = self.names.get(session)
        if known is None:
            parent = self.parents.get(session)
            if parent is not None and parent not in self.names:
                self.names[parent] = "" if "" not in self.names.values() else parent
            own = "" if "" not in self.names.values() else session
            known = own if parent is None else f"{self.names[parent]}/{session}"
            self.names[session] = known
        return known


# --- what is there already -------------------------------------------------------------------------------


def _exported(document: JsonValue) -> Iterator[Entry]:
    stored = _Stored()
    stored.sessions.learn(record_at(document, "info"))
    stored.learn_undone(text_at(document, "info", "id"), record_at(document, "info"))
    messages = document if isinstance(document, list) else items_at(document, "messages")
    for number, each in enumerate(messages, start=1):
        if not _is_exported(each):
            text = "a message that is not one, or has no parts"
            yield Finding(place=Place(number), kind=FindingKind.UNKNOWN_RECORD, text=text)
            continue
        yield from stored.message(Place(number), record_at(each, "info"), list(records_in(items_at(each, "parts"))))
    yield from stored.finished()


def _lying(source: Source) -> Iterator[Entry]:
    """The files of the storage, put into the order in which they were written."""
    stored = _Stored()
    messages: list[tuple[int, str, Place, Record]] = []
    parts: dict[str, list[tuple[Place, Record]]] = {}
    for line in source.lines():
        if isinstance(line, Finding):
            yield line
            continue
        record = line.value if isinstance(line.value, dict) else {}
        place = Place(line.number, text_at(record, "id") or "")
        if _is_message(record):
            messages.append((time_at(record, "time", "created") or 0, text_at(record, "id") or "", place, record))
        elif (message := text_at(record, "messageID")) is not None and text_at(record, "type") is not None:
            parts.setdefault(message, []).append((place, record))
        else:
            stored.sessions.learn(record)
            stored.learn_undone(text_at(record, "id"), record)
            yield Bookkeeping(place=place, kind="session" if "directory" in record else "file")
    for _, name, place, header in sorted(messages, key=lambda message: message[:2]):
        yield from stored.message(place, header, sorted((part for _, part in parts.pop(name, [])), key=_when))
    yield from stored.finished()
    for message, left in parts.items():
        text = f"a part of the message {message}, which is not there"
        yield Finding(place=left[0][0], kind=FindingKind.ODD_FIELD, text=text)


@define
class _Stored:
    """What is known of messages that are all there already."""

    sessions: _Sessions = Factory(_Sessions)
    since: dict[str, str] = Factory(dict)  # of each session, the first message that the user took back
    undone: dict[str, list[Place]] = Factory(dict)  # of each conversation

    def learn_undone(self, session: str | None, header: Record) -> None:
        """What the user took back in the session, and has said nothing since."""
        message = text_at(header, "revert", "messageID")
        if session is not None and message is not None:
            self.since[session] = message

    def message(self, place: Place, header: Record, parts: list[Record]) -> Iterator[Entry]:
        """A message with its parts."""
        session = text_at(header, "sessionID") or ""
        conversation = self.sessions.conversation(session)
        if session in self.since and (text_at(header, "id") or "") >= self.since[session]:
            self.undone.setdefault(conversation, []).append(place)
        telling, message = Telling(at_once=True), Message(place, header, conversation)
        time = time_at(header, "time", "created")
        for part in parts:
            yield from telling.part(place, time, message, part)
        yield from telling.settle(place, time, message)

    def finished(self) -> Iterator[Entry]:
        """What is not part of a conversation any more."""
        for conversation, places in self.undone.items():
            records = frozenset(place.record for place in places)
            yield Undone(place=places[-1], at_ms=None, conversation=conversation, records=records)


def _when(part: Record) -> tuple[int, str]:
    """Where a part stands in its message: ids grow with time, but not in every version."""
    name = text_at(part, "id") or ""
    time = time_at(part, "time", "start") or time_at(part, "state", "time", "start") or 0
    return (0, name) if name.startswith("prt_") and len(name) > 20 else (time, name)


# --- what comes event by event ---------------------------------------------------------------------------


@define
class _Events:
    """What is known of the stream so far."""

    sessions: _Sessions = Factory(_Sessions)
    telling: Telling = Factory(Telling)
    messages: dict[str, Message] = Factory(dict)  # those that are not told to their end, by their ids
    grown: dict[str, dict[str, list[str]]] = Factory(dict)  # of messages, by the ids of parts: what they grew by
    settled: set[str] = Factory(set)
    errors: dict[str, tuple[Place, int | None, Record]] = Factory(dict)  # of sessions, until their message says them
    asked: dict[str, str] = Factory(dict)  # the call that each question about a permission is about
    told: dict[str, set[int]] = Factory(dict)  # the records that tell of each message
    undone: set[int] = Factory(set)

    def entries_of(self, place: Place, record: Record) -> Iterator[Entry]:
        """What an event says."""
        event = _framed(record)
        kind, told = text_at(event, "type") or "", record_at(event, "properties")
        time = time_at(record, "timestamp") or time_at(event, "timestamp")
        match kind:
            case "message.updated":
                yield from self._message(place, time, record_at(told, "info"))
            case "message.part.updated":
                yield from self._part(place, time, record_at(told, "part"))
            case "message.part.delta":
                self._grow(told)
                yield Bookkeeping(place=place, kind=kind)
            case "session.created" | "session.updated":
                self.sessions.learn(record_at(told, "info"))
                yield Bookkeeping(place=place, kind=kind)
            case "session.error":
                self.errors[text_at(told, "sessionID") or ""] = (place, time, record_at(told, "error"))
                yield Bookkeeping(place=place, kind=kind)
            case "permission.asked" | "permission.updated":
                call = text_at(told, "tool", "callID") or text_at(told, "callID") or ""
                self.asked[text_at(told, "id") or ""] = call
                self.telling.asked.add(call)
                yield Bookkeeping(place=place, kind=kind)
            case "permission.replied":
                yield self._replied(place, time, told)
            case "message.removed" | "message.part.removed":
                yield from self._removed(place, time, told)
            case "error" if text_at(event, "sessionID") is not None:
                conversation = self.sessions.conversation(text_at(event, "sessionID") or "")
                yield trouble(place, time, conversation, record_at(event, "error"))
            case _ if kind in PRINTED and record_at(event, "part"):
                yield from self._part(place, time, record_at(event, "part"))
            case _ if kind.startswith(QUIET):
                yield Bookkeeping(place=place, kind=kind)
            case _:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an event of unknown type {kind!r}")

    def finished(self) -> Iterator[Entry]:
        """What was never told to its end."""
        for name, message in list(self.messages.items()):
            self._put_together(name, message)
            yield from self.telling.settle(message.place, None, message)
        for session, (place, time, error) in self.errors.items():
            yield trouble(place, time, self.sessions.conversation(session), error)

    def _message(self, place: Place, time: int | None, header: Record) -> Iterator[Entry]:
        name, session = text_at(header, "id") or "", text_at(header, "sessionID") or ""
        message = self.messages.get(name)
        if message is None and name not in self.settled:
            conversation = self.sessions.conversation(session)
            for earlier in self._complete(conversation, text_at(header, "role") or ""):
                yield from self._settle(place, time, earlier)
            message = self.messages[name] = Message(place, header, conversation)
        if message is None:
            yield Bookkeeping(place=place, kind="message.updated again")
            return
        message.header = header
        error = record_at(header, "error")
        if error:
            self.errors.pop(session, None)
        if error or (text_at(header, "role") == "assistant" and "completed" in record_at(header, "time")):
            yield from self._settle(place, time, message)
        else:
            yield Bookkeeping(place=place, kind="message.updated", conversation=message.conversation)

    def _complete(self, conversation: str, role: str) -> list[Message]:
        """The messages that are complete when one of this role begins: the user may speak while a reply goes on."""
        earlier = [message for message in self.messages.values() if message.conversation == conversation]
        return [message for message in earlier if role == "assistant" or text_at(message.header, "role") == "user"]

    def _settle(self, place: Place, time: int | None, message: Message) -> Iterator[Entry]:
        name = text_at(message.header, "id") or ""
        self._put_together(name, message)
        self.messages.pop(name, None)
        self.settled.add(name)
        yield from self._noted(name, self.telling.settle(place, time, message))

    def _noted(self, message: str, entries: Iterator[Entry]) -> Iterator[Entry]:
        """The entries, which tell of the message."""
        for entry in entries:
            if not isinstance(entry, Bookkeeping):
                self.told.setdefault(message, set()).add(entry.place.record)
            yield entry

    def _part(self, place: Place, time: int | None, part: Record) -> Iterator[Entry]:
        name = text_at(part, "messageID") or ""
        if name in self.settled:
            yield Bookkeeping(place=place, kind="part of a message that is complete")
            return
        message = self.messages.get(name)
        if message is None:  # what is printed has no messages, only the parts of replies
            conversation = self.sessions.conversation(text_at(part, "sessionID") or "")
            message = self.messages[name] = Message(place, {"id": name, "role": "assistant"}, conversation)
        self._put_together(name, message)
        yield from self._noted(name, self.telling.part(place, time, message, part))

    def _grow(self, told: Record) -> None:
        """A part grows by a piece; pieces wait to be put together at once, as there may be thousands."""
        name, part = text_at(told, "messageID") or "", text_at(told, "partID") or ""
        message = self.messages.get(name)
        if message is not None and part in message.parts and text_at(told, "field") == "text":
            self.grown.setdefault(name, {}).setdefault(part, []).append(text_at(told, "delta") or "")

    def _put_together(self, name: str, message: Message) -> None:
        """Put the pieces that came to where they belong, before anything is made of the message's parts."""
        for part, pieces in self.grown.pop(name, {}).items():
            if (growing := message.parts.get(part)) is not None:
                growing["text"] = "".join([text_at(growing, "text") or "", *pieces])

    def _replied(self, place: Place, time: int | None, told: Record) -> Entry:
        call = self.asked.get(text_at(told, "requestID") or text_at(told, "permissionID") or "", "")
        answer = text_at(told, "reply") or text_at(told, "response")
        if answer in YES:
            self.telling.asked.discard(call)
        if answer in YES and call in self.telling.called:
            conversation = self.sessions.conversation(text_at(told, "sessionID") or "")
            return CallStarted(place=place, at_ms=time, conversation=conversation, call=call)
        return Bookkeeping(place=place, kind="permission.replied")

    def _removed(self, place: Place, time: int | None, told: Record) -> Iterator[Entry]:
        """Something was taken back: a message is undone; a part that is told already stays, and a finding says so."""
        name, part = text_at(told, "messageID") or "", text_at(told, "partID")
        message = self.messages.get(name)
        if part is None:
            self.messages.pop(name, None)
            self.settled.add(name)
            self.undone |= self.told.pop(name, set())
            conversation = self.sessions.conversation(text_at(told, "sessionID") or "")
            yield Undone(place=place, at_ms=time, conversation=conversation, records=frozenset(self.undone))
        elif message is not None and message.parts.pop(part, None) is not None:
            yield Bookkeeping(place=place, kind="message.part.removed")
        else:
            text = "a part of a message was taken back after it was told; it is told all the same"
            yield Finding(place=place, kind=FindingKind.ODD_FIELD, text=text)
