"""The deltas that the outside could send in a state: what is owed, what the user may want, and what comes ill-timed.

A scope bounds them, so that all runs within it can be explored.
"""

from collections.abc import Iterator

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, MessageId
from loopkernel.data.messages import SENT_BY_USER, UserMessage
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.sessions import Session
from loopkernel.data.states import Backoff, Initial, State
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.user_deltas import (
    CancelAll,
    CancelCall,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    RetryNow,
    Say,
    Steer,
)
from loopkernel.data.words import CancelReason
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in
from loopkernel.testing.explorer.reports import answers, reports
from loopkernel.testing.explorer.scope import RESTS, A, Move, MoveKind, Scope
from loopkernel.testing.explorer.strays import strays


def moves(state: State, scope: Scope) -> Iterator[Move]:
    """Everything that may come in this state, within the scope, by a clock that stands but for delays that pass."""
    now_ms = state.stamp.now_ms
    deadlines = {timer.operation: timer.deadline_ms for timer in pending_timers(state)}
    for report in reports(state, scope):
        if isinstance(report, TimerFired):
            yield from _firings(report, deadlines[report.operation], scope)
        else:
            yield Move(MoveKind.REPORT, report, now_ms)
    for answer in answers(state, scope):
        yield Move(MoveKind.ANSWER, answer, now_ms)
    for wish in wishes(state, scope):
        yield Move(MoveKind.USER, wish, now_ms)
    if state.session is not None and not isinstance(state, Initial):
        yield Move(MoveKind.CRASH, Resumed(), now_ms, explored=scope.crashes)
    if scope.strays:
        for stray in strays(state):
            yield Move(MoveKind.ILL_TIMED, stray, now_ms)


def _firings(fired: TimerFired, deadline_ms: int, scope: Scope) -> Iterator[Move]:
    """The delay is reported to have passed: when it has, later, and a little early."""
    yield Move(MoveKind.REPORT, fired, deadline_ms)
    if scope.times:
        yield Move(MoveKind.REPORT, fired, deadline_ms + 1)
        yield Move(MoveKind.ILL_TIMED, fired, deadline_ms - 1)


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
        if scope.steers and waiting < scope.waiting and not inbox.steers:
            yield Steer(content=A, key=key)
        if isinstance(state, RESTS):
            yield RetryNow()
        if scope.edits:
            yield from (EditMessage(message=message, content=A) for message in _sent(session))
    yield from _recoveries(state, session)
    if inbox.queue:
        yield Discard(None)
    if not isinstance(state, RESTS):
        yield CancelAll()
    for call in calls_to_cancel(state, scope):
        yield CancelCall(call)
    if scope.lives:
        yield Disposed()
    if scope.forks and session.settings.lineage == 1:
        yield Forked(session_id="t")
    yield from scope.also


def _recoveries(state: State, session: Session) -> Iterator[Delta]:
    """What the user may want of an error, and of a request that is to be made again."""
    if isinstance(state, Backoff):
        yield RetryNow()
    if session.error is not None or isinstance(state, Backoff):
        yield DismissError()


def _sent(session: Session) -> tuple[MessageId, ...]:
    """The first and the last message that the user sent, those too that a compaction took out of the thread."""
    taken = [message for removal in session.compactions.removals for message in removal.messages]
    said = [*taken, *session.thread]
    sent = [message.id for message in said if isinstance(message, UserMessage) and message.origin in SENT_BY_USER]
    return tuple(dict.fromkeys((*sent[:1], *sent[-1:])))


def calls_to_cancel(state: State, scope: Scope) -> tuple[CallId, ...]:
    """The calls that are not answered yet, or whose run goes on in the background."""
    ledger, session = ledger_in(state), state.session
    entries = () if ledger is None else tuple(ledger.entries)
    cancelled = [e for e in entries if e.result is not None and e.result.reason is CancelReason.USER_CANCELLED]
    if scope.cancels is not None and len(cancelled) >= scope.cancels:
        return ()
    held = () if session is None else session.held
    return (*(e.call.id for e in entries if e.is_open), *(run.call for run in held if run.grace is None))
