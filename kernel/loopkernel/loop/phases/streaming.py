"""`Streaming`: the model answers. Increments cost the same at any length of reply and thread (rule INFER-3)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import ToolCall
from loopkernel.data.effects import AbortModel, Effect
from loopkernel.data.endings import Failure
from loopkernel.data.events import CallAppeared, ReplyEnded, ReplyFailed, ReplyGrew, ReplyRetracted, SessionResumed
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
from loopkernel.data.outside_deltas import FromOutside, HookAnswer, HookAnswered, TimerFired
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import AfterModel, Executing, Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import (
    AnswersCall,
    CancelCall,
    ChangePolicy,
    ChangesSettings,
    FromUser,
    UserDelta,
)
from loopkernel.data.words import ErrorClass, LimitName, RefusalReason, RequestReason
from loopkernel.loop.algorithms.budget import reply_too_long
from loopkernel.loop.algorithms.replies import longer
from loopkernel.loop.calls.approvals import answer_call
from loopkernel.loop.calls.call_hooks import forget_hooks_before_runs
from loopkernel.loop.calls.children import outside_report
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.late_reports import Report, late_report
from loopkernel.loop.calls.ledger import add_call
from loopkernel.loop.calls.run_reports import timer_fired, tool_report
from loopkernel.loop.calls.schedule import forget_plan, start_ready
from loopkernel.loop.calls.stopping import cancel_call
from loopkernel.loop.calls.telling import tell_children
from loopkernel.loop.gates.hooks import TOO_SLOW, abort_hook, is_time_of
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.gates.timers import close_timer
from loopkernel.loop.life.fork import FORKED, fork_reply, fork_session
from loopkernel.loop.life.restart import restart_calls, restart_held_runs
from loopkernel.loop.phases.after_stream import (
    AfterStream,
    cut_after_stream,
    fork_after_stream,
    hook_has_said,
    resume_after_stream,
    stream_over,
)
from loopkernel.loop.phases.reply_limits import end_by_limit, end_if_spent, end_if_too_long
from loopkernel.loop.turn.cancelling import Cause, cut_reply, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.early_runs import drop_after_crash, is_committed, keep_for_effect
from loopkernel.loop.turn.input import input_while_busy
from loopkernel.loop.turn.limits import budget_hit
from loopkernel.loop.turn.request import watch_silence, watch_time


def on_streaming(state: Streaming, ctx: Context) -> Step[Streaming | AfterStream]:
    """Pieces, the end or the failure of the reply; its calls are checked, and may start early; a cancel cuts it."""
    match ctx.delta:
        case FromModel() as delta:
            if delta.operation != state.reply.operation or state.after is not None:
                return _with_report(state, ctx, delta, None)
            return _on_model(state, ctx, delta)
        case FromTool() as delta:
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            taken = tool_report(state.ledger, state.session, delta, now_ms, streaming=True)
            return _with_report(state, ctx, delta, taken)
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, ctx, cause)
            step = _with_calls(state, ctx, _on_user(state, delta, max(state.stamp.now_ms, ctx.now_ms)))
            return _timed_anew(step, state) if isinstance(delta, ChangePolicy) else step
        case TimerFired() as delta:
            if state.silence is not None and delta.operation == state.silence.operation:
                return _listened(state, ctx, state.silence)
            if state.time_limit is not None and delta.operation == state.time_limit.operation:
                return _out_of_time(state, ctx, state.time_limit)
            if state.after is not None and is_time_of(state.after.gate, delta.operation):
                return _hook_too_slow(state, ctx, state.after)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            fired = timer_fired(state.ledger, state.session, delta.operation, now_ms, streaming=True)
            return _with_report(state, ctx, delta, fired)
        case FromOutside() as delta:
            after = state.after
            if isinstance(delta, HookAnswered) and after is not None and delta.operation == after.gate.operation:
                return _hook_said(state, ctx, after, delta.answer)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            taken = outside_report(state.ledger, state.session, delta, now_ms, streaming=True)
            return _with_report(state, ctx, delta, taken)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                return _forked(state, ctx, delta)
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
    if isinstance(delta, ChangesSettings) and not is_refused(effects):
        ledger, told = tell_children(forget_plan(ledger), delta)
        effects = (*effects, *told)
    return Ledgered(ledger, session, effects)


def _timed_anew(step: Step[Streaming], before: Streaming) -> Step[Streaming]:
    """Under another policy the stream may be silent, and its turn last, for another time."""
    state, effects = step
    policy, was = state.session.settings.policy, before.session.settings.policy
    if state.after is not None:
        return step
    if policy.silence_ms != was.silence_ms:
        operations, timer, started = watch_silence(state.session.operations, policy, state.heard_ms)
        effects = (*effects, *close_timer(state.silence), *started)
        state = evolve(state, session=state.session.with_operations(operations), silence=timer)
    if policy.max_wall_ms != was.max_wall_ms:
        operations, timer, started = watch_time(state.session.operations, policy, state.turn)
        effects = (*effects, *close_timer(state.time_limit), *started)
        state = evolve(state, session=state.session.with_operations(operations), time_limit=timer)
    return Step(state, effects)


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
    early = Ledgered(taken.ledger, taken.session)
    if state.after is None and budget_hit(taken.session, state.turn, stamp.now_ms) is None:
        early = start_ready(taken.ledger, taken.session, stamp.now_ms, early=True)
    after = Streaming(
        session=early.session,
        stamp=stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces,
        ledger=early.ledger,
        heard_ms=state.heard_ms,
        silence=state.silence,
        after=state.after,
        time_limit=state.time_limit,
        size=state.size,
    )
    return Step(after, (*taken.effects, *early.effects))


def _on_model(state: Streaming, ctx: Context, delta: ModelDelta) -> Step[Streaming | AfterStream]:
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
            stamp, reply = state.stamp.next(ctx.now_ms), state.reply.used(delta.usage)
            return end_if_spent(evolve(state, stamp=stamp, reply=reply, heard_ms=stamp.now_ms))
        case ModelStarted():
            stamp = state.stamp.next(ctx.now_ms)
            return Step(evolve(state, stamp=stamp, heard_ms=stamp.now_ms), ())
        case ModelFailed():
            return _failed(state, ctx, delta)
        case _:
            assert_never(delta)


def _grown(
    state: Streaming, ctx: Context, piece: Piece, effects: tuple[Effect, ...]
) -> Step[Streaming | Executing | Finishing]:
    """One more piece. Built by the constructor, since this is the hottest path of all."""
    stamp = state.stamp.next(ctx.now_ms)
    grown = Streaming(
        session=state.session,
        stamp=stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(piece),
        ledger=state.ledger,
        heard_ms=stamp.now_ms,
        silence=state.silence,
        time_limit=state.time_limit,
        size=longer(state.size, piece),
    )
    return end_if_too_long(grown, effects)


def _with_call(state: Streaming, ctx: Context, delta: ModelCall) -> Step[Streaming | Executing | Finishing]:
    """One more complete call: it is recorded and checked, and may start before the reply is complete (rule TOOL-9)."""
    call_id = CallId(state.reply.operation, state.ledger.entries.size + 1)
    call = ToolCall(id=call_id, provider_id=delta.provider_id, tool=delta.tool, input=delta.input, after=delta.after)
    added = add_call(state.ledger, state.session, call, delta.verdict)
    stamp = state.stamp.next(ctx.now_ms)
    effects = (CallAppeared(call_id, call.provider_id, call.tool), *added.effects)
    size = longer(state.size, delta)
    too_long = reply_too_long(state.session.settings.policy, size.chars)
    if delta.verdict is not None and not too_long and budget_hit(added.session, state.turn, stamp.now_ms) is None:
        added = start_ready(added.ledger, added.session, stamp.now_ms, early=True)
        effects = (*effects, *added.effects)
    grown = Streaming(
        session=added.session,
        stamp=stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=added.ledger,
        heard_ms=stamp.now_ms,
        silence=state.silence,
        time_limit=state.time_limit,
        size=size,
    )
    return end_if_too_long(grown, effects)


def _cut_short(state: Streaming, ctx: Context, cause: Cause) -> Step[Finishing]:
    reason = reason_of(cause)
    stamp = state.stamp.next(ctx.now_ms)
    if state.after is not None:
        session, effects = cut_after_stream(state, state.after, reason, stamp.now_ms)
        session, ending = end_cut_short(session, cause)
        return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)
    closed = _closed(state)
    session, effects = cut_reply(state.session, state.reply, state.pieces, state.ledger, reason, stamp.now_ms, closed)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def _forked(state: Streaming, ctx: Context, delta: Forked) -> Step[Finishing]:
    session, forked = fork_session(state.session, delta)
    if state.after is not None:
        session, left = fork_after_stream(evolve(state, session=session), state.after)
        finishing = Finishing(session=session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn, ending=FORKED)
        return Step(finishing, (*forked, *left))
    session, kept = fork_reply(session, state.reply, state.pieces, state.ledger)
    finishing = Finishing(session=session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn, ending=FORKED)
    return Step(finishing, (*forked, *kept))


def _listened(state: Streaming, ctx: Context, silence: Timer) -> Step[Streaming | AfterStream]:
    """It is time to see whether the stream has been silent too long; if not, it is looked at again (INFER-11)."""
    stamp = state.stamp.next(ctx.now_ms)
    policy = state.session.settings.policy
    heard = evolve(state, silence=None)
    if policy.silence_ms is not None and stamp.now_ms >= state.heard_ms + policy.silence_ms:
        return _stalled(heard, ctx)
    operations, timer, started = watch_silence(state.session.operations, policy, state.heard_ms)
    session = state.session.with_operations(operations)
    return Step(evolve(heard, session=session, stamp=stamp, silence=timer), started)


def _out_of_time(state: Streaming, ctx: Context, time_limit: Timer) -> Step[Streaming | Executing | Finishing]:
    """The turn has no more time; by a clock that is early it still has some, and the timer starts again (LIMIT-4)."""
    timed = evolve(state, stamp=state.stamp.next(ctx.now_ms), time_limit=None)
    if timed.stamp.now_ms >= time_limit.deadline_ms:
        return end_by_limit(timed, LimitName.WALL_TIME)
    operations, timer, started = watch_time(timed.session.operations, timed.session.settings.policy, timed.turn)
    return Step(evolve(timed, session=timed.session.with_operations(operations), time_limit=timer), started)


def _completed(state: Streaming, ctx: Context, delta: ModelCompleted) -> Step[Streaming | AfterStream]:
    reply = state.reply.used(delta.usage)
    step = stream_over(_with_usage(state, reply), delta, state.stamp.next(ctx.now_ms))
    ended = ReplyEnded(reply.operation, delta.stop)
    return Step(step.next, (*_closed(state), ended, *step.effects))


def _closed(state: Streaming) -> tuple[Effect, ...]:
    """The stream is over: nothing bounds it any more."""
    return (*close_timer(state.silence), *close_timer(state.time_limit))


def _with_usage(state: Streaming, reply: OpenReply) -> Streaming:
    """The stream is over, and so is what bounded it. Built by the constructor, since every round comes by."""
    return Streaming(
        session=state.session,
        stamp=state.stamp,
        turn=state.turn,
        reply=reply,
        pieces=state.pieces,
        ledger=state.ledger,
        heard_ms=state.heard_ms,
    )


def _failed(state: Streaming, ctx: Context, delta: ModelFailed) -> Step[Streaming | AfterStream]:
    """The adapter reports that the model call has failed."""
    failure = Failure(
        request=delta.operation, error=delta.error, message=delta.message, retry_after_ms=delta.retry_after_ms
    )
    reply = state.reply.used(delta.usage)
    step = stream_over(_with_usage(state, reply), failure, state.stamp.next(ctx.now_ms))
    failed = ReplyFailed(failure.request, failure.error)
    return Step(step.next, (*_closed(state), failed, *step.effects))


def _stalled(state: Streaming, ctx: Context) -> Step[Streaming | AfterStream]:
    """The stream has been silent for too long: it is aborted, and what it still reports is late."""
    reply = state.reply
    session = state.session.with_operations(state.session.operations.abandon_model(reply.operation, reply.usage))
    failure = Failure(request=reply.operation, error=ErrorClass.STALLED, message="the model was silent for too long")
    step = stream_over(_with_usage(evolve(state, session=session), reply), failure, state.stamp.next(ctx.now_ms))
    told = (AbortModel(reply.operation), *_closed(state), ReplyFailed(reply.operation, failure.error))
    return Step(step.next, (*told, *step.effects))


def _hook_said(state: Streaming, ctx: Context, after: AfterModel, answer: HookAnswer) -> Step[Streaming | AfterStream]:
    """The hook has answered in time: its timer is closed."""
    step = hook_has_said(state, after, answer, state.stamp.next(ctx.now_ms))
    return Step(step.next, (*close_timer(after.gate.timer), *step.effects))


def _hook_too_slow(state: Streaming, ctx: Context, after: AfterModel) -> Step[Streaming | AfterStream]:
    """The hook has not answered in time: it is stopped, and has failed (rule HOOK-4)."""
    session, aborted = abort_hook(state.session, after.gate, fired=True)
    step = hook_has_said(evolve(state, session=session), after, TOO_SLOW, state.stamp.next(ctx.now_ms))
    return Step(step.next, (*aborted, *step.effects))


def _resumed(state: Streaming, ctx: Context, delta: Resumed) -> Step[Streaming | Executing | Thinking]:
    """The process was restarted: the partial reply is dropped and asked again, if no call had an effect (RESUME-3)."""
    stamp, reply = state.stamp.next(ctx.now_ms), state.reply
    if state.after is not None:
        again, asked = resume_after_stream(state, state.after, delta, stamp)
        return Step(again, (SessionResumed(), *asked))
    operations = state.session.operations.abandon_model(reply.operation, reply.usage)
    session = evolve(state.session, operations=operations, usage=state.session.usage.plus(reply.usage))
    turn = evolve(state.turn, reason=RequestReason.RESUME)
    if is_committed(state.ledger, session.settings):
        ledger, session = forget_hooks_before_runs(state.ledger, session)
        kept = keep_for_effect(session, reply, state.pieces, ledger, stamp.now_ms)
        restarted = restart_calls(kept.ledger, kept.session, delta, stamp.now_ms)
        executing = Executing(session=restarted.session, stamp=stamp, turn=turn, ledger=restarted.ledger)
        return Step(executing, (SessionResumed(), *kept.effects, *restarted.effects))
    session, dropped = drop_after_crash(state.ledger, session)
    session, held = restart_held_runs(session, delta)
    effects: tuple[Effect, ...] = (SessionResumed(), *dropped, *held)
    if len(state.pieces):
        effects = (*effects, ReplyRetracted(reply.operation))
    return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
