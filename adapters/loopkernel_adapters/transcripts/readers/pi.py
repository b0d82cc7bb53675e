"""Session files of pi: a `session` line, then messages, changes of settings, and compactions.

A reply that was aborted, or failed, stays in the file with whatever had arrived, calls included. Records are chained by
`parentId`, so that the user can go back and on from there; in the first version they are a list.
"""

from collections.abc import Iterator

from loopkernel.data.blocks import MediaBlock, OpaqueBlock, ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.json_text import JsonValue
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.branches import Branches, gone_back
from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    Compacted,
    Entry,
    Finding,
    FindingKind,
    Inferred,
    Outcome,
    Place,
    ReplyEnd,
    ReplyPart,
    ResultSeen,
    UserSaid,
)
from loopkernel_adapters.transcripts.fields import (
    Record,
    at,
    call_of,
    content_of,
    count_at,
    flag_at,
    items_at,
    kept,
    named,
    record_at,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

STOPS = {"stop": StopReason.END_TURN, "toolUse": StopReason.TOOL_USE, "length": StopReason.MAX_TOKENS}
ENDS = {"aborted": ReplyEnd.ABORTED, "error": ReplyEnd.FAILED}
SETTINGS = frozenset(["session", "model_change", "thinking_level_change", "label", "custom", "session_info"])
ABORTED = ("aborted", "Aborted", "Operation aborted", "Command aborted")


class Pi(Reader):
    """The reader."""

    name = "pi"

    @override
    def fits(self, head: Head) -> bool:
        begun = any(text_at(line, "type") == "session" and text_at(line, "cwd") is not None for line in head.lines[:1])
        return begun or any(map(_is_of_pi, head.lines))  # whose first line may be lost

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        numbers: dict[str, int] = {}  # of the records, by their ids
        read: list[int] = []  # the numbers of all of them
        branches = Branches()
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
                continue
            place, record = Place(line.number), line.value
            read.append(line.number)
            name = text_at(record, "id")
            if name is not None and text_at(record, "type") != "session":
                yield from gone_back(place, record_at(record), numbers, branches)
            numbers.setdefault(name or "", line.number)
            match text_at(record, "type"):
                case "message":
                    yield from _message(place, time_at(record, "timestamp"), record_at(record, "message"))
                case "custom_message":
                    yield from _message(place, time_at(record, "timestamp"), {**record_at(record), "role": "custom"})
                case "branch_summary":
                    said = (TextBlock(text_at(record, "summary") or ""),)
                    time = time_at(record, "timestamp")
                    yield UserSaid(place=place, at_ms=time, conversation="", content=said, injected=True)
                case "compaction":
                    index: JsonValue = at(record, "firstKeptEntryIndex")
                    listed = isinstance(index, int) and 0 < index < len(read)
                    yield Compacted(
                        place=place,
                        at_ms=time_at(record, "timestamp"),
                        conversation="",
                        summary=text_at(record, "summary"),
                        kept_from=read[index]
                        if listed and isinstance(index, int)
                        else numbers.get(text_at(record, "firstKeptEntryId") or "-"),
                    )
                case kind if kind in SETTINGS:
                    yield Bookkeeping(place=place, kind=kind or "")
                case kind:
                    text = f"a record of unknown type {kind!r}"
                    yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=text)


def _is_of_pi(line: JsonValue) -> bool:
    """Whether the line is a result, or a reply with its end: messages of others are chained in the same way."""
    if text_at(line, "type") != "message" or "parentId" not in record_at(line):
        return False
    role = text_at(line, "message", "role")
    return role == "toolResult" or (role == "assistant" and text_at(line, "message", "stopReason") is not None)


def _message(place: Place, time: int | None, message: Record) -> Iterator[Entry]:
    match text_at(message, "role"):
        case "user":
            content = content_of(at(message, "content"), _image)
            yield UserSaid(place=place, at_ms=time, conversation="", content=content)
        case "assistant":
            yield _reply(place, time, message)
        case "toolResult":
            yield _result(place, time, message, content_of(at(message, "content"), _image))
        case "custom" | "hookMessage":
            content = content_of(at(message, "content"), _image)
            yield UserSaid(place=place, at_ms=time, conversation="", content=content, injected=True)
        case "bashExecution" if flag_at(message, "excludeFromContext"):
            yield Bookkeeping(place=place, kind="command that the model was not told of")
        case "bashExecution":
            command, output = text_at(message, "command") or "", text_at(message, "output") or ""
            said = (TextBlock(f"$ {command}\n{output}"),)
            yield UserSaid(place=place, at_ms=time, conversation="", content=said, injected=True)
        case role:
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"a message of unknown role {role!r}")


def _reply(place: Place, time: int | None, message: Record) -> ReplyPart:
    stop = text_at(message, "stopReason") or ""
    words = text_at(message, "errorMessage") or ""
    model = text_at(message, "model") or ""
    return ReplyPart(
        place=place,
        at_ms=time,
        conversation="",
        reply=text_at(message, "responseId") or f"record {place.record}",
        content=tuple(block for part in items_at(message, "content") for block in _reply_block(part, model)),
        model=text_at(message, "model"),
        stop=STOPS.get(stop),
        usage=_usage(record_at(message, "usage")),
        end=ENDS.get(stop),
        error=_class_of(words) if stop == "error" else None,
        message=words,
    )


def _reply_block(part: JsonValue, model: str) -> Iterator[ForeignBlock]:
    match text_at(part, "type"):
        case "text":
            yield TextBlock(text_at(part, "text") or "")
        case "thinking":
            yield ReasoningBlock(text_at(part, "thinking") or "")
        case "toolCall":
            yield call_of(at(part, "id"), at(part, "name"), at(part, "arguments"))
        case _:
            yield OpaqueBlock(model, kept(named(record_at(part))))


def _result(place: Place, time: int | None, message: Record, content: tuple[UserBlock, ...]) -> ResultSeen:
    text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
    outcome, inferred = Outcome.DONE, frozenset[Inferred]()
    if flag_at(message, "isError"):
        aborted = text.rstrip().rpartition("\n")[2] in ABORTED
        outcome = Outcome.CANCELLED if aborted else Outcome.ERROR
        inferred = frozenset({Inferred.STATUS}) if aborted else inferred
    return ResultSeen(
        place=place,
        at_ms=time,
        conversation="",
        call=text_at(message, "toolCallId"),
        outcome=outcome,
        content=content,
        tool=text_at(message, "toolName") or "",
        inferred=inferred,
    )


def _image(part: Record) -> MediaBlock | None:
    is_image = text_at(part, "type") == "image"
    return MediaBlock(text_at(part, "mimeType") or "image/*", text_at(part, "data") or "") if is_image else None


def _usage(usage: Record) -> Usage:
    return Usage(
        input=count_at(usage, "input"),
        output=count_at(usage, "output"),
        cache_read=count_at(usage, "cacheRead"),
        cache_write=count_at(usage, "cacheWrite"),
    )


def _class_of(words: str) -> ErrorClass:
    lowered = words.lower()
    if "terminated" in lowered or "network" in lowered or "fetch failed" in lowered:
        return ErrorClass.NETWORK
    return ErrorClass.BAD_REQUEST if "400" in lowered else ErrorClass.UNKNOWN
