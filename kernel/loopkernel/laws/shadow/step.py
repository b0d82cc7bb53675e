"""One step as the laws read it: what several of them ask of it is found once."""

from collections.abc import Iterator, Mapping
from typing import TypeVar, final

from loopkernel.data.blocks import ToolResult
from loopkernel.data.effects import AbortTool, CallModel, Effect, Request
from loopkernel.data.events import MessageAdded, Refused, ToolEnded
from loopkernel.data.ids import CallId, RunOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Initial
from loopkernel.data.user_deltas import RetryNow
from loopkernel.data.words import CancelReason
from loopkernel.laws.changes import Change, changes
from loopkernel.laws.retakes import Retake, TakesAgain
from loopkernel.laws.shadow.counts import CallCounts
from loopkernel.laws.shadow.memory import Memory
from loopkernel.laws.shadow.turn import TurnTold
from loopkernel.laws.views import Start, at_rest, calls_kept, entry_of_call, held_in, ledger_in, turn_of

E = TypeVar("E", bound=Effect)


@final
class JudgedStep:
    """A step: the states before and after it, what came in, what went out, and what follows from these."""

    def __init__(
        self,
        record: StepRecord,
        turn: TurnTold,
        calls: CallCounts,
        memory: Memory,
        retakes: TakesAgain,
        *,
        is_last: bool = False,
    ) -> None:
        self.record, self.memory, self.is_last, self._retakes = record, memory, is_last, retakes
        self.before, self.after = record.before, record.after
        self.context, self.delta = record.context, record.context.delta
        self.effects = record.effects
        self.session_before, self.session = record.before.session, record.after.session
        self.policy: Policy | None = None if self.session is None else self.session.settings.policy
        self.refused = any(isinstance(effect, Refused) for effect in record.effects)
        self.taken = None if self.refused else self.delta  # what came in, if it was accepted
        self.ledger_before, self.ledger = ledger_in(record.before), ledger_in(record.after)
        self.calls_before, self.calls = calls_kept(record.before), calls_kept(record.after)
        self.held_before, self.held = held_in(record.before), held_in(record.after)
        self.turn_before, self.turn = turn_of(record.before), turn_of(record.after)
        self.starts = tuple([effect for effect in record.effects if isinstance(effect, Start)])
        self.added = tuple([effect.message for effect in self.told(MessageAdded)])
        inbox = None if self.session_before is None else self.session_before.inbox
        self.input_waits = inbox is not None and bool(inbox.queue or inbox.steers)  # before the step
        self.requests: tuple[Request, ...] = tuple(effect.request for effect in self.told(CallModel))
        self.ends: tuple[ToolResult, ...] = tuple(effect.result for effect in self.told(ToolEnded))
        self.ended: dict[CallId, ToolResult] = {result.call: result for result in self.ends}
        self.aborted: dict[RunOperation, CancelReason] = {one.operation: one.reason for one in self.told(AbortTool)}
        self.changes: tuple[Change, ...] = tuple(changes(self.calls_before, self.calls))
        self._turn_before, self._call_counts = turn, calls
        self._told_turns: tuple[TurnTold, ...] | None = None
        self._counted: tuple[tuple[Change, ...] | None, Mapping[str, int]] | None = None
        self._retake: Retake | None = None

    # What follows is found where it is asked for: most steps of an explorer change nothing, and are asked for none.

    @property
    def recounted(self) -> tuple[Change, ...] | None:
        """The calls that have changed since calls were counted last; None if there is no other ledger since."""
        return self._count()[0]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many calls of the ledger after the step are what."""
        return self._count()[1]

    def _count(self) -> tuple[tuple[Change, ...] | None, Mapping[str, int]]:
        if self._counted is None:
            self._counted = self._call_counts.of(self.calls), self._call_counts.counts
        return self._counted

    @property
    def turns(self) -> tuple[TurnTold, ...]:
        """The turn as it is told to be before each effect, and after the last."""
        if self._told_turns is None:
            self._told_turns = tuple(self._turns(self._turn_before))
        return self._told_turns

    def _turns(self, turn: TurnTold) -> Iterator[TurnTold]:
        """Two things open a turn before any effect says so.

        The user retries at rest; or a released thread, of which calls wait for a person, goes on (rule CANCEL-2).
        """
        now_ms = self.after.stamp.now_ms
        gone_on = isinstance(self.before, Initial) and self.before.ledger is not None and self.turn is not None
        if gone_on or (isinstance(self.taken, RetryNow) and at_rest(self.before)):
            turn = turn.opened(now_ms)
        yield turn
        for effect in self.effects:
            turn = (
                turn if self.policy is None else turn.after(effect, self.policy, now_ms, input_waits=self.input_waits)
            )
            yield turn

    @property
    def retake(self) -> Retake:
        """What is wrong with the step when it is taken again; who asks at one step asks at each."""
        if self._retake is None:
            self._retake = self._retakes.take(self.record, is_last=self.is_last)
        return self._retake

    def told(self, kind: type[E]) -> tuple[E, ...]:
        """The effects of a kind, in order."""
        return tuple([effect for effect in self.effects if isinstance(effect, kind)])

    def entry_before(self, call: CallId) -> LedgerEntry | None:
        """The call in the open reply before the step."""
        return entry_of_call(self.ledger_before, call)

    def entry(self, call: CallId) -> LedgerEntry | None:
        """The call in the open reply after the step."""
        return entry_of_call(self.ledger, call)

    def changed_calls(self) -> Iterator[tuple[LedgerEntry, LedgerEntry]]:
        """The calls of one reply that are not what they were, as they were and as they are."""
        if self.calls_before is not None and self.calls is not None and self.calls_before.reply == self.calls.reply:
            yield from ((old, new) for _, old, new in self.changes if old is not None and new is not None)
