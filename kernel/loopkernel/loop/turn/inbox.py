"""User input that cannot go into the thread at once: the queue, the waiting steers, the keys (section INPUT)."""

from attrs import evolve

from loopkernel.data.blocks import UserBlock
from loopkernel.data.events import Discarded, InputSettled, Queued, Refused, Steered
from loopkernel.data.ids import QueueNumber, ReceiptId
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Inbox, QueuedInput, Session, WaitingSteer
from loopkernel.data.user_deltas import Discard, EditMessage, Enqueue, Say, Steer
from loopkernel.data.words import InputFate, RefusalReason
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.thread import add_input

Keyed = Say | Enqueue | Steer | EditMessage


def seen_before(session: Session, delta: Keyed) -> bool:
    """Whether the caller has sent this very input already (rule DELTA-6)."""
    return delta.key is not None and delta.key in session.inbox.keys


def is_full(session: Session) -> bool:
    """Whether the queue takes no more input."""
    return len(session.inbox.queue) >= session.settings.policy.queue_limit


def take_receipt(draft: Draft[L], key: str | None) -> tuple[Draft[L], ReceiptId]:
    """The input is accepted: it gets a receipt, and its key is remembered."""
    session = draft.session
    counters = evolve(session.counters, receipts=session.counters.receipts + 1)
    inbox = session.inbox
    if key is not None:
        inbox = evolve(inbox, keys=inbox.keys.add(key))
    return draft.with_session(evolve(session, counters=counters, inbox=inbox)), ReceiptId(counters.receipts)


def _with_inbox(draft: Draft[L], inbox: Inbox) -> Draft[L]:
    return draft.with_session(evolve(draft.session, inbox=inbox))


def queue_input(draft: Draft[L], content: tuple[UserBlock, ...], key: str | None) -> Draft[L]:
    """The input goes to the end of the queue."""
    draft, receipt = take_receipt(draft, key)
    draft, waiting = _numbered(draft, content, receipt)
    inbox: Inbox = draft.session.inbox
    draft = _with_inbox(draft, evolve(inbox, queue=(*inbox.queue, waiting)))
    return draft.tell(InputSettled(receipt, InputFate.QUEUED, key), Queued(waiting.number))


def _numbered(draft: Draft[L], content: tuple[UserBlock, ...], receipt: ReceiptId) -> tuple[Draft[L], QueuedInput]:
    counters = evolve(draft.session.counters, queued=draft.session.counters.queued + 1)
    waiting = QueuedInput(number=QueueNumber(counters.queued), receipt=receipt, content=content)
    return draft.with_session(draft.session.updated(counters=counters)), waiting


def steer_input(draft: Draft[L], content: tuple[UserBlock, ...], key: str | None) -> Draft[L]:
    """The input waits for the next request."""
    draft, receipt = take_receipt(draft, key)
    inbox: Inbox = draft.session.inbox
    waiting = WaitingSteer(receipt=receipt, content=content)
    draft = _with_inbox(draft, evolve(inbox, steers=(*inbox.steers, waiting)))
    return draft.tell(InputSettled(receipt, InputFate.WAITING_AS_STEER, key))


def inject_steers(draft: Draft[L]) -> Draft[L]:
    """Every waiting steer goes into the thread, oldest first (rule INPUT-3)."""
    for steer in draft.session.inbox.steers:
        draft = add_input(draft, steer.content, UserOrigin.STEERED, steer.receipt)
        counters = evolve(draft.session.counters, steered=draft.session.counters.steered + 1)
        draft = draft.with_session(draft.session.updated(counters=counters)).tell(Steered(counters.steered))
    return _with_inbox(draft, evolve(draft.session.inbox, steers=()))


def requeue_steers(draft: Draft[L]) -> Draft[L]:
    """The turn is over before the steers went in: they go to the head of the queue (rule INPUT-3)."""
    if not draft.session.inbox.steers:
        return draft
    moved: list[QueuedInput] = []
    for steer in draft.session.inbox.steers:
        draft, waiting = _numbered(draft, steer.content, steer.receipt)
        moved.append(waiting)
        draft = draft.tell(InputSettled(steer.receipt, InputFate.QUEUED), Queued(waiting.number))
    inbox: Inbox = draft.session.inbox
    return _with_inbox(draft, evolve(inbox, steers=(), queue=(*moved, *inbox.queue)))


def take_oldest(draft: Draft[L]) -> tuple[Draft[L], QueuedInput]:
    """The oldest queued input leaves the queue, which must hold one."""
    oldest, *later = draft.session.inbox.queue
    return _with_inbox(draft, evolve(draft.session.inbox, queue=tuple(later))), oldest


def discard(draft: Draft[L], delta: Discard) -> Draft[L] | Refused:
    """One queued input, or all of them, leave the queue; refused when there is no such input."""
    inbox: Inbox = draft.session.inbox
    leaving = [waiting for waiting in inbox.queue if delta.queued is None or waiting.number == delta.queued]
    if not leaving:
        if delta.queued is None:
            return refusal(delta, RefusalReason.NOT_NOW)
        known = 1 <= delta.queued <= draft.session.counters.queued
        return refusal(delta, RefusalReason.STALE if known else RefusalReason.UNKNOWN)
    draft = _with_inbox(draft, evolve(inbox, queue=tuple(each for each in inbox.queue if each not in leaving)))
    for waiting in leaving:
        draft = draft.tell(InputSettled(waiting.receipt, InputFate.DISCARDED), Discarded(waiting.number))
    return draft


def hand_back(draft: Draft[L]) -> Draft[L]:
    """A task is over: its queue is handed back, and then empty (rule STATE-8)."""
    inbox: Inbox = draft.session.inbox
    draft = draft.tell(*(InputSettled(waiting.receipt, InputFate.HANDED_BACK) for waiting in inbox.queue))
    return _with_inbox(draft, evolve(inbox, queue=()))
