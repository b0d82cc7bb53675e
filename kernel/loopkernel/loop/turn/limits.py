"""What is left of the limits, before a request and between the calls of a reply (rules LIMIT-1 and LIMIT-2)."""

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.words import CallStatus, CancelReason, LimitName, TurnEndReason
from loopkernel.loop.algorithms.budget import budget_reached, turn_limit_reached
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.stopping import stop_call

OUT_OF_BUDGET = Ending(reason=TurnEndReason.BUDGET_EXCEEDED)


def budget_hit(session: Session, turn: Turn, now_ms: int) -> LimitName | None:
    """The budget of the run, or of the turn, that is spent."""
    return budget_reached(session.settings.policy, session.usage, now_ms - turn.opened_ms)


def limit_hit(session: Session, turn: Turn, now_ms: int) -> LimitName | None:
    """What stands in the way of another request."""
    spent = budget_hit(session, turn, now_ms)
    if spent is None and turn_limit_reached(session.settings.policy, turn.replies):
        return LimitName.MAX_TURNS
    return spent


def stop_starting(ledger: Ledger, session: Session, now_ms: int) -> Ledgered:
    """A budget is spent: the calls that have not started are answered as cancelled."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        if _has_to_start(ledger.entries[place]):
            stopped = stop_call(ledger, session, place, CancelReason.LIMIT, now_ms)
            ledger, session = stopped.ledger, stopped.session
            effects.extend(stopped.effects)
    return Ledgered(ledger, session, tuple(effects))


def _has_to_start(entry: LedgerEntry) -> bool:
    """Whether nothing of the call has run. A run that a crash has interrupted is repeated: it is awaited (RESUME-3)."""
    return entry.runs == 0 and (entry.status is CallStatus.QUEUED or isinstance(entry.person.wait, ApprovalWait))
