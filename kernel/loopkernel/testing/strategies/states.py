"""Strategies for states, built by hand: each phase, also those that no run reaches yet, coherent in itself.

Coherent: every id that a state names was minted, counts agree with what they count, and what is open is
not abandoned. Whether a run could lead there is another matter: see `walks`.
"""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.endings import Ending
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    OperationKind,
    SummaryOperation,
)
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.sessions import OpenReply, Session
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
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason, TimerPurpose, TurnEndReason
from loopkernel.testing.strategies.call_stages import ASKING, RELEASED, STREAMING, WORKING
from loopkernel.testing.strategies.conversation import cancel_reasons, threads, tool_profiles
from loopkernel.testing.strategies.deltas import stop_reasons
from loopkernel.testing.strategies.endings import endings, errors, settled_by
from loopkernel.testing.strategies.ledgers import calls_in, calls_of, pieces_of
from loopkernel.testing.strategies.numbers import Numbers
from loopkernel.testing.strategies.sessions import end_reasons, sessions, sessions_naming, stamps, turns
from loopkernel.testing.strategies.values import counts, models, texts, usages
from loopkernel.transition import settle


@st.composite
def _offering(draw: DrawFn, session: Session, ledger: Ledger) -> Session:
    """The session; mostly the tools that the calls name are offered, so that they can be decided on."""
    if draw(st.integers(0, 4)) == 0:
        return session
    called = dict.fromkeys(entry.tool for entry in ledger.entries)
    offered = tuple(Tool(name=name, profile=draw(tool_profiles | st.none())) for name in called)
    return evolve(session, settings=evolve(session.settings, tools=offered))


# --- phases ---------------------------------------------------------------------------------------------

idle_states: SearchStrategy[Idle] = st.builds(Idle, session=sessions(), stamp=stamps)
cancelled_states: SearchStrategy[Cancelled] = st.builds(
    Cancelled, session=sessions(), stamp=stamps, reason=cancel_reasons
)
done_states: SearchStrategy[Done] = st.builds(
    Done, session=sessions(held=None), stamp=stamps, reason=end_reasons, cancel=st.none() | cancel_reasons
)
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
handing_off_states: SearchStrategy[HandingOff] = st.builds(
    HandingOff,
    session=sessions_naming(OperationKind.HANDOFF, 1),
    stamp=stamps,
    operation=st.just(HandoffOperation(1)),
    goal=texts,
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
    looks = draw(st.integers(0, 2))  # at how long the stream has been silent
    silence = numbers.mint_timer(draw, TimerPurpose.SILENCE) if looks else None
    calls = draw(calls_in(operation, numbers, STREAMING))
    numbers.open.add((OperationKind.MODEL, operation))
    if silence is not None and looks == 2:  # it was not too long, and is looked at again
        numbers.reported(OperationKind.TIMER, silence.operation)
        silence = numbers.mint_timer(draw, TimerPurpose.SILENCE)
    model, heard_ms = draw(models), draw(st.integers(-3, 3))
    session = draw(sessions(thread, numbers, calls.held))
    if silence is not None:  # what was last heard may have come after it was timed
        allowed_ms = session.settings.policy.silence_ms or 0
        silence = evolve(silence, deadline_ms=heard_ms + allowed_ms - draw(counts))
    return Streaming(
        session=draw(_offering(session, calls.ledger)),
        stamp=draw(stamps),
        turn=draw(turns),
        reply=OpenReply(operation, model, draw(usages)),
        pieces=draw(pieces_of(calls.ledger)),
        ledger=calls.ledger,
        heard_ms=heard_ms,
        silence=silence,
    )


@st.composite
def backoff_states(draw: DrawFn) -> Backoff:
    """A request that failed is to be made again."""
    numbers, thread = Numbers(), draw(threads())
    numbers.pass_over(draw, OperationKind.TIMER)
    timer = numbers.mint_timer(draw, TimerPurpose.RETRY)
    return Backoff(
        session=draw(sessions(thread, numbers)),
        stamp=draw(stamps),
        turn=draw(turns),
        timer=timer,
        error=draw(errors),
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
    settled = draw(st.one_of(st.none(), settled_by(ledger.reply), settled_by(ledger.reply)))
    working = Executing(session=session, stamp=stamp, turn=turn, ledger=ledger, settled=settled)
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
    backoff_states(),
    backoff_states(),
    handing_off_states,
    cancelled_states,
    done_states,
)
