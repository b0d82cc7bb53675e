"""The schedule of a reply: which call is decided on, asked about or started next (rules TOOL-3, TOOL-5 and TOOL-9)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import EarlyStart, OnToolFailure, RunCalls, Schedule, WriteConflict
from loopkernel.data.effects import Effect, StartTool
from loopkernel.data.events import ApprovalAsked
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry, Wait
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Decision, EffectClass, ValidCall
from loopkernel.data.words import CallStatus, TimerPurpose
from loopkernel.planning.approval import decide
from loopkernel.planning.budget import may_call
from loopkernel.planning.scheduling import (
    Claimant,
    add,
    conflict,
    draw,
    end,
    look,
    next_candidate,
    park,
    start,
    wait,
)
from loopkernel.planning.wording import denied_text, unknown_tool_text
from loopkernel.regions.claims import claimant_of, class_of, is_output_call, never_runs, offered, only_reads
from loopkernel.regions.held_runs import Ledgered
from loopkernel.regions.ledger import close, error_result, noted
from loopkernel.regions.output import take_output, unjudged_output
from loopkernel.regions.timers import start_timer

# --- the plan -------------------------------------------------------------------------------------------


def forget_plan(ledger: Ledger) -> Ledger:
    """What the calls use, or may do, has changed: every call that waits is planned and looked at anew."""
    return ledger if ledger.plan is None else evolve(ledger, plan=None)


def planned(ledger: Ledger, session: Session) -> Ledger:
    """The ledger with a plan. It follows from the calls, the settings and the held runs alone."""
    if ledger.plan is not None:
        return ledger
    settings = session.settings
    policy = settings.policy
    plan = Plan(schedule=policy.schedule, last_write=policy.write_conflict is WriteConflict.LAST_WRITE)
    stopping = {run.call for run in session.held}
    closed: list[tuple[int, bool]] = []
    running = waiting = passive = restarting = 0
    for place, entry in enumerate(ledger.entries):
        bit = 1 << place
        held = entry.call.id in stopping
        needs = () if entry.links is None else entry.links.sources
        wanted = entry.is_open or held or plan.schedule is Schedule.BATCHES  # a batch keeps members that have ended
        claimant = claimant_of(entry, settings) if wanted else None
        plan = add(plan, claimant, reads=only_reads(entry, settings), sources=needs, batch=entry.batch)
        if never_runs(entry, settings):
            passive |= bit
        if not entry.is_open:
            closed.append((place, not held))
        elif entry.is_running:
            running |= bit
        else:
            restarting |= bit if entry.runs else 0
            waiting |= bit if entry.status is CallStatus.BLOCKED_ON_USER else 0
    for place, stopped in closed:
        plan = end(plan, place, stopped=stopped)
    candidates = plan.candidates & ~running & ~waiting
    plan = evolve(
        plan,
        running=running,
        passive=passive,
        restarting=restarting,
        candidates=candidates,
    )
    return _batched(evolve(ledger, plan=plan), settings)


def _batched(ledger: Ledger, settings: Settings) -> Ledger:
    """Each call whose turn it is joins the current batch, or closes it, for good (rule TOOL-3)."""
    plan = ledger.plan
    if plan is None or plan.schedule is not Schedule.BATCHES or plan.batched == ledger.entries.size:
        return ledger
    while plan.batched < ledger.entries.size:
        place = plan.batched
        entry = ledger.entries[place]
        if entry.batch is not None:
            plan = evolve(plan, batched=place + 1, batch=entry.batch)
            continue
        if entry.check is not None and entry.verdict is None:
            break  # what it uses is about to be known
        if entry.is_open and not never_runs(entry, settings):
            plan = draw(plan, place)
            ledger = ledger.put(place, evolve(entry, batch=plan.batch))
        else:
            plan = evolve(plan, batched=place + 1)
    return evolve(ledger, plan=plan)


# --- what may start -------------------------------------------------------------------------------------


def start_ready(ledger: Ledger, session: Session, now_ms: int, *, early: bool = False) -> Ledgered:
    """Every call that the schedule lets start is decided on: denied, put to a person, or started if a slot is free.

    `early`: the reply still streams, so that only calls that may start early are started, and no other is decided on.
    """
    settings = session.settings
    if early and (not _any_may_start_early(settings) or failed_run(ledger, settings)):
        return Ledgered(ledger, session)
    if not early and unjudged_output(ledger, settings) is not None:
        return Ledgered(ledger, session)
    effects: list[Effect] = []
    if ledger.entries.size > 1:
        ledger = _batched(planned(ledger, session), session.settings)
        while (place := _next_place(ledger, session.settings)) is not None:
            taken = _take(ledger, session, place, now_ms, early)
            ledger, session = _batched(taken.ledger, taken.session.settings), taken.session  # a denial may let more in
            effects.extend(taken.effects)
            if taken.out_of_calls:
                return Ledgered(ledger, session, tuple(effects), out_of_calls=True)
    elif ledger.entries.size and _may_be_looked_at(ledger.entries[0], session.settings):
        taken = _take(ledger, session, 0, now_ms, early)
        ledger, session = taken.ledger, taken.session
        effects.extend(taken.effects)
        if taken.out_of_calls:
            return Ledgered(ledger, session, tuple(effects), out_of_calls=True)
    if not early and session.settings.policy.output_tool is not None:
        given = take_output(ledger, session)
        if given.effects:
            again = start_ready(given.ledger, given.session, now_ms)
            return evolve(again, effects=(*effects, *given.effects, *again.effects))
    return Ledgered(ledger, session, tuple(effects))


def _next_place(ledger: Ledger, settings: Settings) -> int | None:
    """The next call to look at; None if there is none."""
    return None if ledger.plan is None else next_candidate(ledger.plan, slot_free=_slot_free(ledger, settings))


def _slot_free(ledger: Ledger, settings: Settings) -> bool:
    limit = settings.policy.max_parallel
    return limit is None or ledger.running + ledger.asking < limit


def _may_be_looked_at(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call waits for its start, and is complete, valid and not to be answered otherwise."""
    return (
        entry.status is CallStatus.QUEUED
        and isinstance(entry.verdict, ValidCall)
        and not entry.refers
        and entry.check is None
        and not is_output_call(entry, settings)
    )


def _take(ledger: Ledger, session: Session, place: int, now_ms: int, early: bool) -> Ledgered:
    """One candidate is looked at, and leaves the candidates."""
    entry, settings = ledger.entries[place], session.settings
    if not _may_be_looked_at(entry, settings) or (early and not may_start_early(entry, session)):
        return Ledgered(_set_aside(ledger, place), session)
    if ledger.plan is not None and ledger.plan.candidates >> place & 1:
        plan, may_start = look(ledger.plan, place)
        ledger = evolve(ledger, plan=plan)
        if not may_start:
            return Ledgered(ledger, session)
    if _held_elsewhere(ledger, session, place):
        return Ledgered(ledger if ledger.plan is None else evolve(ledger, plan=park(ledger.plan, place)), session)
    return _decided(ledger, session, place, now_ms)


def _set_aside(ledger: Ledger, place: int) -> Ledger:
    return ledger if ledger.plan is None else evolve(ledger, plan=wait(ledger.plan, place))


def _decided(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The decision on a call that the schedule lets start, and what follows from it (rules TOOL-5 and ASK-1)."""
    entry, settings = ledger.entries[place], session.settings
    given, tool = entry.given, offered(settings, entry.tool)
    if tool is None or isinstance(given, RawInput):
        return close(ledger, session, place, error_result(entry, unknown_tool_text(entry.tool)))
    decision = decide(settings.policy, settings.remembered, tool, given, approved=entry.person.approved)
    if decision is not Decision.DENY and not _has_budget(entry, session):
        return Ledgered(ledger, session, out_of_calls=True)
    match decision:
        case Decision.DENY:
            return close(ledger, session, place, error_result(entry, denied_text(entry.tool)))
        case Decision.ASK:
            return ask(_set_aside(ledger, place), session, place, ApprovalWait(), now_ms)
        case Decision.ALLOW:
            if _slot_free(ledger, settings):
                return start_run(ledger, session, place, given, now_ms)
            return Ledgered(ledger, session)
        case _:
            assert_never(decision)


def _has_budget(entry: LedgerEntry, session: Session) -> bool:
    """Whether the call may start as far as the budget of tool calls goes; one that has started is counted already."""
    return entry.runs > 0 or may_call(session.settings.policy, session.started)


def failed_run(ledger: Ledger, settings: Settings) -> bool:
    """Whether a run has failed whose siblings, those to come as well, are cancelled for it (rule TOOL-6)."""
    if settings.policy.on_tool_failure is not OnToolFailure.CANCEL_SIBLINGS:
        return False
    return any(entry.status is CallStatus.ERROR and entry.runs > 0 for entry in ledger.entries)


def _any_may_start_early(settings: Settings) -> bool:
    """Whether some tool may start early; if not, nothing is planned before the reply is complete."""
    policy = settings.policy
    if policy.early_start is not EarlyStart.GATED or policy.run_calls is RunCalls.STOP_REASON:
        return False
    return any(tool.profile is not None and tool.profile.early for tool in settings.tools)


def may_start_early(entry: LedgerEntry, session: Session) -> bool:
    """Whether the call may start while its reply still streams (rule TOOL-9)."""
    settings = session.settings
    policy, tool, given = settings.policy, offered(settings, entry.tool), entry.given
    if not _any_may_start_early(settings) or not _has_budget(entry, session):
        return False
    if tool is None or tool.profile is None or not tool.profile.early or isinstance(given, RawInput):
        return False
    if tool.profile.child or tool.profile.effect is EffectClass.DANGEROUS:
        return False
    return decide(policy, settings.remembered, tool, given) is Decision.ALLOW


def _held_elsewhere(ledger: Ledger, session: Session, place: int) -> bool:
    """Whether a run of another reply, which has not stopped, holds what the call needs (rule TOOL-17)."""
    return bool(session.held) and holder_elsewhere(ledger, session, place) is not None


def holder_elsewhere(ledger: Ledger, session: Session, place: int) -> int | None:
    """The index, in the session's held runs, of the first run of another reply that the call must not overlap."""
    policy = session.settings.policy
    mine = claimant_of(ledger.entries[place], session.settings)
    if policy.schedule is Schedule.ALL or mine is None:
        return None
    last_write = policy.write_conflict is WriteConflict.LAST_WRITE
    for index, run in enumerate(session.held):
        if run.call.reply != ledger.reply and conflict(Claimant(run.claims), mine, last_write=last_write):
            return index
    return None


# --- starts and questions -------------------------------------------------------------------------------


def start_run(ledger: Ledger, session: Session, place: int, given: Json, now_ms: int) -> Ledgered:
    """One more run of the call starts, within its time (rule TOOL-10)."""
    entry, settings = ledger.entries[place], session.settings
    operations, number = session.operations.mint(OperationKind.RUN)
    operation = RunOperation(number)
    timer: Timer | None = None
    effects: tuple[Effect, ...] = ()
    timed = ledger.timed
    limit_ms = timeout_of(entry, settings)
    if limit_ms is not None:
        operations, timer, command = start_timer(operations, TimerPurpose.TOOL_TIMEOUT, now_ms + limit_ms)
        timed = noted(timed, timer.operation - ledger.first_timer, place)
        effects = (command,)
    waited = entry.status is CallStatus.BLOCKED_ON_USER
    entry = entry.started(operation, timer, class_of(settings, entry.tool).worst(entry.effect))
    ledger = Ledger(
        reply=ledger.reply,
        entries=ledger.entries.replace(place, entry),
        unanswered=ledger.unanswered,
        running=ledger.running + 1,
        waiting=ledger.waiting - waited,
        asking=ledger.asking,
        checking=ledger.checking,
        linked=ledger.linked,
        first_check=ledger.first_check,
        first_run=ledger.first_run,
        first_timer=ledger.first_timer,
        checked=ledger.checked,
        started=noted(ledger.started, number - ledger.first_run, place),
        timed=timed,
        plan=None if ledger.plan is None else start(ledger.plan, place),
        ids=ledger.ids,
    )
    command_start = StartTool(
        operation=operation,
        call=entry.call.id,
        run=entry.runs,
        tool=entry.tool,
        input=given,
        key=f"{settings.session_id}/{settings.lineage}/{entry.call.id}",
    )
    first = int(entry.runs == 1)
    return Ledgered(ledger, session.with_operations(operations, started=first), (command_start, *effects))


def timeout_of(entry: LedgerEntry, settings: Settings) -> int | None:
    """How long a run of the entry may take, in milliseconds; None: as long as it likes."""
    tool = offered(settings, entry.tool)
    own = None if tool is None or tool.profile is None else tool.profile.timeout_ms
    return settings.policy.tool_timeout_ms if own is None else own


def ask(ledger: Ledger, session: Session, place: int, why: Wait, now_ms: int) -> Ledgered:
    """The call is put to a person, who may have only so much time (rules ASK-2 and ASK-6)."""
    entry = ledger.entries[place]
    person = evolve(entry.person, wait=why, asked=True)
    entry = evolve(entry, status=CallStatus.BLOCKED_ON_USER, person=person)
    ledger = evolve(ledger.put(place, entry), waiting=ledger.waiting + 1)
    timed = time_approval(ledger, session, place, now_ms)
    return Ledgered(timed.ledger, timed.session, (ApprovalAsked(entry.call.id), *timed.effects))


def time_approval(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The time in which a person must approve the call starts anew."""
    entry, limit_ms = ledger.entries[place], session.settings.policy.approval_timeout_ms
    if limit_ms is None or not isinstance(entry.person.wait, ApprovalWait):
        return Ledgered(ledger.put(place, evolve(entry, timer=None)), session)
    return set_timer(ledger, session, place, TimerPurpose.APPROVAL_TIMEOUT, now_ms + limit_ms)


def set_timer(ledger: Ledger, session: Session, place: int, purpose: TimerPurpose, deadline_ms: int) -> Ledgered:
    """The entry is bounded by a new timer."""
    operations, timer, command = start_timer(session.operations, purpose, deadline_ms)
    entry = evolve(ledger.entries[place], timer=timer)
    timed = noted(ledger.timed, timer.operation - ledger.first_timer, place)
    ledger = evolve(ledger.put(place, entry), timed=timed)
    return Ledgered(ledger, session.with_operations(operations), (command,))
