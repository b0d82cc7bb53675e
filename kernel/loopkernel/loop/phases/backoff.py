"""`Backoff`: a failed model call waits to be tried again; the user need not wait (rules RETRY-4 and INPUT-1)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.endings import Ending, NextInput, NextQueued
from loopkernel.data.events import ErrorCleared, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Backoff, Finishing, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import DismissError, Enqueue, FromUser, RetryNow, Say, UserDelta
from loopkernel.data.words import RefusalReason, TimerPurpose, TurnEndReason
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.draft import Draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.moves import begin, stay, to_finishing, to_thinking
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.inbox import queue_input, seen_before, take_receipt
from loopkernel.loop.turn.input import input_while_busy


def on_backoff(state: Backoff, ctx: Context) -> Step[Backoff | Thinking | Finishing]:
    """Time, or the user, ends the wait; a message ends the turn and starts its own; reports are late."""
    draft = begin(state, ctx)
    match ctx.delta:
        case FromUser() as delta:
            return _on_user(state, draft, delta)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if isinstance(report, TimerFired) and report.operation == state.timer.operation:
                return to_thinking(draft, state.turn)
            return stay(state, late_report(draft, report))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, draft, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, draft, delta)
            if isinstance(delta, Forked):
                return to_finishing(fork_session(draft, delta), state.turn, FORKED)
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _on_user(state: Backoff, draft: Draft[None], delta: UserDelta) -> Step[Backoff | Thinking | Finishing]:
    """Backoff is not busy: what is said or queued is not kept waiting."""
    if isinstance(delta, RetryNow):
        return to_thinking(draft.close_timer(state.timer), state.turn)
    if isinstance(delta, DismissError):
        shown = draft.session.error is not None
        draft = draft.with_session(evolve(draft.session, error=None)).close_timer(state.timer)
        draft = draft.tell(ErrorCleared()) if shown else draft
        return to_finishing(draft, state.turn, Ending(reason=TurnEndReason.ERROR))
    if isinstance(delta, Say | Enqueue):
        return _interrupted(state, draft, delta)
    cause = cutting(draft.session, delta)
    if cause is not None:
        return _cut_short(state, draft, cause)
    return stay(state, input_while_busy(draft, delta))


def _interrupted(state: Backoff, draft: Draft[None], delta: Say | Enqueue) -> Step[Backoff | Finishing]:
    """The turn ends, and the message starts another; one that is queued goes behind those that were (rule INPUT-2)."""
    if seen_before(draft.session, delta):
        return Step(state, (refusal(delta, RefusalReason.DUPLICATE),))
    draft, inbox = draft.close_timer(state.timer), draft.session.inbox
    if isinstance(delta, Enqueue) and (inbox.queue or inbox.steers):
        draft = queue_input(draft, delta.content, delta.key)
        return to_finishing(draft, state.turn, Ending(reason=TurnEndReason.INTERRUPTED, then=NextQueued()))
    draft, receipt = take_receipt(draft, delta.key)
    then = NextInput(receipt=receipt, content=delta.content, key=delta.key)
    return to_finishing(draft, state.turn, Ending(reason=TurnEndReason.INTERRUPTED, then=then))


def _cut_short(state: Backoff, draft: Draft[None], cause: Cause) -> Step[Finishing]:
    draft = cut_gates(draft.close_timer(state.timer), reason_of(cause))
    draft, ending = end_cut_short(draft, cause)
    return to_finishing(draft, state.turn, ending)


def _resumed(state: Backoff, draft: Draft[None], delta: Resumed) -> Step[Backoff]:
    """The process was restarted: the countdown keeps its deadline (rule RESUME-3)."""
    draft = restart_held_runs(draft.tell(SessionResumed()), delta)
    draft, timer = draft.start_timer(TimerPurpose.RETRY, state.timer.deadline_ms)
    return Step(evolve(state, session=draft.session, stamp=draft.stamp, timer=timer), draft.effects)
