"""What a restart does with the work that was in flight: its reports never come (rule RESUME-3).

Nothing that may have had an effect runs again by itself (rule RESUME-4): only runs that may be repeated are
started once more, under the same idempotency key.
"""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.choices import RestartChild, RestartDangerous, RestartSafe
from loopkernel.data.effects import Effect, StartTool
from loopkernel.data.events import ChildFinished
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.tools import Decision, EffectClass
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose
from loopkernel.planning.approval import decide
from loopkernel.planning.children import end_of
from loopkernel.planning.wording import cancelled_text
from loopkernel.regions.call_hooks import ask_call_hook_again
from loopkernel.regions.children import resume_child
from loopkernel.regions.claims import class_of, offered
from loopkernel.regions.held_runs import Ledgered, lost_in_background
from loopkernel.regions.ledger import answer_of, ask_check, cancelled_result, close, drop_check
from loopkernel.regions.schedule import forget_plan
from loopkernel.regions.starts import ask, time_approval
from loopkernel.regions.timers import close_timer, start_timer


def restart_calls(ledger: Ledger, session: Session, now_ms: int) -> Ledgered:
    """Open checks are made again; open runs are repeated or answered, by their class; who is asked is waited for."""
    effects: list[Effect] = []
    session, held = restart_held_runs(session)
    effects.extend(held)
    ledger = forget_plan(ledger)
    for place in range(ledger.entries.size):
        if ledger.entries[place].is_open:
            restarted = _restarted(ledger, session, place, now_ms)
            ledger, session = restarted.ledger, restarted.session
            effects.extend(restarted.effects)
    return Ledgered(ledger, session, tuple(effects))


def _restarted(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """One open call after a restart."""
    entry = ledger.entries[place]
    given, gate = entry.given, entry.hooks.open
    if gate is not None:
        return ask_call_hook_again(ledger, session, place, gate, now_ms)
    if isinstance(entry.person.wait, ApprovalWait):
        return wait_again(ledger, session, place, now_ms)
    if entry.check is not None and not isinstance(given, RawInput):
        ledger, session = drop_check(ledger, session, place)
        return ask_check(ledger, session, place, entry.tool, given)
    resumes = entry.is_running and _resumes_children(session)
    if resumes and entry.child is not None and isinstance(given, Json) and entry.operation is not None:
        return resume_child(ledger, session, place, entry.child, given, entry.operation, now_ms)
    if entry.is_running:
        return _run_restarted(ledger, session, place, now_ms)
    return Ledgered(ledger, session)


def _resumes_children(session: Session) -> bool:
    return session.settings.policy.on_restart.child is RestartChild.RESUME


def wait_again(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The call still waits for a person: the time for that starts anew, and an edit is checked again."""
    timed = time_approval(ledger, session, place, now_ms)
    wait = timed.ledger.entries[place].person.wait
    if not isinstance(wait, ApprovalWait) or wait.edit is None:
        return timed
    ledger, session = drop_check(timed.ledger, timed.session, place)
    asked = ask_check(ledger, session, place, wait.edit.tool, wait.edit.input)
    return Ledgered(asked.ledger, asked.session, (*timed.effects, *asked.effects))


def _run_restarted(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """A run was in flight: it takes its place in the schedule again, or is answered, or put to a person."""
    entry = ledger.entries[place]
    if entry.operation is not None:
        session = session.with_operations(session.operations.abandon(OperationKind.RUN, entry.operation))
    asking = entry.status is CallStatus.BLOCKED_ON_USER
    idle = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(entry.person, wait=None))
    ledger = evolve(
        ledger.put(place, idle),
        running=ledger.running - (not asking),
        waiting=ledger.waiting - asking,
        asking=ledger.asking - asking,
        children=ledger.children - (entry.child is not None and not asking),
    )
    if entry.child is not None:
        lost = close(ledger, session, place, cancelled_result(idle, CancelReason.SAFETY))
        return evolve(lost, effects=(ChildFinished(entry.call.id, end_of(CancelReason.SAFETY)), *lost.effects))
    effect = class_of(session.settings, entry.tool).worst(entry.effect)
    status = after_crash(effect, session.settings)
    if status is None:
        return Ledgered(ledger, session)
    if status is CallStatus.BLOCKED_ON_USER:
        return ask(ledger, session, place, CrashWait(), now_ms)
    reason = CancelReason.SAFETY
    return close(ledger, session, place, answer_of(idle, status, (TextBlock(cancelled_text(reason)),), reason))


def after_crash(effect: EffectClass, settings: Settings) -> CallStatus | None:
    """How the call of a run of that class in flight is answered, or that a person is asked; None: it is repeated."""
    policy = settings.policy.on_restart
    match effect:
        case EffectClass.READ_ONLY:
            return _when_repeatable(policy.read_only)
        case EffectClass.IDEMPOTENT:
            return _when_repeatable(policy.idempotent)
        case EffectClass.DANGEROUS:
            return _when_dangerous(policy.dangerous)
        case _:
            assert_never(effect)


def _when_repeatable(choice: RestartSafe) -> CallStatus | None:
    match choice:
        case RestartSafe.RERUN:
            return None
        case RestartSafe.CANCEL:
            return CallStatus.CANCELLED
        case RestartSafe.ERROR:
            return CallStatus.ERROR
        case _:
            assert_never(choice)


def _when_dangerous(choice: RestartDangerous) -> CallStatus:
    match choice:
        case RestartDangerous.CANCEL:
            return CallStatus.CANCELLED
        case RestartDangerous.UNKNOWN:
            return CallStatus.UNKNOWN
        case RestartDangerous.ASK:
            return CallStatus.BLOCKED_ON_USER
        case _:
            assert_never(choice)


def restart_held_runs(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """Aborted runs died with the process; those in the background are repeated or given up, by their class."""
    effects: list[Effect] = []
    held: list[HeldRun] = []
    waiting, session = session.held, evolve(session, held=()) if session.held else session
    for run in waiting:
        if not run.background:
            continue
        operations = session.operations.abandon(OperationKind.RUN, run.operation)
        effect = class_of(session.settings, run.tool).worst(run.effect)
        if after_crash(effect, session.settings) is not None or _is_denied(run, session.settings):
            session = lost_in_background(session.with_operations(operations), run, CancelReason.SAFETY)
            continue
        operations, number = operations.mint(OperationKind.RUN)
        session = session.with_operations(operations)
        again = evolve(run, operation=RunOperation(number), runs=run.runs + 1, effect=effect, handle=False)
        held.append(again)
        settings = session.settings
        effects.append(
            StartTool(
                operation=again.operation,
                call=run.call,
                run=again.runs,
                tool=run.tool,
                input=run.input,
                key=f"{settings.session_id}/{settings.lineage}/{run.call}",
            )
        )
    return (evolve(session, held=tuple(held)), tuple(effects)) if waiting else (session, ())


def keep_leases(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """The thread is acquired: aborted runs may still go on where it was released, so their grace times go on too."""
    effects: list[Effect] = []
    held: list[HeldRun] = []
    operations = session.operations
    leases = [(run, run.grace) for run in session.held if run.grace is not None]  # nothing else outlasts a release
    for run, timer in leases:
        operations, grace, started = start_timer(operations, TimerPurpose.GRACE, timer.deadline_ms)
        effects.extend((*close_timer(timer), started))
        held.append(evolve(run, grace=grace))
    return (evolve(session, operations=operations, held=tuple(held)), tuple(effects)) if held else (session, ())


def _is_denied(run: HeldRun, settings: Settings) -> bool:
    """Whether a rule that came later forbids the run to start again."""
    tool = offered(settings, run.tool)
    if tool is None:
        return True
    decision = decide(settings.policy, settings.remembered, tool, run.input, claims=run.claims, tools=settings.tools)
    return decision is Decision.DENY
