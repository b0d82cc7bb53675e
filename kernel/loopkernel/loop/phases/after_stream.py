"""A model call is over, well or not: hooks look at it, and then it is acted on (rules HOOK-1, INFER-4 and RETRY-3)."""

from attrs import evolve

from loopkernel.data.endings import Ending, Failure
from loopkernel.data.events import LimitReached, ReplyRetracted
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookRetry
from loopkernel.data.policy import Hook
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.states import AfterModel, Backoff, Compacting, Executing, Finishing, Streaming, Thinking
from loopkernel.data.steps import Step
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import CancelReason, HookPoint, RequestReason, TurnEndReason
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.gates.hooks import (
    MAX_RETRIES,
    answer_of_hook,
    ask_again,
    ask_hooks,
    context,
    forget_gate,
    hooks_at,
)
from loopkernel.loop.life.fork import fork_calls
from loopkernel.loop.life.restart import restart_calls
from loopkernel.loop.phases.moves import to_executing, to_finishing, to_recovery, to_thinking
from loopkernel.loop.turn.broken_reply import keep_whole_part, whole_part
from loopkernel.loop.turn.cancelling import (
    cut_calls,
    cut_gates,
    discard_dead_reply,
    discard_reply,
    is_committed,
    keep_cut_reply,
    keep_for_effect,
)
from loopkernel.loop.turn.failure import recover_from
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit, limit_hit
from loopkernel.loop.turn.reply import AfterReply, Complete, complete_reply, keep_completed

End = ModelCompleted | Failure
AfterStream = Executing | Thinking | Backoff | Compacting | Finishing

_BLOCKED = Ending(reason=TurnEndReason.GUARDRAIL)


def stream_over(state: Streaming, draft: CallsDraft, end: End) -> Step[Streaming | AfterStream]:
    """The model call has ended so; what it has used stands in the state's reply."""
    policy = draft.session.settings.policy
    hooks = hooks_at(policy, HookPoint.AFTER_MODEL) if policy.hooks else ()
    return _look_at(state, draft, end, hooks) if hooks else _act_on(state, draft, end)


def _look_at(state: Streaming, draft: CallsDraft, end: End, hooks: tuple[Hook, ...]) -> Step[Streaming | AfterStream]:
    """The hooks in turn; once none is left, the end is acted on."""
    draft, gate = ask_hooks(draft, hooks, _about(state, draft.session, end))
    if gate is None:
        return _act_on(state, draft, end)
    after = AfterModel(gate=gate, end=end)
    waiting = evolve(state, session=draft.session, stamp=draft.stamp, silence=None, after=after)
    return Step(waiting, draft.effects)


def _about(state: Streaming, session: Session, end: End) -> HookContext:
    about = evolve(context(session, HookPoint.AFTER_MODEL), pieces=state.pieces)
    if isinstance(end, ModelCompleted):
        return evolve(about, stop=end.stop)
    return evolve(about, error=end.error)


def hook_has_said(
    state: Streaming, draft: CallsDraft, after: AfterModel, answer: HookAnswer
) -> Step[Streaming | AfterStream]:
    """The hook lets the end stand, has the model asked again, or ends the turn (rule HOOK-2)."""
    said = answer_of_hook(draft.session.settings.policy, after.gate, answer)
    if isinstance(said, HookBlock):
        return _act_on(state, draft, after.end, blocked=True)
    if isinstance(said, HookRetry) and _may_repeat(state, draft):
        return _ask_again(state, draft, after.end)
    return _look_at(evolve(state, after=None), draft, after.end, after.gate.left)


def _may_repeat(state: Streaming, draft: CallsDraft) -> bool:
    """Whether the reply may be taken back: not too often, where nothing of it had an effect, and another is allowed."""
    if state.turn.hook_retries >= MAX_RETRIES or is_committed(draft.ledger, draft.session.settings):
        return False
    return limit_hit(_billed(draft, state.reply).session, state.turn, draft.stamp.now_ms) is None


def _billed(draft: CallsDraft, reply: OpenReply) -> CallsDraft:
    return draft.with_session(draft.session.updated(usage=draft.session.usage.plus(reply.usage)))


def _ask_again(state: Streaming, draft: CallsDraft, end: End) -> Step[Thinking]:
    """The reply is taken back, and asked for again; one that was complete ends a row of failures (rule RETRY-4)."""
    used, turn = state.turn.recovery, state.turn
    if isinstance(end, ModelCompleted) and (used.retries or used.unstreamed):
        used = evolve(used, retries=0, unstreamed=False)
    turn = evolve(turn, reason=RequestReason.HOOK_RETRY, hook_retries=turn.hook_retries + 1, recovery=used)
    return to_thinking(_retracted(state, discard_reply(_billed(draft, state.reply))), turn)


def _retracted(state: Streaming, draft: CallsDraft) -> CallsDraft:
    """What has been seen of the reply, which is discarded, is void."""
    return draft.tell(ReplyRetracted(state.reply.operation)) if len(state.pieces) else draft


# --- what follows ---------------------------------------------------------------------------------------


def _act_on(state: Streaming, draft: CallsDraft, end: End, *, blocked: bool = False) -> Step[AfterStream]:
    if isinstance(end, Failure):
        return _failed(state, draft, end, blocked=blocked)
    complete = Complete(reply=state.reply, pieces=state.pieces, delta=end)
    return _go_on(complete_reply(draft, state.turn, complete, blocked=blocked))


def _go_on(after: AfterReply) -> Step[AfterStream]:
    """To the calls of the reply, or at once to what is settled."""
    draft, turn, settled = after.draft, after.turn, after.settled
    if after.answering:
        spent = budget_hit(draft.session, turn, draft.stamp.now_ms)
        if spent is not None:
            return to_executing(draft.tell(LimitReached(spent)), turn, OUT_OF_BUDGET)
        return to_executing(draft, turn, settled)
    if isinstance(settled, Ending):
        return to_finishing(draft, turn, settled)
    return to_thinking(draft, turn if settled is None else evolve(turn, reason=settled.reason))


def _failed(state: Streaming, draft: CallsDraft, failure: Failure, *, blocked: bool) -> Step[AfterStream]:
    """The reply will not be complete. It is discarded, unless a call of it has had an effect (rule TOOL-9)."""
    draft, turn = _billed(draft, state.reply), state.turn
    whole = None if blocked else whole_part(draft, state.pieces, failure)
    if whole is not None:
        after = keep_whole_part(draft, turn, state.reply, whole, failure)
        return _go_on(after) if isinstance(after, AfterReply) else to_recovery(after, failure)
    if is_committed(draft.ledger, draft.session.settings):
        return to_executing(keep_for_effect(draft, state.reply, state.pieces), turn, _BLOCKED if blocked else failure)
    draft = _retracted(state, discard_reply(draft))
    if blocked:
        return to_finishing(draft, turn, _BLOCKED)
    return to_recovery(recover_from(draft, turn, failure), failure)


# --- while a hook is asked ------------------------------------------------------------------------------


def cut_after_stream(state: Streaming, draft: CallsDraft, after: AfterModel, reason: CancelReason) -> CallsDraft:
    """Everything is cut short while a hook looks at the end of a model call: a whole reply stays, another does not."""
    draft = _billed(draft, state.reply)
    kept = _kept(state, draft, after.end)
    if kept is None:
        return cut_gates(_retracted(state, discard_reply(draft)), reason, after.gate)
    draft, _ = cut_calls(kept, reason, gate=after.gate)
    return draft


def fork_after_stream(state: Streaming, draft: CallsDraft, after: AfterModel) -> CallsDraft:
    """The lineage parts while a hook looks at the end of a model call: nothing is aborted, its calls are answered."""
    draft = _billed(forget_gate(draft, after.gate), state.reply)
    kept = _kept(state, draft, after.end)
    return _retracted(state, discard_dead_reply(draft)) if kept is None else fork_calls(kept)


def resume_after_stream(state: Streaming, draft: CallsDraft, after: AfterModel, delta: Resumed) -> Step[Streaming]:
    """The process was restarted: the hook is asked again, and early runs that died are made again (rule RESUME-3)."""
    draft = restart_calls(draft, delta)
    draft, gate = ask_again(draft, after.gate, _about(state, draft.session, after.end))
    still = None if gate is None else evolve(after, gate=gate)
    again = evolve(state, session=draft.session, ledger=draft.ledger, stamp=draft.stamp, after=still)
    return Step(again, draft.effects)


def _kept(state: Streaming, draft: CallsDraft, end: End) -> CallsDraft | None:
    """The reply in the thread: whole, or cut where it failed and a call of it has had an effect; None: it is void."""
    if isinstance(end, ModelCompleted):
        return keep_completed(draft, Complete(reply=state.reply, pieces=state.pieces, delta=end))
    if is_committed(draft.ledger, draft.session.settings):
        return keep_cut_reply(draft, state.reply, state.pieces)
    return None
