"""The Agent Trajectory Interchange Format: steps of a system, a user and an agent; a call and its result in one step.

There is no status. A result need not name its call: then it answers nothing that the format knows of.
"""

from collections.abc import Iterator

from loopkernel.data.blocks import ReasoningBlock, TextBlock
from loopkernel.data.foreign import ForeignBlock
from loopkernel.data.usage import Usage
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    Entry,
    Finding,
    FindingKind,
    Inferred,
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
    content_of,
    count_at,
    items_at,
    record_at,
    records_in,
    text_at,
    time_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

INFERRED = frozenset({Inferred.STATUS, Inferred.START})


class Atif(Reader):
    """The reader."""

    name = "atif"
    counts_reasoning = False

    @override
    def fits(self, head: Head) -> bool:
        return (text_at(head.document, "schema_version") or "").startswith("ATIF")

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        for number, step in enumerate(items_at(source.document(), "steps"), start=1):
            place, time = Place(number, f"steps[{number - 1}]"), time_at(step, "timestamp")
            match text_at(step, "source"):
                case "user":
                    content = content_of(at(step, "message"))
                    yield UserSaid(place=place, at_ms=time, conversation="", content=content)
                case "agent":
                    yield _reply(place, time, record_at(step))
                    for result in records_in(items_at(step, "observation", "results")):
                        yield _result(place, time, result)
                case "system":
                    yield Bookkeeping(place=place, kind="system")
                case source_name:
                    text = f"a step of unknown source {source_name!r}"
                    yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=text)


def _reply(place: Place, time: int | None, step: Record) -> ReplyPart:
    blocks: list[ForeignBlock] = []
    if reasoning := text_at(step, "reasoning_content"):
        blocks.append(ReasoningBlock(reasoning))
    blocks += [block for block in content_of(at(step, "message")) if isinstance(block, TextBlock)]
    for call in records_in(items_at(step, "tool_calls")):
        blocks.append(call_of(at(call, "tool_call_id"), at(call, "function_name"), at(call, "arguments")))
    metrics = record_at(step, "metrics")
    usage = Usage(input=count_at(metrics, "prompt_tokens"), output=count_at(metrics, "completion_tokens"))
    return ReplyPart(
        place=place,
        at_ms=time,
        conversation="",
        reply=f"step {place.record}",
        content=tuple(blocks),
        model=text_at(step, "model_name"),
        usage=usage if metrics else None,
    )


def _result(place: Place, time: int | None, result: Record) -> ResultSeen:
    return ResultSeen(
        place=place,
        at_ms=time,
        conversation="",
        call=text_at(result, "source_call_id"),
        outcome=Outcome.DONE,
        content=content_of(at(result, "content")),
        inferred=INFERRED,
    )
