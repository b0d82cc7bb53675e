"""Witnesses of law PROGRESS: how often each recovery was tried, and a measure that every recovery lowers."""

import math
from collections.abc import Iterator
from typing import final

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import CompactionStrategy, NudgesCount, OnBrokenStream, OutputDemand, TruncatedCalls
from loopkernel.data.effects import CallModel, Effect, Request
from loopkernel.data.events import MessageAdded, ReplyEnded, TurnEnded
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import State
from loopkernel.data.words import RequestReason, StopReason
from loopkernel.laws.accounts.cutting import is_left_by_cut
from loopkernel.laws.shadow.turn import TurnTold
from loopkernel.laws.views import turn_of

MOST_HOOK_RETRIES = 3  # in a row (rule HOOK-2)
LONGEST_PAUSE = 10  # how often in a row a paused reply is continued (rule INFER-4)

_ESCALATE, _CONTINUE = RequestReason.MAX_OUTPUT_TOKENS_ESCALATE, RequestReason.MAX_OUTPUT_TOKENS_RECOVERY
_NUDGE, _UNPAUSE = RequestReason.NUDGE, RequestReason.TOKEN_BUDGET_CONTINUATION
_COLLAPSE, _COMPACT = RequestReason.COLLAPSE_DRAIN_RETRY, RequestReason.REACTIVE_COMPACT_RETRY
_HOOK, _STOP = RequestReason.HOOK_RETRY, RequestReason.STOP_HOOK_BLOCKING
_MISSING, _REFUSAL = RequestReason.MISSING_CALLS, RequestReason.REFUSAL
_BROKEN = RequestReason.BROKEN_STREAM_RECOVERY
_AFTER_FAILURE = frozenset({RequestReason.ERROR_RETRY, _COLLAPSE, _COMPACT, _ESCALATE, _CONTINUE, _BROKEN})
_AFTER_REPLY = frozenset({_NUDGE, _UNPAUSE, _MISSING, _REFUSAL})


def left_after_failure(
    policy: Policy, session: Session, turn: Turn, answered: int = 0, added: int = 0, grown: int = 0
) -> tuple[int, ...]:
    """What is left to try when a reply fails, or is cut at its limit: each try lowers one, and none before that.

    The model can be told once, each next model asked once, each higher limit and each prompt to go on given once, the
    reply asked for whole once, each retry made once, the thread compacted once, or a window as often as it holds
    messages, each result cleared once, and shortened: so many results were `answered` since, in so many messages
    `added`, and what results hold has `grown`.
    """
    used = turn.recovery
    return (
        int(not used.fed_back),
        len(policy.fallback_models) - used.model,
        len(policy.on_truncation.escalate_to) - used.raised,
        policy.on_truncation.continuations - used.continuations,
        int(not used.unstreamed),
        (0 if policy.retry is None else policy.retry.retries) - used.retries,
        int(not used.compacted),
        (_not_left_by_cuts(session) + added) * is_window(policy),
        session.bodies + answered,
        (_oldest_results(session) + grown) * shortens(policy),
    )


def is_window(policy: Policy) -> bool:
    """Whether the policy cuts the thread to a window, as often as it takes; a summary is tried once (rule INFER-8)."""
    return policy.compaction is not None and policy.compaction.strategy is CompactionStrategy.WINDOW


def shortens(policy: Policy) -> bool:
    """Whether the policy shortens results where a prompt is too long; else no request is made for being shorter."""
    return policy.compaction is not None and policy.compaction.shorten_results is not None


def _demands_until_given(policy: Policy) -> bool:
    """Whether an output that was demanded once is demanded by each request of the turn (rule CALL-5)."""
    required = policy.output_required and policy.output_tool is not None
    return required and policy.output_demand is OutputDemand.UNTIL_GIVEN


def _oldest_results(session: Session) -> int:
    """How much the first message of results holds, which is the one that is shortened."""
    results = (message for message in session.thread.messages if isinstance(message, ResultMessage))
    return next(map(_weight, results), 0)


def _weight(message: Message) -> int:
    """The characters of its results, those of their media too."""
    if not isinstance(message, ResultMessage):
        return 0
    blocks = [block for result in message.results for block in result.content]
    return sum(len(block.text if isinstance(block, TextBlock) else block.data) for block in blocks)


def _not_left_by_cuts(session: Session) -> int:
    """How many messages are neither a summary nor a gap note: those stand in front, behind the task at most."""
    messages = session.thread.messages
    front = [messages[place] for place in range(min(len(messages), 3))]
    return len(messages) - sum(map(is_left_by_cut, front))


def left_after_reply(policy: Policy, turn: Turn) -> tuple[int, ...]:
    """What is left to try when a reply leads nowhere: the output demanded, an empty one nudged, a paused one gone on.

    So too one that lacks its calls asked for again, and a refusal told.

    Such a reply is complete: after it, what is left to try after a failure is whole again.
    """
    return (
        int(not turn.demanded),
        policy.empty_reply_nudges - turn.nudges,
        (policy.missing_call_retries or 0) - turn.missing,
        policy.refusal_notes - turn.refusals,
        LONGEST_PAUSE - turn.pauses,
    )


def left_to_hooks(policy: Policy, turn: Turn) -> dict[RequestReason, int]:
    """How often hooks may still have a reply repeated, and keep the turn going (rule HOOK-2)."""
    return {_HOOK: MOST_HOOK_RETRIES - turn.hook_retries, _STOP: policy.stop_hook_limit - turn.blocks}


@final
class Recoveries:
    """The recoveries of the turn, counted by what their requests say; and what was left at the last request."""

    def __init__(self) -> None:
        self._times: dict[RequestReason, int] = {}
        self._demanded = False
        self._last: Request | None = None
        self._turn: Turn | None = None  # at the last request
        self._session: Session | None = None
        self._spoken = False  # the user's words went in after it
        self._answered = 0  # results that went in after it: those of a failed reply that is kept (rule TOOL-9)

        self._added = self._grown = 0  # messages, the same, and their characters

    def take(self, effect: Effect, told: TurnTold, after: State) -> Iterator[str]:
        """What is wrong with this effect."""
        if isinstance(effect, TurnEnded):
            self._times, self._demanded, self._last, self._turn = {}, False, None, None
        elif isinstance(effect, ReplyEnded):
            self._whole(effect.stop)
        elif isinstance(effect, MessageAdded):
            message = effect.message
            if isinstance(message, AssistantMessage):
                self._times.pop(_HOOK, None)  # a reply is kept
                self._called(told, after)
            elif isinstance(message, ResultMessage):
                self._answered += len(message.results)
            self._added += 1
            self._grown += _weight(message)
            self._spoken = self._spoken or (isinstance(message, UserMessage) and message.receipt is not None)
        elif isinstance(effect, CallModel) and after.session is not None:
            if told.open and told.stopped_by_itself and effect.request.forced_tool is None:
                yield f"request {effect.operation} follows, though the model has stopped by itself"
            turn = turn_of(after)
            yield from self._counted(effect.request, after.session.settings.policy)
            if turn is not None:
                yield from self._counted_in_state(turn)
                yield from self._lowered(effect.request, after.session, turn)
            self._last, self._turn, self._session = effect.request, turn, after.session
            self._spoken, self._answered, self._added, self._grown = False, 0, 0, 0

    def _whole(self, stop: StopReason) -> None:
        """A reply that was not cut, or did not pause, begins another row."""
        self._times.pop(_COMPACT, None)
        if stop is not StopReason.MAX_TOKENS:
            self._times.pop(_ESCALATE, None)
            self._times.pop(_CONTINUE, None)
        if stop is not StopReason.PAUSE:
            self._times.pop(_UNPAUSE, None)

    def _called(self, told: TurnTold, after: State) -> None:
        """A reply with calls begins another row of stops for calls that did not come and, by policy, of nudges."""
        if told.calls and after.session is not None:
            self._times.pop(_MISSING, None)
            if after.session.settings.policy.nudges_count is NudgesCount.ROUND:
                self._times.pop(_NUDGE, None)

    def _counted_in_state(self, turn: Turn) -> Iterator[str]:
        """What the state counts of these is as often as they were asked for."""
        counts = {_NUDGE: turn.nudges, _MISSING: turn.missing, _REFUSAL: turn.refusals}
        for reason, count in counts.items():
            if self._turn is None:
                self._times[reason] = count  # what was before is not known
            elif count != self._times.get(reason, 0):
                yield f"{count} requests for {reason.value} are counted, and {self._times.get(reason, 0)} were made"

    def _counted(self, request: Request, policy: Policy) -> Iterator[str]:
        """Each recovery is tried no more often than policy says; a required output is demanded once (CALL-5)."""
        if request.forced_tool is not None:
            if self._demanded and request.reason is _NUDGE:
                yield f"request {request.number} demands the output a second time"
            self._demanded = True
            if request.reason is _NUDGE or policy.output_demand is OutputDemand.ONCE:
                return
        elif self._demanded and _demands_until_given(policy):
            yield f"request {request.number} no longer demands the output, which has not been given"
        reason = request.reason
        if reason is RequestReason.NEXT_TURN:  # the calls of a reply are answered, also of one that paused
            self._times.pop(_UNPAUSE, None)
            runs = policy.on_truncation.calls is TruncatedCalls.RUN or policy.on_broken_stream is OnBrokenStream.KEEP
            if runs:  # also of one that was cut or broke, which ends its row
                self._times.pop(_ESCALATE, None)
                self._times.pop(_CONTINUE, None)
        reason = _CONTINUE if reason is _BROKEN else reason
        times = self._times[reason] = self._times.get(reason, 0) + 1
        most = {
            _NUDGE: policy.empty_reply_nudges,
            _MISSING: policy.missing_call_retries or 0,
            _REFUSAL: policy.refusal_notes,
            _UNPAUSE: LONGEST_PAUSE,
            _ESCALATE: len(policy.on_truncation.escalate_to),
            _CONTINUE: policy.on_truncation.continuations,
            _COMPACT: math.inf if is_window(policy) else 1,
            _HOOK: MOST_HOOK_RETRIES,
            _STOP: policy.stop_hook_limit,
        }
        if reason in most and times > most[reason] and self._same_policy(policy):
            yield f"request {request.number} is number {times} for {reason.value} in a row, and {most[reason]} may be"
        if reason is _ESCALATE and self._last is not None and not _higher(request, self._last):
            yield f"request {request.number} asks again for a reply that was cut, under no higher limit"

    def _same_policy(self, policy: Policy) -> bool:
        """Whether what was counted was counted under this policy."""
        return self._session is None or self._session.settings.policy == policy

    def _lowered(self, request: Request, session: Session, turn: Turn) -> Iterator[str]:
        """A recovery lowers what is left to try since the last request of the turn, in the order of the measure."""
        before = self._turn
        if before is None or self._session is None or before.number != turn.number or self._spoken:
            return
        policy = session.settings.policy
        if request.reason in _AFTER_FAILURE:
            was = left_after_failure(policy, self._session, before, self._answered, self._added, self._grown)
            left = left_after_failure(policy, session, turn)
        elif request.reason in _AFTER_REPLY:
            was, left = left_after_reply(policy, before), left_after_reply(policy, turn)
        elif request.reason in (_HOOK, _STOP):
            was = (left_to_hooks(policy, before)[request.reason],)
            left = (left_to_hooks(policy, turn)[request.reason],)
        else:
            return
        if not left < was:
            yield f"request {request.number} is made for {request.reason.value}, and no less is left to try than before"


def _higher(request: Request, last: Request) -> bool:
    now, before = request.max_output_tokens, last.max_output_tokens
    return now is not None and (before is None or now > before)
