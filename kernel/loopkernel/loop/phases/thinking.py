"""`Thinking`: the gates before a request, in order (rule INFER-1). Entering it makes the request when none waits."""

from types import MappingProxyType
from typing import assert_never

from attrs import evolve

from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached, SessionResumed
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.messages import ResultMessage, UserOrigin
from loopkernel.data.model_deltas import FromModel, Piece
from loopkernel.data.outside_deltas import FromOutside, HookAnswer, HookAnswered, HookBlock, HookModify, TimerFired
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import BeforeRequest, Compacting, Finishing, Streaming, Thinking, new_streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.vector import Vector
from loopkernel.data.words import HookPoint, LimitName, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.algorithms.wording import BROKEN_OFF, CONTINUE, MISSING_CALLS, NUDGE, REFUSAL, demand_text
from loopkernel.loop.calls.held_runs import inject_background_ends
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
    hooks_at,
    is_time_of,
)
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.compaction import clear_results, compact_if_due
from loopkernel.loop.history.thread import add_note
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.moves import begin, stay, to_compacting, to_finishing, to_thinking
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.editing import reword_input
from loopkernel.loop.turn.inbox import inject_steers
from loopkernel.loop.turn.input import input_while_busy
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, check_repetition, limit_hit
from loopkernel.loop.turn.request import begin_request


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


# --- the gates ------------------------------------------------------------------------------------------


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """Wait for an open gate; else pass the next ones, and ask the model when all are passed."""
    if state.gate is not None:
        return Step(state, ())
    draft, turn, passed = Draft(state.session, state.stamp, None), state.turn, state.passed
    if not turn.begun:
        turn = evolve(turn, begun=True)
        draft, gate = _ask(draft, HookPoint.BEFORE_INVOCATION)
        if gate is not None:
            return to_thinking(draft, turn, passed, gate)
    elif passed is BeforeRequest.HOOKS:
        return _limited(draft, turn) or _request(*_let_in(draft, turn))
    return _prepare(draft, turn, passed)


def _ask(draft: Draft[None], point: HookPoint) -> tuple[Draft[None], OpenHook | None]:
    """The hooks of the point in turn."""
    policy = draft.session.settings.policy
    hooks = hooks_at(policy, point) if policy.hooks else ()
    return ask_hooks(draft, hooks, context(draft.session, point)) if hooks else (draft, None)


def _prepare(
    draft: Draft[None], turn: Turn, passed: BeforeRequest
) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """Test the limits, let waiting messages in, look for repetition, compact, clear results, ask hooks (INFER-1)."""
    limited = _limited(draft, turn)
    if limited is not None:
        return limited
    if passed is not BeforeRequest.COMPACTION:
        note = _note(draft.session, turn)
        draft = inject_background_ends(draft)
        draft = draft if note is None else add_note(draft, *note)
        draft, turn = _steered(draft, turn)
        draft, stopped = check_repetition(draft)
        if stopped:
            return to_finishing(draft, turn, Ending(reason=TurnEndReason.LOOP_DETECTED))
        draft, summary = compact_if_due(draft, turn)
        if summary is not None:
            return to_compacting(draft, turn, summary)
    draft, gate = _ask(clear_results(draft), HookPoint.BEFORE_MODEL)
    if gate is not None:
        return to_thinking(draft, turn, passed, gate)
    if passed is BeforeRequest.COMPACTION:
        draft, turn = _let_in(draft, turn)
    return _request(draft, turn)


def _limited(draft: Draft[None], turn: Turn) -> Step[Finishing] | None:
    """The end of the turn, where a limit stands in the way of another request."""
    limit = limit_hit(draft.session, turn, draft.stamp.now_ms)
    if limit is None:
        return None
    ending = Ending(reason=TurnEndReason.MAX_TURNS) if limit is LimitName.MAX_TURNS else OUT_OF_BUDGET
    return to_finishing(draft.tell(LimitReached(limit)), turn, ending)


_NO_PIECES: Vector[Piece] = Vector()


def _request(draft: Draft[None], turn: Turn) -> Step[Streaming]:
    """The model is asked."""
    if not turn.requested:
        turn = evolve(turn, requested=True)
    asked = begin_request(draft, turn)
    streaming = new_streaming(
        session=asked.session,
        stamp=draft.stamp,
        turn=turn,
        reply=asked.reply,
        pieces=_NO_PIECES,
        ledger=asked.ledger,
        heard_ms=draft.stamp.now_ms,
        silence=asked.silence,
        time_limit=asked.time_limit,
    )
    return Step(streaming, asked.effects)


def _let_in(draft: Draft[None], turn: Turn) -> tuple[Draft[None], Turn]:
    """What has come meanwhile, while a summary was made or a hook was asked, goes in before the request."""
    return _steered(inject_background_ends(draft), turn)


def _steered(draft: Draft[None], turn: Turn) -> tuple[Draft[None], Turn]:
    """What the user has to say to the turn goes in: new user messages, so that retries are counted anew (RETRY-4)."""
    if not draft.session.inbox.steers:
        return draft, turn
    return inject_steers(draft), evolve(turn, recovery=evolve(turn.recovery, retries=0))


_NOTES = MappingProxyType(
    {
        RequestReason.MISSING_CALLS: (MISSING_CALLS, UserOrigin.NUDGE),
        RequestReason.REFUSAL: (REFUSAL, UserOrigin.NUDGE),
        RequestReason.BROKEN_STREAM_RECOVERY: (BROKEN_OFF, UserOrigin.CONTINUATION),
    }
)


def _note(session: Session, turn: Turn) -> tuple[str, UserOrigin] | None:
    """What the model is told in the user's place, for the reason of the request; None: nothing."""
    if turn.reason is RequestReason.NEXT_TURN:  # as nearly all are
        return None
    if turn.reason is RequestReason.NUDGE:
        output = session.settings.policy.output_tool
        return (demand_text(output) if output is not None and turn.forcing else NUDGE), UserOrigin.NUDGE
    if turn.reason in _NOTES:
        return _NOTES[turn.reason]
    if turn.reason is not RequestReason.MAX_OUTPUT_TOKENS_RECOVERY:
        return None
    messages = session.thread.messages
    answered = len(messages) > 0 and isinstance(messages[len(messages) - 1], ResultMessage)
    return None if answered else (CONTINUE, UserOrigin.CONTINUATION)
