"""Event files of Copilot CLI: an event a line. The one format here with the true start and end of each tool."""

from collections.abc import Iterator

from loopkernel.data.blocks import ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    CallStarted,
    Compacted,
    Entry,
    Finding,
    FindingKind,
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
    call_of,
    count_at,
    flag_at,
    items_at,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

FAMILIES = ("session.", "hook.", "system.", "subagent.", "assistant.", "tool.", "permission.", "skill.")


class CopilotCli(Reader):
    """The reader."""

    name = "copilot-cli"
    counts_reasoning = False

    @override
    def fits(self, head: Head) -> bool:
        return any(
            (text_at(line, "type") or "").startswith(("session.start", "assistant.", "user.message"))
            and isinstance(at(line, "data"), dict)
            for line in head.lines
        )

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            else:
                record = line.value if isinstance(line.value, dict) else {}
                time = time_at(record, "timestamp")
                yield from _entries(Place(line.number), time, text_at(record, "type") or "", record_at(record, "data"))


def _entries(place: Place, time: int | None, kind: str, data: Record) -> Iterator[Entry]:
    match kind:
        case "user.message":
            content = (TextBlock(text_at(data, "content") or ""),)
            yield UserSaid(place=place, at_ms=time, conversation="", content=content)
        case "assistant.message":
            yield _reply(place, time, data)
        case "tool.execution_start":
            yield CallStarted(place=place, at_ms=time, conversation="", call=text_at(data, "toolCallId") or "")
        case "tool.execution_complete":
            yield _result(place, time, data)
        case "abort":
            yield Interrupted(place=place, at_ms=time, conversation="", reason=text_at(data, "reason") or "")
        case "session.error":
            status, words = count_at(data, "statusCode"), text_at(data, "message") or ""
            yield ModelTrouble(place=place, at_ms=time, conversation="", error=_class_of(status), message=words)
        case "session.truncation":
            yield Compacted(place=place, at_ms=time, conversation="")
        case _ if kind.startswith(FAMILIES):
            yield Bookkeeping(place=place, kind=kind)
        case _:
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an event of unknown type {kind!r}")


def _reply(place: Place, time: int | None, data: Record) -> ReplyPart:
    blocks: list[ForeignBlock] = []
    if reasoning := text_at(data, "reasoningText"):
        blocks.append(ReasoningBlock(reasoning))
    if text := text_at(data, "content"):
        blocks.append(TextBlock(text))
    for request in records_in(items_at(data, "toolRequests")):
        blocks.append(call_of(at(request, "toolCallId"), at(request, "name"), at(request, "arguments")))
    return ReplyPart(
        place=place,
        at_ms=time,
        conversation="",
        reply=text_at(data, "messageId") or f"record {place.record}",
        content=tuple(blocks),
        model=text_at(data, "model"),
        usage=Usage(output=count_at(data, "outputTokens")),
    )


def _result(place: Place, time: int | None, data: Record) -> ResultSeen:
    words = text_at(data, "result", "content") or text_at(data, "error", "message") or ""
    content: tuple[UserBlock, ...] = (TextBlock(words),)
    return ResultSeen(
        place=place,
        at_ms=time,
        conversation="",
        call=text_at(data, "toolCallId"),
        outcome=Outcome.DONE if flag_at(data, "success") else Outcome.ERROR,
        content=content,
    )


def _class_of(status: int) -> ErrorClass:
    if status >= 500:
        return ErrorClass.SERVER
    return {400: ErrorClass.BAD_REQUEST, 401: ErrorClass.AUTH, 429: ErrorClass.RATE_LIMITED}.get(
        status, ErrorClass.UNKNOWN
    )
