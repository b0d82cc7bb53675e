"""Strategies for states, built by hand: each phase, also those that no run reaches yet, coherent in itself.

Coherent: every id that a state names was minted, counts agree with what they count, and what is open is
not abandoned. Whether a run could lead there is another matter: see `walks`.
"""

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    OperationKind,
    QueueNumber,
    ReceiptId,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.operations import AbandonedModelCall, Operations
from loopkernel.data.sessions import (
    Counters,
    Inbox,
    OpenReply,
    QueuedInput,
    Session,
    Settings,
    ShownError,
    Stamp,
    Turn,
    WaitingSteer,
)
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Step
from loopkernel.data.threads import Thread
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import ErrorClass, RequestReason, TurnEndReason
from loopkernel.testing.strategies.conversation import (
    cancel_reasons,
    contents,
    threads,
    tool_sets,
)
from loopkernel.testing.strategies.deltas import session_ids, stop_reasons
from loopkernel.testing.strategies.ledgers import calls_of, ledgers, pieces_of
from loopkernel.testing.strategies.policies import approval_rules, policies
from loopkernel.testing.strategies.values import KEYS, counts, models, receipt_ids, safe_keys, texts, usages
from loopkernel.transition import settle

end_reasons: SearchStrategy[TurnEndReason] = st.sampled_from(TurnEndReason)
stamps: SearchStrategy[Stamp] = st.builds(Stamp, st.integers(2, 9), st.integers(-3, 3))
settings: SearchStrategy[Settings] = st.builds(
    Settings,
    session_id=session_ids,
    lineage=st.integers(1, 2),
    policy=policies(),
    tools=tool_sets,
    instructions=texts,
    remembered=st.lists(approval_rules, max_size=1).map(tuple),
)
turns: SearchStrategy[Turn] = st.builds(
    Turn,
    number=st.integers(1, 3),
    opened_ms=st.integers(-3, 3),
    reason=st.sampled_from(RequestReason),
    replies=counts,
    nudges=counts,
    pauses=st.integers(0, 10),
)


@frozen
class Named:
    """The ids of one kind that a state names: the newest that was minted, and those that are open."""

    newest: int
    open: frozenset[int]


Names = dict[OperationKind, Named]


def newest(kind: OperationKind, number: int) -> Names:
    """One operation is open, the newest of its kind."""
    return {kind: Named(number, frozenset((number,)))}


def named_by(ledger: Ledger) -> Names:
    """What a ledger names; whether its reply is still open is for the state around it to say."""
    checks = frozenset(entry.check for entry in ledger.entries if entry.check is not None)
    runs = frozenset(entry.operation for entry in ledger.entries if entry.is_open and entry.operation is not None)
    return {
        OperationKind.MODEL: Named(ledger.reply, frozenset((ledger.reply,))),
        OperationKind.CHECK: Named(ledger.first_check + len(ledger.checked) - 1, checks),
        OperationKind.RUN: Named(ledger.first_run + len(ledger.started) - 1, runs),
    }


@st.composite
def operations(draw: DrawFn, thread: Thread, named: Names) -> Operations:
    """Counters that cover all ids which a thread and a state name; some of what is closed was abandoned."""
    replies = [message.reply for message in thread if isinstance(message, AssistantMessage)]
    minted: list[int] = []
    abandoned: list[GrowingSet[int]] = []
    for kind in OperationKind:
        least = max(replies, default=0) if kind is OperationKind.MODEL else 0
        found = named[kind] if kind in named else Named(least + draw(st.integers(0, 1)), frozenset())
        number = found.newest
        closed = [n for n in range(1, number + 1) if n not in found.open]
        minted.append(number)
        cut_short = draw(st.lists(st.sampled_from(closed), unique=True)) if closed else []
        abandoned.append(GrowingSet.of(cut_short))
    cut_calls = [AbandonedModelCall(ModelOperation(number), draw(usages)) for number in abandoned[OperationKind.MODEL]]
    abandoned[OperationKind.MODEL] = GrowingSet()
    return Operations(tuple(minted), tuple(abandoned), Vector.of(cut_calls))


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
        keys=GrowingSet.of(draw(st.lists(st.sampled_from(KEYS), unique=True))),
    )


@st.composite
def sessions(draw: DrawFn, thread: Thread | None = None, names: Names | None = None) -> Session:
    """A record that agrees with its thread and with the ids that the state around it names."""
    said = draw(threads()) if thread is None else thread
    inbox = draw(inboxes())
    waiting = len(inbox.queue) + len(inbox.steers)
    return Session(
        settings=draw(settings),
        thread=said,
        usage=draw(usages),
        inbox=inbox,
        counters=Counters(
            messages=len(said),
            receipts=waiting + draw(counts),
            queued=waiting + draw(counts),
            steered=draw(counts),
            turns=3,
        ),
        operations=draw(operations(said, names or {})),
        error=draw(st.none() | st.builds(ShownError, st.sampled_from(ErrorClass), texts)),
        last_model=draw(st.none() | models),
        last_end=draw(st.none() | end_reasons),
    )


# --- phases ---------------------------------------------------------------------------------------------

initial_states: SearchStrategy[Initial] = st.builds(Initial, session=st.none() | sessions(), stamp=stamps)
idle_states: SearchStrategy[Idle] = st.builds(Idle, session=sessions(), stamp=stamps)
cancelled_states: SearchStrategy[Cancelled] = st.builds(
    Cancelled, session=sessions(), stamp=stamps, reason=cancel_reasons
)
done_states: SearchStrategy[Done] = st.builds(Done, session=sessions(), stamp=stamps, reason=end_reasons)
thinking_states: SearchStrategy[Thinking] = st.builds(
    Thinking,
    session=sessions(names=newest(OperationKind.HOOK, 2)),
    stamp=stamps,
    turn=turns,
    gate=st.just(HookOperation(2)),
)
compacting_states: SearchStrategy[Compacting] = st.builds(
    Compacting,
    session=sessions(names=newest(OperationKind.SUMMARY, 1)),
    stamp=stamps,
    turn=st.none() | turns,
    operation=st.just(SummaryOperation(1)),
    until=counts,
)
backoff_states: SearchStrategy[Backoff] = st.builds(
    Backoff,
    session=sessions(names=newest(OperationKind.TIMER, 2)),
    stamp=stamps,
    turn=turns,
    timer=st.just(TimerOperation(2)),
    deadline_ms=counts,
    attempt=counts,
    error=st.sampled_from(ErrorClass),
)
handing_off_states: SearchStrategy[HandingOff] = st.builds(
    HandingOff,
    session=sessions(names=newest(OperationKind.HANDOFF, 1)),
    stamp=stamps,
    operation=st.just(HandoffOperation(1)),
    goal=texts,
)
next_inputs: SearchStrategy[NextInput] = st.builds(NextInput, receipt=receipt_ids, content=contents, key=safe_keys)
endings: SearchStrategy[Ending] = st.builds(
    Ending,
    reason=end_reasons,
    natural=st.booleans(),
    gated=st.booleans(),
    cancel=st.none() | cancel_reasons,
    then=st.none() | next_inputs,
)


@st.composite
def finishing_states(draw: DrawFn) -> Finishing:
    """A turn is ending, and a stop hook or the course correction has been asked."""
    correcting = draw(st.booleans())
    names = newest(OperationKind.CORRECTION if correcting else OperationKind.HOOK, 1)
    return Finishing(
        session=draw(sessions(names=names)),
        stamp=draw(stamps),
        turn=draw(turns),
        ending=draw(endings),
        hook=None if correcting else HookOperation(1),
        correction=CorrectionOperation(1) if correcting else None,
    )


@st.composite
def streaming_states(draw: DrawFn) -> Streaming:
    """A reply is coming in, after every reply of the thread."""
    thread = draw(threads(max_rounds=1))
    operation = ModelOperation(2)
    ledger = draw(ledgers(operation))
    model = draw(models)
    return Streaming(
        session=draw(sessions(thread, named_by(ledger))),
        stamp=draw(stamps),
        turn=draw(turns),
        reply=OpenReply(operation, model, draw(usages)),
        pieces=draw(pieces_of(ledger)),
        ledger=ledger,
    )


Working = Executing | Confirming | Dispatching


@st.composite
def working_states(draw: DrawFn) -> State:
    """A reply is in the thread, and not all of its calls are answered; or where settling that leads at once.

    A state that can be seen is a state that waits: what may start has started.
    """
    # The phase follows from the ledger (rule STATE-5); which calls are sub-agents is not told apart here.
    phases: tuple[type[Working], ...] = (Executing, Confirming, Dispatching)
    phase = draw(st.sampled_from(phases))
    thread = draw(threads(max_rounds=1))
    ledger = draw(ledgers(ModelOperation(2), least=1, asking=phase is Confirming))
    message = AssistantMessage(
        id=MessageId(len(thread) + 1),
        reply=ledger.reply,
        model=draw(models),
        content=calls_of(ledger),
        stop=draw(stop_reasons),
        usage=draw(usages),
    )
    names = named_by(ledger)
    names[OperationKind.MODEL] = Named(ledger.reply, frozenset())
    session = draw(sessions(thread.append(message), names))
    state: State = phase(session=session, stamp=draw(stamps), turn=draw(turns), ledger=ledger)
    return settle(Step(state, ())).next


states: SearchStrategy[State] = st.one_of(
    streaming_states(),
    working_states(),
    idle_states,
    initial_states,
    thinking_states,
    finishing_states(),
    compacting_states,
    backoff_states,
    handing_off_states,
    cancelled_states,
    done_states,
)
