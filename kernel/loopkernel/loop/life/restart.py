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
from loopkernel.data.hook_calls import NO_HOOKS
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, UnknownTool
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose
from loopkernel.loop.algorithms.approval import decide
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.approvals import reconsider
from loopkernel.loop.calls.call_hooks import ask_call_hook_again, forget_call_hook
from loopkernel.loop.calls.children import resume_child
from loopkernel.loop.calls.claims import checked_claims, class_of, offered
from loopkernel.loop.calls.held_runs import Ledgered, lost_in_background
from loopkernel.loop.calls.ledger import answer_of, ask_check, cancelled_result, close, drop_check
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.starting import ask, run_key, time_approval
from loopkernel.loop.gates.timers import close_timer, start_timer


def restart_calls(ledger: Ledger, session: Session, delta: Resumed, now_ms: int) -> Ledgered:
    """Open checks are made again; open runs are repeated or answered, by their class; who is asked is waited for.

    All of it under the settings that hold from now on (rule RESUME-7).
    """
    effects: list[Effect] = []
    session, held = restart_held_runs(session, delta)
    effects.extend(held)
    ledger = forget_plan(ledger)
    for place in range(ledger.entries.size):
        if ledger.entries[place].is_open:
            if delta.doubted:
                ledger = ledger.put(place, _doubted(ledger.entries[place]))
            restarted = _restarted(ledger, session, place, delta, now_ms)
            ledger, session = restarted.ledger, restarted.session
            effects.extend(restarted.effects)
    again = reconsider(ledger, session) if changes_settings(delta) else Ledgered(ledger, session)
    return Ledgered(again.ledger, again.session, (*effects, *again.effects))


def changes_settings(delta: Resumed) -> bool:
    """Whether other settings may hold from this restart on."""
    return delta.doubted or any(part is not None for part in (delta.policy, delta.tools, delta.remembered))


def _doubted(entry: LedgerEntry) -> LedgerEntry:
    """The call, whatever the log says that a person has allowed (rule RESUME-8)."""
    return evolve(entry, person=evolve(entry.person, answered=False, approved=False, doubted=True))


def ask_anew(ledger: Ledger, session: Session, place: int) -> Ledgered:
    """A call that has not started, of a log that nobody vouches for: it is checked and decided on as if it were new."""
    ledger, session = drop_check(ledger, session, place)
    ledger, session = forget_call_hook(ledger, session, place)
    entry = _doubted(ledger.entries[place])
    waited = entry.status is CallStatus.BLOCKED_ON_USER
    entry = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(entry.person, wait=None), hooks=NO_HOOKS)
    ledger = evolve(ledger.put(place, entry), waiting=ledger.waiting - waited)
    return _check_anew(ledger, session, place)


def _check_anew(ledger: Ledger, session: Session, place: int) -> Ledgered:
    """What the log says that a check has found is not believed, unless it is that the call can never run."""
    entry = ledger.entries[place]
    given = entry.given
    if isinstance(given, RawInput) or isinstance(entry.verdict, InvalidCall | UnknownTool):
        return Ledgered(ledger, session)
    ledger = ledger.put(place, evolve(entry, verdict=None))
    return ask_check(ledger, session, place, entry.tool, given)


def _restarted(ledger: Ledger, session: Session, place: int, delta: Resumed, now_ms: int) -> Ledgered:
    """One open call after a restart."""
    entry = ledger.entries[place]
    given, gate = entry.given, entry.hooks.open
    if delta.doubted and _is_to_be_asked(entry):
        return ask_anew(ledger, session, place)
    if gate is not None:
        return ask_call_hook_again(ledger, session, place, gate, now_ms)
    if isinstance(entry.person.wait, ApprovalWait):
        return wait_again(ledger, session, place, now_ms)
    if entry.check is not None and not isinstance(given, RawInput):
        ledger, session = drop_check(ledger, session, place)
        return ask_check(ledger, session, place, entry.tool, given)
    goes_on = entry.is_running and entry.child is not None and _may_go_on(entry, session.settings, delta)
    if goes_on and entry.child is not None and isinstance(given, Json) and entry.operation is not None:
        return resume_child(ledger, session, place, entry.child, given, entry.operation, now_ms)
    if entry.is_running:
        return _run_restarted(ledger, session, place, delta, now_ms)
    return Ledgered(ledger, session)


def _is_to_be_asked(entry: LedgerEntry) -> bool:
    """Whether the call, of a log that nobody vouches for, has no run, outcome or word of a person to be dealt with."""
    return not isinstance(entry.person.wait, CrashWait) and not entry.is_running and entry.hooks.end is None


def _may_go_on(entry: LedgerEntry, settings: Settings, delta: Resumed) -> bool:
    """Whether the sub-agent of the call is resumed: by policy, unless settings given now would have it asked about."""
    tool, given, person = offered(settings, entry.tool), entry.given, entry.person
    if settings.policy.on_restart.child is not RestartChild.RESUME or not changes_settings(delta):
        return settings.policy.on_restart.child is RestartChild.RESUME
    if tool is None or not isinstance(given, Json):
        return False
    decision = decide(
        settings.policy,
        settings.remembered,
        tool,
        given,
        approved=person.approved,
        doubted=person.doubted,
        claims=checked_claims(entry),
        tools=settings.tools,
    )
    return decision is Decision.ALLOW


def wait_again(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The call still waits for a person: the time for that starts anew, and an edit is checked again."""
    timed = time_approval(ledger, session, place, now_ms)
    wait = timed.ledger.entries[place].person.wait
    if not isinstance(wait, ApprovalWait) or wait.edit is None:
        return timed
    ledger, session = drop_check(timed.ledger, timed.session, place)
    asked = ask_check(ledger, session, place, wait.edit.tool, wait.edit.input)
    return Ledgered(asked.ledger, asked.session, (*timed.effects, *asked.effects))


def _run_restarted(ledger: Ledger, session: Session, place: int, delta: Resumed, now_ms: int) -> Ledgered:
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
    if status is None and delta.doubted:
        return _check_anew(ledger, session, place)
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


def restart_held_runs(session: Session, delta: Resumed) -> tuple[Session, tuple[Effect, ...]]:
    """The session goes on under the settings of now; of its held runs aborted ones died with the process.

    Those in the background are repeated, or given up, by their class and by what holds now.
    """
    effects: list[Effect] = []
    held: list[HeldRun] = []
    settings = _settings_of_now(session.settings, delta)
    session = session if settings == session.settings else evolve(session, settings=settings)
    waiting, session = session.held, evolve(session, held=()) if session.held else session
    for run in waiting:
        if not run.background:
            continue
        operations = session.operations.abandon(OperationKind.RUN, run.operation)
        effect = class_of(session.settings, run.tool).worst(run.effect)
        if after_crash(effect, session.settings) is not None or not _may_repeat(run, delta, session.settings):
            session = lost_in_background(session.with_operations(operations), run, CancelReason.SAFETY)
            continue
        operations, number = operations.mint(OperationKind.RUN)
        session = session.with_operations(operations)
        again = evolve(run, operation=RunOperation(number), runs=run.runs + 1, effect=effect, handle=False)
        held.append(again)
        effects.append(
            StartTool(
                operation=again.operation,
                call=run.call,
                run=again.runs,
                tool=run.tool,
                input=run.input,
                key=run_key(settings, run.nonce, run.call),
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


def _may_repeat(run: HeldRun, delta: Resumed, settings: Settings) -> bool:
    """Whether the run may start again without anybody being asked, by what holds now: its call is answered already."""
    tool, approved = offered(settings, run.tool), run.approved and not delta.doubted
    return tool is not None and Decision.ALLOW is decide(
        settings.policy,
        settings.remembered,
        tool,
        run.input,
        approved=approved,
        doubted=delta.doubted,
        claims=run.claims,
        tools=settings.tools,
    )


def _settings_of_now(settings: Settings, delta: Resumed) -> Settings:
    """The settings that hold after the restart (rule RESUME-7); of a log that is doubted, none but those given."""
    before = Settings(session_id=settings.session_id) if delta.doubted else settings
    return evolve(
        settings,
        policy=before.policy if delta.policy is None else delta.policy,
        tools=before.tools if delta.tools is None else delta.tools,
        instructions=before.instructions if delta.instructions is None else delta.instructions,
        remembered=before.remembered if delta.remembered is None else delta.remembered,
        nonce=delta.nonce or settings.nonce,
    )
