"""A model call is over, well or not: hooks look at it, and then it is acted on (rules HOOK-1, INFER-4 and RETRY-3)."""

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending, Failure, Settled
from loopkernel.data.events import LimitReached, ReplyRetracted
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookRetry
from loopkernel.data.policy import Hook
from loopkernel.data.sessions import Session, Stamp
from loopkernel.data.states import AfterModel, Backoff, Compacting, Executing, Finishing, Streaming, Thinking
from loopkernel.data.steps import Step
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import CancelReason, HookPoint, RequestReason, TurnEndReason
from loopkernel.loop.gates.hooks import (
    MAX_RETRIES,
    abort_hook,
    answer_of_hook,
    ask_again,
    ask_hooks,
    context,
    forget_hook,
    hooks_at,
)
from loopkernel.loop.life.fork import fork_calls
from loopkernel.loop.life.restart import restart_calls
from loopkernel.loop.phases.rest import recovering
from loopkernel.loop.turn.cancelling import cut_calls, cut_gates, keep_cut_reply
from loopkernel.loop.turn.early_runs import drop, drop_after_crash, is_committed, keep_for_effect
from loopkernel.loop.turn.failure import recover_from
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit, limit_hit
from loopkernel.loop.turn.reply import AfterReply, Complete, complete_reply, keep_completed

End = ModelCompleted | Failure
AfterStream = Executing | Thinking | Backoff | Compacting | Finishing

_BLOCKED = Ending(reason=TurnEndReason.GUARDRAIL)


def stream_over(state: Streaming, end: End, stamp: Stamp) -> Step[Streaming | AfterStream]:
    """The model call has ended so; what it has used stands in the state's reply."""
    hooks = hooks_at(state.session.settings.policy, HookPoint.AFTER_MODEL)
    return _looked_at(state, end, hooks, stamp) if hooks else _acted_on(state, end, stamp)


def _looked_at(state: Streaming, end: End, hooks: tuple[Hook, ...], stamp: Stamp) -> Step[Streaming | AfterStream]:
    """The hooks in turn; once none is left, the end is acted on."""
    asked = ask_hooks(state.session, hooks, _about(state, end), stamp.now_ms)
    after = None if asked.gate is None else AfterModel(gate=asked.gate, end=end)
    waiting = evolve(state, session=asked.session, stamp=stamp, silence=None, after=after)
    if after is not None:
        return Step(waiting, asked.effects)
    step = _acted_on(waiting, end, stamp)
    return Step(step.next, (*asked.effects, *step.effects))


def _about(state: Streaming, end: End) -> HookContext:
    about = evolve(context(state.session, HookPoint.AFTER_MODEL), pieces=state.pieces)
    if isinstance(end, ModelCompleted):
        return evolve(about, stop=end.stop)
    return evolve(about, error=end.error)


def hook_has_said(
    state: Streaming, after: AfterModel, answer: HookAnswer, stamp: Stamp
) -> Step[Streaming | AfterStream]:
    """The hook lets the end stand, has the model asked again, or ends the turn (rule HOOK-2)."""
    said = answer_of_hook(state.session.settings.policy, after.gate, answer)
    over = evolve(state, after=None)
    if isinstance(said, HookBlock):
        return _acted_on(over, after.end, stamp, blocked=True)
    if isinstance(said, HookRetry) and _may_repeat(over, stamp):
        return _asked_again(over, after.end, stamp)
    return _looked_at(over, after.end, after.gate.left, stamp)


def _may_repeat(state: Streaming, stamp: Stamp) -> bool:
    """Whether the reply may be taken back: not too often, where nothing of it had an effect, and another is allowed."""
    if state.turn.hook_retries >= MAX_RETRIES or is_committed(state.ledger, state.session.settings):
        return False
    return limit_hit(_billed(state), state.turn, stamp.now_ms) is None


def _billed(state: Streaming) -> Session:
    return evolve(state.session, usage=state.session.usage.plus(state.reply.usage))


def _asked_again(state: Streaming, end: End, stamp: Stamp) -> Step[Thinking]:
    """The reply is taken back, and asked for again; one that was complete ends a row of failures (rule RETRY-4)."""
    session, dropped = drop(state.ledger, _billed(state), stamp.now_ms)
    used, turn = state.turn.recovery, state.turn
    if isinstance(end, ModelCompleted) and used.retries:
        used = evolve(used, retries=0)
    turn = evolve(turn, reason=RequestReason.HOOK_RETRY, hook_retries=turn.hook_retries + 1, recovery=used)
    return Step(Thinking(session=session, stamp=stamp, turn=turn), (*dropped, *_retracted(state)))


def _retracted(state: Streaming) -> tuple[Effect, ...]:
    return (ReplyRetracted(state.reply.operation),) if len(state.pieces) else ()


# --- what follows ---------------------------------------------------------------------------------------


def _acted_on(state: Streaming, end: End, stamp: Stamp, *, blocked: bool = False) -> Step[AfterStream]:
    if isinstance(end, ModelCompleted):
        return _completed(state, end, stamp, blocked=blocked)
    return _failed(state, end, stamp, blocked=blocked)


def _completed(state: Streaming, end: ModelCompleted, stamp: Stamp, *, blocked: bool) -> Step[AfterStream]:
    complete = Complete(reply=state.reply, pieces=state.pieces, ledger=state.ledger, delta=end)
    after: AfterReply = complete_reply(state.session, state.turn, complete, stamp.now_ms, blocked=blocked)
    effects = after.effects
    if after.ledger is not None:
        spent = budget_hit(after.session, after.turn, stamp.now_ms)
        settled: Settled | None = after.settled if spent is None else OUT_OF_BUDGET
        executing = Executing(session=after.session, stamp=stamp, turn=after.turn, ledger=after.ledger, settled=settled)
        return Step(executing, effects if spent is None else (*effects, LimitReached(spent)))
    if isinstance(after.settled, Ending):
        return Step(Finishing(session=after.session, stamp=stamp, turn=after.turn, ending=after.settled), effects)
    turn = after.turn if after.settled is None else evolve(after.turn, reason=after.settled.reason)
    return Step(Thinking(session=after.session, stamp=stamp, turn=turn), effects)


def _failed(state: Streaming, failure: Failure, stamp: Stamp, *, blocked: bool) -> Step[AfterStream]:
    """The reply will not be complete. It is discarded, unless a call of it has had an effect (rule TOOL-9)."""
    session = _billed(state)
    if is_committed(state.ledger, session.settings):
        kept = keep_for_effect(session, state.reply, state.pieces, state.ledger, stamp.now_ms)
        settled = _BLOCKED if blocked else failure
        executing = Executing(session=kept.session, stamp=stamp, turn=state.turn, ledger=kept.ledger, settled=settled)
        return Step(executing, kept.effects)
    session, dropped = drop(state.ledger, session, stamp.now_ms)
    effects = (*dropped, *_retracted(state))
    if blocked:
        return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=_BLOCKED), effects)
    step = recovering(recover_from(session, state.turn, failure, stamp.now_ms), stamp, failure)
    return Step(step.next, (*effects, *step.effects))


# --- while a hook is asked ------------------------------------------------------------------------------


def cut_after_stream(
    state: Streaming, after: AfterModel, reason: CancelReason, now_ms: int
) -> tuple[Session, tuple[Effect, ...]]:
    """Everything is cut short while a hook looks at the end of a model call: a whole reply stays, another does not."""
    session, aborted = abort_hook(state.session, after.gate)
    session, kept = _kept(evolve(state, session=session), after.end)
    if kept is None:
        session, dropped = drop(state.ledger, session, now_ms)
        session, cut = cut_gates(session, reason, now_ms, aborted)
        return session, (*dropped, *_retracted(state), *cut)
    if not state.ledger.entries.size:
        session, cut = cut_gates(session, reason, now_ms, aborted)
    else:
        session, _, cut = cut_calls(session, state.ledger, reason, now_ms, aborted)
    return session, (*kept, *cut)


def fork_after_stream(state: Streaming, after: AfterModel) -> tuple[Session, tuple[Effect, ...]]:
    """The lineage parts while a hook looks at the end of a model call: nothing is aborted, its calls are answered."""
    session, kept = _kept(evolve(state, session=forget_hook(state.session, after.gate)), after.end)
    if kept is None:
        session, dropped = drop_after_crash(state.ledger, session)
        return session, (*dropped, *_retracted(state))
    if not state.ledger.entries.size:
        return session, kept
    session, answered = fork_calls(session, state.ledger)
    return session, (*kept, *answered)


def resume_after_stream(
    state: Streaming, after: AfterModel, delta: Resumed, stamp: Stamp
) -> tuple[Streaming, tuple[Effect, ...]]:
    """The process was restarted: the hook is asked again, and early runs that died are made again (rule RESUME-3)."""
    restarted = restart_calls(state.ledger, state.session, delta, stamp.now_ms)
    again = evolve(state, session=restarted.session, ledger=restarted.ledger, stamp=stamp)
    asked = ask_again(again.session, after.gate, _about(again, after.end), stamp.now_ms)
    effects = (*restarted.effects, *asked.effects)
    still = None if asked.gate is None else evolve(after, gate=asked.gate)
    return evolve(again, session=asked.session, after=still), effects


def _kept(state: Streaming, end: End) -> tuple[Session, tuple[Effect, ...] | None]:
    """The reply in the thread: whole, or cut where it failed and a call of it has had an effect; None: it is void."""
    session = _billed(state)
    if isinstance(end, ModelCompleted):
        complete = Complete(reply=state.reply, pieces=state.pieces, ledger=state.ledger, delta=end)
        return keep_completed(session, complete)
    if is_committed(state.ledger, session.settings):
        return keep_cut_reply(session, state.reply, state.pieces, state.ledger)
    return session, None
