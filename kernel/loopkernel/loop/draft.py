"""The draft of a step: what the session, and the calls of its reply, have become so far, and what happens outside.

A function of the loop takes the draft first and gives the next one back, so that it reads as what happens, in order:

    draft = draft.close_timer(entry.timer)
    draft = draft.tell(ToolEnded(result))

Nothing is changed in place. The effects are read off once, when the step is made. Who refuses a delta gives back the
`Refused` instead: the draft is dropped, and the state stays as it was.
"""

from typing import Any, Generic, TypeAlias, TypeVar, final

from attrs import evolve

from loopkernel.data.effects import CancelTimer, Effect, StartTimer, new_start_timer
from loopkernel.data.events import ErrorShown
from loopkernel.data.ids import OperationKind, TimerOperation
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.operations import Operations
from loopkernel.data.sessions import Session, ShownError, Stamp
from loopkernel.data.timers import Timer
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.words import ErrorClass, TimerPurpose

L = TypeVar("L", Ledger, None)  # a draft has a ledger where a reply has, or may have, calls
# All that was told before, and the last effect; or nothing. So one more costs the same at any length. Any: a pair that
# holds a pair of its own kind is a type, but none that can be compiled.
Told: TypeAlias = tuple[Any, ...]


@final
@frozen(eq=False, repr=False)
class Draft(Generic[L]):
    """The session, the calls of the reply, and the effects so far, as of the step's stamp."""

    session: Session
    stamp: Stamp
    ledger: L
    told: Told = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All that was told, in order."""
        told = self.told
        if not told:
            return ()
        backwards: list[Effect] = []
        while told:
            told, effect = told
            backwards.append(effect)
        return tuple(backwards[::-1])

    # --- changes --------------------------------------------------------------------------------------------

    def tell(self, *effects: Effect) -> "Draft[L]":
        """These happen next."""
        told = self.told
        for effect in effects:
            told = (told, effect)
        return new_draft(self.session, self.stamp, self.ledger, told)

    def with_session(self, session: Session, *effects: Effect) -> "Draft[L]":
        """The session has become this one, and these happen next."""
        told = self.told
        for effect in effects:
            told = (told, effect)
        return new_draft(session, self.stamp, self.ledger, told)

    def with_ledger(self, ledger: Ledger, *effects: Effect) -> "Draft[Ledger]":
        """The calls have become these, and these happen next."""
        told = self.told
        for effect in effects:
            told = (told, effect)
        return new_draft(self.session, self.stamp, ledger, told)

    def as_of(self, stamp: Stamp) -> "Draft[L]":
        """The step is counted, and timed, otherwise."""
        return new_draft(self.session, stamp, self.ledger, self.told)

    def without_ledger(self) -> "Draft[None]":
        """The calls are behind."""
        return new_draft(self.session, self.stamp, None, self.told)

    def put(self: "Draft[Ledger]", place: int, entry: LedgerEntry) -> "Draft[Ledger]":
        """The call at `place` has become this one."""
        return new_draft(self.session, self.stamp, self.ledger.put(place, entry), self.told)

    def show_error(self, error: ErrorClass, message: str) -> "Draft[L]":
        """The user sees the error from now on, until the next accepted delta (rule DELTA-5)."""
        shown = evolve(self.session, error=ShownError(error, message))
        return self.with_session(shown, ErrorShown(error, message))

    # --- operations -----------------------------------------------------------------------------------------

    def mint(self, kind: OperationKind) -> tuple["Draft[L]", int]:
        """One more operation of the kind is open."""
        operations, number = self.session.operations.mint(kind)
        return new_draft(self.session.updated(operations=operations), self.stamp, self.ledger, self.told), number

    def abandon(self, kind: OperationKind, number: int) -> "Draft[L]":
        """The operation is closed by something else than its own report."""
        return self.with_session(self.session.with_operations(self.session.operations.abandon(kind, number)))

    def start_timer(self, purpose: TimerPurpose, deadline_ms: int) -> tuple["Draft[L]", Timer]:
        """A new delay runs until the deadline (law TIMER-DATA)."""
        operations, timer, command = minted_timer(self.session.operations, purpose, deadline_ms)
        session = self.session.updated(operations=operations)
        return new_draft(session, self.stamp, self.ledger, (self.told, command)), timer

    def close_timer(self, timer: Timer | None) -> "Draft[L]":
        """What the delay, if there is one, was for is over."""
        return self if timer is None else self.tell(CancelTimer(timer.operation))


new_draft = maker(Draft)
CallsDraft = Draft[Ledger]  # of a reply with its calls


def minted_timer(
    operations: Operations, purpose: TimerPurpose, deadline_ms: int
) -> tuple[Operations, Timer, StartTimer]:
    """A new delay and what starts it, for whoever changes more of the session at once."""
    operations, number = operations.mint(OperationKind.TIMER)
    operation = TimerOperation(number)
    command = new_start_timer(operation=operation, purpose=purpose, deadline_ms=deadline_ms)
    return operations, Timer(operation, purpose, deadline_ms), command
