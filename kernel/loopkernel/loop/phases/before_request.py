"""The gates before a request, in order, and the request itself when all are passed (rule INFER-1)."""

from types import MappingProxyType

from attrs import evolve

from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.messages import ResultMessage, UserOrigin
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import BeforeRequest, Compacting, Finishing, Streaming, Thinking, new_streaming
from loopkernel.data.steps import Step
from loopkernel.data.vector import Vector
from loopkernel.data.words import HookPoint, LimitName, RequestReason, TurnEndReason
from loopkernel.loop.algorithms.wording import BROKEN_OFF, CONTINUE, MISSING_CALLS, NUDGE, REFUSAL, demand_text
from loopkernel.loop.calls.held_runs import inject_background_ends
from loopkernel.loop.draft import Draft
from loopkernel.loop.gates.hooks import (
    ask_hooks,
    context,
    hooks_at,
)
from loopkernel.loop.history.compaction import clear_results, compact_if_due
from loopkernel.loop.history.thread import add_note
from loopkernel.loop.phases.moves import to_compacting, to_finishing, to_thinking
from loopkernel.loop.turn.inbox import inject_steers
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, check_repetition, limit_hit
from loopkernel.loop.turn.request import begin_request


def prepare_request(
    draft: Draft[None], turn: Turn, passed: BeforeRequest = BeforeRequest.NOTHING
) -> Step[Thinking | Streaming | Compacting | Finishing]:
    """As entering the phase does, where no gate is open and `passed` are behind, without a state in between."""
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
        pieces=Vector(),
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
