"""Of law CUT-SAFE: a thread is as long as its messages are, and is compacted when that is due (rule COMPACT-1)."""

from collections.abc import Iterator
from itertools import takewhile
from typing import final

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.compactions import ContextSize
from loopkernel.data.effects import CallModel
from loopkernel.data.events import (
    CompactionEnded,
    CompactionStarted,
    LimitReached,
    LoopStopped,
    MessageAdded,
    MessageReplaced,
    ResultsCleared,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
    TurnEnded,
)
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Compaction
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import Compacting, Thinking
from loopkernel.data.user_deltas import ChangesSettings
from loopkernel.data.words import ErrorClass, RequestReason
from loopkernel.laws.accounts.cutting import is_due, where_to_cut, with_message
from loopkernel.laws.accounts.sentences import CLEARED
from loopkernel.laws.retry_law import pending_failure
from loopkernel.laws.shadow.step import JudgedStep

_REWRITES = ThreadCompacted | ThreadRewritten | ThreadCut | ResultsCleared | MessageReplaced
_ORDINARY = (RequestReason.USER, RequestReason.NEXT_TURN)


@final
class CompactionDue:
    """How long the thread is, and whether it has been compacted, or that was tried, since the request before."""

    def __init__(self) -> None:
        self._tried = True  # of what came before the first step nothing is known
        self._size: ContextSize | None = None

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        before, after = step.session_before, step.session
        if before is None or after is None:
            return
        size = before.size if self._size is None else self._size
        for message in after.thread.messages.since(len(before.thread)):
            size = with_message(size, message)
        rewritten = any(isinstance(effect, _REWRITES) for effect in step.effects)
        if rewritten:
            size = after.size  # all of it is counted anew
        yield from _undue(step, size)
        yield from _at_end(step, before, after, before.size if self._size is None else self._size)
        self._size = size
        for effect in step.effects:
            if isinstance(effect, CompactionStarted | CompactionEnded):
                self._tried = True
            elif isinstance(effect, CallModel):
                if not self._tried and not rewritten:  # else nobody can say how long it was when that was looked at
                    yield from _overdue(effect, step, after, size)
                self._tried = False
        if isinstance(step.delta, ChangesSettings):
            self._tried = True  # it may have been asked for by other settings


def _undue(step: JudgedStep, size: ContextSize) -> Iterator[str]:
    """A summary is asked for before a request, which no trigger, no person and no failure asks for."""
    before, after = step.before, step.after
    if not isinstance(after, Compacting) or isinstance(before, Compacting) or before.session is None:
        return
    if not isinstance(after.within, Turn) or after.failure is not None or before.session.compactions.requested:
        return
    compaction = after.session.settings.policy.compaction
    if compaction is None or not is_due((), size, compaction, first=True):
        yield f"a compaction begins with {size}, and none is due"


def is_reactive(step: JudgedStep, place: int) -> bool:
    """Whether the first cut of the step, told at that place, answers a prompt that was too long (INFER-8).

    It is made for a request, which follows at once, waits for a hook, or has a limit in its way.
    """
    failure = step.delta if isinstance(step.delta, ModelFailed) else pending_failure(step.before)
    if failure is None or failure.error is not ErrorClass.PROMPT_TOO_LONG:
        return False
    if any(
        isinstance(effect, ThreadCompacted | TurnEnded | LimitReached | LoopStopped) for effect in step.effects[:place]
    ):
        return False
    return _made_for(step, place) is RequestReason.REACTIVE_COMPACT_RETRY


def _made_for(step: JudgedStep, place: int) -> RequestReason | None:
    """Why the request is made before which that effect stands; None: it stands at the end of a turn, or at rest."""
    for effect in step.effects[place:]:
        if isinstance(effect, CallModel):
            return effect.request.reason
        if isinstance(effect, LimitReached | LoopStopped):  # in the way of the next request
            return RequestReason.REACTIVE_COMPACT_RETRY
        if isinstance(effect, TurnEnded):
            return None
    return step.after.turn.reason if isinstance(step.after, Thinking) else None


def _at_end(step: JudgedStep, before: Session, after: Session, size: ContextSize) -> Iterator[str]:
    """COMPACT-1 by `turn_end`: a compaction is made at the end of a turn when it is due, and not before requests.

    `size` is that of the thread before the step.
    """
    compaction = after.settings.policy.compaction
    if compaction is None or compaction.when is not CompactionMoment.TURN_END:
        return
    for place, effect in enumerate(step.effects):
        if isinstance(effect, CompactionStarted) and not before.compactions.requested:
            reason = _made_for(step, place)
            if reason is not None and reason is not RequestReason.REACTIVE_COMPACT_RETRY:
                yield f"a compaction begins before a request, made for {reason.value}, and not at the end of a turn"
    if any(isinstance(effect, TurnEnded) for effect in step.effects):
        yield from _uncut(step, before, after, size, compaction)


def _uncut(
    step: JudgedStep, before: Session, after: Session, size: ContextSize, compaction: Compaction
) -> Iterator[str]:
    """A turn ends, a compaction was due, and none was made."""
    added = {message.id: message for message in after.thread.messages.since(len(before.thread))}
    thread, useless_at = list(before.thread), before.compactions.useless_at
    until_end = takewhile(lambda effect: not isinstance(effect, TurnEnded), step.effects)
    for place, effect in enumerate(until_end):  # what follows belongs to the next turn
        if isinstance(effect, MessageAdded):
            message = added.get(effect.message.id)  # with its secrets, which are not told
            if message is None:  # it was cut away since: nobody can say how long it was
                return
            thread.append(message)
            size = with_message(size, message)
        elif isinstance(effect, CompactionStarted | _REWRITES):
            made_at_end = isinstance(effect, CompactionStarted) and _made_for(step, place) is None
            if made_at_end and not before.compactions.requested and not is_due(thread, size, compaction, first=True):
                yield f"a turn ends with {len(thread)} messages, of {size}, and is compacted, which is not due"
            return  # it was made; or the thread is another, of a length that nobody has told
    useless = useless_at is not None and len(thread) <= useless_at
    cut = None if useless else where_to_cut(thread, compaction)
    clears = compaction.strategy is CompactionStrategy.CLEAR
    has_work = cut is not None and (not clears or any(map(_has_bodies, thread[: cut.until])))
    if has_work and is_due(thread, size, compaction, first=True):
        yield f"a turn ends with {len(thread)} messages, of {size}, and a compaction is due"


def _has_bodies(message: Message) -> bool:
    """Whether the message is one of results that could be cleared."""
    cleared = (TextBlock(CLEARED),)
    return isinstance(message, ResultMessage) and any(each.content != cleared for each in message.results)


def _overdue(asked: CallModel, step: JudgedStep, session: Session, size: ContextSize) -> Iterator[str]:
    """A model is asked, and a compaction was due before, which nothing stood in the way of."""
    compaction, known = session.settings.policy.compaction, session.compactions
    if compaction is None or compaction.strategy is CompactionStrategy.CLEAR or isinstance(step.before, Thinking):
        return
    if asked.request.reason not in _ORDINARY or compaction.when is not CompactionMoment.ANY:
        return
    messages = session.thread.messages
    put_off = known.again_ms is not None and step.after.stamp.now_ms < known.again_ms
    useless = known.useless_at is not None and len(messages) <= known.useless_at
    if put_off or useless or not is_due(tuple(messages), size, compaction, first=False):
        return
    if where_to_cut(tuple(messages), compaction) is not None:
        yield f"request {asked.request.number} is made with {size}, and a compaction is due"
