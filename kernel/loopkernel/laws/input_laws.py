"""The trace law about what the user sends: CONSERVE.

It follows each input by its receipt and its number in the queue, from the events alone, and compares what it believes
with what the state holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeGuard, TypeVar, final

from loopkernel.data.blocks import UserBlock
from loopkernel.data.effects import Effect, HandOff
from loopkernel.data.events import (
    Dequeued,
    Discarded,
    Edited,
    InputSettled,
    MessageAdded,
    Queued,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
    TurnEnded,
)
from loopkernel.data.ids import MessageId, QueueNumber, ReceiptId
from loopkernel.data.messages import Message, UserMessage
from loopkernel.data.outside_deltas import FromOutside
from loopkernel.data.sessions import Inbox, QueuedInput, WaitingSteer
from loopkernel.data.states import AtRest, Compacting, Done, HandingOff, State
from loopkernel.data.user_deltas import EditMessage, Enqueue, Say, Steer
from loopkernel.data.vector import Vector
from loopkernel.data.words import InputFate
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.thread import thread_after
from loopkernel.laws.views import at_rest

_EMPTY = Inbox()
_MOVES = Queued | Dequeued | Discarded
_NONE: frozenset[InputFate] = frozenset()
_WAITING = frozenset({InputFate.QUEUED, InputFate.WAITING_AS_STEER})

# What a fate may become; an input that is accepted gets its first. Nothing follows the other fates, but that
# an edit supersedes what is in the thread (rules DELTA-6, INPUT-3 and INPUT-4).
_NEXT_FATES: Mapping[InputFate | None, frozenset[InputFate]] = MappingProxyType(
    {
        None: frozenset({InputFate.IN_THREAD, InputFate.QUEUED, InputFate.WAITING_AS_STEER}),
        InputFate.QUEUED: frozenset(
            {InputFate.IN_THREAD, InputFate.HANDED_BACK, InputFate.DISCARDED, InputFate.SUPERSEDED}
        ),
        InputFate.WAITING_AS_STEER: frozenset(
            {InputFate.IN_THREAD, InputFate.QUEUED, InputFate.HANDED_BACK, InputFate.DISCARDED, InputFate.SUPERSEDED}
        ),
        InputFate.IN_THREAD: frozenset({InputFate.SUPERSEDED}),
    }
)


@final
class Conserve:
    """Every accepted input has a receipt with one fate at a time; what is queued is neither lost nor moved.

    Fates and contents are kept by receipt, keys, and the queue, as the events tell of them.
    """

    def __init__(self, start: State) -> None:
        inbox = inbox_of(start)
        self._first_keys = inbox.keys  # those of before the run that is judged
        self._keys: set[str] = set()
        self._contents: dict[ReceiptId, tuple[UserBlock, ...]] = {}
        self._fates: dict[ReceiptId, InputFate] = {}
        self._waiting: dict[ReceiptId, InputFate] = {}
        self._queue = [(queued.number, queued.receipt) for queued in inbox.queue]
        self._thread: Vector[Message] = Vector.of(() if start.session is None else start.session.thread.messages)
        self._compacted: set[tuple[MessageId, ReceiptId | None]] = set()  # out of the thread, and may be put back
        if start.session is not None:
            taken = (message for removal in start.session.compactions.removals for message in removal.messages)
            self._compacted.update(map(_place, taken))
        places = (*map(_place, self._thread), *self._compacted)
        self._fates.update((receipt, InputFate.IN_THREAD) for _, receipt in places if receipt is not None)
        self._inbox, self._held = inbox, _held(inbox)  # as they were when they were compared
        for waiting, fate in self._held.items():
            self._fates[waiting] = self._waiting[waiting] = fate
        self._contents.update(_waiting_contents(inbox))

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with what this step does to the inputs."""
        before, after = inbox_of(step.before), inbox_of(step.after)
        settled = step.told(InputSettled)
        yield from self._accept(step, settled)
        yield from self._enter(step, settled)
        for one in settled:
            yield from self._settle(one)
        yield from self._cut(step, settled)
        if self._inbox is not after or settled or any(isinstance(one, _MOVES) for one in step.effects):
            yield from self._move(step.effects, before, after)
            yield from self._compare(settled, after)
            self._inbox = after
        for effect in step.effects:
            if isinstance(effect, HandOff) and effect.queue != after.queue:
                yield f"{len(effect.queue)} inputs are handed over, and {len(after.queue)} are queued"
        yield from _left_waiting(step)
        if isinstance(step.after, Done):
            yield from (f"the run is over, and receipt {receipt} still waits" for receipt in _held(after))

    def _accept(self, step: JudgedStep, settled: Sequence[InputSettled]) -> Iterator[str]:
        """A message that is not refused gets one new receipt, in this step; a key is taken once."""
        delta = step.taken
        news = list(dict.fromkeys(effect.receipt for effect in settled if effect.receipt not in self._fates))
        if not isinstance(delta, Say | EditMessage | Enqueue | Steer):
            if news:
                yield f"receipt {news[0]} belongs to no input"
            return
        if len(news) != 1:
            yield f"{type(delta).__name__} is accepted, and gets {len(news)} new receipts"
            return
        self._contents[news[0]] = delta.content
        if delta.key is not None:
            if delta.key in self._keys or delta.key in self._first_keys:
                yield f"the key {delta.key!r} is accepted a second time"
            self._keys.add(delta.key)

    def _enter(self, step: JudgedStep, settled: Sequence[InputSettled]) -> Iterator[str]:
        """What is told to be in the thread goes into it in the same step, as it was sent, and once."""
        told = [effect.receipt for effect in settled if effect.fate is InputFate.IN_THREAD]
        entered: list[ReceiptId] = []
        for effect in step.effects:
            if isinstance(effect, MessageAdded) and isinstance(effect.message, UserMessage):
                receipt = effect.message.receipt
                if receipt is not None:
                    entered.append(receipt)
                    if self._contents.get(receipt) != effect.message.content:
                        yield f"receipt {receipt} is in the thread with another content than was sent"
        if entered != told:
            yield f"the receipts {_listed(told)} were told to be in the thread, and {_listed(entered)} went in"

    def _settle(self, settled: InputSettled) -> Iterator[str]:
        receipt, fate = settled.receipt, settled.fate
        before = self._fates.get(receipt)
        if fate not in _NEXT_FATES.get(before, _NONE):
            yield f"receipt {receipt} was {_word(before)}, and is now {_word(fate)}"
        self._fates[receipt] = fate
        self._waiting.pop(receipt, None)
        if fate in _WAITING:
            self._waiting[receipt] = fate

    def _cut(self, step: JudgedStep, settled: Sequence[InputSettled]) -> Iterator[str]:
        """INPUT-4: an edit cuts the thread at its message; what leaves the thread is superseded, and nothing else."""
        told = {effect.receipt for effect in settled if effect.fate is InputFate.SUPERSEDED}
        gone: set[ReceiptId] = set()
        at: MessageId | None = None
        edit = _edit_in(step)
        for effect in step.effects:
            before, self._thread = self._thread, thread_after(self._thread, effect)
            if isinstance(effect, ThreadCompacted):  # what it takes out stays in the log, and keeps its fate
                self._compacted.update(set(map(_place, before)).difference(map(_place, self._thread)))
            elif isinstance(effect, ThreadRewritten):
                yield from self._put_back(before)
            elif isinstance(effect, ThreadCut):
                cut = tuple(map(_place, before.since(effect.length)))
                at = cut[0][0] if cut else None
                gone.update(receipt for _, receipt in cut if receipt is not None)
            elif isinstance(effect, Edited) and effect != edit:
                yield f"message {effect.message} is said to be edited, and no edit of it is taken"
        for receipt in sorted(gone ^ told):
            how = "leaves the thread, and is not told to be" if receipt in gone else "stays, and is told to be"
            yield f"receipt {receipt} {how} superseded"
        if edit is not None and at != edit.message:
            yield f"message {edit.message} is edited, and the thread is cut at {'no message' if at is None else at}"

    def _put_back(self, before: Vector[Message]) -> Iterator[str]:
        """INPUT-4: what a compaction took out is put back; nothing that the user sent is lost or made up."""
        now, known = set(map(_place, self._thread)), set(map(_place, before))
        for place in sorted(place for place in known - now if place[1] is not None):
            yield f"message {place[0]} is not in the thread any more after messages were put back"
        for place in now.difference(known, self._compacted):
            if place[1] is not None:
                yield f"message {place[0]} is put back into the thread, and no compaction has taken it out"
        self._compacted.difference_update(now)

    def _move(self, effects: tuple[Effect, ...], before: Inbox, after: Inbox) -> Iterator[str]:
        """INPUT-2: in at the end, out at the head; only a discard takes from the middle, a steer goes to the head."""
        queued = iter([effect.receipt for effect in effects if _tells(effect, InputFate.QUEUED)])
        told = [effect for effect in effects if isinstance(effect, Queued)]
        steers = {steer.receipt for steer in before.steers} if told else set()
        gone, come = parts_of(self._inbox.queue, after.queue)
        moved, left, begun = 0, list[QueueNumber](), len(self._queue)
        for effect in effects:
            if isinstance(effect, Queued):
                receipt = next(queued, None)
                if receipt is None:
                    yield f"queued input {effect.number} belongs to no receipt"
                elif receipt in steers:
                    self._queue.insert(moved, (effect.number, receipt))
                    moved += 1
                else:
                    self._queue.append((effect.number, receipt))
            elif isinstance(effect, Dequeued):
                if [number for number, _ in self._queue[:1]] != [effect.number]:
                    yield f"queued input {effect.number} is taken, and it is not the oldest of {self._told()}"
                left.extend(self._leave({effect.number}))
            elif isinstance(effect, Discarded):
                left.extend(self._leave({effect.number}))
        back = {effect.receipt for effect in effects if _tells(effect, InputFate.HANDED_BACK)}
        if back:
            left.extend(self._leave({number for number, receipt in self._queue if receipt in back}))
        added = self._queue[begun - len(left) :]
        if not moved and left == [one.number for one in gone] and added == [(one.number, one.receipt) for one in come]:
            return
        held = [(waiting.number, waiting.receipt) for waiting in after.queue]
        if held != self._queue:
            yield f"the queue holds {_listed([number for number, _ in held])}, and was told to hold {self._told()}"
            self._queue = held

    def _leave(self, numbers: set[QueueNumber]) -> list[QueueNumber]:
        """Those of them that were in the queue, and are not any more."""
        if len(numbers) == 1 and self._queue and self._queue[0][0] in numbers:
            return [self._queue.pop(0)[0]]
        left = [number for number, _ in self._queue if number in numbers]
        self._queue = [waiting for waiting in self._queue if waiting[0] not in numbers]
        return left

    def _told(self) -> str:
        return _listed([number for number, _ in self._queue])

    def _compare(self, settled: Sequence[InputSettled], after: Inbox) -> Iterator[str]:
        """What waits in state is what the fates say, unchanged; what has not changed since is not compared again."""
        queued = parts_of(self._inbox.queue, after.queue)
        steered = parts_of(self._inbox.steers, after.steers)
        gone: tuple[QueuedInput | WaitingSteer, ...] = (*queued[0], *steered[0])
        come: tuple[QueuedInput | WaitingSteer, ...] = (*queued[1], *steered[1])
        receipts = {one.receipt for one in settled}.union(one.receipt for one in (*gone, *come))
        for one in gone:
            self._held.pop(one.receipt, None)
        self._held.update((one.receipt, InputFate.QUEUED) for one in queued[1])
        self._held.update((one.receipt, InputFate.WAITING_AS_STEER) for one in steered[1])
        for receipt in sorted(receipts):
            held = self._held.get(receipt)
            if held is not self._waiting.pop(receipt, None):
                told, now = _word(self._fates.get(receipt)), _word(held)
                yield f"receipt {receipt} was told to be {told}; in the inbox it is {now}"
            if held is not None:
                self._waiting[receipt] = held
        for one in come:
            if self._contents.get(one.receipt) != one.content:
                yield f"receipt {one.receipt} waits with another content than was sent"


Waiting = TypeVar("Waiting", QueuedInput, WaitingSteer)


def parts_of(
    before: tuple[Waiting, ...], after: tuple[Waiting, ...]
) -> tuple[tuple[Waiting, ...], tuple[Waiting, ...]]:
    """What has gone and what has come, where the first have gone or others come at the end; else all of both."""
    if after[: len(before)] == before:
        return (), after[len(before) :]
    gone = len(before) - len(after)
    return (before[:gone], ()) if gone > 0 and before[gone:] == after else (before, after)


def _place(message: Message) -> tuple[MessageId, ReceiptId | None]:
    """What a message of the thread is known by: its id, and the receipt of the input that it is."""
    return message.id, message.receipt if isinstance(message, UserMessage) else None


def _left_waiting(step: JudgedStep) -> Iterator[str]:
    """What was said while the session was compacted, or handed over, at rest starts a turn when that has ended."""
    before = step.before
    rest = before.within if isinstance(before, Compacting | HandingOff) else None
    begun = step.told(TurnEnded)  # and a limit has ended it at once
    over = isinstance(step.delta, FromOutside) and at_rest(step.after) and not begun
    if isinstance(rest, AtRest) and over:
        for waiting in inbox_of(step.after).queue:
            if waiting.number > rest.queued:
                yield f"queued input {waiting.number} came while something was open at rest, and starts no turn then"


def _edit_in(step: JudgedStep) -> Edited | None:
    """What is to be told of the edit that this step takes; None where it takes none."""
    return Edited(step.taken.message) if isinstance(step.taken, EditMessage) else None


def inbox_of(state: State) -> Inbox:
    """What waits in the state; an empty inbox before there is a session."""
    return _EMPTY if state.session is None else state.session.inbox


def _held(inbox: Inbox) -> dict[ReceiptId, InputFate]:
    held = {queued.receipt: InputFate.QUEUED for queued in inbox.queue}
    held.update((steer.receipt, InputFate.WAITING_AS_STEER) for steer in inbox.steers)
    return held


def _waiting_contents(inbox: Inbox) -> Iterator[tuple[ReceiptId, tuple[UserBlock, ...]]]:
    yield from ((queued.receipt, queued.content) for queued in inbox.queue)
    yield from ((steer.receipt, steer.content) for steer in inbox.steers)


def _tells(effect: Effect, fate: InputFate) -> TypeGuard[InputSettled]:
    """Whether the effect says that an input has come to this fate."""
    return isinstance(effect, InputSettled) and effect.fate is fate


def _word(fate: InputFate | None) -> str:
    return "nowhere" if fate is None else fate.value


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
