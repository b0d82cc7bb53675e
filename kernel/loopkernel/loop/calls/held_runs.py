"""Runs whose call is answered and which have not stopped: answered is not stopped (rules TOOL-17 and TOOL-20)."""

from attrs import evolve, frozen

from loopkernel.data.blocks import TextBlock, UserBlock
from loopkernel.data.effects import AbortTool, Effect
from loopkernel.data.events import LeaseBroken, ToolProgressed
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId, ModelOperation, OperationKind, RunOperation, TimerOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import BackgroundEnd, Session
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import CancelReason, LimitName, TimerPurpose
from loopkernel.loop.algorithms.scheduling import stop, unpark
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.loop.algorithms.wording import LOST, background_end_text, cancelled_text
from loopkernel.loop.gates.timers import close_timer, start_timer
from loopkernel.loop.history.thread import add_blocks


@frozen
class Ledgered:
    """A ledger and its session after a change, and what the change causes.

    `spent`: a call could have started, if this budget left room for it (rule LIMIT-2).
    """

    ledger: Ledger
    session: Session
    effects: tuple[Effect, ...] = ()
    spent: LimitName | None = None


def lease(session: Session, run: HeldRun, now_ms: int) -> tuple[Session, tuple[Effect, ...]]:
    """The run is aborted: it keeps its resources until it has stopped, or the grace time has passed."""
    deadline_ms = now_ms + session.settings.policy.grace_ms
    operations = session.operations.abandon(OperationKind.RUN, run.operation)
    operations, grace, started = start_timer(operations, TimerPurpose.GRACE, deadline_ms)
    held = (*session.held, evolve(run, grace=grace))
    return evolve(session, operations=operations, held=held), (started,)


def held_run(session: Session, operation: RunOperation) -> HeldRun | None:
    """The held run of that operation."""
    return next((run for run in session.held if run.operation == operation), None)


def leased_until(session: Session, timer: TimerOperation) -> HeldRun | None:
    """The aborted run whose grace time this timer bounds."""
    return next((run for run in session.held if run.grace is not None and run.grace.operation == timer), None)


def background_run(session: Session, call: CallId) -> HeldRun | None:
    """The run in the background that the call has started."""
    return next((run for run in session.held if run.background and run.call == call), None)


def let_go(session: Session, run: HeldRun) -> Session:
    """The run holds nothing any more."""
    return evolve(session, held=tuple(held for held in session.held if held is not run))


def freed(ledger: Ledger | None, run: HeldRun) -> Ledger | None:
    """The ledger once the run, of this reply or another, holds nothing any more."""
    if ledger is None or ledger.plan is None:
        return ledger
    if run.call.reply == ledger.reply:
        return evolve(ledger, plan=stop(ledger.plan, run.call.position - 1))
    return evolve(ledger, plan=unpark(ledger.plan))


def has_stopped(session: Session, run: HeldRun) -> tuple[Session, tuple[Effect, ...]]:
    """The aborted run has stopped."""
    return let_go(session, run), close_timer(run.grace)


def grace_is_over(session: Session, run: HeldRun) -> tuple[Session, tuple[Effect, ...]]:
    """The aborted run did not stop in time: its resources are taken from it."""
    return let_go(session, run), (LeaseBroken(run.call),)


def background_ended(session: Session, run: HeldRun, output: ToolOutput, failed: bool) -> Session:
    """The run in the background has ended: its end waits for the next request."""
    how = "has failed" if failed else "has ended"
    content = shortened(output.content, session.settings.policy.result_limit)
    return _noted(let_go(session, run), run, how, content)


def background_lost(session: Session, run: HeldRun) -> Session:
    """Nobody will say how the run in the background has ended: that is what waits for the next request (TOOL-16)."""
    return _noted(let_go(session, run), run, "is lost", (TextBlock(LOST),))


def has_handle(session: Session, run: HeldRun) -> Session:
    """A run that a restart has repeated says that it goes on in the background, as the one before it did."""
    told = evolve(run, handle=True)
    return evolve(session, held=tuple(told if held is run else held for held in session.held))


def forget_background(session: Session, reply: ModelOperation) -> Session:
    """What runs of that reply have to tell is of no more interest: their calls leave the thread."""
    ends = tuple(end for end in session.inbox.background if end.call.reply != reply)
    if ends == session.inbox.background:
        return session
    return evolve(session, inbox=evolve(session.inbox, background=ends))


def abort_background_of(
    session: Session, reply: ModelOperation, reason: CancelReason, now_ms: int
) -> tuple[Session, tuple[Effect, ...]]:
    """The reply is discarded: its runs in the background are stopped, and nothing is told of them."""
    effects: list[Effect] = []
    for run in session.held:
        if run.background and run.call.reply == reply:
            session, aborted = abort_in_background(session, run, reason, now_ms)
            effects.extend(aborted)
    return forget_background(session, reply), tuple(effects)


def background_progressed(run: HeldRun, text: str) -> tuple[Effect, ...]:
    """A run in the background says how far it is."""
    return (ToolProgressed(run.call, run.operation, text),)


def _noted(session: Session, run: HeldRun, how: str, content: tuple[UserBlock, ...]) -> Session:
    told = TextBlock(background_end_text(run.tool, str(run.call), how))
    end = BackgroundEnd(run.call, (told, *content))
    return evolve(session, inbox=evolve(session.inbox, background=(*session.inbox.background, end)))


def lost_in_background(session: Session, run: HeldRun, reason: CancelReason) -> Session:
    """The run in the background ends without an outcome of its own; the model is told why."""
    return _noted(let_go(session, run), run, "was stopped", (TextBlock(cancelled_text(reason)),))


def abort_in_background(
    session: Session, run: HeldRun, reason: CancelReason, now_ms: int
) -> tuple[Session, tuple[Effect, ...]]:
    """The run in the background is stopped; it holds its resources until it has."""
    session, effects = lease(lost_in_background(session, run, reason), run, now_ms)
    return session, (AbortTool(run.operation, reason), *effects)


def abort_all_in_background(session: Session, reason: CancelReason, now_ms: int) -> tuple[Session, tuple[Effect, ...]]:
    """Every run in the background is stopped (rule TOOL-20)."""
    effects: list[Effect] = []
    for run in session.held:
        if run.background:
            session, aborted = abort_in_background(session, run, reason, now_ms)
            effects.extend(aborted)
    return session, tuple(effects)


def inject_background_ends(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """What ended in the background goes into the thread, before the next request."""
    if not session.inbox.background:
        return session, ()
    effects: list[Effect] = []
    for end in session.inbox.background:
        session, added = add_blocks(session, end.content, UserOrigin.BACKGROUND_RESULT)
        effects.extend(added)
    return evolve(session, inbox=evolve(session.inbox, background=())), tuple(effects)


def drop_held(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """The session is over: what runs in the background is stopped, and nothing waits for it, or for any other run."""
    effects: list[Effect] = []
    for run in session.held:
        if run.background:
            operations = session.operations.abandon(OperationKind.RUN, run.operation)
            session = evolve(session, operations=operations)
            effects.append(AbortTool(run.operation, CancelReason.DISPOSED))
        effects.extend(close_timer(run.grace))
    return (evolve(session, held=()), tuple(effects)) if session.held else (session, ())
