"""Strategies for states, built by hand: each phase, also those that no run reaches yet, coherent in itself.

Coherent: every id that a state names was minted, counts agree with what they count, and what is open is
not abandoned. Whether a run could lead there is another matter: see `walks`.
"""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.held_runs import HeldRun
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
from loopkernel.data.messages import AssistantMessage, ResultMessage
from loopkernel.data.sessions import (
    BackgroundEnd,
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
from loopkernel.data.tools import Tool
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import CancelReason, ErrorClass, RequestReason, TurnEndReason
from loopkernel.testing.strategies.call_stages import ASKING, RELEASED, STREAMING, WORKING
from loopkernel.testing.strategies.conversation import (
    cancel_reasons,
    contents,
    threads,
    tool_profiles,
    tool_sets,
)
from loopkernel.testing.strategies.deltas import session_ids, stop_reasons
from loopkernel.testing.strategies.ledgers import calls_in, calls_of, pieces_of, runs_held_elsewhere
from loopkernel.testing.strategies.numbers import Numbers, operations
from loopkernel.testing.strategies.policies import policies, remembered
from loopkernel.testing.strategies.values import (
    KEYS,
    call_ids,
    counts,
    models,
    receipt_ids,
    safe_keys,
    texts,
    usages,
)
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
    remembered=st.lists(remembered, max_size=2).map(tuple),
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
)


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
    results = [result for message in said if isinstance(message, ResultMessage) for result in message.results]
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
        operations=draw(operations(said, named)),
        held=runs,
        bodies=len(results),
        error=draw(st.none() | st.builds(ShownError, st.sampled_from(ErrorClass), texts)),
        last_model=draw(st.none() | models),
        last_end=draw(st.none() | end_reasons),
    )


@st.composite
def _offering(draw: DrawFn, session: Session, ledger: Ledger) -> Session:
    """The session; mostly the tools that the calls name are offered, so that they can be decided on."""
    if draw(st.integers(0, 4)) == 0:
        return session
    called = dict.fromkeys(entry.tool for entry in ledger.entries)
    offered = tuple(Tool(name=name, profile=draw(tool_profiles | st.none())) for name in called)
    return evolve(session, settings=evolve(session.settings, tools=offered))


@st.composite
def sessions_naming(draw: DrawFn, kind: OperationKind, number: int) -> Session:
    """A session in which the operation of that kind and number is the newest, and open."""
    numbers = Numbers()
    while numbers.newest[kind] < number:
        numbers.reported(kind, numbers.newest[kind])
        numbers.mint(kind)
    return draw(sessions(numbers=numbers))


# --- phases ---------------------------------------------------------------------------------------------

idle_states: SearchStrategy[Idle] = st.builds(Idle, session=sessions(), stamp=stamps)
cancelled_states: SearchStrategy[Cancelled] = st.builds(
    Cancelled, session=sessions(), stamp=stamps, reason=cancel_reasons
)
done_states: SearchStrategy[Done] = st.builds(Done, session=sessions(held=None), stamp=stamps, reason=end_reasons)
thinking_states: SearchStrategy[Thinking] = st.builds(
    Thinking,
    session=sessions_naming(OperationKind.HOOK, 2),
    stamp=stamps,
    turn=turns,
    gate=st.just(HookOperation(2)),
)
compacting_states: SearchStrategy[Compacting] = st.builds(
    Compacting,
    session=sessions_naming(OperationKind.SUMMARY, 1),
    stamp=stamps,
    turn=st.none() | turns,
    operation=st.just(SummaryOperation(1)),
    until=counts,
)
backoff_states: SearchStrategy[Backoff] = st.builds(
    Backoff,
    session=sessions_naming(OperationKind.TIMER, 2),
    stamp=stamps,
    turn=turns,
    timer=st.just(TimerOperation(2)),
    deadline_ms=counts,
    attempt=counts,
    error=st.sampled_from(ErrorClass),
)
handing_off_states: SearchStrategy[HandingOff] = st.builds(
    HandingOff,
    session=sessions_naming(OperationKind.HANDOFF, 1),
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
    cancel=st.none() | cancel_reasons.filter(lambda reason: reason is not CancelReason.DISPOSED),
    then=st.none() | next_inputs,
)
# Of a reply that is kept although its stream has failed (rule TOOL-9).
endings_by_error: SearchStrategy[Ending] = st.builds(
    Ending,
    reason=st.sampled_from((TurnEndReason.ERROR, TurnEndReason.REFUSAL)),
    error=st.sampled_from(ErrorClass),
    message=texts,
)


@st.composite
def finishing_states(draw: DrawFn) -> Finishing:
    """A turn is ending, and a stop hook or the course correction has been asked; the thread may be being released."""
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    ending, held = draw(endings), tuple[HeldRun, ...]()
    if draw(st.booleans()):
        calls = draw(calls_in(ModelOperation(2), numbers, RELEASED, least=1))
        ending = Ending(reason=TurnEndReason.DISPOSED, cancel=CancelReason.DISPOSED, waiting=calls.ledger)
        thread, held = thread.append(draw(_reply_with(thread, calls.ledger))), calls.held
    correcting = draw(st.booleans())
    number = numbers.mint(OperationKind.CORRECTION if correcting else OperationKind.HOOK)
    return Finishing(
        session=draw(sessions(thread, numbers, held)),
        stamp=draw(stamps),
        turn=draw(turns),
        ending=ending,
        hook=None if correcting else HookOperation(number),
        correction=CorrectionOperation(number) if correcting else None,
    )


@st.composite
def streaming_states(draw: DrawFn) -> Streaming:
    """A reply is coming in, after every reply of the thread; some of its calls may have started early."""
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    operation = ModelOperation(2)
    calls = draw(calls_in(operation, numbers, STREAMING))
    numbers.open.add((OperationKind.MODEL, operation))
    model = draw(models)
    session = draw(sessions(thread, numbers, calls.held))
    return Streaming(
        session=draw(_offering(session, calls.ledger)),
        stamp=draw(stamps),
        turn=draw(turns),
        reply=OpenReply(operation, model, draw(usages)),
        pieces=draw(pieces_of(calls.ledger)),
        ledger=calls.ledger,
    )


@st.composite
def _reply_with(draw: DrawFn, thread: Thread, ledger: Ledger) -> AssistantMessage:
    """The reply that holds the calls of the ledger, next in the thread."""
    return AssistantMessage(
        id=MessageId(len(thread) + 1),
        reply=ledger.reply,
        model=draw(models),
        content=calls_of(ledger),
        stop=draw(stop_reasons),
        usage=draw(usages),
    )


@st.composite
def initial_states(draw: DrawFn) -> Initial:
    """Not created, not acquired, or released, perhaps with calls that wait for a person."""
    if draw(st.booleans()):
        return Initial(session=draw(st.none() | sessions()), stamp=draw(stamps))
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    calls = draw(calls_in(ModelOperation(2), numbers, RELEASED, least=1))
    ledger = untimed(calls.ledger)
    thread = thread.append(draw(_reply_with(thread, ledger)))
    return Initial(session=draw(sessions(thread, numbers, calls.held)), stamp=draw(stamps), ledger=ledger)


def untimed(ledger: Ledger) -> Ledger:
    """The ledger of a released thread, in which nobody's time runs."""
    return evolve(ledger, entries=Vector.of(evolve(entry, timer=None) for entry in ledger.entries))


@st.composite
def working_states(draw: DrawFn) -> State:
    """A reply is in the thread, and not all of its calls are answered; or where settling that leads at once.

    A state that can be seen is a state that waits: what may start has started. Which of the calls are sub-agents is
    not told apart here.
    """
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    calls = draw(calls_in(ModelOperation(2), numbers, draw(st.sampled_from((WORKING, WORKING, ASKING))), least=1))
    ledger = calls.ledger
    session = draw(sessions(thread.append(draw(_reply_with(thread, ledger))), numbers, calls.held))
    session = draw(_offering(session, ledger))
    stamp, turn = draw(stamps), draw(turns)
    if draw(st.integers(0, 5)) == 0:
        return Dispatching(session=session, stamp=stamp, turn=turn, ledger=ledger)
    ending = draw(st.none() | endings_by_error)
    working = Executing(session=session, stamp=stamp, turn=turn, ledger=ledger, ending=ending)
    return settle(Step(working, ())).next


states: SearchStrategy[State] = st.one_of(
    streaming_states(),
    streaming_states(),
    working_states(),
    working_states(),
    working_states(),
    working_states(),
    idle_states,
    initial_states(),
    thinking_states,
    finishing_states(),
    compacting_states,
    backoff_states,
    handing_off_states,
    cancelled_states,
    done_states,
)
