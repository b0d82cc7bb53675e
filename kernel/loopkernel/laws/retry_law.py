"""The trace law about failed requests: RETRY-LAW.

It counts the attempts of each model, from the failures that are told and what the servers asked for, and says at each
failure which way out is open: a smaller request, a retry, the next model, the model itself, or none.
"""

import enum
from collections.abc import Iterator
from fractions import Fraction
from typing import final

from attrs import evolve, frozen

from loopkernel.data.choices import ErrorDisplay, Lifetime, OnError
from loopkernel.data.effects import CallModel, Effect, StartTimer
from loopkernel.data.endings import Failure
from loopkernel.data.events import (
    CompactionEnded,
    CompactionStarted,
    ErrorCleared,
    ErrorShown,
    LimitReached,
    LoopStopped,
    MessageAdded,
    MessageReplaced,
    ReplyEnded,
    ReplyFailed,
    ResultsCleared,
    RetryScheduled,
    TurnEnded,
)
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import FromModel, ModelFailed
from loopkernel.data.outside_deltas import HookAnswered, HookRetry, TimerFired
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Compacting, Done, State, Streaming, Thinking
from loopkernel.data.user_deltas import DismissError
from loopkernel.data.words import ErrorClass, RequestReason, TimerPurpose, TurnEndReason
from loopkernel.laws.broken_streams import kept_as_due, to_keep
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.taken_back import Seen
from loopkernel.laws.turn_hooks import asks_again
from loopkernel.laws.views import Answering, turn_of

_SAME_FOR_ALL_MODELS = frozenset({ErrorClass.PROMPT_TOO_LONG, ErrorClass.BAD_REQUEST, ErrorClass.AUTH})


class Way(enum.Enum):
    """The way out of a failure."""

    SMALLER = "a smaller request"
    RETRY = "a retry"
    NEXT_MODEL = "the next model"
    UNSTREAMED = "the same request, not streamed"
    GO_ON = "what is whole of the reply"
    FEED_BACK = "the model is told"
    NONE = "the end of the turn"


@final
@frozen
class Failed:
    """A request that has failed, and nothing was done about it yet."""

    error: ErrorClass
    asked_ms: int = 0
    shown: int = 0  # how often since the user has been shown no error
    cleared: int = 0  # how often before that
    at_once: bool | None = None  # what policy said of showing it when a summary was asked for
    begun: bool = False  # something of the reply had come
    gone_on: bool = False  # what is whole of the reply is kept and gone on with
    kept: bool = False  # the same, and it may not be gone on with once more


def pending_failure(state: State) -> Failure | None:
    """A failure about which nothing was done yet: calls have to end first, hooks look at it, or a summary is made."""
    if isinstance(state, Answering):
        return state.settled if isinstance(state.settled, Failure) else None
    if isinstance(state, Streaming) and state.after is not None:
        return state.after.end if isinstance(state.after.end, Failure) else None
    return state.failure if isinstance(state, Compacting) else None


def longest_wait_ms(policy: Policy, retry: Retry) -> int:
    """What the delays between two requests that succeed never pass together."""
    each = max(retry.cap_ms + retry.jitter_ms, policy.retry_after_cap_ms)
    return (len(policy.fallback_models) + 1) * retry.retries * each


def base_delay_ms(retry: Retry, attempt: int) -> int:
    """RETRY-1: base times factor to the power of the retries before, at most the cap; without jitter."""
    factor, delay = Fraction(repr(float(retry.factor))), Fraction(retry.base_ms)
    for _ in range(attempt - 1):
        if delay >= retry.cap_ms or factor == 1 or not delay:
            break
        delay *= factor
    return min(int(delay), retry.cap_ms)


def _shortens(effect: Effect) -> bool:
    """Whether the effect tells that results read otherwise."""
    return isinstance(effect, MessageReplaced) and isinstance(effect.message, ResultMessage)


def _is_for_end(step: JudgedStep, place: int) -> bool:
    """Whether the compaction that ends at that place was made for the end of a turn, not for a request (COMPACT-1)."""
    for effect in step.effects[place:]:
        if isinstance(effect, CallModel | LimitReached | LoopStopped):  # asked, or in the way of that
            return False
        if isinstance(effect, TurnEnded):
            return True
    return False


@final
class RetryLaw:
    """Each failure takes the way out that is open, no sooner than it may, and shows what it must; each is bounded.

    Kept are the requests of the turn that failed: on which model, how often in a row, how long was waited for them.
    """

    def __init__(self, start: State) -> None:
        turn = turn_of(start)
        self._place = 0 if turn is None else turn.recovery.model
        self._retries = 0 if turn is None else turn.recovery.retries
        self._fed_back = turn is not None and turn.recovery.fed_back
        self._unstreamed = turn is not None and turn.recovery.unstreamed
        self._waited_ms = 0
        self._seen = Seen(start)
        self._heard_ms = start.heard_ms if isinstance(start, Streaming) else 0
        self._failed: Failed | None = None
        self._compacting = isinstance(start, Compacting)
        self._fallen = False  # the next request is made of another model
        self._reason: RequestReason | None = None  # why the next request is made: smaller, or for what was not whole
        failure = pending_failure(start)
        if failure is not None:
            self._failed = Failed(failure.error, failure.retry_after_ms or 0, begun=failure.begun)

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        self._begin(step)
        for place, effect in enumerate(step.effects):
            yield from self._judge(effect, step, place)
            yield from self._seen.take(effect)
        yield from kept_as_due(step)
        yield from self._prepared(step)
        self._hear(step)

    def _begin(self, step: JudgedStep) -> None:
        """A step begins: a hook may have the request that failed made again, which is a way out too (rule HOOK-2)."""
        delta = step.taken
        if isinstance(delta, HookAnswered) and isinstance(delta.answer, HookRetry) and asks_again(step):
            self._failed = None

    def _prepared(self, step: JudgedStep) -> Iterator[str]:
        """The step is over: where the next request waits for its gates, the way to it was chosen under this policy."""
        state = step.after
        waits = isinstance(state, Thinking) or (isinstance(state, Compacting) and state.failure is None)
        if waits and state.session is not None and self._failed is not None:
            yield from self._asks_at_once(state.session.settings.policy)
            self._fallen = True

    def _hear(self, step: JudgedStep) -> None:
        """The stream was heard of in this step, or it began; or the user gave up the wait for a retry (RETRY-4)."""
        if step.requests or isinstance(step.taken, FromModel):
            self._heard_ms = step.after.stamp.now_ms
        if isinstance(step.before, Backoff) and isinstance(step.delta, DismissError):
            self._start_again()

    def _judge(self, effect: Effect, step: JudgedStep, place: int) -> Iterator[str]:
        """What is wrong with this effect, which stands at that place of the step."""
        policy = step.policy
        if policy is None:
            return
        if isinstance(effect, ReplyFailed):
            yield from self._fails(effect, step, policy)
        elif isinstance(effect, RetryScheduled):
            yield from self._waits(effect, step, policy)
        elif isinstance(effect, CallModel):
            yield from self._asks(effect, policy)
        elif isinstance(effect, MessageAdded) and isinstance(effect.message, AssistantMessage):
            yield from self._keeps(step, policy)
        elif isinstance(effect, MessageAdded):
            yield from self._adds(effect.message, policy)
        elif isinstance(effect, ResultsCleared) or _shortens(effect):
            yield from self._shrinks(RequestReason.COLLAPSE_DRAIN_RETRY, policy)
        elif isinstance(effect, CompactionStarted):
            self._compacting = True
            if self._failed is not None:
                self._failed = evolve(self._failed, at_once=policy.errors is ErrorDisplay.SHOWN)
        elif isinstance(effect, ErrorCleared):
            if self._failed is not None:
                failed = self._failed
                self._failed = evolve(failed, shown=0, cleared=failed.cleared + failed.shown)
        elif isinstance(effect, CompactionEnded):
            if effect.done and not _is_for_end(step, place):
                yield from self._shrinks(RequestReason.REACTIVE_COMPACT_RETRY, policy)
            self._compacting = False
        elif isinstance(effect, ErrorShown):
            yield from self._shows(effect, step, policy)
        elif isinstance(effect, ReplyEnded):
            self._unstreamed = False
            self._start_again()
        elif isinstance(effect, TurnEnded):
            yield from self._ends(effect, step, policy)

    def _start_again(self) -> None:
        """RETRY-4: the retries are counted anew."""
        self._retries = self._waited_ms = 0

    # --- a failure, and the way out of it ---------------------------------------------------------------

    def _fails(self, failed: ReplyFailed, step: JudgedStep, policy: Policy) -> Iterator[str]:
        delta = step.delta
        asked = delta.retry_after_ms if isinstance(delta, ModelFailed) else None
        begun = isinstance(step.before, Streaming) and len(step.before.pieces) > 0
        self._failed = Failed(failed.error, max(asked or 0, 0), begun=begun)
        if isinstance(delta, ModelFailed) and delta.error is not failed.error:
            yield f"request {failed.reply} has failed as {delta.error.value}, and is told as {failed.error.value}"
        if isinstance(delta, TimerFired):
            silent = step.after.stamp.now_ms - self._heard_ms
            if policy.silence_ms is None or silent < policy.silence_ms:
                yield f"request {failed.reply} is given up after {silent} ms of silence, sooner than policy says"

    def _open_way(self, failed: Failed, policy: Policy) -> Way:
        """The first way out that is left (rules RETRY-2, 3, 6 and 7, INFER-8)."""
        retry = policy.retry
        if failed.gone_on:
            return Way.GO_ON
        listed = retry is not None and failed.error in retry.classes
        if failed.error is not ErrorClass.PROMPT_TOO_LONG and not failed.kept:
            helps = retry is not None and failed.error in retry.unstreamed and not failed.asked_ms
            if helps and failed.begun and not self._unstreamed:
                return Way.UNSTREAMED
            in_time = failed.asked_ms <= policy.retry_after_cap_ms
            if retry is not None and listed and in_time and self._retries < retry.retries:
                return Way.RETRY
            if self._place < len(policy.fallback_models) and (listed or failed.error not in _SAME_FOR_ALL_MODELS):
                return Way.NEXT_MODEL
        if policy.on_error is OnError.FEED_BACK and not self._fed_back and failed.error is not ErrorClass.REFUSED:
            return Way.FEED_BACK
        return Way.NONE

    def _takes(self, way: Way, policy: Policy) -> Iterator[str]:
        """The failure leads this way, which is the one that is open, and is shown where it must be (rule INFER-9)."""
        failed, self._failed = self._failed, None
        if failed is None:
            yield f"a request leads to {way.value}, and none has failed"
            return
        told = failed.error.value
        is_open = self._open_way(failed, policy)
        if way is not is_open and not (way is Way.SMALLER and failed.error is ErrorClass.PROMPT_TOO_LONG):
            yield f"the failure {told} leads to {way.value}, and {is_open.value} is left"
        at_once = policy.errors is ErrorDisplay.SHOWN if failed.at_once is None else failed.at_once
        expected = int(way is Way.NONE or (at_once and way is not Way.FEED_BACK))
        shown = failed.shown + (0 if way in (Way.NONE, Way.FEED_BACK) else failed.cleared)
        if shown != expected:
            yield f"the failure {told} leads to {way.value}, and is shown {shown} times, not {expected}"

    def _shrinks(self, reason: RequestReason, policy: Policy) -> Iterator[str]:
        """INFER-8: old results are cleared, or the thread is compacted, for a prompt that was too long."""
        if self._failed is not None and self._failed.error is ErrorClass.PROMPT_TOO_LONG:
            yield from self._takes(Way.SMALLER, policy)
            self._reason = RequestReason.REACTIVE_COMPACT_RETRY if self._compacting else reason

    def _waits(self, wait: RetryScheduled, step: JudgedStep, policy: Policy) -> Iterator[str]:
        failed, retry = self._failed, policy.retry
        yield from self._takes(Way.RETRY, policy)
        if wait.attempt != self._retries + 1:
            yield f"retry {wait.attempt} follows {self._retries} retries of the same model"
        self._retries = wait.attempt
        self._waited_ms += wait.delay_ms
        if failed is None or retry is None:
            return  # which `_takes` has told
        least = max(base_delay_ms(retry, wait.attempt), failed.asked_ms)
        most = max(base_delay_ms(retry, wait.attempt) + retry.jitter_ms, failed.asked_ms)
        if not least <= wait.delay_ms <= most:
            yield f"retry {wait.attempt} waits {wait.delay_ms} ms, and may wait from {least} to {most} ms"
        if self._waited_ms > longest_wait_ms(policy, retry):
            yield f"the retries have waited {self._waited_ms} ms together, more than policy allows"
        deadline_ms = step.after.stamp.now_ms + wait.delay_ms
        timers = [timer for timer in step.told(StartTimer) if timer.purpose is TimerPurpose.RETRY]
        if [timer.deadline_ms for timer in timers] != [deadline_ms]:
            yield f"retry {wait.attempt} is not timed for {deadline_ms} ms, when its delay is over"

    def _adds(self, message: Message, policy: Policy) -> Iterator[str]:
        """The model is told of the failure; or a user message goes in before the request to the next model."""
        if not isinstance(message, UserMessage):
            return
        if message.origin is UserOrigin.ERROR_FEEDBACK:
            yield from self._takes(Way.FEED_BACK, policy)
            self._fed_back = True
            self._start_again()
            return
        yield from self._asks_at_once(policy)
        self._fallen = False
        if message.receipt is not None:
            self._start_again()

    def _keeps(self, step: JudgedStep, policy: Policy) -> Iterator[str]:
        """INFER-11: what is whole of the reply stays; its calls, or a prompt to go on, lead on, while one is left."""
        turn, due = step.turn_before, to_keep(step)
        if self._failed is None or due is None or turn is None:
            return
        if not due.calls and turn.recovery.continuations >= policy.on_truncation.continuations:
            self._failed = evolve(self._failed, kept=True)
            return
        self._failed = evolve(self._failed, gone_on=True)
        yield from self._takes(Way.GO_ON, policy)
        if due.calls:
            self._unstreamed = False
            self._start_again()
        else:
            self._reason = RequestReason.BROKEN_STREAM_RECOVERY

    def _asks_at_once(self, policy: Policy) -> Iterator[str]:
        """The next request is prepared without more: its reply is to be whole, or another model is asked."""
        if self._failed is None:
            return
        if self._open_way(self._failed, policy) is Way.UNSTREAMED:
            yield from self._takes(Way.UNSTREAMED, policy)
            self._unstreamed = True
            return
        yield from self._takes(Way.NEXT_MODEL, policy)
        self._unstreamed = False
        self._place += 1
        self._start_again()

    def _asks(self, asked: CallModel, policy: Policy) -> Iterator[str]:
        """RETRY-6: the models are asked in order, and never back within a turn."""
        again = self._failed is not None or self._fallen
        self._fallen = False
        yield from self._asks_at_once(policy)
        models = (policy.model, *policy.fallback_models)
        due = models[min(self._place, len(models) - 1)]
        if asked.request.model != due:
            yield f"request {asked.operation} asks model {asked.request.model}, and {due} is due"
        if again and asked.request.reason is not RequestReason.ERROR_RETRY:
            yield f"request {asked.operation} follows a failure, and its reason is {asked.request.reason.value}"
        if self._reason is not None and asked.request.reason is not self._reason:
            due_for = self._reason.value
            yield f"request {asked.operation} is due for {due_for}, and its reason is {asked.request.reason.value}"
        if asked.request.stream is self._unstreamed:
            how = "whole" if self._unstreamed else "as a stream"
            yield f"the reply to request {asked.operation} is to be asked for {how}"
        self._reason = None

    # --- what is shown, and the end ---------------------------------------------------------------------

    def _shows(self, shown: ErrorShown, step: JudgedStep, policy: Policy) -> Iterator[str]:
        if self._failed is not None and shown.error is self._failed.error:
            self._failed = evolve(self._failed, shown=self._failed.shown + 1)
        if policy.errors is ErrorDisplay.WITHHELD and not step.told(TurnEnded):
            yield f"the error {shown.error.value} is shown, though the turn goes on"

    def _ends(self, ended: TurnEnded, step: JudgedStep, policy: Policy) -> Iterator[str]:
        """RETRY-7: a failure that nothing recovers ends the turn, or the run."""
        failed = self._failed
        if failed is not None and ended.reason in (TurnEndReason.ERROR, TurnEndReason.REFUSAL):
            yield from self._takes(Way.NONE, policy)
            refused = failed.error is ErrorClass.REFUSED
            if ended.reason is not (TurnEndReason.REFUSAL if refused else TurnEndReason.ERROR):
                yield f"the failure {failed.error.value} ends the turn as {ended.reason.value}"
            over = policy.lifetime is Lifetime.TASK or (policy.on_error is not OnError.REST and not refused)
            if over is not isinstance(step.after, Done):
                told = "goes on" if over else "ends with it"
                yield f"the failure {failed.error.value} is not recovered, and the run {told}"
        self._failed, self._fed_back, self._place, self._reason = None, False, 0, None
        self._fallen = self._unstreamed = False
        self._start_again()
