"""The turn in progress as its deltas and events tell of it: a witness that the laws about turns share."""

from typing import final

from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import CallAppeared, MessageAdded, ReplyEnded, ReplyGrew, ReplyRetracted, TurnEnded
from loopkernel.data.messages import AssistantMessage, Message, UserMessage, UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Initial, State, Streaming
from loopkernel.data.user_deltas import RetryNow
from loopkernel.data.words import StopReason
from loopkernel.laws.ending_laws import FIRST_REPLY
from loopkernel.laws.views import at_rest, refuses, turn_of

_KEEPS_GOING = frozenset({UserOrigin.STOP_HOOK, UserOrigin.CORRECTION})
_ENDS_BY_ITSELF = frozenset({StopReason.END_TURN, StopReason.STOP_SEQUENCE})


@final
class TurnTold:
    """Whether a turn is open, since when, how many replies it has had, and what the last one was."""

    def __init__(self, start: State) -> None:
        turn = turn_of(start)
        self.open = turn is not None
        self.opened_ms = 0 if turn is None else turn.opened_ms
        self.replies = 0 if turn is None else turn.replies
        self.stop: StopReason | None = None  # of the last reply; None before the first and while one streams
        self.calls = isinstance(start, Streaming) and len(start.ledger.entries) > 0
        self.text = False
        self.spoken = False  # somebody's words went in after the last reply: the user's, a stop hook's, a correction
        self._now_ms = 0

    def begin(self, record: StepRecord) -> None:
        """The step begins. Two things open a turn before any effect says so.

        The user retries at rest; or a released thread, of which calls wait for a person, goes on (rule CANCEL-2).
        """
        self._now_ms = record.after.stamp.now_ms
        before = record.before
        gone_on = isinstance(before, Initial) and before.ledger is not None and turn_of(record.after) is not None
        again = isinstance(record.context.delta, RetryNow) and at_rest(before) and not refuses(record)
        if gone_on or again:
            self._open()

    def take(self, effect: Effect, policy: Policy) -> None:
        """The turn after this effect."""
        if isinstance(effect, CallModel):
            self._open()
            self.stop, self.calls, self.text, self.spoken = None, False, False, False
        elif isinstance(effect, ReplyGrew):
            self.text = self.text or (not effect.reasoning and effect.text.strip() != "")
        elif isinstance(effect, CallAppeared):
            self.calls = True
        elif isinstance(effect, ReplyEnded):
            self.stop = effect.stop
        elif isinstance(effect, ReplyRetracted):
            self.stop, self.calls, self.text = None, False, False
        elif isinstance(effect, MessageAdded):
            self._add(effect.message, policy)
        elif isinstance(effect, TurnEnded):
            self.open, self.replies, self.stop, self.spoken = False, 0, None, False

    def _open(self) -> None:
        if not self.open:
            self.open, self.opened_ms = True, self._now_ms

    def _add(self, message: Message, policy: Policy) -> None:
        """A whole reply counts when it stays, which one that is asked again does not (rule LIMIT-1)."""
        if isinstance(message, UserMessage) and message.receipt is not None:
            self._open()
            self.spoken = True
        elif isinstance(message, UserMessage) and message.origin in _KEEPS_GOING:
            self.spoken = True
        elif isinstance(message, AssistantMessage) and message.stop is not None and message.reply >= FIRST_REPLY:
            self.replies += self.calls or policy.turn_limit_counts is TurnLimitCounts.REPLIES

    @property
    def stopped_by_itself(self) -> bool:
        """Whether the last reply says something, calls nothing, and nobody has spoken since."""
        return self.stop in _ENDS_BY_ITSELF and self.text and not self.calls and not self.spoken
