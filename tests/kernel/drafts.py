"""Drafts for tests of what a step is made of, and what comes out of them."""

from typing import Protocol, TypeVar, overload

from loopkernel.data.effects import Effect
from loopkernel.data.events import Refused
from loopkernel.data.ledgers import Ledger
from loopkernel.data.sessions import Session, Stamp
from loopkernel.loop.calls.late_reports import LateReport
from loopkernel.loop.calls.schedule import OverBudget
from loopkernel.loop.draft import CallsDraft, Draft

L = TypeVar("L", Ledger, None)


@overload
def drafted(session: Session, now_ms: int = 0) -> Draft[None]: ...


@overload
def drafted(session: Session, now_ms: int = 0, *, ledger: Ledger) -> CallsDraft: ...


def drafted(session: Session, now_ms: int = 0, *, ledger: Ledger | None = None) -> Draft[None] | CallsDraft:
    """A draft of these, at that time, to which nothing was told yet."""
    stamp = Stamp(0, now_ms)
    return Draft(session, stamp, None) if ledger is None else Draft(session, stamp, ledger)


class WithCalls(Protocol):
    """A draft, or a state, that has calls."""

    @property
    def session(self) -> Session: ...

    @property
    def ledger(self) -> Ledger: ...


def fresh(found: WithCalls, now_ms: int = 0) -> CallsDraft:
    """A draft of its session and its calls, at that time, to which nothing was told yet."""
    return drafted(found.session, now_ms, ledger=found.ledger)


def outcome(
    draft: Draft[L] | LateReport[L] | Refused, before: Session | None = None
) -> tuple[Session, tuple[Effect, ...]]:
    """The session and the effects; what was refused leaves the session as it was."""
    if isinstance(draft, Refused):
        assert before is not None, f"refused: {draft}"
        return before, (draft,)
    found = draft.draft if isinstance(draft, LateReport) else draft
    return found.session, found.effects


def all_of(draft: CallsDraft) -> tuple[Ledger, Session, tuple[Effect, ...]]:
    """The ledger, the session and the effects."""
    return draft.ledger, draft.session, draft.effects


def unspent(ready: CallsDraft | OverBudget) -> CallsDraft:
    """The draft once all has started that may, which no budget stood in the way of."""
    assert not isinstance(ready, OverBudget)
    return ready
