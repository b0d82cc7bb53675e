"""Sessions of Droid as lines: those that it keeps, with Anthropic's blocks, and what `stream-json` prints of a run.

In what is printed, calls and results are lines of their own; a call names its reply, or is of the one before it.
"""

from collections.abc import Iterator
from typing import Protocol

from attrs import Factory, define
from loopkernel.data.blocks import ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.branches import Branches, gone_back
from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    Compacted,
    Entry,
    Finding,
    FindingKind,
    Inferred,
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
    call_of,
    flag_at,
    items_at,
    kept,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.readers.anthropic_blocks import reply_block, result_blocks, usage_of, user_blocks
from loopkernel_adapters.transcripts.source import Head, Reader, Source

KEPT = frozenset(["session_start", "session_end", "session_settings", "todo_state", "agent_turn_outcome"])
OWN_BLOCKS = frozenset(["tool_use", "tool_result"])


class Droid(Reader):
    """The reader."""

    name = "droid"

    @override
    def fits(self, head: Head) -> bool:
        return any(_is_kept(line) or _is_printed(line) for line in head.lines) and not any(map(_is_of_pi, head.lines))

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        printed = any(map(_is_printed, source.head().lines))
        reading: _Told = _Printed() if printed else _Session()
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            else:
                record = record_at(line.value)
                yield from reading.entries_of(Place(line.number), time_at(record, "timestamp"), record)


def _is_kept(line: JsonValue) -> bool:
    """Whether the line begins a session, or is a message with a call or a result in a block."""
    if text_at(line, "type") == "session_start":
        return text_at(line, "id") is not None and text_at(line, "cwd") is not None
    kinds = {text_at(block, "type") for block in records_in(items_at(line, "message", "content"))}
    return text_at(line, "type") == "message" and "parentId" in record_at(line) and bool(kinds & OWN_BLOCKS)


def _is_of_pi(line: JsonValue) -> bool:
    """Whether the line is one of pi, whose messages look alike: the beginning of a session, a result, or a reply."""
    message = record_at(line, "message")
    return text_at(line, "type") == "session" or text_at(message, "role") == "toolResult" or "stopReason" in message


def _is_printed(line: JsonValue) -> bool:
    if text_at(line, "session_id") is None and text_at(line, "sessionId") is None:
        return False
    match text_at(line, "type"):
        case "message":
            return text_at(line, "role") is not None and text_at(line, "text") is not None
        case "tool_call":
            return text_at(line, "toolName") is not None
        case "completion":
            return text_at(line, "finalText") is not None
        case _:
            return False


class _Told(Protocol):
    """One of the two forms."""

    def entries_of(self, place: Place, time: int | None, record: Record) -> Iterator[Entry]:
        """What a record says."""
        ...


def _unknown(place: Place, what: str) -> Finding:
    return Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=what)


# --- what it keeps ---------------------------------------------------------------------------------------


@define
class _Session:
    """A session that it keeps, whose messages follow each other by `parentId`."""

    numbers: dict[str, int] = Factory(dict)  # of the messages, by the ids of these and of what else follows them
    branches: Branches = Factory(Branches)

    def entries_of(self, place: Place, time: int | None, record: Record) -> Iterator[Entry]:
        """What a record says."""
        kind, message = text_at(record, "type"), record_at(record, "message")
        if kind == "message":
            yield from gone_back(place, record, self.numbers, self.branches)
        if self.branches.latest is not None:
            self.numbers.setdefault(text_at(record, "id") or "", self.branches.latest)
        match kind:
            case "message" if text_at(message, "role") == "user":
                yield from _said(place, time, message)
            case "message" if text_at(message, "role") == "assistant":
                yield from _answered(place, time, text_at(record, "id") or f"record {place.record}", message)
            case "compaction_state":
                summary = text_at(record, "summaryText")
                yield Compacted(place=place, at_ms=time, conversation="", summary=summary)
            case str() if kind in KEPT:
                yield Bookkeeping(place=place, kind=kind)
            case _:
                yield _unknown(place, f"a record of unknown type {kind!r}")


def _blocks(message: Record) -> list[Record]:
    content = at(message, "content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(records_in(items_at(content)))


def _said(place: Place, time: int | None, message: Record) -> Iterator[Entry]:
    said: list[UserBlock] = []
    blocks = _blocks(message)
    for block in blocks:
        if text_at(block, "type") != "tool_result":
            said += user_blocks(block)
            continue
        yield ResultSeen(
            place=place,
            at_ms=time,
            conversation="",
            call=text_at(block, "tool_use_id"),
            outcome=Outcome.ERROR if flag_at(block, "is_error") else Outcome.DONE,
            content=result_blocks(at(block, "content")),
        )
    if said or not blocks:
        yield UserSaid(place=place, at_ms=time, conversation="", content=tuple(said))


def _answered(place: Place, time: int | None, reply: str, message: Record) -> Iterator[Entry]:
    model, content = text_at(message, "model"), list[ForeignBlock]()
    for block in _blocks(message):
        found = reply_block(block, model or "")
        if found is None:
            yield _unknown(place, f"a block of unknown type {text_at(block, 'type')!r} in a reply")
        else:
            content.append(found)
    usage = usage_of(record_at(message, "usage"))
    yield ReplyPart(
        place=place, at_ms=time, conversation="", reply=reply, content=tuple(content), model=model, usage=usage
    )


# --- what it prints --------------------------------------------------------------------------------------


@define
class _Printed:
    """What is known of a run that was printed."""

    model: str | None = None
    reply: str = ""  # the latest one
    closed: bool = True  # what the model says next is another reply
    text: str = ""  # what the model said last

    def entries_of(self, place: Place, time: int | None, record: Record) -> Iterator[Entry]:
        """What a record says."""
        kind, text = text_at(record, "type"), text_at(record, "text") or ""
        match kind:
            case "system":
                self.model = text_at(record, "model") or self.model
                yield Bookkeeping(place=place, kind=kind)
            case "message" if text_at(record, "role") == "user":
                self.closed = True
                yield UserSaid(place=place, at_ms=time, conversation="", content=(TextBlock(text),))
            case "message" if text_at(record, "role") == "assistant":
                self.text = text
                yield self._part(place, time, text_at(record, "id"), TextBlock(text))
            case "reasoning":
                yield self._part(place, time, text_at(record, "messageId"), ReasoningBlock(text))
            case "tool_call":
                call = call_of(_name(record), at(record, "toolName"), at(record, "parameters"))
                yield self._part(place, time, text_at(record, "messageId"), call)
            case "tool_result":
                self.closed = True
                yield _result(place, time, record)
            case "completion":
                final = text_at(record, "finalText")
                if final and final != self.text:
                    yield self._part(place, time, None, TextBlock(final))
                yield self._used(place, time, record_at(record, "usage"))
            case "result":
                yield Bookkeeping(place=place, kind=kind)
            case "error":
                words = text_at(record, "message") or text_at(record, "error", "message") or ""
                yield ModelTrouble(place=place, at_ms=time, conversation="", error=ErrorClass.UNKNOWN, message=words)
            case _:
                yield _unknown(place, f"a record of unknown type {kind!r}")

    def _used(self, place: Place, time: int | None, usage: Record) -> Entry:
        """The tokens of the run, which its last reply gets: of each reply, they are not told."""
        if not usage or not self.reply:
            return Bookkeeping(place=place, kind="completion")
        told, reply = usage_of(usage), self.reply
        return ReplyPart(place=place, at_ms=time, conversation="", reply=reply, content=(), counted="", usage=told)

    def _part(self, place: Place, time: int | None, reply: str | None, block: ForeignBlock) -> ReplyPart:
        inferred = frozenset({Inferred.REPLY}) if reply is None else frozenset[Inferred]()
        if self.closed and reply == self.reply:  # the message of the user, in some versions: it names no reply
            self.reply = f"record {place.record}"
        elif reply is not None or self.closed:
            self.reply = reply or f"record {place.record}"
        self.closed = False
        return ReplyPart(
            place=place,
            at_ms=time,
            conversation="",
            reply=self.reply,
            content=(block,),
            model=self.model,
            inferred=inferred,
        )


def _name(record: Record) -> str:
    """The id of the call, which is that of the line where it stands nowhere else."""
    return text_at(record, "toolCallId") or text_at(record, "id") or ""


def _result(place: Place, time: int | None, record: Record) -> ResultSeen:
    """A result; some versions tell no error, but the code that a command ended with."""
    value = at(record, "value")
    code = at(value, "exitCode")
    told = isinstance(at(record, "isError"), bool)
    failed = flag_at(record, "isError") if told else isinstance(code, int) and code != 0
    words = text_at(record, "error", "message") if value is None else None
    text = words or (value if isinstance(value, str) else kept(value).text)
    return ResultSeen(
        place=place,
        at_ms=time,
        conversation="",
        call=_name(record),
        outcome=Outcome.ERROR if failed else Outcome.DONE,
        content=(TextBlock(text),),
        tool=text_at(record, "toolName") or "",
        inferred=frozenset[Inferred]() if told else frozenset({Inferred.STATUS}),
    )
