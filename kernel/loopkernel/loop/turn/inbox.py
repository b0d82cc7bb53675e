"""User input that cannot go into the thread at once: the queue, the waiting steers, the keys (section INPUT)."""

from collections.abc import Iterable

from attrs import evolve

from loopkernel.data.blocks import UserBlock
from loopkernel.data.effects import Effect
from loopkernel.data.events import Discarded, InputSettled, Queued, Refused, Steered
from loopkernel.data.ids import QueueNumber, ReceiptId
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Inbox, QueuedInput, Session, WaitingSteer
from loopkernel.data.user_deltas import Discard, EditMessage, Enqueue, Say, Steer
from loopkernel.data.words import InputFate, RefusalReason, UserAction
from loopkernel.loop.history.thread import add_input

Keyed = Say | Enqueue | Steer | EditMessage
Settled = tuple[Session, tuple[Effect, ...]]


def seen_before(session: Session, delta: Keyed) -> bool:
    """Whether the caller has sent this very input already (rule DELTA-6)."""
    return delta.key is not None and delta.key in session.inbox.keys


def take_receipt(session: Session, key: str | None) -> tuple[Session, ReceiptId]:
    """The input is accepted: it gets a receipt, and its key is remembered."""
    counters = evolve(session.counters, receipts=session.counters.receipts + 1)
    inbox = session.inbox
    if key is not None:
        inbox = evolve(inbox, keys=inbox.keys.add(key))
    return evolve(session, counters=counters, inbox=inbox), ReceiptId(counters.receipts)


def is_full(session: Session) -> bool:
    """Whether the queue takes no more input."""
    return len(session.inbox.queue) >= session.settings.policy.queue_limit


def queue_input(session: Session, content: tuple[UserBlock, ...], key: str | None) -> Settled:
    """The input goes to the end of the queue."""
    session, receipt = take_receipt(session, key)
    session, waiting = _numbered(session, content, receipt)
    inbox = evolve(session.inbox, queue=(*session.inbox.queue, waiting))
    settled = InputSettled(receipt, InputFate.QUEUED, key)
    return evolve(session, inbox=inbox), (settled, Queued(waiting.number))


def _numbered(session: Session, content: tuple[UserBlock, ...], receipt: ReceiptId) -> tuple[Session, QueuedInput]:
    counters = evolve(session.counters, queued=session.counters.queued + 1)
    waiting = QueuedInput(number=QueueNumber(counters.queued), receipt=receipt, content=content)
    return evolve(session, counters=counters), waiting


def steer_input(session: Session, content: tuple[UserBlock, ...], key: str | None) -> Settled:
    """The input waits for the next request."""
    session, receipt = take_receipt(session, key)
    waiting = WaitingSteer(receipt=receipt, content=content)
    inbox = evolve(session.inbox, steers=(*session.inbox.steers, waiting))
    return evolve(session, inbox=inbox), (InputSettled(receipt, InputFate.WAITING_AS_STEER, key),)


def inject_steers(session: Session) -> Settled:
    """Every waiting steer goes into the thread, oldest first (rule INPUT-3)."""
    effects: list[Effect] = []
    for steer in session.inbox.steers:
        session, added = add_input(session, steer.content, UserOrigin.STEERED, steer.receipt)
        number = session.counters.steered + 1
        session = evolve(session, counters=evolve(session.counters, steered=number))
        effects.extend((*added, Steered(number)))
    return evolve(session, inbox=evolve(session.inbox, steers=())), tuple(effects)


def requeue_steers(session: Session) -> Settled:
    """The turn is over before the steers went in: they go to the head of the queue (rule INPUT-3)."""
    if not session.inbox.steers:
        return session, ()
    effects: list[Effect] = []
    moved: list[QueuedInput] = []
    for steer in session.inbox.steers:
        session, waiting = _numbered(session, steer.content, steer.receipt)
        moved.append(waiting)
        effects.extend((InputSettled(steer.receipt, InputFate.QUEUED), Queued(waiting.number)))
    inbox: Inbox = evolve(session.inbox, steers=(), queue=(*moved, *session.inbox.queue))
    return evolve(session, inbox=inbox), tuple(effects)


def take_oldest(session: Session) -> tuple[Session, QueuedInput]:
    """The oldest queued input leaves the queue, which must hold one."""
    oldest, *later = session.inbox.queue
    return evolve(session, inbox=evolve(session.inbox, queue=tuple(later))), oldest


def discard(session: Session, delta: Discard) -> Settled:
    """One queued input, or all of them, leave the queue; refused when there is no such input."""
    queue = session.inbox.queue
    leaving = [waiting for waiting in queue if delta.queued is None or waiting.number == delta.queued]
    if not leaving:
        if delta.queued is None:
            reason = RefusalReason.NOT_NOW
        elif 1 <= delta.queued <= session.counters.queued:
            reason = RefusalReason.STALE
        else:
            reason = RefusalReason.UNKNOWN
        return session, (Refused(UserAction.DISCARD, reason),)
    staying = tuple(waiting for waiting in queue if waiting not in leaving)
    session = evolve(session, inbox=evolve(session.inbox, queue=staying))
    return session, tuple(_gone(leaving, InputFate.DISCARDED))


def hand_back(session: Session) -> Settled:
    """A task is over: its queue is handed back, and then empty (rule STATE-8)."""
    effects = [InputSettled(waiting.receipt, InputFate.HANDED_BACK) for waiting in session.inbox.queue]
    return evolve(session, inbox=evolve(session.inbox, queue=())), tuple(effects)


def _gone(leaving: Iterable[QueuedInput], fate: InputFate) -> Iterable[Effect]:
    for waiting in leaving:
        yield InputSettled(waiting.receipt, fate)
        yield Discarded(waiting.number)
