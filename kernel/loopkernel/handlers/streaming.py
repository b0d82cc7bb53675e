"""`Streaming`: the model answers. Increments cost the same at any length of reply and thread (rule INFER-3)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import ToolCall
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import CallAppeared, ReplyFailed, ReplyGrew, ReplyRetracted, SessionResumed
from loopkernel.data.ids import CallId
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
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import Executing, Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Disposed, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import (
    AnswersCall,
    CancelAll,
    CancelCall,
    ChangesSettings,
    FromUser,
    Say,
    UserDelta,
)
from loopkernel.data.words import ErrorClass, RefusalReason, RequestReason, TurnEndReason
from loopkernel.regions.approvals import answer_call
from loopkernel.regions.cancels import Cause, cut_reply, end_cut_short, reason_of
from loopkernel.regions.completion import AfterReply, complete_reply
from loopkernel.regions.early_runs import drop, drop_after_crash, has_had_effect, keep_for_effect
from loopkernel.regions.errors import show_error
from loopkernel.regions.held_runs import Ledgered
from loopkernel.regions.ledger import add_call
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import Report, late_report
from loopkernel.regions.restart import restart_calls, restart_held_runs
from loopkernel.regions.runs import timer_fired, tool_report
from loopkernel.regions.schedule import forget_plan, start_ready
from loopkernel.regions.stops import cancel_call
from loopkernel.regions.user_input import input_while_busy, interrupts


def on_streaming(state: Streaming, ctx: Context) -> Step[Streaming | Executing | Thinking | Finishing]:
    """Pieces, the end or the failure of the reply; its calls are checked, and may start early; a cancel cuts it."""
    match ctx.delta:
        case FromModel() as delta:
            if delta.operation != state.reply.operation:
                return _with_report(state, ctx, delta, None)
            return _on_model(state, ctx, delta)
        case FromTool() as delta:
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            taken = tool_report(state.ledger, state.session, delta, now_ms, streaming=True)
            return _with_report(state, ctx, delta, taken)
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            return _with_calls(state, ctx, _on_user(state, delta, max(state.stamp.now_ms, ctx.now_ms)))
        case TimerFired() as delta:
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            fired = timer_fired(state.ledger, state.session, delta.operation, now_ms)
            return _with_report(state, ctx, delta, fired)
        case FromOutside() as delta:
            return _with_report(state, ctx, delta, None)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _on_user(state: Streaming, delta: UserDelta, now_ms: int) -> Ledgered:
    """What the user wants, but for a cancel of everything. A tool that started early may have asked something."""
    ledger, session = state.ledger, state.session
    if isinstance(delta, AnswersCall):
        return answer_call(ledger, session, delta, now_ms)
    if isinstance(delta, CancelCall):
        cancelled = cancel_call(ledger, session, delta.call, now_ms)
        if cancelled is not None:
            return cancelled
    session, effects = input_while_busy(session, ledger, delta, now_ms)
    if isinstance(delta, ChangesSettings):
        ledger = forget_plan(ledger)
    return Ledgered(ledger, session, effects)


def _with_report(state: Streaming, ctx: Context, report: Report, taken: Ledgered | None) -> Step[Streaming]:
    """After a report, which may be on nothing that is open here: it may still show that a run has stopped."""
    if taken is None:
        late = late_report(state.session, report, state.ledger)
        taken = Ledgered(late.ledger or state.ledger, late.session, late.effects)
    return _with_calls(state, ctx, taken)


def _with_calls(state: Streaming, ctx: Context, taken: Ledgered) -> Step[Streaming]:
    """The calls have changed: others may start early. What was refused has changed nothing, or freed resources."""
    refused = is_refused(taken.effects)
    if refused and taken.session is state.session:
        return Step(state, taken.effects)
    if not refused:
        stamp = state.stamp.next(ctx.now_ms)
    else:
        stamp = state.stamp if taken.session.held is state.session.held else state.stamp.at(ctx.now_ms)
    early = start_ready(taken.ledger, taken.session, stamp.now_ms, early=True)
    after = evolve(state, session=early.session, stamp=stamp, ledger=early.ledger)
    return Step(after, (*taken.effects, *early.effects))


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
            return Step(evolve(state, stamp=state.stamp.next(ctx.now_ms)), ())
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
    """One more complete call: it is recorded and checked, and may start before the reply is complete (rule TOOL-9)."""
    call_id = CallId(state.reply.operation, state.ledger.entries.size + 1)
    call = ToolCall(id=call_id, provider_id=delta.provider_id, tool=delta.tool, input=delta.input, after=delta.after)
    added = add_call(state.ledger, state.session, call, delta.verdict)
    stamp = state.stamp.next(ctx.now_ms)
    effects = (CallAppeared(call_id, call.provider_id, call.tool), *added.effects)
    if delta.verdict is not None:
        added = start_ready(added.ledger, added.session, stamp.now_ms, early=True)
        effects = (*effects, *added.effects)
    grown = Streaming(
        session=added.session,
        stamp=stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=added.ledger,
    )
    return Step(grown, effects)


def _cut_short(state: Streaming, ctx: Context, cause: Cause) -> Step[Finishing]:
    reason = reason_of(cause)
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_reply(state.session, state.reply, state.pieces, state.ledger, reason, stamp.now_ms)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def _completed(state: Streaming, ctx: Context, delta: ModelCompleted) -> Step[Executing | Thinking | Finishing]:
    reply = OpenReply(state.reply.operation, state.reply.model, state.reply.usage.most(delta.usage))
    stamp = state.stamp.next(ctx.now_ms)
    after: AfterReply = complete_reply(
        state.session, state.turn, reply, state.pieces, state.ledger, delta.stop, stamp.now_ms
    )
    if after.ending is not None:
        finishing = Finishing(session=after.session, stamp=stamp, turn=after.turn, ending=after.ending)
        return Step(finishing, after.effects)
    if after.ledger is not None:
        executing = Executing(session=after.session, stamp=stamp, turn=after.turn, ledger=after.ledger)
        return Step(executing, after.effects)
    return Step(Thinking(session=after.session, stamp=stamp, turn=after.turn), after.effects)


def _failed(state: Streaming, ctx: Context, delta: ModelFailed) -> Step[Executing | Finishing]:
    """The model call failed. Its reply is discarded, unless a call of it has had an effect (rule TOOL-9)."""
    stamp = state.stamp.next(ctx.now_ms)
    usage = state.reply.usage.most(delta.usage)
    session = evolve(state.session, usage=state.session.usage.plus(usage))
    refused = delta.error is ErrorClass.REFUSED
    reason = TurnEndReason.REFUSAL if refused else TurnEndReason.ERROR
    failed = ReplyFailed(delta.operation, delta.error)
    if has_had_effect(state.ledger, session.settings):
        reply = OpenReply(state.reply.operation, state.reply.model, usage)
        kept = keep_for_effect(session, reply, state.pieces, state.ledger, stamp.now_ms)
        ending = Ending(reason=reason, error=delta.error, message=delta.message)
        executing = Executing(session=kept.session, stamp=stamp, turn=state.turn, ledger=kept.ledger, ending=ending)
        return Step(executing, (failed, *kept.effects))
    session, dropped = drop(state.ledger, session, stamp.now_ms)
    effects: tuple[Effect, ...] = (failed, *dropped)
    if len(state.pieces):
        effects = (*effects, ReplyRetracted(delta.operation))
    session, shown = show_error(session, delta.error, delta.message)
    finishing = Finishing(session=session, stamp=stamp, turn=state.turn, ending=Ending(reason=reason))
    return Step(finishing, (*effects, *shown))


def _resumed(state: Streaming, ctx: Context) -> Step[Executing | Thinking]:
    """The process was restarted: the partial reply is dropped and asked again, if no call had an effect (RESUME-3)."""
    stamp, reply = state.stamp.next(ctx.now_ms), state.reply
    operations = state.session.operations.abandon_model(reply.operation, reply.usage)
    session = evolve(state.session, operations=operations, usage=state.session.usage.plus(reply.usage))
    turn = evolve(state.turn, reason=RequestReason.RESUME)
    if has_had_effect(state.ledger, session.settings):
        kept = keep_for_effect(session, reply, state.pieces, state.ledger, stamp.now_ms)
        restarted = restart_calls(kept.ledger, kept.session, stamp.now_ms)
        executing = Executing(session=restarted.session, stamp=stamp, turn=turn, ledger=restarted.ledger)
        return Step(executing, (SessionResumed(), *kept.effects, *restarted.effects))
    session, held = restart_held_runs(session)
    session, dropped = drop_after_crash(state.ledger, session)
    effects: tuple[Effect, ...] = (SessionResumed(), *held, *dropped)
    if len(state.pieces):
        effects = (*effects, ReplyRetracted(reply.operation))
    return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
