"""A recording as the conversation that it leaves behind: what a new session can begin from, once it is repaired.

The repair is the kernel's (rule RESUME-5). Replies that failed or were aborted have no place in it; what a compaction
left out is gone, and its summary stands for it.
"""

from collections.abc import Iterable

from attrs import Factory, define
from loopkernel.data.blocks import TextBlock
from loopkernel.data.foreign import (
    ForeignBlock,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.words import CallStatus

from loopkernel_adapters.transcripts.entries import (
    Compacted,
    Entry,
    Inferred,
    Outcome,
    Place,
    ReplyPart,
    ResultSeen,
    UserSaid,
)

STATUSES = {
    Outcome.DONE: CallStatus.DONE,
    Outcome.ERROR: CallStatus.ERROR,
    Outcome.REJECTED: CallStatus.REJECTED_BY_USER,
    Outcome.CANCELLED: CallStatus.CANCELLED,
    Outcome.LOST: CallStatus.LOST,
}


@define
class ForeignThread:
    """The messages of a conversation, and where each of them stands in the recording."""

    messages: list[ForeignMessage] = Factory(list)
    places: list[Place] = Factory(list)
    _replies: dict[str, int] = Factory(dict)  # where each reply stands

    def take(self, entry: Entry) -> None:
        """Add what the entry says, if it is a part of the conversation."""
        match entry:
            case UserSaid():
                self._add(entry.place, ForeignUser(entry.content))
            case ReplyPart():
                self._reply(entry)
            case ResultSeen():
                call = self._next_call() if entry.call is None else entry.call
                self._add(entry.place, ForeignResults((_result(entry, call),)))
            case Compacted() if entry.summary:
                self.messages, self.places, self._replies = [], [], {}
            case _:
                pass

    def _add(self, place: Place, message: ForeignMessage) -> None:
        self.messages.append(message)
        self.places.append(place)

    def _reply(self, part: ReplyPart) -> None:
        at = self._replies.get(part.reply)
        if part.end is not None:
            if at is not None:
                self.messages[at] = ForeignReply(content=(), model=part.model or "")
            return
        if at is None:
            self._replies[part.reply] = len(self.messages)
            self._add(part.place, ForeignReply(content=part.content, model=part.model or ""))
            return
        earlier = self.messages[at]
        content: tuple[ForeignBlock, ...] = earlier.content if isinstance(earlier, ForeignReply) else ()
        self.messages[at] = ForeignReply(content=(*content, *part.content), model=part.model or "")

    def _next_call(self) -> str:
        """The id of the first call that has no result, for formats without ids."""
        answered = {r.provider_id for m in self.messages if isinstance(m, ForeignResults) for r in m.results}
        calls = (call.provider_id for m in self.messages if isinstance(m, ForeignReply) for call in m.calls)
        return next((name for name in calls if name not in answered), "")


def _result(result: ResultSeen, call: str) -> ForeignResult:
    return ForeignResult(
        provider_id=call,
        status=STATUSES[result.outcome],
        content=tuple(block for block in result.content if not isinstance(block, TextBlock) or block.text),
        status_from_text=Inferred.STATUS in result.inferred,
    )


def foreign_threads(entries: Iterable[Entry]) -> dict[str, ForeignThread]:
    """The conversations of a recording, by their names, in the order in which they begin."""
    threads: dict[str, ForeignThread] = {}
    for entry in entries:
        conversation = getattr(entry, "conversation", None)  # findings and bookkeeping belong to none
        if isinstance(conversation, str):
            threads.setdefault(conversation, ForeignThread()).take(entry)
    return threads
