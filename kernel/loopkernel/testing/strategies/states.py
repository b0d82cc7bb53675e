"""Strategies for states, built by hand: each phase, also those that no run reaches yet, coherent in itself.

Coherent: every id that a state names was minted, counts agree with what they count, and what is open is
not abandoned. Whether a run could lead there is another matter: see `walks`.
"""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.compactions import Cut
from loopkernel.data.endings import Failure, NextQueued
from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    OperationKind,
    QueueNumber,
    SummaryOperation,
)
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import AssistantMessage, ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.policy import Hook
from loopkernel.data.reply_sizes import ReplySize
from loopkernel.data.sessions import OpenReply, Session, Settings, Turn
from loopkernel.data.states import (
    AfterModel,
    AtRest,
    Backoff,
    BeforeEnd,
    BeforeRequest,
    Cancelled,
    Compacting,
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
from loopkernel.data.words import ErrorClass, HookPoint, TimerPurpose
from loopkernel.loop.transition import settle
from loopkernel.testing.strategies.call_stages import ASKING, DISPATCHING, RELEASED, STREAMING, WORKING
from loopkernel.testing.strategies.conversation import cancel_reasons, threads, tool_profiles
from loopkernel.testing.strategies.deltas import stop_reasons
from loopkernel.testing.strategies.endings import endings, errors, failures, settled_by
from loopkernel.testing.strategies.ledgers import calls_in, calls_of, pieces_of
from loopkernel.testing.strategies.numbers import Numbers
from loopkernel.testing.strategies.sessions import end_reasons, sessions, sessions_naming, stamps, turns
from loopkernel.testing.strategies.values import counts, models, safe_names, texts, usages


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


@st.composite
def hooks_asked(draw: DrawFn, numbers: Numbers, *points: HookPoint) -> OpenHook:
    """A gated hook is asked at one of these points; it may be timed, and others may come after it."""
    point = draw(st.sampled_from(points))
    timed = draw(st.booleans())
    return OpenHook(
        operation=HookOperation(numbers.mint(OperationKind.HOOK)),
        hook=Hook(point=point, name=draw(safe_names), gated=True),
        left=tuple(Hook(point=point, name=name, gated=True) for name in draw(st.lists(safe_names, max_size=1))),
        timer=numbers.mint_timer(draw, TimerPurpose.HOOK_TIMEOUT) if timed else None,
    )


@st.composite
def thinking_states(draw: DrawFn) -> Thinking:
    """A hook is asked before a request."""
    numbers, thread = Numbers(), draw(threads())
    gate = draw(hooks_asked(numbers, HookPoint.BEFORE_INVOCATION, HookPoint.BEFORE_MODEL))
    invocation = gate.hook.point is HookPoint.BEFORE_INVOCATION
    turn = draw(turns)
    return Thinking(
        session=draw(sessions(thread, numbers)),
        stamp=draw(stamps),
        turn=evolve(turn, begun=turn.begun if invocation else True),
        gate=gate,
        passed=BeforeRequest.NOTHING if invocation else BeforeRequest.COMPACTION,
    )


at_rest: SearchStrategy[AtRest] = st.builds(
    AtRest, queued=st.integers(0, 3).map(QueueNumber), cancel=st.none() | cancel_reasons
)


@st.composite
def compacting_states(draw: DrawFn) -> Compacting:
    """A summary is being made, before a request of a turn or at rest."""
    numbers, thread = Numbers(), draw(threads().filter(lambda one: len(one) > 1))
    operation = SummaryOperation(numbers.mint(OperationKind.SUMMARY))
    session = draw(sessions(thread, numbers))
    said = list(session.thread)
    places = [place for place in range(1, len(said)) if not isinstance(said[place], ResultMessage)]
    until = draw(st.sampled_from(places))
    opened = [place for place in range(until) if isinstance(said[place], UserMessage)]
    within = draw(turns | at_rest)
    request = ModelOperation(session.operations.minted[OperationKind.MODEL])
    reactive = isinstance(within, Turn) and request > 0 and draw(st.booleans())
    return Compacting(
        session=session,
        stamp=draw(stamps),
        within=within,
        operation=operation,
        cut=Cut(until, draw(st.none() | st.sampled_from(opened)) if opened else None),
        failure=Failure(request=request, error=ErrorClass.PROMPT_TOO_LONG) if reactive else None,
    )


handing_off_states: SearchStrategy[HandingOff] = st.builds(
    HandingOff,
    session=sessions_naming(OperationKind.HANDOFF, 1),
    stamp=stamps,
    within=at_rest,
    operation=st.just(HandoffOperation(1)),
    goal=texts,
)


@st.composite
def finishing_states(draw: DrawFn) -> Finishing:
    """A turn is ending, and a hook or the course correction has been asked."""
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    gate, passed = draw(_gates_at_the_end(numbers)), BeforeEnd.NOTHING
    if isinstance(gate, OpenCorrection):
        passed = BeforeEnd.STOP_HOOKS
    elif gate.hook.point is HookPoint.AFTER_INVOCATION:
        passed = BeforeEnd.CORRECTION
    session, ending = draw(sessions(thread, numbers)), draw(endings)
    last = passed is BeforeEnd.CORRECTION
    then = NextQueued() if last and session.inbox.queue and draw(st.booleans()) else None
    # What is cut short waits for no gate; and only a natural end passes those before the last.
    ending = evolve(ending, cancel=None, forked=False, waiting=None, then=then, gated=ending.gated or not last)
    return Finishing(session=session, stamp=draw(stamps), turn=draw(turns), ending=ending, gate=gate, passed=passed)


@st.composite
def _gates_at_the_end(draw: DrawFn, numbers: Numbers) -> OpenHook | OpenCorrection:
    """A stop hook, the course correction, or a hook after the turn."""
    if draw(st.integers(0, 2)):
        return draw(hooks_asked(numbers, HookPoint.STOP, HookPoint.AFTER_INVOCATION))
    timer = numbers.mint_timer(draw, TimerPurpose.HOOK_TIMEOUT) if draw(st.booleans()) else None
    return OpenCorrection(CorrectionOperation(numbers.mint(OperationKind.CORRECTION)), timer)


reply_sizes = st.builds(ReplySize, counts, counts, counts)


@st.composite
def streaming_states(draw: DrawFn) -> Streaming:
    """A reply is coming in, after every reply of the thread; some of its calls may have started early."""
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    operation = ModelOperation(2)
    over = draw(st.integers(0, 3)) == 0  # the stream has ended, and a hook is asked about that
    looks = 0 if over else draw(st.integers(0, 2))  # at how long the stream has been silent
    silence = numbers.mint_timer(draw, TimerPurpose.SILENCE) if looks else None
    calls = draw(calls_in(operation, numbers, STREAMING))
    after = draw(_after_model(operation, numbers)) if over else None
    if not over:
        numbers.open.add((OperationKind.MODEL, operation))
    if silence is not None and looks == 2:  # it was not too long, and is looked at again
        numbers.reported(OperationKind.TIMER, silence.operation)
        silence = numbers.mint_timer(draw, TimerPurpose.SILENCE)
    bounded = not over and draw(st.booleans())
    time_limit = numbers.mint_timer(draw, TimerPurpose.WALL_TIME) if bounded else None
    model, heard_ms = draw(models), draw(st.integers(-3, 3))
    session = draw(sessions(thread, numbers, calls.held))
    if silence is not None:  # what was last heard may have come after it was timed
        allowed_ms = session.settings.policy.silence_ms or 0
        silence = evolve(silence, deadline_ms=heard_ms + allowed_ms - draw(counts))
    turn = draw(turns)
    if not over:  # what bounds the reply is as the policy says
        wall_ms = draw(counts) if time_limit is not None else None
        session = evolve(session, settings=_lasting(session.settings, wall_ms))
        if time_limit is not None and wall_ms is not None:
            time_limit = evolve(time_limit, deadline_ms=turn.opened_ms + wall_ms)
    return Streaming(
        session=draw(_offering(session, calls.ledger)),
        stamp=draw(stamps),
        turn=turn,
        reply=OpenReply(operation, model, draw(usages)),
        pieces=draw(pieces_of(calls.ledger)),
        ledger=calls.ledger,
        heard_ms=heard_ms,
        silence=silence,
        after=after,
        time_limit=time_limit,
        size=draw(reply_sizes),
    )


def _lasting(settings: Settings, wall_ms: int | None) -> Settings:
    return evolve(settings, policy=evolve(settings.policy, max_wall_ms=wall_ms))


@st.composite
def _after_model(draw: DrawFn, operation: ModelOperation, numbers: Numbers) -> AfterModel:
    """The model call has ended, or failed, and a hook is asked about it."""
    completed = st.builds(ModelCompleted, st.just(operation), stop_reasons, usages, cut_call=st.booleans())
    numbers.open.add((OperationKind.MODEL, operation))
    numbers.reported(OperationKind.MODEL, operation)
    gate = draw(hooks_asked(numbers, HookPoint.AFTER_MODEL))
    return AfterModel(gate=gate, end=draw(st.one_of(completed, failures(operation))))


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

    A state that can be seen is a state that waits: what may start has started.
    """
    numbers, thread = Numbers(), draw(threads(max_rounds=1))
    stages = draw(st.sampled_from((WORKING, WORKING, ASKING, DISPATCHING)))
    calls = draw(calls_in(ModelOperation(2), numbers, stages, least=1))
    ledger = calls.ledger
    session = draw(sessions(thread.append(draw(_reply_with(thread, ledger))), numbers, calls.held))
    session = draw(_offering(session, ledger))
    stamp, turn = draw(stamps), draw(turns)
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
    thinking_states(),
    finishing_states(),
    compacting_states(),
    backoff_states(),
    backoff_states(),
    handing_off_states,
    cancelled_states,
    done_states,
)
