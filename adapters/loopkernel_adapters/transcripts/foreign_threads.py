"""A recording as the conversation that it leaves behind: what a new session can begin from, once it is repaired.

The repair is the kernel's (rule RESUME-5). Replies that failed or were aborted have no place in it; what a compaction
left out is gone, and its summary stands for it; so is what the user has undone.
"""

from collections.abc import Iterable

from attrs import Factory, define
from loopkernel.data.blocks import TextBlock
from loopkernel.data.foreign import (
    ForeignBlock,
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.repair import repair

from loopkernel_adapters.transcripts.entries import (
    Compacted,
    Entry,
    Inferred,
    Outcome,
    Place,
    ReplyPart,
    ResultSeen,
    Undone,
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
class _Reply:
    """A reply as far as it has come."""

    model: str
    content: list[ForeignBlock] = Factory(list)


@define
class ForeignThread:
    """The messages of a conversation, and where each of them stands in the recording."""

    places: list[Place] = Factory(list)
    _said: list[ForeignUser | ForeignResults | _Reply] = Factory(list)
    _replies: dict[str, int] = Factory(dict)  # where each reply stands
    _answered: set[str] = Factory(set)
    _summary: int | None = None  # where it stands, if there is one
    _settled: int = 0  # the messages before this one have no call without a result
    _taken: list[Entry] = Factory(list)

    def take(self, entry: Entry) -> None:
        """Add what the entry says, if it is a part of the conversation."""
        self._taken.append(entry)
        if isinstance(entry, Undone):
            self._undo(entry.records)
        else:
            self._add_entry(entry)

    def _undo(self, records: frozenset[int]) -> None:
        """Begin again without these records."""
        again = ForeignThread()
        for entry in self._taken:
            if entry.place.record not in records:
                again._add_entry(entry)
        self.places, self._said, self._replies = again.places, again._said, again._replies
        self._answered, self._summary, self._settled = again._answered, again._summary, 0

    def _add_entry(self, entry: Entry) -> None:
        match entry:
            case UserSaid():
                if self._summary is not None and self.places[self._summary] == entry.place:
                    self._said[self._summary] = ForeignUser(entry.content)  # Claude Code says it as the user
                else:
                    self._add(entry.place, ForeignUser(entry.content))
            case ReplyPart():
                self._reply(entry)
            case ResultSeen():
                call = self._next_call() if entry.call is None else entry.call
                self._answered.add(call)
                self._add(entry.place, ForeignResults((_result(entry, call),)))
            case Compacted() if entry.summary:
                self._drop(self._kept_by(entry))
                for kept in entry.kept:
                    self._add_entry(kept)
                summary = ForeignUser((TextBlock(entry.summary),))
                if entry.kept_from is None:
                    self._summary = len(self._said)
                    self._add(entry.place, summary)
                else:
                    self._summary = 0
                    self.places.insert(0, entry.place)
                    self._said.insert(0, summary)
                    self._replies = {reply: at + 1 for reply, at in self._replies.items()}
            case _:
                pass

    @property
    def messages(self) -> list[ForeignMessage]:
        """The messages so far, put together anew."""
        return [
            ForeignReply(content=tuple(said.content), model=said.model) if isinstance(said, _Reply) else said
            for said in self._said
        ]

    def _kept_by(self, compacted: Compacted) -> list[int]:
        """The positions of the messages that stay; an earlier summary is none of them."""
        old = [at for at in range(len(self.places)) if at != self._summary]
        if compacted.kept_from is not None:
            return [at for at in old if self.places[at].record >= compacted.kept_from]
        users = [at for at in old if isinstance(self._said[at], ForeignUser)]
        return users[len(users) - min(compacted.kept_messages, len(users)) :]

    def _drop(self, kept: list[int]) -> None:
        """Drop all messages but those at these positions."""
        self._summary = None
        new = {old: at for at, old in enumerate(kept)}
        self.places, self._said = [self.places[at] for at in kept], [self._said[at] for at in kept]
        self._replies = {reply: new[at] for reply, at in self._replies.items() if at in new}
        results = (said.results for said in self._said if isinstance(said, ForeignResults))
        self._answered, self._settled = {result.provider_id for group in results for result in group}, 0

    def _add(self, place: Place, message: ForeignUser | ForeignResults | _Reply) -> None:
        self._said.append(message)
        self.places.append(place)

    def _reply(self, part: ReplyPart) -> None:
        at = self._replies.get(part.reply)
        if part.end is not None:
            if at is not None:
                self._said[at] = _Reply(part.model or "")
            return
        if at is None:
            at = self._replies[part.reply] = len(self._said)
            self._add(part.place, _Reply(part.model or ""))
        reply = self._said[at]
        if isinstance(reply, _Reply):
            reply.content += part.content
            reply.model = part.model or ""
        self._settled = min(self._settled, at)

    def _next_call(self) -> str:
        """The id of the first call that has no result, for formats without ids."""
        while self._settled < len(self._said):
            said = self._said[self._settled]
            for block in said.content if isinstance(said, _Reply) else ():
                if isinstance(block, ForeignCall) and block.provider_id not in self._answered:
                    return block.provider_id
            self._settled += 1
        return ""


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


def repaired_threads(entries: Iterable[Entry]) -> dict[str, tuple[ForeignMessage, ...]]:
    """The same, made whole, without those of which nothing is left to go on with."""
    found = {name: repair(thread.messages).messages for name, thread in foreign_threads(entries).items()}
    return {name: messages for name, messages in found.items() if messages}
