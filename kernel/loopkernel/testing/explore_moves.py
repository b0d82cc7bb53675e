"""The deltas that the outside could send in a state: what is owed, what the user may want, and what comes ill-timed.

A scope bounds them, so that all runs within it can be explored.
"""

from collections.abc import Iterator

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId
from loopkernel.data.states import Initial, State
from loopkernel.data.thread_deltas import Acquired, Disposed, Resumed
from loopkernel.data.user_deltas import CancelAll, CancelCall, Discard, Enqueue, RetryNow, Say, Steer
from loopkernel.data.words import CancelReason
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explore_reports import answers, reports
from loopkernel.testing.explore_scope import RESTS, A, Move, MoveKind, Scope
from loopkernel.testing.explore_strays import strays


def moves(state: State, scope: Scope) -> Iterator[Move]:
    """Everything that may come in this state, within the scope."""
    for report in reports(state, scope):
        yield Move(MoveKind.REPORT, report)
    for answer in answers(state, scope):
        yield Move(MoveKind.ANSWER, answer)
    for wish in wishes(state, scope):
        yield Move(MoveKind.USER, wish)
    if scope.strays:
        for stray in strays(state):
            yield Move(MoveKind.ILL_TIMED, stray)


def wishes(state: State, scope: Scope) -> Iterator[Delta]:
    """What the user, and the owner of the thread, may want."""
    session = state.session
    if session is None:
        return
    if isinstance(state, Initial):
        yield from (Acquired(), Resumed())
        return
    if len(session.held) > scope.held:
        return
    inbox = session.inbox
    waiting = len(inbox.queue) + len(inbox.steers)
    key = None if inbox.keys else "k1"
    full = len(inbox.queue) >= session.settings.policy.queue_limit
    if scope.turns is None or session.counters.turns + waiting < scope.turns:
        if waiting < scope.waiting or full:
            yield Say(content=A, key=key)
            yield Enqueue(content=A, key=key)
        if waiting < scope.waiting and not inbox.steers:
            yield Steer(content=A, key=key)
        if isinstance(state, RESTS):
            yield RetryNow()
    if inbox.queue:
        yield Discard(None)
    if not isinstance(state, RESTS):
        yield CancelAll()
    for call in calls_to_cancel(state, scope):
        yield CancelCall(call)
    if scope.lives:
        yield Disposed()
    if scope.crashes:
        yield Resumed()
    yield from scope.also


def calls_to_cancel(state: State, scope: Scope) -> tuple[CallId, ...]:
    """The calls that are not answered yet, or whose run goes on in the background."""
    ledger, session = ledger_in(state), state.session
    entries = () if ledger is None else tuple(ledger.entries)
    cancelled = [e for e in entries if e.result is not None and e.result.reason is CancelReason.USER_CANCELLED]
    if scope.cancels is not None and len(cancelled) >= scope.cancels:
        return ()
    held = () if session is None else session.held
    return (*(e.call.id for e in entries if e.is_open), *(run.call for run in held if run.grace is None))
