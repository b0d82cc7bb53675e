"""Trace laws about turns: BUDGET, PROGRESS and RETRY-LAW.

STATE-8 (run-started first; one turn-ended event for each turn, on every path) is judged under PROGRESS: that
every turn ends, once, is what "the run comes to rest" means, seen from outside.
"""

from collections.abc import Iterator, Sequence
from typing import final

from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import (
    CallAppeared,
    LimitReached,
    MessageAdded,
    Refused,
    ReplyEnded,
    ReplyGrew,
    RetryScheduled,
    RunStarted,
    TurnEnded,
)
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelUsage
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Confirming, Executing, Finishing, Initial, State, Streaming, Thinking
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import CallStatus, LimitName, RefusalReason, RequestReason, StopReason, TurnEndReason
from loopkernel.laws.reports import Breach
from loopkernel.laws.views import at_rest, turn_of
from loopkernel.replay import StepRecord

LONGEST_PAUSE = 10  # how often in a row a paused reply is continued (rule INFER-4)
_ENDS_BY_ITSELF = frozenset({StopReason.END_TURN, StopReason.STOP_SEQUENCE})


@final
class TurnTold:
    """The turn in progress as its events tell of it: replies, and what the last one was."""

    def __init__(self, start: State) -> None:
        turn = turn_of(start)
        self.open = turn is not None
        self.replies = 0 if turn is None else turn.replies
        self.stop: StopReason | None = None  # of the last reply; None before the first and while one streams
        self.calls = isinstance(start, Streaming) and len(start.ledger.entries) > 0
        self.text = False
        self.spoken = False  # the user's words went in after the last reply

    def resume(self, record: StepRecord) -> None:
        """A released thread, of which calls wait for a person, goes on in a new turn (rule CANCEL-2)."""
        before = record.before
        if isinstance(before, Initial) and before.ledger is not None and turn_of(record.after) is not None:
            self.open = True

    def take(self, effect: Effect, policy: Policy) -> None:
        """The turn after this effect."""
        if isinstance(effect, CallModel):
            self.open, self.stop, self.calls, self.text, self.spoken = True, None, False, False, False
        elif isinstance(effect, ReplyGrew):
            self.text = self.text or (not effect.reasoning and effect.text.strip() != "")
        elif isinstance(effect, CallAppeared):
            self.calls = True
        elif isinstance(effect, ReplyEnded):
            self.stop = effect.stop
            if self.calls or policy.turn_limit_counts is TurnLimitCounts.REPLIES:
                self.replies += 1
        elif isinstance(effect, MessageAdded):
            if isinstance(effect.message, UserMessage) and effect.message.receipt is not None:
                self.open, self.spoken = True, True
        elif isinstance(effect, TurnEnded):
            self.open, self.replies, self.stop, self.spoken = False, 0, None, False

    @property
    def stopped_by_itself(self) -> bool:
        """Whether the last reply says something, calls nothing, and nobody has spoken since."""
        return self.stop in _ENDS_BY_ITSELF and self.text and not self.calls and not self.spoken


# --- BUDGET -------------------------------------------------------------------------------------------


def budget(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """`max_turns` bounds the replies of a turn and is named only when it does; usage is billed once, as reported."""
    if not records:
        return
    told = TurnTold(records[0].before)
    bill = Bill(records[0].before)
    for step, record in enumerate(records):
        for wrong in bill.take(record):
            yield Breach("BUDGET", step, wrong)
        if record.after.session is None:
            continue
        policy = record.after.session.settings.policy
        told.resume(record)
        for effect in record.effects:
            for wrong in _over(effect, told, policy):
                yield Breach("BUDGET", step, wrong)
            told.take(effect, policy)


def _over(effect: Effect, told: TurnTold, policy: Policy) -> Iterator[str]:
    """LIMIT-1 at this effect. Tokens, cost, calls and wall time are not bounded yet (rule LIMIT-2)."""
    limit = policy.max_turns
    if isinstance(effect, CallModel):
        if limit is not None and told.replies >= limit:
            yield f"request {effect.operation} is made after {told.replies} replies, and max_turns is {limit}"
    elif effect_of_limit(effect):
        if limit is None or told.replies < limit:
            yield f"max_turns is said to be reached after {told.replies} replies, and is {limit}"
        if told.stopped_by_itself and not policy.output_required:  # else another request would demand the output
            yield "the model stopped by itself, and the turn ends as max_turns"


def effect_of_limit(effect: Effect) -> bool:
    """Whether the effect says that `max_turns` was reached."""
    if isinstance(effect, LimitReached):
        return effect.limit is LimitName.MAX_TURNS
    return isinstance(effect, TurnEnded) and effect.reason is TurnEndReason.MAX_TURNS


@final
class Bill:
    """What the reports of the run's model calls come to: by maximum within a reply, by sum across them (INFER-3)."""

    def __init__(self, start: State) -> None:
        session = start.session
        self._total = NO_USAGE if session is None else session.usage
        self._of_reply: dict[ModelOperation, Usage] = {}
        if session is not None:
            for call in session.operations.abandoned_models:
                self._of_reply[call.operation] = call.counted
        if isinstance(start, Streaming):
            self._of_reply[start.reply.operation] = start.reply.usage
            self._total = self._total.plus(start.reply.usage)

    def take(self, record: StepRecord) -> Iterator[str]:
        """The bill after this step, compared with the kernel's wherever no reply is open."""
        delta = record.context.delta
        if isinstance(delta, ModelUsage | ModelCompleted | ModelFailed) and billed(record):
            before = self._of_reply.get(delta.operation, NO_USAGE)
            merged = before.most(delta.usage)
            self._of_reply[delta.operation] = merged
            self._total = self._total.plus(merged.beyond(before))
        session = record.after.session
        if session is not None and not isinstance(record.after, Streaming) and session.usage != self._total:
            yield f"usage is {session.usage}, and the reports come to {self._total}"
            self._total = session.usage


def billed(record: StepRecord) -> bool:
    """Whether a report's usage counts: when it is accepted, and when it is stale (rule DELTA-2)."""
    refused = [effect.reason for effect in record.effects if isinstance(effect, Refused)]
    return not refused or RefusalReason.STALE in refused


# --- PROGRESS -----------------------------------------------------------------------------------------


def progress(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """Recoveries in a row are bounded, a state that can be seen waits for something, and every turn ends once."""
    if not records:
        return
    told = TurnTold(records[0].before)
    recoveries = Recoveries()
    started = records[0].before.session is not None
    for step, record in enumerate(records):
        session = record.after.session
        told.resume(record)
        for effect in record.effects:
            for wrong in (
                *_turn_ends(effect, told, started, record.after),
                *recoveries.take(effect, told, record.after),
            ):
                yield Breach("PROGRESS", step, wrong)
            started = started or isinstance(effect, RunStarted)
            if session is not None:
                told.take(effect, session.settings.policy)
        for wrong in _rests(record.after, told):
            yield Breach("PROGRESS", step, wrong)


def _turn_ends(effect: Effect, told: TurnTold, started: bool, after: State) -> Iterator[str]:
    """STATE-8: the run starts once and first; a turn ends once, with the usage of the run."""
    if isinstance(effect, RunStarted):
        if started:
            yield "the run is said to start a second time"
    elif not started and not isinstance(effect, Refused):  # what comes before the creation is refused
        yield f"{type(effect).__name__} comes before the run is said to start"
    elif isinstance(effect, TurnEnded):
        if not told.open:
            yield f"a turn ends as {effect.reason.value}, and none is open"
        if after.session is not None and effect.usage != after.session.usage:
            yield f"the turn ends with usage {effect.usage}, and the run has used {after.session.usage}"


@final
class Recoveries:
    """How often in a row the same recovery was tried: empty replies nudged, paused ones continued.

    A required output that is missing is asked for once in a turn (rule CALL-5).
    """

    def __init__(self) -> None:
        self._reason: RequestReason | None = None
        self._times = 0
        self._demanded = False

    def take(self, effect: Effect, told: TurnTold, after: State) -> Iterator[str]:
        """What is wrong with this request, if it is one: too many in a row, or none was called for."""
        self._demanded = self._demanded and not isinstance(effect, TurnEnded)
        if not isinstance(effect, CallModel) or after.session is None:
            return
        if effect.request.forced_tool is not None:
            if self._demanded:
                yield f"request {effect.operation} demands the output a second time"
            self._demanded = True
            return
        reason, number = effect.request.reason, effect.operation
        self._times = self._times + 1 if reason is self._reason else 1
        self._reason = reason
        nudges = after.session.settings.policy.empty_reply_nudges
        if reason is RequestReason.NUDGE and self._times > nudges:
            yield f"request {number} is nudge number {self._times} in a row, and {nudges} are allowed"
        if reason is RequestReason.TOKEN_BUDGET_CONTINUATION and self._times > LONGEST_PAUSE:
            yield f"request {number} continues a paused reply for the {self._times}th time in a row"
        if told.open and told.stopped_by_itself:
            yield f"request {number} follows, though the model has stopped by itself"


def _rests(state: State, told: TurnTold) -> Iterator[str]:
    """No state is left that nothing can move; at rest no turn is open, and nowhere else is none."""
    if at_rest(state):
        if told.open:
            yield f"the state is {type(state).__name__}, and the turn has not ended"
    elif turn_of(state) is not None and not told.open:
        yield f"the state is {type(state).__name__}, and its turn has ended"
    stuck = False
    if isinstance(state, Executing | Confirming):
        stuck = not state.session.held and not any(
            entry.check is not None or entry.status in (CallStatus.IN_PROGRESS, CallStatus.BLOCKED_ON_USER)
            for entry in state.ledger.entries
        )
    elif isinstance(state, Thinking):
        stuck = state.gate is None
    elif isinstance(state, Finishing):
        stuck = state.hook is None and state.correction is None
    if stuck:
        yield f"the state is {type(state).__name__}, and nothing that it waits for is under way"


# --- RETRY-LAW ----------------------------------------------------------------------------------------


def retry_law(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """No retry is built yet: a failed model call ends the turn, so that none may be scheduled at all."""
    for step, record in enumerate(records):
        for effect in record.effects:
            if isinstance(effect, RetryScheduled):
                yield Breach("RETRY-LAW", step, f"retry {effect.attempt} is scheduled in {effect.delay_ms} ms")
        if isinstance(record.after, Backoff) and not isinstance(record.before, Backoff):
            yield Breach("RETRY-LAW", step, f"retry {record.after.attempt} is waited for")
