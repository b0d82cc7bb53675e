"""`Streaming`: the model answers. Increments cost the same at any length of reply and thread (rule INFER-3).

A reply that meets a limit is stopped, what it said is kept, and the turn ends (rule LIMIT-4): its calls that have not
started never do, and the runs that started early are awaited, as rule LIMIT-2 says.
"""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import new_call
from loopkernel.data.effects import AbortModel, CancelTimer, Effect
from loopkernel.data.endings import Failure
from loopkernel.data.events import (
    CallAppeared,
    LimitReached,
    Refused,
    ReplyEnded,
    ReplyFailed,
    ReplyGrew,
    ReplyRetracted,
    SessionResumed,
)
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
from loopkernel.data.outside_deltas import FromOutside, HookAnswered, TimerFired
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import Executing, Finishing, Streaming, Thinking, new_streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import ChangePolicy, FromUser, UserDelta
from loopkernel.data.words import ErrorClass, LimitName, RefusalReason, RequestReason
from loopkernel.loop.algorithms.budget import reply_too_long
from loopkernel.loop.algorithms.replies import longer
from loopkernel.loop.calls.call_hooks import forget_hooks_before_runs
from loopkernel.loop.calls.late_reports import LateReport, Report, late_report
from loopkernel.loop.calls.ledger import add_call
from loopkernel.loop.calls.run_reports import outside_report, timer_fired, tool_report
from loopkernel.loop.calls.schedule import OverBudget, start_ready
from loopkernel.loop.draft import CallsDraft, new_draft
from loopkernel.loop.gates.hooks import TOO_SLOW, abort_gate, is_time_of
from loopkernel.loop.gates.refusals import refusal
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
from loopkernel.loop.phases.moves import begin_on_calls, of_late_report, to_executing, to_finishing, to_thinking
from loopkernel.loop.turn.cancelling import (
    Cause,
    abandon_reply,
    cut_reply,
    cutting,
    discard_dead_reply,
    end_cut_short,
    is_committed,
    keep_for_effect,
    reason_of,
    stop_reply,
)
from loopkernel.loop.turn.input import input_on_calls
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit
from loopkernel.loop.turn.request import watch_silence, watch_time

Limited = Executing | Finishing


def on_streaming(state: Streaming, ctx: Context) -> Step[Streaming | AfterStream]:
    """Pieces, the end or the failure of the reply; its calls are checked, and may start early; a cancel cuts it."""
    after = state.after
    match ctx.delta:
        case FromModel() as delta:
            if delta.operation != state.reply.operation or after is not None:
                return _reported(state, begin_on_calls(state, ctx), delta, None)
            return _on_model(state, ctx, delta)
        case FromTool() as delta:
            draft = begin_on_calls(state, ctx)
            return _reported(state, draft, delta, tool_report(draft, delta, streaming=True))
        case FromUser() as delta:
            return _on_user(state, begin_on_calls(state, ctx), delta)
        case TimerFired() as delta:
            draft = begin_on_calls(state, ctx)
            if state.silence is not None and delta.operation == state.silence.operation:
                return _listened(state, draft)
            if state.time_limit is not None and delta.operation == state.time_limit.operation:
                return _out_of_time(state, draft, state.time_limit)
            if after is not None and is_time_of(after.gate, delta.operation):
                return hook_has_said(state, abort_gate(draft, after.gate, fired=True), after, TOO_SLOW)
            return _reported(state, draft, delta, timer_fired(draft, delta.operation, streaming=True))
        case FromOutside() as delta:
            draft = begin_on_calls(state, ctx)
            if isinstance(delta, HookAnswered) and after is not None and delta.operation == after.gate.operation:
                return hook_has_said(state, draft.close_timer(after.gate.timer), after, delta.answer)
            return _reported(state, draft, delta, outside_report(draft, delta, streaming=True))
        case FromThread() as delta:
            draft = begin_on_calls(state, ctx)
            if isinstance(delta, Resumed):
                return _resumed(state, draft.tell(SessionResumed()), delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, draft, delta)
            if isinstance(delta, Forked):
                return _forked(state, draft, delta)
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _streaming(state: Streaming, draft: CallsDraft) -> Step[Streaming]:
    """The reply goes on, and so does what bounds it."""
    after = new_streaming(
        session=draft.session,
        stamp=draft.stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces,
        ledger=draft.ledger,
        heard_ms=state.heard_ms,
        silence=state.silence,
        after=state.after,
        time_limit=state.time_limit,
        size=state.size,
    )
    return Step(after, draft.effects)


def _started_early(state: Streaming, draft: CallsDraft) -> CallsDraft:
    """The calls have changed: others may start before the reply is complete (rule TOOL-9)."""
    if state.after is not None or not draft.session.settings.any_early:
        return draft
    if budget_hit(draft.session, state.turn, draft.stamp.now_ms) is not None:
        return draft
    started = start_ready(draft, early=True)
    return started.draft if isinstance(started, OverBudget) else started


def _on_user(state: Streaming, draft: CallsDraft, delta: UserDelta) -> Step[Streaming | Finishing]:
    cause = cutting(state.session, delta)
    if cause is not None:
        return _cut_short(state, draft, cause)
    taken = input_on_calls(draft, delta)
    if isinstance(taken, Refused):
        return Step(state, (taken,))
    draft = _started_early(state, taken)
    if not isinstance(delta, ChangePolicy) or state.after is not None:
        return _streaming(state, draft)
    policy, was = draft.session.settings.policy, state.session.settings.policy
    silence, time_limit = state.silence, state.time_limit
    if policy.silence_ms != was.silence_ms:
        draft, silence = watch_silence(draft.close_timer(silence), state.heard_ms)
    if policy.max_wall_ms != was.max_wall_ms:
        draft, time_limit = watch_time(draft.close_timer(time_limit), state.turn)
    step = _streaming(state, draft)
    return Step(evolve(step.next, silence=silence, time_limit=time_limit), step.effects)


def _reported(state: Streaming, draft: CallsDraft, report: Report, taken: CallsDraft | None) -> Step[Streaming]:
    """After a report; None: it is on nothing that is open here, and may still show that a run has stopped."""
    if taken is None:
        late = late_report(draft, report)
        if not isinstance(late, LateReport):
            taken = late
        elif late.draft.session is state.session:
            return Step(state, late.draft.effects)
        else:
            taken = of_late_report(state, late)
    return _streaming(state, _started_early(state, taken))


# --- the model ------------------------------------------------------------------------------------------


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
            draft, reply = begin_on_calls(state, ctx), state.reply.used(delta.usage)
            draft = _over(state, draft, ReplyEnded(reply.operation, delta.stop))
            return stream_over(_without_bounds(state, reply), draft, delta)
        case ModelUsage():
            return _used(state, ctx, delta)
        case ModelStarted():
            stamp = state.stamp.next(ctx.now_ms)
            return Step(evolve(state, stamp=stamp, heard_ms=stamp.now_ms), ())
        case ModelFailed():
            draft, reply = begin_on_calls(state, ctx), state.reply.used(delta.usage)
            draft = _over(state, draft, ReplyFailed(delta.operation, delta.error))
            failure = Failure(
                request=delta.operation,
                error=delta.error,
                message=delta.message,
                retry_after_ms=delta.retry_after_ms,
                begun=len(state.pieces) > 0,
                unfinished=delta.unfinished,
            )
            return stream_over(_without_bounds(state, reply), draft, failure)
        case _:
            assert_never(delta)


def _grown(state: Streaming, ctx: Context, piece: Piece, effects: tuple[Effect, ...]) -> Step[Streaming | Limited]:
    """One more piece. Built by the constructor and without a draft, since this is the hottest path of all."""
    stamp = state.stamp.next(ctx.now_ms)
    grown = new_streaming(
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
    if reply_too_long(grown.session.settings.policy, grown.size.chars):
        draft: CallsDraft = new_draft(grown.session, stamp, grown.ledger)
        return _ended_by(LimitName.REPLY_SIZE, grown, draft.tell(*effects))
    return Step(grown, effects)


def _with_call(state: Streaming, ctx: Context, delta: ModelCall) -> Step[Streaming | Limited]:
    """One more complete call: it is recorded and checked, and may start before the reply is complete (rule TOOL-9)."""
    call_id = CallId(state.reply.operation, state.ledger.entries.size + 1)
    call = new_call(id=call_id, provider_id=delta.provider_id, tool=delta.tool, input=delta.input, after=delta.after)
    appeared = (), CallAppeared(call_id, call.provider_id, call.tool)
    draft = add_call(
        new_draft(state.session, state.stamp.next(ctx.now_ms), state.ledger, appeared), call, delta.verdict
    )
    size = longer(state.size, delta)
    too_long = reply_too_long(draft.session.settings.policy, size.chars)
    if delta.verdict is not None and not too_long:
        draft = _started_early(state, draft)
    grown = new_streaming(
        session=draft.session,
        stamp=draft.stamp,
        turn=state.turn,
        reply=state.reply,
        pieces=state.pieces.append(delta),
        ledger=draft.ledger,
        heard_ms=draft.stamp.now_ms,
        silence=state.silence,
        time_limit=state.time_limit,
        size=size,
    )
    return _ended_by(LimitName.REPLY_SIZE, grown, draft) if too_long else Step(grown, draft.effects)


def _used(state: Streaming, ctx: Context, delta: ModelUsage) -> Step[Streaming | Limited]:
    """A report of what the reply has used so far: that may have taken the run to a budget."""
    draft, reply = begin_on_calls(state, ctx), state.reply.used(delta.usage)
    used = evolve(state, stamp=draft.stamp, reply=reply, heard_ms=draft.stamp.now_ms)
    billed = draft.session.updated(usage=draft.session.usage.plus(reply.usage))
    spent = budget_hit(billed, state.turn, draft.stamp.now_ms)
    return Step(used, ()) if spent is None else _ended_by(spent, used, draft)


# --- limits ---------------------------------------------------------------------------------------------


def _ended_by(limit: LimitName, state: Streaming, draft: CallsDraft) -> Step[Limited]:
    """The limit is met."""
    draft = stop_reply(draft, state.reply, state.pieces, (state.silence, state.time_limit)).tell(LimitReached(limit))
    if not draft.ledger.entries.size:
        return to_finishing(draft, state.turn, OUT_OF_BUDGET)
    return to_executing(draft, state.turn, OUT_OF_BUDGET)


def _out_of_time(state: Streaming, draft: CallsDraft, time_limit: Timer) -> Step[Streaming | Limited]:
    """The turn has no more time; by a clock that is early it still has some, and the timer starts again (LIMIT-4)."""
    timed = evolve(state, time_limit=None)
    if draft.stamp.now_ms >= time_limit.deadline_ms:
        return _ended_by(LimitName.WALL_TIME, timed, draft)
    draft, again = watch_time(draft, state.turn)
    return _streaming(evolve(timed, time_limit=again), draft)


def _listened(state: Streaming, draft: CallsDraft) -> Step[Streaming | AfterStream]:
    """It is time to see whether the stream has been silent too long; if not, it is looked at again (INFER-11)."""
    silence_ms, heard = draft.session.settings.policy.silence_ms, evolve(state, silence=None)
    if silence_ms is None or draft.stamp.now_ms < state.heard_ms + silence_ms:
        draft, again = watch_silence(draft, state.heard_ms)
        return _streaming(evolve(heard, silence=again), draft)
    reply, session = state.reply, draft.session  # the stream is aborted, and what it still reports is late
    draft = draft.with_session(session.with_operations(session.operations.abandon_model(reply.operation, reply.usage)))
    failure = Failure(
        request=reply.operation,
        error=ErrorClass.STALLED,
        message="the model was silent for too long",
        begun=len(state.pieces) > 0,
    )
    draft = _over(heard, draft.tell(AbortModel(reply.operation)), ReplyFailed(reply.operation, failure.error))
    return stream_over(_without_bounds(state, reply), draft, failure)


def _over(state: Streaming, draft: CallsDraft, end: ReplyEnded | ReplyFailed) -> CallsDraft:
    """The stream is over: nothing bounds it any more, and how it has ended is told."""
    bounds = state.silence, state.time_limit
    return draft.tell(*[CancelTimer(timer.operation) for timer in bounds if timer is not None], end)


def _without_bounds(state: Streaming, reply: OpenReply) -> Streaming:
    """The state when its stream is over. Built by the constructor, since every round comes by."""
    return new_streaming(
        session=state.session,
        stamp=state.stamp,
        turn=state.turn,
        reply=reply,
        pieces=state.pieces,
        ledger=state.ledger,
        heard_ms=state.heard_ms,
    )


# --- cut short, forked, restarted -----------------------------------------------------------------------


def _cut_short(state: Streaming, draft: CallsDraft, cause: Cause) -> Step[Finishing]:
    if state.after is not None:
        draft = cut_after_stream(state, draft, state.after, reason_of(cause))
    else:
        draft = cut_reply(draft, state.reply, state.pieces, reason_of(cause), (state.silence, state.time_limit))
    draft, ending = end_cut_short(draft, cause)
    return to_finishing(draft, state.turn, ending)


def _forked(state: Streaming, draft: CallsDraft, delta: Forked) -> Step[Finishing]:
    draft = fork_session(draft, delta)
    if state.after is not None:
        draft = fork_after_stream(state, draft, state.after)
    else:
        draft = fork_reply(draft, state.reply, state.pieces)
    return to_finishing(draft, state.turn, FORKED)


def _resumed(state: Streaming, draft: CallsDraft, delta: Resumed) -> Step[Streaming | Executing | Thinking]:
    """The process was restarted: the partial reply is dropped and asked again, if no call had an effect (RESUME-3)."""
    reply = state.reply
    if state.after is not None:
        return resume_after_stream(state, draft, state.after, delta)
    draft, turn = abandon_reply(draft, reply), evolve(state.turn, reason=RequestReason.RESUME)
    if is_committed(draft.ledger, draft.session.settings):
        draft = keep_for_effect(forget_hooks_before_runs(draft), reply, state.pieces)
        return to_executing(restart_calls(draft, delta), turn)
    draft = restart_held_runs(discard_dead_reply(draft), delta)
    return to_thinking(draft.tell(ReplyRetracted(reply.operation)) if len(state.pieces) else draft, turn)
