"""`Finishing`: the end of a turn. Every turn ends here, once (rules STATE-8 and INFER-6)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import Lifetime
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import CorrectionChecked, CorrectionInjected, LimitReached, SessionResumed, TurnEnded
from loopkernel.data.hook_calls import HookContext, OpenCorrection, OpenHook
from loopkernel.data.messages import UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    FromOutside,
    HookAnswer,
    HookAnswered,
    HookBlock,
    OutsideDelta,
    TimerFired,
)
from loopkernel.data.sessions import Session, Stamp
from loopkernel.data.states import BeforeEnd, Cancelled, Done, Finishing, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import CancelReason, HookPoint, LimitName, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.algorithms.wording import correction_text, stop_hook_text
from loopkernel.loop.calls.held_runs import drop_held
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.hooks import (
    TOO_SLOW,
    abort_hook,
    answer_of_hook,
    ask_again,
    ask_hooks,
    context,
    forget_hook,
    hooks_at,
    is_time_of,
    tell_hooks,
)
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.gates.shown_error import show_error
from loopkernel.loop.gates.timers import close_timer
from loopkernel.loop.history.thread import add_note
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.correction import (
    abort_correction,
    ask_correction,
    ask_correction_again,
    forget_correction,
    is_correction_due,
)
from loopkernel.loop.turn.editing import drop_from
from loopkernel.loop.turn.inbox import hand_back, requeue_steers
from loopkernel.loop.turn.input import input_while_busy, open_queued_turn
from loopkernel.loop.turn.limits import limit_hit
from loopkernel.loop.turn.request import open_turn_with


def on_finishing(state: Finishing, ctx: Context) -> Step[Finishing | Thinking]:
    """While a hook or a correction is asked the turn has not ended: input waits, a cancel ends it."""
    match ctx.delta:
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, ctx, cause)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            session, effects = input_while_busy(state.session, None, delta, now_ms)
            return stay(state, ctx, session, effects)
        case FromOutside() as delta:
            return _reported(state, ctx, delta)
        case TimerFired() as delta:
            return _timed_out(state, ctx, delta)
        case FromModel() | FromTool() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                session, forked = fork_session(_forgotten(state), delta)
                stamp = state.stamp.next(ctx.now_ms)
                return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=FORKED), forked)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _reported(state: Finishing, ctx: Context, delta: OutsideDelta) -> Step[Finishing | Thinking]:
    """The answer that the turn waits for; anything else is late."""
    gate = state.gate
    if isinstance(delta, HookAnswered) and isinstance(gate, OpenHook) and delta.operation == gate.operation:
        step = _hook_said(state, ctx, gate, delta.answer)
        return Step(step.next, (*close_timer(gate.timer), *step.effects))
    if isinstance(delta, CorrectionAnswered) and isinstance(gate, OpenCorrection) and delta.operation == gate.operation:
        session = evolve(state.session, usage=state.session.usage.plus(delta.usage))
        step = _corrected(evolve(state, session=session), ctx, delta.text)
        return Step(step.next, (*close_timer(gate.timer), CorrectionChecked(), *step.effects))
    late = late_report(state.session, delta)
    return stay(state, ctx, late.session, late.effects)


def _timed_out(state: Finishing, ctx: Context, fired: TimerFired) -> Step[Finishing | Thinking]:
    """Whoever is asked has not answered in time (rule HOOK-4)."""
    gate = state.gate
    if isinstance(gate, OpenHook) and is_time_of(gate, fired.operation):
        session, aborted = abort_hook(state.session, gate, fired=True)
        step = _hook_said(evolve(state, session=session), ctx, gate, TOO_SLOW)
        return Step(step.next, (*aborted, *step.effects))
    if isinstance(gate, OpenCorrection) and gate.timer is not None and gate.timer.operation == fired.operation:
        session, aborted = abort_correction(state.session, gate, fired=True)
        step = _corrected(evolve(state, session=session), ctx, None)
        return Step(step.next, (*aborted, *step.effects))
    late = late_report(state.session, fired)
    return stay(state, ctx, late.session, late.effects)


def _hook_said(state: Finishing, ctx: Context, gate: OpenHook, answer: HookAnswer) -> Step[Finishing | Thinking]:
    """A stop hook may keep the turn going, so many times and where the limits let it (rule HOOK-2)."""
    stamp, session, turn = state.stamp.next(ctx.now_ms), state.session, state.turn
    said = answer_of_hook(session.settings.policy, gate, answer)
    stopping = gate.hook.point is HookPoint.STOP
    if isinstance(said, HookBlock) and stopping and turn.blocks < session.settings.policy.stop_hook_limit:
        limit = limit_hit(session, turn, stamp.now_ms)
        if limit is None:
            session, told = add_note(session, stop_hook_text(said.why), UserOrigin.STOP_HOOK)
            turn = evolve(turn, reason=RequestReason.STOP_HOOK_BLOCKING, blocks=turn.blocks + 1)
            return Step(Thinking(session=session, stamp=stamp, turn=turn), told)
        if limit is LimitName.MAX_TURNS:  # the end was not accepted, so it is not natural (rule LIMIT-1)
            ending = Ending(reason=TurnEndReason.MAX_TURNS)
            return Step(Finishing(session=session, stamp=stamp, turn=turn, ending=ending), (LimitReached(limit),))
    passed = BeforeEnd.STOP_HOOKS if stopping else BeforeEnd.HOOKS
    if stopping and _has_spoken(state):
        return Step(_finishing(state, session, stamp, None, passed), ())
    asked = ask_hooks(session, gate.left, _about(evolve(state, session=session), gate.hook.point), stamp.now_ms)
    return Step(_finishing(state, asked.session, stamp, asked.gate, passed), asked.effects)


def _corrected(state: Finishing, ctx: Context, text: str | None) -> Step[Finishing | Thinking]:
    """The correction goes in, unless the user has spoken first, or no other request is allowed (rule HOOK-3)."""
    stamp, session, turn = state.stamp.next(ctx.now_ms), state.session, state.turn
    if text is None or _has_spoken(state) or limit_hit(session, turn, stamp.now_ms) is not None:
        return Step(_finishing(state, session, stamp, None, BeforeEnd.CORRECTION), ())
    session, told = add_note(session, correction_text(text), UserOrigin.CORRECTION)
    turn = evolve(turn, reason=RequestReason.CORRECTION)
    return Step(Thinking(session=session, stamp=stamp, turn=turn), (CorrectionInjected(), *told))


def _finishing(
    state: Finishing, session: Session, stamp: Stamp, gate: OpenHook | OpenCorrection | None, passed: BeforeEnd
) -> Finishing:
    return Finishing(session=session, stamp=stamp, turn=state.turn, ending=state.ending, gate=gate, passed=passed)


def _has_spoken(state: Finishing) -> bool:
    """Whether the user has said something that the turn has to hear, or that is to follow it (rule INFER-6)."""
    inbox = state.session.inbox
    return bool(inbox.steers) or _is_followed(state)


def _is_followed(state: Finishing) -> bool:
    """Whether the turn of a session ends without further gates, since input is queued behind it (rule INFER-6)."""
    session = state.session
    return bool(session.inbox.queue) and session.settings.policy.lifetime is Lifetime.SESSION


def _resumed(state: Finishing, ctx: Context, delta: Resumed) -> Step[Finishing]:
    """The process was restarted: whoever was being asked is asked again (rule RESUME-3)."""
    stamp = state.stamp.next(ctx.now_ms)
    session, restarted = restart_held_runs(state.session, delta)
    effects: tuple[Effect, ...] = (SessionResumed(), *restarted)
    gate = state.gate
    if isinstance(gate, OpenHook):
        asked = ask_again(session, gate, _about(evolve(state, session=session), gate.hook.point), stamp.now_ms)
        return Step(_finishing(state, asked.session, stamp, asked.gate, state.passed), (*effects, *asked.effects))
    if gate is not None:
        session, gate, told = ask_correction_again(session, gate, stamp.now_ms)
        effects = (*effects, *told)
    return Step(_finishing(state, session, stamp, gate, state.passed), effects)


def _forgotten(state: Finishing) -> Session:
    """The session with nobody being asked."""
    match state.gate:
        case OpenHook() as gate:
            return forget_hook(state.session, gate)
        case OpenCorrection() as gate:
            return forget_correction(state.session, gate)
        case None:
            return state.session
        case _:
            assert_never(state.gate)


def _cut_short(state: Finishing, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp, session = state.stamp.next(ctx.now_ms), state.session
    aborted: tuple[Effect, ...] = ()
    told: tuple[Effect, ...] = ()
    if isinstance(state.gate, OpenHook):
        session, aborted = abort_hook(session, state.gate)
        told = tell_hooks(session, _about(state, state.gate.hook.point), state.gate.left)
    elif state.gate is not None:
        session, aborted = abort_correction(session, state.gate)
    session, effects = cut_gates(session, reason_of(cause), stamp.now_ms, aborted)
    session, ending = end_cut_short(session, cause)
    if state.ending.error is not None:  # it is shown all the same, and ends a run that it was to end
        final = state.ending.final and ending.then is None
        ending = evolve(ending, error=state.ending.error, message=state.ending.message, final=final)
    over = state.passed is BeforeEnd.HOOKS  # the hooks behind the turn have had their turn, but for the last
    finishing = Finishing(
        session=session, stamp=stamp, turn=state.turn, ending=ending, passed=state.passed if over else BeforeEnd.NOTHING
    )
    return Step(finishing, (*effects, *(told if over else ())))


# --- the gates ------------------------------------------------------------------------------------------


def enter_finishing(state: Finishing) -> Step[Finishing | Idle | Thinking | Cancelled | Done | Initial]:
    """Wait for an open gate; let a waiting message keep the turn going; else pass the gates, and end it."""
    if state.gate is not None:
        return Step(state, ())
    session, turn, ending = state.session, state.turn, state.ending
    may_go_on = ending.gated and state.passed is not BeforeEnd.HOOKS
    if may_go_on and session.inbox.steers and limit_hit(session, turn, state.stamp.now_ms) is None:
        return Step(Thinking(session=session, stamp=state.stamp, turn=evolve(turn, reason=RequestReason.USER)), ())
    gated = _gated(state)
    if gated.next.gate is not None:
        return gated
    state, effects = gated
    session = state.session
    if ending.error is not None:
        session, shown = show_error(session, ending.error, ending.message)
        effects = (*effects, *shown)
    ended = TurnEnded(ending.reason, session.usage)
    session, requeued = requeue_steers(evolve(session, last_end=ending.reason))
    step = _after_end(evolve(state, session=session))
    return Step(step.next, (*effects, ended, *requeued, *step.effects))


def _gated(state: Finishing) -> Step[Finishing]:
    """The next gates in turn: stop hooks, the course correction, the hooks after the turn; up to one that waits."""
    ending = state.ending
    if not state.session.settings.policy.hooks and state.session.settings.policy.course_correction is None:
        return Step(state, ())
    if ending.cancel is not None or ending.then is not None or ending.forked:
        over = ending.forked or state.passed is BeforeEnd.HOOKS
        told = () if over else tell_hooks(state.session, _about(state, HookPoint.AFTER_INVOCATION))
        return Step(state, told)
    effects: tuple[Effect, ...] = ()
    if ending.gated and not _is_followed(state) and state.passed is BeforeEnd.NOTHING:
        state, effects = _asked(state, HookPoint.STOP, BeforeEnd.STOP_HOOKS)
    uncorrected = ending.gated and state.passed in (BeforeEnd.NOTHING, BeforeEnd.STOP_HOOKS)
    if state.gate is None and uncorrected and not _is_followed(state) and is_correction_due(state.session):
        session, gate, asked = ask_correction(state.session, state.stamp.now_ms)
        state = _finishing(state, session, state.stamp, gate, BeforeEnd.CORRECTION)
        effects = (*effects, *asked)
    if state.gate is None and state.passed is not BeforeEnd.HOOKS:
        state, asked = _asked(state, HookPoint.AFTER_INVOCATION, BeforeEnd.HOOKS)
        effects = (*effects, *asked)
    return Step(state, effects)


def _asked(state: Finishing, point: HookPoint, passed: BeforeEnd) -> Step[Finishing]:
    hooks = hooks_at(state.session.settings.policy, point)
    asked = ask_hooks(state.session, hooks, _about(state, point), state.stamp.now_ms)
    return Step(_finishing(state, asked.session, state.stamp, asked.gate, passed), asked.effects)


def _about(state: Finishing, point: HookPoint) -> HookContext:
    about = context(state.session, point)
    return evolve(about, reason=state.ending.reason, stop_hook_active=state.turn.blocks > 0)


def _after_end(state: Finishing) -> Step[Idle | Thinking | Cancelled | Done | Initial]:
    """Where the session goes once its turn has ended."""
    session, stamp, ending = state.session, state.stamp, state.ending
    effects: tuple[Effect, ...]
    if isinstance(ending.then, NextInput):
        then = ending.then
        session, dropped = (session, ()) if then.replaces is None else drop_from(session, then.replaces)
        session, turn, effects = open_turn_with(session, stamp.now_ms, then.content, then.receipt, key=then.key)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), (*dropped, *effects))
    if ending.then is not None and session.inbox.queue:
        session, turn, effects = open_queued_turn(session, stamp.now_ms)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
    if ending.forked:
        return Step(Idle(session=session, stamp=stamp), ())
    if ending.cancel is CancelReason.DISPOSED:
        return Step(Initial(session=session, stamp=stamp, ledger=ending.waiting), ())
    if session.settings.policy.lifetime is Lifetime.TASK or ending.final:
        session, effects = hand_back(session)
        session, dropped = drop_held(session)
        done = Done(session=session, stamp=stamp, reason=ending.reason, cancel=ending.cancel)
        return Step(done, (*effects, *dropped))
    if ending.natural and session.inbox.queue:
        session, turn, effects = open_queued_turn(session, stamp.now_ms)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
    if ending.cancel is not None:
        return Step(Cancelled(session=session, stamp=stamp, reason=ending.cancel), ())
    return Step(Idle(session=session, stamp=stamp), ())
