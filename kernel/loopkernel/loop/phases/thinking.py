"""`Thinking`: the gates before a request, in order (rule INFER-1). Entering it makes the request when none waits."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached, SessionResumed
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.messages import ResultMessage, UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, HookAnswer, HookAnswered, HookBlock, HookModify, TimerFired
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import BeforeRequest, Compacting, Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.vector import Vector
from loopkernel.data.words import HookPoint, LimitName, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.algorithms.wording import CONTINUE, NUDGE, demand_text
from loopkernel.loop.calls.held_runs import inject_background_ends
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.hooks import (
    TOO_SLOW,
    Gated,
    abort_hook,
    answer_of_hook,
    ask_again,
    ask_hooks,
    context,
    forget_hook,
    hooks_at,
    is_time_of,
)
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.gates.timers import close_timer
from loopkernel.loop.history.clearing import clear_results
from loopkernel.loop.history.compaction import compact_if_due
from loopkernel.loop.history.thread import add_note
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.editing import reword_input
from loopkernel.loop.turn.inbox import inject_steers
from loopkernel.loop.turn.input import input_while_busy
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, limit_hit
from loopkernel.loop.turn.repetition import check_repetition
from loopkernel.loop.turn.request import begin_request


def on_thinking(state: Thinking, ctx: Context) -> Step[Thinking | Finishing]:
    """While a hook is asked: its answer opens the gate or ends the turn, input waits, a cancel ends the turn."""
    gate = state.gate
    match ctx.delta:
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, ctx, cause)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            session, effects = input_while_busy(state.session, None, delta, now_ms)
            return stay(state, ctx, session, effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if isinstance(report, HookAnswered) and gate is not None and report.operation == gate.operation:
                step = _said(state, ctx, gate, report.answer)
                return Step(step.next, (*close_timer(gate.timer), *step.effects))
            if isinstance(report, TimerFired) and gate is not None and is_time_of(gate, report.operation):
                session, aborted = abort_hook(state.session, gate, fired=True)
                step = _said(evolve(state, session=session), ctx, gate, TOO_SLOW)
                return Step(step.next, (*aborted, *step.effects))
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                session = state.session if gate is None else forget_hook(state.session, gate)
                session, forked = fork_session(session, delta)
                stamp = state.stamp.next(ctx.now_ms)
                return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=FORKED), forked)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _said(state: Thinking, ctx: Context, gate: OpenHook, answer: HookAnswer) -> Step[Thinking | Finishing]:
    """The hook does not let the turn go on, or does, perhaps with other words or one more message (rule HOOK-2)."""
    stamp = state.stamp.next(ctx.now_ms)
    said = answer_of_hook(state.session.settings.policy, gate, answer)
    session = state.session
    if isinstance(said, HookBlock):
        ending = Ending(reason=TurnEndReason.GUARDRAIL)
        return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), ())
    effects: tuple[Effect, ...] = ()
    if isinstance(said, HookModify) and said.message is not None:
        if gate.hook.point is HookPoint.BEFORE_INVOCATION:
            session, effects = reword_input(session, said.message)
        else:
            session, effects = add_note(session, said.message, UserOrigin.HOOK)
    asked = ask_hooks(session, gate.left, context(session, gate.hook.point), stamp.now_ms)
    passed = BeforeRequest.HOOKS if gate.hook.point is HookPoint.BEFORE_MODEL else state.passed
    if asked.gate is not None:
        passed = state.passed
    thinking = Thinking(session=asked.session, stamp=stamp, turn=state.turn, gate=asked.gate, passed=passed)
    return Step(thinking, (*effects, *asked.effects))


def _resumed(state: Thinking, ctx: Context, delta: Resumed) -> Step[Thinking]:
    """The process was restarted: the hook is asked again (rule RESUME-3)."""
    stamp = state.stamp.next(ctx.now_ms)
    session, restarted = restart_held_runs(state.session, delta)
    if state.gate is None:
        return Step(evolve(state, session=session, stamp=stamp), (SessionResumed(), *restarted))
    asked = ask_again(session, state.gate, context(session, state.gate.hook.point), stamp.now_ms)
    again = evolve(state, session=asked.session, stamp=stamp, gate=asked.gate)
    return Step(again, (SessionResumed(), *restarted, *asked.effects))


def _cut_short(state: Thinking, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, aborted = (state.session, ()) if state.gate is None else abort_hook(state.session, state.gate)
    session, effects = cut_gates(session, reason_of(cause), stamp.now_ms, aborted)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


# --- the gates ------------------------------------------------------------------------------------------


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """Wait for an open gate; else pass the next ones, and ask the model when all are passed."""
    if state.gate is not None:
        return Step(state, ())
    if not state.turn.begun:
        turn = evolve(state.turn, begun=True)
        begun = Thinking(session=state.session, stamp=state.stamp, turn=turn, passed=state.passed)
        asked = _asked(begun, HookPoint.BEFORE_INVOCATION)
        if asked is None:
            return _prepared(begun, ())
        waiting = evolve(begun, session=asked.session, gate=asked.gate)
        return Step(waiting, asked.effects) if asked.gate is not None else _prepared(waiting, asked.effects)
    if state.passed is BeforeRequest.HOOKS:
        return _limited(state) or _request(state, ())
    return _prepared(state, ())


def _asked(state: Thinking, point: HookPoint) -> Gated | None:
    """The hooks of the point in turn; None where there is none."""
    session = state.session
    hooks = hooks_at(session.settings.policy, point)
    return ask_hooks(session, hooks, context(session, point), state.stamp.now_ms) if hooks else None


def _prepared(state: Thinking, effects: tuple[Effect, ...]) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """Test the limits, let waiting messages in, look for repetition, compact; then test the limits again (INFER-1)."""
    limited = _limited(state)
    if limited is not None:
        return Step(limited.next, (*effects, *limited.effects))
    if state.passed is BeforeRequest.COMPACTION:
        return _last_gates(state, effects)
    note = _note(state.session, state.turn)
    session, ended = inject_background_ends(state.session)
    session, told = (session, ()) if note is None else add_note(session, *note)
    session, turn, steered = _steered(session, state.turn)
    session, stopped, found = check_repetition(session)
    effects = (*effects, *ended, *told, *steered, *found)
    if stopped:
        ending = Ending(reason=TurnEndReason.LOOP_DETECTED)
        return Step(Finishing(session=session, stamp=state.stamp, turn=turn, ending=ending), effects)
    session, opened = compact_if_due(session, turn, state.stamp.now_ms)
    if opened is not None:
        effects = (*effects, *opened.effects)
        if opened.operation is not None:
            compacting = Compacting(
                session=session, stamp=state.stamp, within=turn, operation=opened.operation, cut=opened.cut
            )
            return Step(compacting, effects)
    return _last_gates(Thinking(session=session, stamp=state.stamp, turn=turn, passed=state.passed), effects)


def _limited(state: Thinking) -> Step[Finishing] | None:
    """The end of the turn, where a limit stands in the way of another request."""
    limit = limit_hit(state.session, state.turn, state.stamp.now_ms)
    if limit is None:
        return None
    ending = Ending(reason=TurnEndReason.MAX_TURNS) if limit is LimitName.MAX_TURNS else OUT_OF_BUDGET
    finishing = Finishing(session=state.session, stamp=state.stamp, turn=state.turn, ending=ending)
    return Step(finishing, (LimitReached(limit),))


def _last_gates(state: Thinking, effects: tuple[Effect, ...]) -> Step[Thinking | Streaming]:
    """Clear old results, and ask the hooks before the model."""
    session, cleared = clear_results(state.session)
    state = state if session is state.session else evolve(state, session=session)
    asked = _asked(state, HookPoint.BEFORE_MODEL)
    if asked is None:
        return _request(state, (*effects, *cleared))
    waiting = evolve(state, session=asked.session, gate=asked.gate)
    effects = (*effects, *cleared, *asked.effects)
    return _request(waiting, effects) if asked.gate is None else Step(waiting, effects)


def _request(state: Thinking, effects: tuple[Effect, ...]) -> Step[Streaming]:
    """The model is asked; what has come while a hook was asked goes in first."""
    session, ended = inject_background_ends(state.session)
    session, turn, steered = _steered(session, state.turn)
    if not turn.requested:
        turn = evolve(turn, requested=True)
    asked = begin_request(session, turn, state.stamp.now_ms)
    streaming = Streaming(
        session=asked.session,
        stamp=state.stamp,
        turn=turn,
        reply=asked.reply,
        pieces=Vector(),
        ledger=asked.ledger,
        heard_ms=state.stamp.now_ms,
        silence=asked.silence,
        time_limit=asked.time_limit,
    )
    return Step(streaming, (*effects, *ended, *steered, *asked.effects))


def _steered(session: Session, turn: Turn) -> tuple[Session, Turn, tuple[Effect, ...]]:
    """What the user has to say to the turn goes in."""
    if not session.inbox.steers:
        return session, turn, ()
    session, steered = inject_steers(session)
    turn = evolve(turn, recovery=evolve(turn.recovery, retries=0))  # they are new user messages (rule RETRY-4)
    return session, turn, steered


def _note(session: Session, turn: Turn) -> tuple[str, UserOrigin] | None:
    """What the model is told in the user's place, for the reason of the request; None: nothing."""
    if turn.reason is RequestReason.NUDGE:
        output = session.settings.policy.output_tool
        return (demand_text(output) if output is not None and turn.forcing else NUDGE), UserOrigin.NUDGE
    if turn.reason is not RequestReason.MAX_OUTPUT_TOKENS_RECOVERY:
        return None
    messages = session.thread.messages
    answered = len(messages) > 0 and isinstance(messages[len(messages) - 1], ResultMessage)
    return None if answered else (CONTINUE, UserOrigin.CONTINUATION)
