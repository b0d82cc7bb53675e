"""`Streaming`: the model answers. Increments cost the same at any length of reply and thread (rule INFER-3)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import ToolCall
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import CallAppeared, Refused, ReplyFailed, ReplyGrew, ReplyRetracted, SessionResumed
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import (
    FromModel,
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
    Piece,
)
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.states import Executing, Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool, ToolChecked, ToolDelta
from loopkernel.data.user_deltas import CancelAll, CancelCall, FromUser, Say
from loopkernel.data.words import ErrorClass, RefusalReason, RequestReason, TurnEndReason, UserAction
from loopkernel.regions.cancels import Cause, cut_reply, end_cut_short, reason_of
from loopkernel.regions.completion import AfterReply, complete_reply
from loopkernel.regions.errors import show_error
from loopkernel.regions.ledger import add_call, cancel_call, drop, open_check, take_verdict
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.user_input import input_while_busy, interrupts


def on_streaming(state: Streaming, ctx: Context) -> Step[Streaming | Executing | Thinking | Finishing]:
    """Pieces, the end or the failure of the reply; verdicts on its calls; input waits; a cancel cuts it."""
    match ctx.delta:
        case FromModel() as delta:
            if delta.operation != state.reply.operation:
                session, reason = late_report(state.session, delta)
                return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
            return _on_model(state, ctx, delta)
        case FromTool() as delta:
            return _on_tool(state, ctx, delta)
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, CancelCall):
                return _cancel_one(state, ctx, delta)
            session, effects = input_while_busy(state.session, state.ledger, delta)
            return stay(state, ctx, session, effects)
        case TimerFired() | FromOutside() as report:
            session, reason = late_report(state.session, report)
            return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _on_model(state: Streaming, ctx: Context, delta: ModelDelta) -> Step[Streaming | Executing | Thinking | Finishing]:
    match delta:
        case ModelText():
            return _grown(state, ctx, delta, (ReplyGrew(delta.operation, delta.text),))
        case ModelReasoning():
            return _grown(state, ctx, delta, (ReplyGrew(delta.operation, delta.text, True),))
        case ModelInput() | ModelOpaque() | ModelServerCall():
            return _grown(state, ctx, delta, ())
        case ModelCall():
            return _with_call(state, ctx, delta)
        case ModelCompleted():
            return _completed(state, ctx, delta)
        case ModelUsage():
            reply = state.reply
            merged = OpenReply(reply.operation, reply.model, reply.usage.most(delta.usage))
            return Step(evolve(state, stamp=state.stamp.next(ctx.now_ms), reply=merged), ())
        case ModelStarted():
            return stay(state, ctx, state.session, ())
        case ModelFailed():
            return _failed(state, ctx, delta)
        case _:
            assert_never(delta)


def _grown(state: Streaming, ctx: Context, piece: Piece, effects: tuple[Effect, ...]) -> Step[Streaming]:
    """One more piece. Built by the constructor, since this is the hottest path of all."""
    grown = Streaming(
        session=state.session,
        stamp=state.stamp.next(ctx.now_ms),
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(piece),
        ledger=state.ledger,
    )
    return Step(grown, effects)


def _with_call(state: Streaming, ctx: Context, delta: ModelCall) -> Step[Streaming]:
    """One more complete call: it is recorded, and checked; it starts when the reply is complete."""
    call_id = CallId(state.reply.operation, state.ledger.entries.size + 1)
    call = ToolCall(id=call_id, provider_id=delta.provider_id, tool=delta.tool, input=delta.input, after=delta.after)
    added = add_call(state.ledger, state.session.operations, call, delta.verdict)
    grown = Streaming(
        session=state.session.with_operations(added.operations),
        stamp=state.stamp.next(ctx.now_ms),
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=added.ledger,
    )
    return Step(grown, (CallAppeared(call_id, call.provider_id, call.tool), *added.effects))


def _on_tool(state: Streaming, ctx: Context, delta: ToolDelta) -> Step[Streaming]:
    """Verdicts are kept until the reply is complete; no run is open yet."""
    if isinstance(delta, ToolChecked):
        place = open_check(state.ledger, delta.operation)
        if place is not None:
            checked = take_verdict(state.ledger, place, delta.verdict)
            return _with_ledger(state, ctx, state.session, checked, ())
    session, reason = late_report(state.session, delta)
    return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))


def _with_ledger(
    state: Streaming, ctx: Context, session: Session, ledger: Ledger, effects: tuple[Effect, ...]
) -> Step[Streaming]:
    return Step(evolve(state, session=session, stamp=state.stamp.next(ctx.now_ms), ledger=ledger), effects)


def _cancel_one(state: Streaming, ctx: Context, delta: CancelCall) -> Step[Streaming]:
    cancelled = cancel_call(state.ledger, state.session.operations, delta.call)
    if cancelled is None:
        session, effects = input_while_busy(state.session, state.ledger, delta)
        return stay(state, ctx, session, effects)
    session = state.session.with_operations(cancelled.operations)
    return _with_ledger(state, ctx, session, cancelled.ledger, cancelled.effects)


def _cut_short(state: Streaming, ctx: Context, cause: Cause) -> Step[Finishing]:
    reason = reason_of(cause)
    session, effects = cut_reply(state.session, state.reply, state.pieces, state.ledger, reason)
    session, ending = end_cut_short(session, cause)
    stamp = state.stamp.next(ctx.now_ms)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def _completed(state: Streaming, ctx: Context, delta: ModelCompleted) -> Step[Executing | Thinking | Finishing]:
    reply = OpenReply(state.reply.operation, state.reply.model, state.reply.usage.most(delta.usage))
    after: AfterReply = complete_reply(state.session, state.turn, reply, state.pieces, state.ledger, delta.stop)
    stamp = state.stamp.next(ctx.now_ms)
    if after.ending is not None:
        finishing = Finishing(session=after.session, stamp=stamp, turn=after.turn, ending=after.ending)
        return Step(finishing, after.effects)
    if after.ledger is not None:
        executing = Executing(session=after.session, stamp=stamp, turn=after.turn, ledger=after.ledger)
        return Step(executing, after.effects)
    return Step(Thinking(session=after.session, stamp=stamp, turn=after.turn), after.effects)


def _failed(state: Streaming, ctx: Context, delta: ModelFailed) -> Step[Finishing]:
    """The reply is discarded and its failure shown; retries are not built yet."""
    session = state.session
    usage = session.usage.plus(state.reply.usage.most(delta.usage))
    session = evolve(session, usage=usage, operations=drop(state.ledger, session.operations))
    effects: tuple[Effect, ...] = (ReplyFailed(delta.operation, delta.error),)
    if len(state.pieces):
        effects = (*effects, ReplyRetracted(delta.operation))
    session, shown = show_error(session, delta.error, delta.message)
    refused = delta.error is ErrorClass.REFUSED
    ending = Ending(reason=TurnEndReason.REFUSAL if refused else TurnEndReason.ERROR)
    finishing = Finishing(session=session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn, ending=ending)
    return Step(finishing, (*effects, *shown))


def _resumed(state: Streaming, ctx: Context) -> Step[Thinking]:
    """The process was restarted: the partial reply is dropped and asked again (rule RESUME-3)."""
    session, reply = state.session, state.reply
    operations = drop(state.ledger, session.operations).abandon_model(reply.operation, reply.usage)
    session = evolve(session, operations=operations, usage=session.usage.plus(reply.usage))
    effects: tuple[Effect, ...] = (SessionResumed(),)
    if len(state.pieces):
        effects = (*effects, ReplyRetracted(reply.operation))
    turn = evolve(state.turn, reason=RequestReason.RESUME)
    return Step(Thinking(session=session, stamp=state.stamp.next(ctx.now_ms), turn=turn), effects)
