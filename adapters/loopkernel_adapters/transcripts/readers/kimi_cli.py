"""Logs of Kimi CLI, an event a line. The closest of all to the log of a loop: steps, parts, calls, results and more."""

from collections.abc import Iterator

from attrs import define
from loopkernel.data.blocks import ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.json_text import JsonValue
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    CallStarted,
    Compacted,
    Entry,
    Finding,
    FindingKind,
    Interrupted,
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
    kept,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

FAMILIES = (
    "metadata",
    "config.",
    "tools.",
    "llm.",
    "usage.",
    "permission.",
    "plan_mode.",
    "full_compaction.",
    "context.",
)
STOPS = {reason.value: reason for reason in StopReason}
REJECTED = "rejected"


class KimiCli(Reader):
    """The reader."""

    name = "kimi-cli"
    counts_reasoning = False

    @override
    def fits(self, head: Head) -> bool:
        kinds = [text_at(line, "type") or "" for line in head.lines]
        return any(kind.startswith(("turn.prompt", "context.append", "tools.set_active")) for kind in kinds)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        reading = _Reading()
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            else:
                record = line.value if isinstance(line.value, dict) else {}
                yield from reading.entries_of(Place(line.number), record)


@define
class _Reading:
    """What is known of the file so far."""

    step: str = ""  # the reply that is under way

    def entries_of(self, place: Place, record: Record) -> Iterator[Entry]:
        """What an event says."""
        kind, time = text_at(record, "type") or "", time_at(record, "time")
        match kind:
            case "turn.prompt" | "turn.steer":
                content = _content(at(record, "input"))
                yield UserSaid(place=place, at_ms=time, conversation="", content=content)
            case "turn.cancel":
                yield Interrupted(place=place, at_ms=time, conversation="", reason="cancelled")
            case "context.append_loop_event":
                yield from self._event(place, time, record_at(record, "event"))
            case "permission.record_approval_result":
                if text_at(record, "result", "decision") == REJECTED:
                    yield Bookkeeping(place=place, kind="rejection")
                else:
                    call = text_at(record, "toolCallId") or ""
                    yield CallStarted(place=place, at_ms=time, conversation="", call=call)
            case "context.apply_compaction":
                yield Compacted(
                    place=place,
                    at_ms=time,
                    conversation="",
                    summary=text_at(record, "summary"),
                    kept_messages=count_at(record, "keptUserMessageCount"),
                )
            case _ if kind.startswith(FAMILIES):
                yield Bookkeeping(place=place, kind=kind)
            case _:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an event of unknown type {kind!r}")

    def _event(self, place: Place, time: int | None, event: Record) -> Iterator[Entry]:
        step = text_at(event, "stepUuid") or text_at(event, "uuid") or self.step
        match text_at(event, "type"):
            case "step.begin":
                self.step = step
                yield Bookkeeping(place=place, kind="step.begin")
            case "content.part":
                yield self._part(place, time, step, _part(record_at(event, "part")))
            case "tool.call":
                call = call_of(at(event, "toolCallId"), at(event, "name"), at(event, "args"))
                yield self._part(place, time, step, (call,))
                yield CallStarted(place=place, at_ms=time, conversation="", call=call.provider_id)
            case "tool.result":
                yield ResultSeen(
                    place=place,
                    at_ms=time,
                    conversation="",
                    call=text_at(event, "toolCallId"),
                    outcome=Outcome.ERROR if flag_at(event, "result", "isError") else Outcome.DONE,
                    content=_content(at(event, "result", "output")),
                )
            case "step.end":
                yield ReplyPart(
                    place=place,
                    at_ms=time,
                    conversation="",
                    reply=step,
                    content=(),
                    stop=STOPS.get(text_at(event, "finishReason") or ""),
                    usage=_usage(record_at(event, "usage")),
                )
            case kind:
                text = f"a loop event of unknown type {kind!r}"
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=text)

    def _part(self, place: Place, time: int | None, step: str, content: tuple[ForeignBlock, ...]) -> ReplyPart:
        return ReplyPart(place=place, at_ms=time, conversation="", reply=step, content=content)


def _part(part: Record) -> tuple[ForeignBlock, ...]:
    if text_at(part, "type") == "think":
        return (ReasoningBlock(text_at(part, "think") or ""),)
    return (TextBlock(text_at(part, "text") or ""),)


def _content(content: JsonValue) -> tuple[UserBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(content),)
    found: list[UserBlock] = []
    for part in records_in(items_at(content)):
        text = text_at(part, "text")
        found.append(TextBlock(kept(part).text if text is None else text))
    return tuple(found)


def _usage(usage: Record) -> Usage:
    return Usage(
        input=count_at(usage, "inputOther"),
        output=count_at(usage, "output"),
        cache_read=count_at(usage, "inputCacheRead"),
        cache_write=count_at(usage, "inputCacheCreation"),
    )
