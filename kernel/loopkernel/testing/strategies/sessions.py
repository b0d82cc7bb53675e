"""Strategies for what the phases share: the session record, which agrees with its thread, and the turn in progress."""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.compactions import NO_COMPACTIONS, Compactions, ContextSize, Removal
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import MessageId, OperationKind, QueueNumber, ReceiptId
from loopkernel.data.messages import ResultMessage, UserMessage, UserOrigin
from loopkernel.data.sessions import (
    NO_COURSE,
    NO_RECOVERY,
    BackgroundEnd,
    Counters,
    Course,
    Inbox,
    QueuedInput,
    Recovery,
    Session,
    Settings,
    ShownError,
    Stamp,
    Turn,
    WaitingSteer,
)
from loopkernel.data.threads import Thread
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.watches import DisabledTool, Watch, WatchedCall
from loopkernel.data.words import ErrorClass, RequestReason, TurnEndReason
from loopkernel.testing.strategies.conversation import call_inputs, contents, threads, tool_sets
from loopkernel.testing.strategies.deltas import session_ids
from loopkernel.testing.strategies.ledgers import runs_held_elsewhere
from loopkernel.testing.strategies.numbers import Numbers, operations
from loopkernel.testing.strategies.policies import policies, remembered
from loopkernel.testing.strategies.values import KEYS, call_ids, counts, models, names, texts, usages

end_reasons: SearchStrategy[TurnEndReason] = st.sampled_from(TurnEndReason)
stamps: SearchStrategy[Stamp] = st.builds(Stamp, st.integers(2, 9), st.integers(-3, 3))
settings: SearchStrategy[Settings] = st.builds(
    Settings,
    session_id=session_ids,
    lineage=st.integers(1, 2),
    policy=policies(),
    tools=tool_sets,
    instructions=texts,
    remembered=st.lists(remembered, max_size=2).map(tuple),
)
recoveries: SearchStrategy[Recovery] = st.builds(
    Recovery,
    model=st.integers(0, 2),
    retries=counts,
    raised=st.integers(0, 2),
    continuations=counts,
    compacted=st.booleans(),
    fed_back=st.booleans(),
)
turns: SearchStrategy[Turn] = st.builds(
    Turn,
    number=st.integers(1, 3),
    opened_ms=st.integers(-3, 3),
    reason=st.sampled_from(RequestReason),
    replies=counts,
    nudges=counts,
    pauses=st.integers(0, 10),
    demanded=st.booleans(),
    forcing=st.booleans(),
    begun=st.booleans(),
    blocks=counts,
    hook_retries=st.integers(0, 3),
    recovery=st.just(NO_RECOVERY) | recoveries,
)
watches: SearchStrategy[Watch] = st.builds(
    Watch,
    calls=st.lists(st.builds(WatchedCall, names, st.none() | call_inputs), max_size=4).map(tuple),
    noted=st.lists(names, max_size=1).map(tuple),
    disabled=st.lists(st.builds(DisabledTool, names, st.integers(1, 3)), max_size=1).map(tuple),
)


courses: SearchStrategy[Course] = st.builds(
    lambda calls, writes, checked: Course(calls=calls + writes, writes=writes, checked=checked),
    counts,
    counts,
    st.booleans(),
)
sizes: SearchStrategy[ContextSize] = st.builds(ContextSize, counts, counts)


@st.composite
def compacted(draw: DrawFn, thread: Thread) -> tuple[Thread, Compactions]:
    """The thread, of which the older part may have been replaced by a summary; and what is remembered of that."""
    remembered = Compactions(
        failures=draw(counts),
        again_ms=draw(st.none() | st.integers(-3, 9)),
        useless_at=draw(st.none() | st.integers(1, 6)),
        requested=draw(st.booleans()),
    )
    said = list(thread)
    places = [place for place in range(1, len(said)) if not isinstance(said[place], ResultMessage)]
    if not places or draw(st.integers(0, 3)):
        return thread, remembered if draw(st.booleans()) else NO_COMPACTIONS
    until = draw(st.sampled_from(places))
    note = UserMessage(
        id=MessageId(len(said) + 1),
        content=draw(contents),
        origin=draw(st.sampled_from((UserOrigin.SUMMARY, UserOrigin.GAP_NOTE))),
    )
    opened = [place for place in range(until) if isinstance(said[place], UserMessage)]
    opening = draw(st.none() | st.sampled_from(opened)) if opened else None
    first = [] if opening is None else [said[opening]]
    taken = Removal(
        messages=Vector.of(message for place, message in enumerate(said[:until]) if place != opening),
        opening=None if opening is None else said[opening].id,
        before=opening or 0,
        note=note.id,
    )
    kept = Thread(Vector.of([*first, note, *said[until:]]), thread.generation + 1, thread.opaque_models)
    return kept, evolve(remembered, removals=Vector.of([taken]))


@st.composite
def inboxes(draw: DrawFn) -> Inbox:
    """A queue and steers whose receipts and numbers count up."""
    waiting = draw(st.lists(contents, max_size=3))
    queued = draw(st.integers(0, len(waiting)))
    return Inbox(
        queue=tuple(
            QueuedInput(number=QueueNumber(place), receipt=ReceiptId(place), content=content)
            for place, content in enumerate(waiting[:queued], 1)
        ),
        steers=tuple(
            WaitingSteer(receipt=ReceiptId(place), content=content)
            for place, content in enumerate(waiting[queued:], queued + 1)
        ),
        background=tuple(draw(st.lists(st.builds(BackgroundEnd, call_ids, contents), max_size=2))),
        keys=GrowingSet.of(draw(st.lists(st.sampled_from(KEYS), unique=True))),
    )


@st.composite
def sessions(
    draw: DrawFn,
    thread: Thread | None = None,
    numbers: Numbers | None = None,
    held: tuple[HeldRun, ...] | None = (),
) -> Session:
    """A record that agrees with its thread and with the ids that the state around it names.

    Beside the runs of a reply that are `held`, some of the thread may be; none at all may be if it is None.
    """
    said = draw(threads()) if thread is None else thread
    named = Numbers() if numbers is None else numbers
    runs: tuple[HeldRun, ...] = ()
    if held is not None:
        runs = (*held, *draw(runs_held_elsewhere(said, named)))
    inbox = draw(inboxes())
    waiting = len(inbox.queue) + len(inbox.steers)
    minted = draw(operations(said, named))
    messages = len(said) + 1
    said, remembered_of_compactions = draw(compacted(said))
    results = [result for message in said if isinstance(message, ResultMessage) for result in message.results]
    return Session(
        settings=draw(settings),
        thread=said,
        usage=draw(usages),
        inbox=inbox,
        counters=Counters(
            messages=messages,
            receipts=waiting + draw(counts),
            queued=waiting + draw(counts),
            steered=draw(counts),
            turns=3,
        ),
        operations=minted,
        held=runs,
        bodies=len(results),
        started=draw(counts),
        watch=draw(st.just(Watch()) | watches),
        course=draw(st.just(NO_COURSE) | courses),
        size=draw(sizes),
        compactions=remembered_of_compactions,
        error=draw(st.none() | st.builds(ShownError, st.sampled_from(ErrorClass), texts)),
        last_model=draw(st.none() | models),
        last_end=draw(st.none() | end_reasons),
    )


@st.composite
def sessions_naming(draw: DrawFn, kind: OperationKind, number: int) -> Session:
    """A session in which the operation of that kind and number is the newest, and open."""
    numbers = Numbers()
    while numbers.newest[kind] < number:
        numbers.reported(kind, numbers.newest[kind])
        numbers.mint(kind)
    return draw(sessions(numbers=numbers))
