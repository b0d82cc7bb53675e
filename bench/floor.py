"""The floor: the same states, messages and effects as the kernel builds for a round, built with no logic at all.

Straight-line constructor calls in the kernel's order. What it costs is the price of immutable data in this
interpreter; what the kernel costs beyond it is the price of the logic.
"""

from loopkernel.data.blocks import TextBlock, ToolCall, ToolResult
from loopkernel.data.compactions import ContextSize
from loopkernel.data.effects import CallModel, CancelTimer, CheckCall, Request, StartTimer, StartTool
from loopkernel.data.events import CallAppeared, MessageAdded, ReplyEnded, ReplyGrew, ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, MessageId, ModelOperation, RunOperation, TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage
from loopkernel.data.model_deltas import ModelCall, ModelText
from loopkernel.data.operations import Operations
from loopkernel.data.policy import LoopTiers
from loopkernel.data.sessions import Counters, Course, OpenReply, Session, Stamp, Turn
from loopkernel.data.states import Executing, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.threads import Thread
from loopkernel.data.timers import Timer
from loopkernel.data.tools import EffectClass
from loopkernel.data.usage import Usage
from loopkernel.data.vector import Vector
from loopkernel.data.watches import Watch, WatchedCall
from loopkernel.data.words import CallStatus, RequestReason, StopReason, TimerPurpose

from bench.workload import OUTPUT, READ, VERDICT

WINDOW = LoopTiers().window
READS = EffectClass.READ_ONLY
# Characters that a request grows by, counted beforehand: of a reply but for the input of its call, and of a result.
SAID = len("I will read the file.") + len("read_file")
GIVEN = len("buy milk")


def increment(state: Streaming, ctx: Context, delta: ModelText) -> Step[Streaming]:
    """A piece of text."""
    stamp = Stamp(state.stamp.version + 1, ctx.now_ms)
    grown = Streaming(
        session=state.session,
        stamp=stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=state.ledger,
        heard_ms=ctx.now_ms,
        silence=state.silence,
    )
    return Step(grown, (ReplyGrew(delta.operation, delta.text),))


def call(state: Streaming, ctx: Context, delta: ModelCall, number: int) -> Step[Streaming]:
    """A complete call, and its check."""
    call_id = CallId(delta.operation, 1)
    made = ToolCall(id=call_id, provider_id="call", tool="read_file", input=delta.input)
    minted = state.session.operations.minted
    operations = _operations(state.session.operations, (*minted[:1], number, *minted[2:]))
    check = CheckOperation(number)
    assert isinstance(delta.input, Json)
    command = CheckCall(operation=check, call=call_id, tool="read_file", input=delta.input)
    ledger = Ledger(
        reply=delta.operation,
        entries=state.ledger.entries.append(LedgerEntry(call=made, check=check)),
        unanswered=1,
        checking=1,
        first_check=number,
        first_run=number,
        first_timer=2 * number,  # the one before is of the silence
        first_hook=1,
        checked=state.ledger.checked.append(0),
    )
    grown = Streaming(
        session=_session(state.session, operations=operations),
        stamp=Stamp(state.stamp.version + 1, ctx.now_ms),
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=ledger,
        heard_ms=ctx.now_ms,
        silence=state.silence,
    )
    return Step(grown, (CallAppeared(call_id, "call", "read_file"), command))


def completed(state: Streaming, ctx: Context) -> Step[Executing]:
    """The end of the reply."""
    session, operation = state.session, state.reply.operation
    message = AssistantMessage(
        id=MessageId(session.counters.messages + 1),
        reply=operation,
        model="default",
        content=(TextBlock("I will read the file."), state.ledger.entries[0].call),
        stop=StopReason.TOOL_USE,
        state=ReplyState.COMPLETE,
    )
    reply = OpenReply(operation, "default")
    turn = Turn(
        number=1,
        opened_ms=0,
        reason=RequestReason.NEXT_TURN,
        replies=state.turn.replies + 1,
        begun=True,
        requested=True,
    )
    made = state.ledger.entries[0].call
    assert isinstance(made.input, Json)
    assert state.silence is not None
    watched = WatchedCall(made.tool, made.input)
    executing = Executing(
        session=_session(
            session,
            watch=Watch(calls=(*session.watch.calls[1 - WINDOW :], watched), due=True),
            thread=Thread(session.thread.messages.append(message)),
            counters=_counters(session.counters),
            usage=session.usage.plus(reply.usage),
            size=_size(session.size, SAID + len(made.input.text)),
        ),
        stamp=Stamp(state.stamp.version + 1, ctx.now_ms),
        turn=turn,
        ledger=state.ledger,
    )
    closing = CancelTimer(state.silence.operation)
    return Step(executing, (closing, ReplyEnded(operation, StopReason.TOOL_USE), MessageAdded(message)))


def checked(state: Executing, ctx: Context, number: int) -> Step[Executing]:
    """The verdict on the call, which starts."""
    entry, ledger = state.ledger.entries[0], state.ledger
    judged = LedgerEntry(call=entry.call, verdict=VERDICT)
    ledger = _ledger(ledger, ledger.entries.replace(0, judged), running=0, unanswered=1, places=ledger.started)
    stamp = Stamp(state.stamp.version + 1, ctx.now_ms)
    state = Executing(session=state.session, stamp=stamp, turn=state.turn, ledger=ledger)
    run = RunOperation(number)
    timer = Timer(TimerOperation(2 * number), TimerPurpose.TOOL_TIMEOUT, ctx.now_ms + 120_000)
    minted = state.session.operations.minted
    operations = _operations(state.session.operations, (*minted[:2], number, 2 * number, *minted[4:]))
    running = LedgerEntry(
        call=entry.call,
        status=CallStatus.IN_PROGRESS,
        verdict=VERDICT,
        operation=run,
        runs=1,
        effect=READS,
        timer=timer,
    )
    ledger = _ledger(ledger, ledger.entries.replace(0, running), running=1, unanswered=1, places=Vector.of((0,)))
    given = entry.call.input
    assert isinstance(given, Json)
    command = StartTool(
        operation=run, call=entry.call.id, run=1, tool="read_file", input=given, key=f"bench/1/{entry.call.id}"
    )
    timed = StartTimer(operation=timer.operation, purpose=timer.purpose, deadline_ms=timer.deadline_ms)
    started = Executing(
        session=_session(state.session, operations=operations, course=_course(state.session.course), started=1),
        stamp=stamp,
        turn=state.turn,
        ledger=ledger,
    )
    return Step(started, (command, timed))


def _closed(entry: LedgerEntry, result: ToolResult) -> LedgerEntry:
    return LedgerEntry(
        call=entry.call,
        status=CallStatus.DONE,
        verdict=VERDICT,
        operation=entry.operation,
        runs=1,
        effect=READS,
        result=result,
    )


def succeeded(state: Executing, ctx: Context, number: int) -> Step[Streaming]:
    """The result of the call, and the next request."""
    entry, session, ledger = state.ledger.entries[0], state.session, state.ledger
    result = ToolResult(
        call=entry.call.id,
        provider_id="call",
        tool="read_file",
        status=CallStatus.DONE,
        content=OUTPUT.content,
        ran=True,
    )
    closed = _closed(entry, result)
    ledger = _ledger(ledger, ledger.entries.replace(0, closed), running=0, unanswered=0, places=ledger.started)
    stamp = Stamp(state.stamp.version + 1, ctx.now_ms)
    state = Executing(session=session, stamp=stamp, turn=state.turn, ledger=ledger)
    message = ResultMessage(id=MessageId(session.counters.messages + 1), reply=ledger.reply, results=(result,))
    thread = Thread(session.thread.messages.append(message))
    minted = session.operations.minted
    operations = _operations(session.operations, (number + 1, *minted[1:3], 2 * number + 1, *minted[4:]))
    silence = Timer(TimerOperation(2 * number + 1), TimerPurpose.SILENCE, ctx.now_ms + 120_000)
    operation = ModelOperation(number + 1)
    turn = Turn(
        number=1, opened_ms=0, reason=RequestReason.NEXT_TURN, replies=state.turn.replies, begun=True, requested=True
    )
    request = Request(
        number=operation,
        reason=RequestReason.NEXT_TURN,
        model="default",
        instructions="",
        tools=(READ,),
        thread=thread,
        max_output_tokens=32_000,
    )
    streaming = Streaming(
        session=_session(
            session,
            thread=thread,
            counters=_counters(session.counters),
            operations=operations,
            watch=Watch(calls=session.watch.calls),
            size=_size(session.size, GIVEN),
            results=1,
        ),
        stamp=stamp,
        turn=turn,
        reply=OpenReply(operation, "default", limit=32_000),
        pieces=Vector(),
        ledger=Ledger(
            reply=operation, first_check=number + 1, first_run=number + 1, first_timer=2 * number + 2, first_hook=1
        ),
        heard_ms=ctx.now_ms,
        silence=silence,
    )
    closing = CancelTimer(TimerOperation(2 * number))
    timed = StartTimer(operation=silence.operation, purpose=silence.purpose, deadline_ms=silence.deadline_ms)
    asked = CallModel(operation, request)
    return Step(streaming, (closing, ToolEnded(result), MessageAdded(message), asked, timed))


def _operations(operations: Operations, minted: tuple[int, ...]) -> Operations:
    return Operations(minted, operations.abandoned, operations.abandoned_models, operations.billed)


def _size(size: ContextSize, more: int) -> ContextSize:
    return ContextSize(size.tokens, size.characters + more, size.total + more)


def _course(course: Course) -> Course:
    return Course(calls=course.calls + 1, writes=course.writes, checked=course.checked)


def _counters(counters: Counters) -> Counters:
    return Counters(messages=counters.messages + 1, receipts=1, queued=0, steered=0, turns=1)


def _ledger(
    ledger: Ledger, entries: Vector[LedgerEntry], *, running: int, unanswered: int, places: Vector[int]
) -> Ledger:
    """The ledger after a step of its only call; its run and its timer have the same place."""
    return Ledger(
        reply=ledger.reply,
        entries=entries,
        unanswered=unanswered,
        running=running,
        first_check=ledger.first_check,
        first_run=ledger.first_run,
        first_timer=ledger.first_timer,
        first_hook=ledger.first_hook,
        checked=ledger.checked,
        started=places,
        timed=places,
    )


def _session(
    session: Session,
    *,
    thread: Thread | None = None,
    usage: Usage | None = None,
    counters: Counters | None = None,
    operations: Operations | None = None,
    watch: Watch | None = None,
    course: Course | None = None,
    size: ContextSize | None = None,
    started: int = 0,
    results: int = 0,
) -> Session:
    return Session(
        settings=session.settings,
        thread=session.thread if thread is None else thread,
        usage=session.usage if usage is None else usage,
        inbox=session.inbox,
        counters=session.counters if counters is None else counters,
        operations=session.operations if operations is None else operations,
        held=session.held,
        bodies=session.bodies + results,
        bodies_from=session.bodies_from,
        started=session.started + started,
        watch=session.watch if watch is None else watch,
        course=session.course if course is None else course,
        size=session.size if size is None else size,
        compactions=session.compactions,
        error=None,
        last_model="default",
        last_end=None,
    )
