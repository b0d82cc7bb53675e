"""Which states the explorer counts as one: a view of each, as far as it matters."""

from collections.abc import Callable

from attrs import evolve

from loopkernel.data.blocks import text_of
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry, Person, QuestionWait, Wait
from loopkernel.data.sessions import Session, Settings, Stamp, Turn
from loopkernel.data.states import Confirming, Executing, Initial, State, Streaming
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.laws.views import ledger_in, turn_of
from loopkernel.regions.user_input import NATURAL_ENDS
from loopkernel.testing.explore_scope import RESTS

View = Callable[[State], object]  # hashable; states with one view count as one


def without_time(state: State) -> object:
    """The state, whenever and however often it is reached: its version and time do not count."""
    return evolve(state, stamp=Stamp())


def outline(state: State) -> object:
    """What later steps depend on, and nothing else: runs of any length meet in finitely many outlines.

    Ids are left out, since the kernel only ever compares them; so is what is closed (messages, operations,
    receipts), which is only ever named in refusals, and when timers end, since the explorer's clock stands still. The
    laws are judged on whole states all the same, at every edge. That an outline hides nothing else is itself a test:
    states of one outline lead to the same outlines.
    """
    session = state.session
    if session is None:
        return Initial
    inbox = session.inbox
    ledger = state.ledger if isinstance(state, Initial) else ledger_in(state)
    return (
        type(state),
        _outline_of_settings(session.settings),
        len(session.thread) > 0,
        len(inbox.queue),
        len(inbox.steers),
        len(inbox.background) > 0,
        len(inbox.keys) > 0,
        session.error is not None,
        isinstance(state, RESTS) and (session.last_end is None or session.last_end in NATURAL_ENDS),
        _outline_of_turn(turn_of(state)),
        None if ledger is None else _outline_of_calls(ledger, session, isinstance(state, Streaming)),
        _outline_of_held_runs(session, ledger),
        tuple(type(piece) for piece in state.pieces) if isinstance(state, Streaming) else None,
        state.ending if isinstance(state, Executing | Confirming) else None,
    )


def _outline_of_settings(settings: Settings) -> object:
    """Approvals may be remembered any number of times; once is enough."""
    if not settings.remembered:
        return settings, frozenset[object]()
    return evolve(settings, remembered=()), frozenset(settings.remembered)


def _outline_of_turn(turn: Turn | None) -> object:
    return None if turn is None else (turn.reason, turn.replies, turn.nudges, turn.pauses, turn.demanded)


def _outline_of_calls(ledger: Ledger, session: Session, streaming: bool) -> object:
    held = {run.call for run in session.held}
    wanted = streaming or any(entry.is_open and entry.links is not None for entry in ledger.entries)
    return tuple(
        _outline_of_open(entry) if entry.is_open else _outline_of_closed(entry, wanted, entry.call.id in held)
        for entry in ledger.entries
    )


def _outline_of_open(entry: LedgerEntry) -> object:
    return (
        entry.call.tool,
        entry.call.input,
        entry.status,
        entry.check is not None,
        entry.verdict,
        entry.links,
        _outline_of_person(entry.person),
        entry.runs > 0,
        entry.timer is not None,
        len(entry.progress) > 0,
        entry.batch,
    )


def _outline_of_closed(entry: LedgerEntry, wanted: bool, held: bool) -> object:
    """What its answer means for the other calls and for the end of the turn, and what its run still holds."""
    result = entry.result
    if result is None:
        return None
    output = None
    if wanted and entry.status is CallStatus.DONE:  # others depend on it, and may refer to what it returned
        output = text_of(result.content if entry.output is None else entry.output)
    given = entry.status is CallStatus.DONE and not result.ran  # the output of the run, perhaps
    cancelled = result.reason is CancelReason.USER_CANCELLED
    rejected = entry.status is CallStatus.REJECTED_BY_USER
    holds = (entry.verdict, entry.tool) if held else None
    ends = (given, cancelled, rejected, result.final, result.stops_loop)
    return entry.call.tool, entry.runs > 0, ends, output, holds, entry.batch


def _outline_of_person(person: Person) -> object:
    return _outline_of_wait(person.wait), person.asked, person.answered, person.approved, person.edit


def _outline_of_wait(wait: Wait | None) -> object:
    if isinstance(wait, ApprovalWait):
        return ApprovalWait, wait.edit
    return (type(wait), isinstance(wait, QuestionWait) and wait.left_ms is not None)


def _outline_of_held_runs(session: Session, ledger: Ledger | None) -> object:
    """Which runs outlast their calls, whatever their order."""
    return tuple(sorted(repr(_outline_of_held_run(run, ledger)) for run in session.held))


def _outline_of_held_run(run: HeldRun, ledger: Ledger | None) -> object:
    here = ledger is not None and run.call.reply == ledger.reply
    return run.call.position if here else None, run.tool, run.input, run.claims, run.background
