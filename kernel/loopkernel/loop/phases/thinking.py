"""`Thinking`: a hook is asked before a request. Entering it makes the request when none is (`before_request`)."""

from typing import assert_never

from loopkernel.data.endings import Ending
from loopkernel.data.events import SessionResumed
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.messages import UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, HookAnswer, HookAnswered, HookBlock, HookModify, TimerFired
from loopkernel.data.states import BeforeRequest, Compacting, Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import HookPoint, RefusalReason, TurnEndReason
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.draft import Draft
from loopkernel.loop.gates.hooks import (
    TOO_SLOW,
    abort_gate,
    answer_of_hook,
    ask_again,
    ask_hooks,
    context,
    forget_gate,
    is_time_of,
)
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.thread import add_note
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.before_request import prepare_request
from loopkernel.loop.phases.moves import begin, stay, to_finishing, to_thinking
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.editing import reword_input
from loopkernel.loop.turn.input import input_while_busy


def on_thinking(state: Thinking, ctx: Context) -> Step[Thinking | Finishing]:
    """While a hook is asked: its answer opens the gate or ends the turn, input waits, a cancel ends the turn."""
    draft, gate = begin(state, ctx), state.gate
    match ctx.delta:
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, draft, cause)
            return stay(state, input_while_busy(draft, delta))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if isinstance(report, HookAnswered) and gate is not None and report.operation == gate.operation:
                return _said(state, draft.close_timer(gate.timer), gate, report.answer)
            if isinstance(report, TimerFired) and gate is not None and is_time_of(gate, report.operation):
                return _said(state, abort_gate(draft, gate, fired=True), gate, TOO_SLOW)
            return stay(state, late_report(draft, report))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, draft, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, draft, delta)
            if isinstance(delta, Forked):
                return to_finishing(fork_session(forget_gate(draft, gate), delta), state.turn, FORKED)
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _said(state: Thinking, draft: Draft[None], gate: OpenHook, answer: HookAnswer) -> Step[Thinking | Finishing]:
    """The hook does not let the turn go on, or does, perhaps with other words or one more message (rule HOOK-2)."""
    said = answer_of_hook(draft.session.settings.policy, gate, answer)
    if isinstance(said, HookBlock):
        return to_finishing(draft, state.turn, Ending(reason=TurnEndReason.GUARDRAIL))
    if isinstance(said, HookModify) and said.message is not None:
        if gate.hook.point is HookPoint.BEFORE_INVOCATION:
            draft = reword_input(draft, said.message)
        else:
            draft = add_note(draft, said.message, UserOrigin.HOOK)
    draft, asked = ask_hooks(draft, gate.left, context(draft.session, gate.hook.point))
    over = asked is None and gate.hook.point is HookPoint.BEFORE_MODEL
    return to_thinking(draft, state.turn, BeforeRequest.HOOKS if over else state.passed, asked)


def _resumed(state: Thinking, draft: Draft[None], delta: Resumed) -> Step[Thinking]:
    """The process was restarted: the hook is asked again (rule RESUME-3)."""
    draft, gate = restart_held_runs(draft.tell(SessionResumed()), delta), state.gate
    if gate is not None:
        draft, gate = ask_again(draft, gate, context(draft.session, gate.hook.point))
    return to_thinking(draft, state.turn, state.passed, gate)


def _cut_short(state: Thinking, draft: Draft[None], cause: Cause) -> Step[Finishing]:
    draft, ending = end_cut_short(cut_gates(draft, reason_of(cause), state.gate), cause)
    return to_finishing(draft, state.turn, ending)


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """Wait for an open gate; else pass the next ones, and ask the model when all are passed."""
    if state.gate is not None:
        return Step(state, ())
    return prepare_request(Draft(state.session, state.stamp, None), state.turn, state.passed)
