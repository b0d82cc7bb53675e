"""Trajectories of SWE-agent: one object, whose `history` is what the model saw.

With function calling, calls and results have ids. In the text protocol there are none: each reply has one command, and
the user message behind it is the observation. The closing `submit` often has none.
"""

from collections.abc import Iterator

from loopkernel.data.blocks import TextBlock
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.json_text import Json
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
    flag_at,
    items_at,
    record_at,
    records_in,
    text_at,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

COMMAND = "command"  # what the one tool of the text protocol is called here
STATUS_INFERRED = frozenset({Inferred.STATUS})


class SweAgent(Reader):
    """The reader."""

    name = "swe-agent"

    @override
    def fits(self, head: Head) -> bool:
        return any(text_at(item, "agent") is not None and "role" in record_at(item) for item in _history(head)[:3])

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        open_command = ""  # the call of the text protocol that waits for its observation
        spoken = False
        for number, item in enumerate(items_at(source.document(), "history"), start=1):
            place, content = Place(number, f"history[{number - 1}]"), (TextBlock(_text(record_at(item))),)
            role = text_at(item, "role")
            if role == "assistant":
                reply = _reply(place, record_at(item))
                calls = [block.provider_id for block in reply.content if isinstance(block, ForeignCall)]
                open_command = calls[0] if Inferred.CALL in reply.inferred else ""
                spoken = True
                yield reply
            elif role == "tool":
                for name in items_at(item, "tool_call_ids"):
                    yield _result(place, name if isinstance(name, str) else None, content)
            elif role == "user" and flag_at(item, "is_demo"):
                yield Bookkeeping(place=place, kind="demonstration")
            elif role == "user" and spoken and open_command:
                yield _result(place, open_command, content)
                open_command = ""
            elif role == "user":
                yield UserSaid(place=place, at_ms=None, conversation="", content=content)
            elif role == "system":
                yield Bookkeeping(place=place, kind="instructions")
            else:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=f"an entry of unknown role {role!r}")


def _history(head: Head) -> list[Record]:
    return list(records_in(items_at(head.document, "history")))


def _text(item: Record) -> str:
    content = at(item, "content")
    if isinstance(content, str):
        return content
    return "\n".join(text_at(part, "text") or "" for part in records_in(items_at(content)))


def _reply(place: Place, item: Record) -> ReplyPart:
    blocks: list[ForeignBlock] = [TextBlock(_text(item))]
    inferred = frozenset[Inferred]()
    for call in records_in(items_at(item, "tool_calls")):
        blocks.append(call_of(at(call, "id"), at(call, "function", "name"), at(call, "function", "arguments")))
    action = text_at(item, "action") or ""
    if len(blocks) == 1 and action.strip():
        inferred = frozenset({Inferred.CALL})
        name = f"step {place.record}"
        blocks.append(ForeignCall(provider_id=name, tool=COMMAND, input=Json.of({COMMAND: action})))
    return ReplyPart(
        place=place,
        at_ms=None,
        conversation="",
        reply=f"entry {place.record}",
        content=tuple(blocks),
        inferred=inferred,
    )


def _result(place: Place, call: str | None, content: tuple[TextBlock, ...]) -> ResultSeen:
    return ResultSeen(
        place=place,
        at_ms=None,
        conversation="",
        call=call,
        outcome=Outcome.DONE,
        content=content,
        inferred=STATUS_INFERRED,
    )
