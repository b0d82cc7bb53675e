"""What a restart does with the work that was in flight: its reports never come (rule RESUME-3).

Nothing that may have had an effect runs again by itself (rule RESUME-4): only runs that may be repeated are
started once more, under the same idempotency key.
"""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.choices import RestartChild, RestartDangerous, RestartSafe
from loopkernel.data.events import ChildFinished
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.hook_calls import NO_HOOKS
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, LedgerEntry
from loopkernel.data.sessions import Settings
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, UnknownTool
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose
from loopkernel.loop.algorithms.approval import decide
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.approvals import reconsider
from loopkernel.loop.calls.call_hooks import ask_call_hook_again, forget_call_hook
from loopkernel.loop.calls.children import resume_child
from loopkernel.loop.calls.held_runs import give_up_in_background
from loopkernel.loop.calls.ledger import (
    answer_of,
    ask_check,
    cancelled_result,
    checked_claims,
    class_of,
    close,
    forget_check,
    offered,
    worst_effect_of,
)
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.starting import ask, start_tool, time_approval
from loopkernel.loop.draft import CallsDraft, Draft, L


def restart_calls(draft: CallsDraft, delta: Resumed) -> CallsDraft:
    """Open checks are made again; open runs are repeated or answered, by their class; who is asked is waited for.

    All of it under the settings that hold from now on (rule RESUME-7).
    """
    draft = restart_held_runs(draft, delta)
    draft = draft.with_ledger(forget_plan(draft.ledger))
    for place in range(draft.ledger.entries.size):
        if draft.ledger.entries[place].is_open:
            if delta.doubted:
                draft = draft.put(place, _doubted(draft.ledger.entries[place]))
            draft = _restarted(draft, place, delta)
    return reconsider(draft) if changes_settings(delta) else draft


def changes_settings(delta: Resumed) -> bool:
    """Whether other settings may hold from this restart on."""
    return delta.doubted or any(part is not None for part in (delta.policy, delta.tools, delta.remembered))


def _doubted(entry: LedgerEntry) -> LedgerEntry:
    """The call, whatever the log says that a person has allowed (rule RESUME-8)."""
    return evolve(entry, person=evolve(entry.person, answered=False, approved=False, doubted=True))


def ask_anew(draft: CallsDraft, place: int) -> CallsDraft:
    """A call that has not started, of a log that nobody vouches for: it is checked and decided on as if it were new."""
    draft = forget_call_hook(forget_check(draft, place), place)
    ledger = draft.ledger
    entry = _doubted(ledger.entries[place])
    waited = entry.status is CallStatus.BLOCKED_ON_USER
    entry = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(entry.person, wait=None), hooks=NO_HOOKS)
    entries = ledger.entries.replace(place, entry)
    draft = draft.with_ledger(ledger.updated(entries, waiting=ledger.waiting - waited, plan=ledger.plan))
    return _check_anew(draft, place)


def _check_anew(draft: CallsDraft, place: int) -> CallsDraft:
    """What the log says that a check has found is not believed, unless it is that the call can never run."""
    entry = draft.ledger.entries[place]
    given = entry.given
    if isinstance(given, RawInput) or isinstance(entry.verdict, InvalidCall | UnknownTool):
        return draft
    return ask_check(draft.put(place, evolve(entry, verdict=None)), place, entry.tool, given)


def _restarted(draft: CallsDraft, place: int, delta: Resumed) -> CallsDraft:
    """One open call after a restart."""
    entry = draft.ledger.entries[place]
    given, gate = entry.given, entry.hooks.open
    if delta.doubted and _is_to_be_asked(entry):
        return ask_anew(draft, place)
    if gate is not None:
        return ask_call_hook_again(draft, place, gate)
    if isinstance(entry.person.wait, ApprovalWait):
        return wait_again(draft, place)
    if entry.check is not None and not isinstance(given, RawInput):
        return ask_check(forget_check(draft, place), place, entry.tool, given)
    goes_on = entry.is_running and entry.child is not None and _may_go_on(entry, draft.session.settings, delta)
    if goes_on and entry.child is not None and isinstance(given, Json) and entry.operation is not None:
        return resume_child(draft, place, entry.child, given, entry.operation)
    return _run_restarted(draft, place, delta) if entry.is_running else draft


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


def wait_again(draft: CallsDraft, place: int) -> CallsDraft:
    """The call still waits for a person: the time for that starts anew, and an edit is checked again."""
    draft = time_approval(draft, place)
    wait = draft.ledger.entries[place].person.wait
    if not isinstance(wait, ApprovalWait) or wait.edit is None:
        return draft
    return ask_check(forget_check(draft, place), place, wait.edit.tool, wait.edit.input)


def _run_restarted(draft: CallsDraft, place: int, delta: Resumed) -> CallsDraft:
    """A run was in flight: it takes its place in the schedule again, or is answered, or put to a person."""
    entry = draft.ledger.entries[place]
    if entry.operation is not None:
        draft = draft.abandon(OperationKind.RUN, entry.operation)
    ledger = draft.ledger
    asking = entry.status is CallStatus.BLOCKED_ON_USER
    idle = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(entry.person, wait=None))
    draft = draft.with_ledger(
        ledger.updated(
            ledger.entries.replace(place, idle),
            running=ledger.running - (not asking),
            waiting=ledger.waiting - asking,
            asking=ledger.asking - asking,
            children=ledger.children - (entry.child is not None and not asking),
            plan=ledger.plan,
        )
    )
    reason = CancelReason.SAFETY
    if entry.child is not None:
        draft = draft.tell(ChildFinished(entry.call.id, end_of(reason)))
        return close(draft, place, cancelled_result(idle, reason))
    effect = class_of(draft.session.settings, entry.tool).worst(entry.effect)
    status = after_crash(effect, draft.session.settings)
    if status is None:
        return _check_anew(draft, place) if delta.doubted else draft
    if status is CallStatus.BLOCKED_ON_USER:
        return ask(draft, place, CrashWait())
    return close(draft, place, answer_of(idle, status, (TextBlock(cancelled_text(reason)),), reason))


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


def restart_held_runs(draft: Draft[L], delta: Resumed) -> Draft[L]:
    """The session goes on under the settings of now; of its held runs aborted ones died with the process.

    Those in the background are repeated, or given up, by their class and by what holds now.
    """
    settings = _settings_of_now(draft.session.settings, delta)
    if settings != draft.session.settings:
        draft = draft.with_session(evolve(draft.session, settings=settings))
    waiting = draft.session.held
    if not waiting:
        return draft
    settings, held = draft.session.settings, list[HeldRun]()
    draft = draft.with_session(evolve(draft.session, held=()))
    for run in waiting:
        if not run.background:
            continue
        draft = draft.abandon(OperationKind.RUN, run.operation)
        tool = offered(settings, run.tool)
        effect = worst_effect_of(tool).worst(run.effect)
        if after_crash(effect, settings) is not None or not _may_repeat(run, delta, settings):
            draft = give_up_in_background(draft, run, CancelReason.SAFETY)
            continue
        draft, number = draft.mint(OperationKind.RUN)
        again = evolve(run, operation=RunOperation(number), runs=run.runs + 1, effect=effect, handle=False)
        held.append(again)
        draft = draft.tell(
            start_tool(
                settings,
                run.nonce,
                operation=again.operation,
                call=run.call,
                run=again.runs,
                name=run.tool,
                tool=tool,
                given=run.input,
            )
        )
    return draft.with_session(evolve(draft.session, held=tuple(held)))


def keep_leases(draft: Draft[L]) -> Draft[L]:
    """The thread is acquired: aborted runs may still go on where it was released, so their grace times go on too."""
    held: list[HeldRun] = []
    for run in draft.session.held:
        if run.grace is not None:  # nothing else outlasts a release
            draft, grace = draft.close_timer(run.grace).start_timer(TimerPurpose.GRACE, run.grace.deadline_ms)
            held.append(evolve(run, grace=grace))
    return draft.with_session(evolve(draft.session, held=tuple(held))) if held else draft


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
