"""Runs whose call is answered and which have not stopped: answered is not stopped (rules TOOL-17 and TOOL-20)."""

from attrs import evolve

from loopkernel.data.blocks import TextBlock, UserBlock
from loopkernel.data.effects import AbortTool
from loopkernel.data.events import LeaseBroken
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId, ModelOperation, OperationKind, RunOperation, TimerOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import BackgroundEnd, Inbox, Session
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import CancelReason, TimerPurpose
from loopkernel.loop.algorithms.scheduling import stop, unpark
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.loop.algorithms.wording import LOST, background_end_text, cancelled_text
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.history.thread import add_blocks


def held_run(session: Session, operation: RunOperation) -> HeldRun | None:
    """The held run of that operation."""
    return next((run for run in session.held if run.operation == operation), None)


def leased_until(session: Session, timer: TimerOperation) -> HeldRun | None:
    """The aborted run whose grace time this timer bounds."""
    return next((run for run in session.held if run.grace is not None and run.grace.operation == timer), None)


def background_run(session: Session, call: CallId) -> HeldRun | None:
    """The run in the background that the call has started."""
    return next((run for run in session.held if run.background and run.call == call), None)


# --- aborted runs ---------------------------------------------------------------------------------------


def abort_run(draft: Draft[L], run: HeldRun, reason: CancelReason) -> Draft[L]:
    """The run is to stop: it keeps its resources until it has, or the grace time has passed."""
    draft = draft.tell(AbortTool(run.operation, reason)).abandon(OperationKind.RUN, run.operation)
    draft, grace = draft.start_timer(TimerPurpose.GRACE, draft.stamp.now_ms + draft.session.settings.policy.grace_ms)
    return draft.with_session(evolve(draft.session, held=(*draft.session.held, evolve(run, grace=grace))))


def has_stopped(draft: Draft[L], run: HeldRun) -> Draft[L]:
    """The aborted run has stopped."""
    return _free(draft, run).close_timer(run.grace)


def grace_is_over(draft: Draft[L], run: HeldRun) -> Draft[L]:
    """The aborted run did not stop in time: its resources are taken from it."""
    return _free(draft, run).tell(LeaseBroken(run.call))


def _free(draft: Draft[L], run: HeldRun) -> Draft[L]:
    """The run, of this reply or another, holds nothing any more."""
    draft = draft.with_session(without_run(draft.session, run))
    if draft.ledger is None:
        return draft
    return Draft(draft.session, draft.stamp, _freed(draft.ledger, run), draft.told)


def _freed(ledger: Ledger, run: HeldRun) -> Ledger:
    if ledger.plan is None:
        return ledger
    own = run.call.reply == ledger.reply
    return evolve(ledger, plan=stop(ledger.plan, run.call.position - 1) if own else unpark(ledger.plan))


def without_run(session: Session, run: HeldRun) -> Session:
    """The session in which the run is held no more."""
    return evolve(session, held=tuple(held for held in session.held if held is not run))


# --- runs in the background -----------------------------------------------------------------------------


def has_handle(draft: Draft[L], run: HeldRun) -> Draft[L]:
    """A run that a restart has repeated says that it goes on in the background, as the one before it did."""
    told, session = evolve(run, handle=True), draft.session
    return draft.with_session(evolve(session, held=tuple(told if held is run else held for held in session.held)))


def background_ended(draft: Draft[L], run: HeldRun, output: ToolOutput, failed: bool) -> Draft[L]:
    """The run in the background has ended: its end waits for the next request."""
    how = "has failed" if failed else "has ended"
    return _noted(_free(draft, run), run, how, shortened(output.content, draft.session.settings.policy.result_limit))


def background_lost(draft: Draft[L], run: HeldRun) -> Draft[L]:
    """Nobody will say how the run in the background has ended: that is what waits for the next request (TOOL-16)."""
    return _noted(_free(draft, run), run, "is lost", (TextBlock(LOST),))


def give_up_in_background(draft: Draft[L], run: HeldRun, reason: CancelReason) -> Draft[L]:
    """The run in the background ends without an outcome of its own; the model is told why."""
    draft = draft.with_session(without_run(draft.session, run))
    return _noted(draft, run, "was stopped", (TextBlock(cancelled_text(reason)),))


def _noted(draft: Draft[L], run: HeldRun, how: str, content: tuple[UserBlock, ...]) -> Draft[L]:
    inbox: Inbox = draft.session.inbox
    end = BackgroundEnd(run.call, (TextBlock(background_end_text(run.tool, str(run.call), how)), *content))
    return draft.with_session(evolve(draft.session, inbox=evolve(inbox, background=(*inbox.background, end))))


def forget_background(draft: Draft[L], reply: ModelOperation) -> Draft[L]:
    """What runs of that reply have to tell is of no more interest: their calls leave the thread."""
    inbox = draft.session.inbox
    ends = tuple(end for end in inbox.background if end.call.reply != reply)
    if ends == inbox.background:
        return draft
    return draft.with_session(evolve(draft.session, inbox=evolve(inbox, background=ends)))


def abort_in_background(draft: Draft[L], run: HeldRun, reason: CancelReason) -> Draft[L]:
    """The run in the background is to stop; it holds its resources until it has."""
    return abort_run(give_up_in_background(draft, run, reason), run, reason)


def abort_all_in_background(draft: Draft[L], reason: CancelReason, *, reply: ModelOperation | None = None) -> Draft[L]:
    """Every run in the background is to stop, or those of one reply (rule TOOL-20)."""
    for run in draft.session.held:
        if run.background and (reply is None or run.call.reply == reply):
            draft = abort_in_background(draft, run, reason)
    return draft


def abort_held_runs(draft: Draft[L]) -> Draft[L]:
    """The session is over: what runs in the background is to stop, and nothing waits for it, or for any other run."""
    if not draft.session.held:
        return draft
    for run in draft.session.held:
        if run.background:
            draft = draft.abandon(OperationKind.RUN, run.operation)
            draft = draft.tell(AbortTool(run.operation, CancelReason.DISPOSED))
        draft = draft.close_timer(run.grace)
    return draft.with_session(evolve(draft.session, held=()))


def inject_background_ends(draft: Draft[L]) -> Draft[L]:
    """What ended in the background goes into the thread, before the next request."""
    ends = draft.session.inbox.background
    if not ends:
        return draft
    for end in ends:
        draft = add_blocks(draft, end.content, UserOrigin.BACKGROUND_RESULT)
    return draft.with_session(evolve(draft.session, inbox=evolve(draft.session.inbox, background=())))
