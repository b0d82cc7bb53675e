"""Calls that are cut short: their runs aborted, their answers given (rules TOOL-6, TOOL-10, ASK-7 and CANCEL-2)."""

from attrs import evolve

from loopkernel.data.blocks import RawInput, ToolResult
from loopkernel.data.effects import AbortTool, CancelTimer, Effect
from loopkernel.data.events import ChildFinished
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Session
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.scheduling import Claimant
from loopkernel.loop.calls.call_hooks import abort_call_hook
from loopkernel.loop.calls.claims import claimant_of, effect_class
from loopkernel.loop.calls.held_runs import Ledgered, lease
from loopkernel.loop.calls.ledger import cancelled_result, close, drop_check, shut
from loopkernel.loop.gates.timers import close_timer


def stop_call(
    ledger: Ledger,
    session: Session,
    place: int,
    reason: CancelReason,
    now_ms: int,
    result: ToolResult | None = None,
) -> Ledgered:
    """The open call is answered, as cancelled where no `result` is given; its run is aborted, its check abandoned."""
    ledger, session, runs, effects = abort_work(ledger, session, place, reason, now_ms)
    given = cancelled_result(ledger.entries[place], reason) if result is None else result
    closed = close(ledger, session, place, given, stopped=not runs)
    return Ledgered(closed.ledger, closed.session, (*effects, *closed.effects))


def abort_work(
    ledger: Ledger, session: Session, place: int, reason: CancelReason, now_ms: int
) -> tuple[Ledger, Session, bool, tuple[Effect, ...]]:
    """What the call has under way is stopped; whether it has a run that must still stop is told too."""
    ledger, session, hook = abort_call_hook(ledger, session, place)
    ledger, session, runs, effects = _abort_run(ledger, session, place, reason, now_ms)
    return ledger, session, runs, (*effects, *hook)


def _abort_run(
    ledger: Ledger, session: Session, place: int, reason: CancelReason, now_ms: int
) -> tuple[Ledger, Session, bool, tuple[Effect, ...]]:
    """The check or the run of the call is stopped; whether there is a run that must still stop is told too."""
    ledger, session = drop_check(ledger, session, place)
    entry = ledger.entries[place]
    run = run_of(entry, session, ledger.nonce)
    if run is None:
        return ledger, session, False, ()
    session, leased = lease(session, run, now_ms)
    finished = () if entry.child is None else (ChildFinished(entry.call.id, end_of(reason)),)
    return ledger, session, True, (AbortTool(run.operation, reason), *leased, *finished)


def run_of(entry: LedgerEntry, session: Session, nonce: str) -> HeldRun | None:
    """The run of the call that goes on, and what it holds; `nonce` is that of its ledger."""
    given = entry.given
    if not entry.has_run or entry.operation is None or isinstance(given, RawInput):
        return None
    claimant = claimant_of(entry, session.settings) or Claimant(None)
    return HeldRun(
        operation=entry.operation,
        call=entry.call.id,
        tool=entry.tool,
        input=given,
        runs=entry.runs,
        effect=effect_class(entry, session.settings),
        claims=None if claimant.serial else claimant.claims,
        nonce=nonce,
    )


def cancel_call(ledger: Ledger, session: Session, call: CallId, now_ms: int) -> Ledgered | None:
    """One open call is answered as cancelled by the user (rule CANCEL-5); None if it is not open here."""
    place = open_place(ledger, call)
    return None if place is None else stop_call(ledger, session, place, CancelReason.USER_CANCELLED, now_ms)


def open_place(ledger: Ledger, call: CallId) -> int | None:
    """The place of the open call; None if it is not open here."""
    place = call.position - 1
    if call.reply != ledger.reply or not 0 <= place < ledger.entries.size or not ledger.entries[place].is_open:
        return None
    return place


def cancel_others(ledger: Ledger, session: Session, reason: CancelReason, now_ms: int, *, running: bool) -> Ledgered:
    """The calls that have not started are cancelled, with `running` also those that have (rules ASK-7 and TOOL-6)."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if entry.is_open and (running or entry.runs == 0):
            stopped = stop_call(ledger, session, place, reason, now_ms)
            ledger, session = stopped.ledger, stopped.session
            effects.extend(stopped.effects)
    return Ledgered(ledger, session, tuple(effects))


def cancel_open(
    ledger: Ledger,
    session: Session,
    reason: CancelReason,
    now_ms: int,
    *,
    but_waiting: bool = False,
    closed: tuple[Effect, ...] = (),
) -> Ledgered:
    """Every open call is answered as cancelled; first all aborts, then all answers (rule CANCEL-2).

    `but_waiting`: calls that wait for a person's approval stay open. `closed`: what else was stopped, after the runs.
    """
    places = [
        place
        for place, entry in enumerate(ledger.entries)
        if entry.is_open and not (but_waiting and waits_for_person(entry))
    ]
    aborts: list[Effect] = []
    running: set[int] = set()
    for place in places:
        ledger, session, runs, effects = _abort_run(ledger, session, place, reason, now_ms)
        aborts.extend(effects)
        running.update((place,) if runs else ())
    for place in places:
        ledger, session, effects = abort_call_hook(ledger, session, place)
        aborts.extend(effects)
    timers: list[Effect] = []
    answers: list[Effect] = []
    for place in places:
        result = cancelled_result(ledger.entries[place], reason)
        ledger, session, told = shut(ledger, session, place, result, stopped=place not in running)
        timers.extend(told[:-1])
        answers.append(told[-1])
    return Ledgered(ledger, session, (*timers_last((*aborts, *closed, *timers)), *answers))


def timers_last(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """What stops work, and behind it the timers that are closed (rule CANCEL-2)."""
    timers = tuple(effect for effect in effects if isinstance(effect, CancelTimer))
    return (*(effect for effect in effects if not isinstance(effect, CancelTimer)), *timers) if timers else effects


def waits_for_person(entry: LedgerEntry) -> bool:
    """Whether the call waits for a person, and nothing of it runs."""
    return entry.status is CallStatus.BLOCKED_ON_USER and not entry.is_running


def user_cancelled(answers: tuple[ToolResult, ...]) -> bool:
    """Whether the user cancelled one of the calls, which ends the turn (rule TOOL-7)."""
    return any(result.reason is CancelReason.USER_CANCELLED for result in answers)


def put_down(ledger: Ledger, session: Session) -> tuple[Ledger, Session, tuple[Effect, ...]]:
    """The thread is released while calls wait for a person: nobody's time runs, and no edit is being checked."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if entry.is_open:
            ledger, session = drop_check(ledger.put(place, evolve(entry, timer=None)), session, place)
            effects.extend(close_timer(entry.timer))
    return ledger, session, tuple(effects)
