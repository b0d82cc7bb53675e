"""The schedule of a reply: which call is decided on, asked about or started next (rules TOOL-3, TOOL-5 and TOOL-9)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import EarlyStart, OnToolFailure, RunCalls, Schedule, WriteConflict
from loopkernel.data.effects import Effect
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.tools import Decision, EffectClass, ValidCall
from loopkernel.data.words import CallStatus, LimitName
from loopkernel.loop.algorithms.approval import decide, resource_in_the_way
from loopkernel.loop.algorithms.budget import may_call
from loopkernel.loop.algorithms.children import starts_child
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    conflict,
    draw,
    end,
    look,
    next_candidate,
    park,
    places_of,
    wait,
)
from loopkernel.loop.algorithms.wording import denied_text, unknown_tool_text
from loopkernel.loop.calls.call_hooks import ask_before_run
from loopkernel.loop.calls.claims import checked_claims, claimant_of, is_output_call, never_runs, offered, only_reads
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import close, error_result
from loopkernel.loop.calls.output import take_output, unjudged_output
from loopkernel.loop.calls.starting import ask, start_call
from loopkernel.loop.calls.totals import totals_of, with_totals

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
    stopping = {run.call: run for run in session.held}
    closed: list[tuple[int, bool]] = []
    running = waiting = passive = restarting = 0
    for place, entry in enumerate(ledger.entries):
        bit = 1 << place
        held = stopping.get(entry.call.id)
        needs = () if entry.links is None else entry.links.sources
        wanted = entry.is_open or plan.schedule is Schedule.BATCHES  # a batch keeps members that have ended
        claimant = claimant_of(entry, settings) if wanted else None
        if held is not None:  # it keeps what it took, whatever its tool is now (rule TOOL-17)
            claimant = Claimant(held.claims)
        plan = add(plan, claimant, reads=only_reads(entry, settings), sources=needs, batch=entry.batch)
        if never_runs(entry, settings):
            passive |= bit
        if not entry.is_open:
            closed.append((place, held is None))
        elif entry.is_running:
            running |= bit
        else:
            restarting |= bit if entry.runs else 0
            waiting |= bit if entry.status is CallStatus.BLOCKED_ON_USER or entry.hooks.open is not None else 0
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
    if early and not _any_may_start_early(settings):
        return Ledgered(ledger, session)
    one_for_all = early and settings.policy.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS
    if one_for_all or settings.policy.output_tool is not None:
        ledger = with_totals(ledger, settings)
    if early and failed_run(ledger, settings):
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
            if taken.spent is not None:
                return Ledgered(ledger, session, tuple(effects), spent=taken.spent)
        if not early and _passes_budget(ledger, session):
            return Ledgered(ledger, session, tuple(effects), spent=LimitName.TOOL_CALLS)
    elif ledger.entries.size and _may_be_looked_at(ledger.entries[0], session.settings):
        taken = _take(ledger, session, 0, now_ms, early)
        ledger, session = taken.ledger, taken.session
        effects.extend(taken.effects)
        if taken.spent is not None:
            return Ledgered(ledger, session, tuple(effects), spent=taken.spent)
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
        and entry.hooks.open is None
        and entry.hooks.blocked is None
        and not is_output_call(entry, settings)
    )


def _take(ledger: Ledger, session: Session, place: int, now_ms: int, early: bool) -> Ledgered:
    """One candidate is looked at, and leaves the candidates."""
    entry, settings = ledger.entries[place], session.settings
    if not _may_be_looked_at(entry, settings) or (early and not may_start_early(entry, session)):
        return Ledgered(_set_aside(ledger, place), session)
    if ledger.plan is not None and ledger.plan.candidates >> place & 1:
        plan, may_start = look(ledger.plan, place)
        ledger = ledger.updated(ledger.entries, plan=plan)
        if not may_start:
            return Ledgered(ledger, session)
    if _held_elsewhere(ledger, session, place):
        return Ledgered(ledger if ledger.plan is None else evolve(ledger, plan=park(ledger.plan, place)), session)
    return _decided(ledger, session, place, now_ms)


def _set_aside(ledger: Ledger, place: int) -> Ledger:
    return ledger if ledger.plan is None else evolve(ledger, plan=wait(ledger.plan, place))


def _decided(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The hooks before a call that the schedule lets start, the decision on it, and what follows (TOOL-5, ASK-1)."""
    asked = ask_before_run(ledger, session, place, now_ms)
    if asked is not None and asked.ledger.entries[place].hooks.open is not None:
        return Ledgered(_set_aside(asked.ledger, place), asked.session, asked.effects)
    if asked is not None:
        decided = _decided(asked.ledger, asked.session, place, now_ms)
        return evolve(decided, effects=(*asked.effects, *decided.effects))
    entry, settings = ledger.entries[place], session.settings
    given, tool = entry.given, offered(settings, entry.tool)
    if tool is None or isinstance(given, RawInput):
        return close(ledger, session, place, error_result(entry, unknown_tool_text(entry.tool)))
    claims = checked_claims(entry)
    decision = decide(
        settings.policy,
        settings.remembered,
        tool,
        given,
        approved=entry.person.approved,
        doubted=entry.person.doubted,
        claims=claims,
        tools=settings.tools,
    )
    if decision is not Decision.DENY and not _has_budget(entry, session):
        return Ledgered(ledger, session, spent=LimitName.TOOL_CALLS)
    match decision:
        case Decision.DENY:
            found = resource_in_the_way(settings.policy, tool, given, claims=claims, tools=settings.tools)
            return close(ledger, session, place, error_result(entry, denied_text(entry.tool, found)))
        case Decision.ASK:
            return ask(_set_aside(ledger, place), session, place, ApprovalWait(), now_ms)
        case Decision.ALLOW:
            if _slot_free(ledger, settings):
                return start_call(ledger, session, place, given, now_ms)
            return Ledgered(ledger, session)
        case _:
            assert_never(decision)


def _has_budget(entry: LedgerEntry, session: Session) -> bool:
    """Whether the call may start as far as the budget of tool calls goes; one that has started is counted already."""
    return entry.runs > 0 or may_call(session.settings.policy, session.started)


def _passes_budget(ledger: Ledger, session: Session) -> bool:
    """Whether a call that waits for a slot alone would pass the budget, which a sibling has used up since."""
    plan = ledger.plan
    if plan is None or not plan.allowed or may_call(session.settings.policy, session.started):
        return False
    return any(ledger.entries[place].runs == 0 for place in places_of(plan.allowed))


def failed_run(ledger: Ledger, settings: Settings) -> bool:
    """Whether a run has failed whose siblings, those to come as well, are cancelled for it (rule TOOL-6)."""
    if settings.policy.on_tool_failure is not OnToolFailure.CANCEL_SIBLINGS:
        return False
    return totals_of(ledger, settings).failed > 0


def _any_may_start_early(settings: Settings) -> bool:
    """Whether some tool may start early; if not, nothing is planned before the reply is complete."""
    policy = settings.policy
    if policy.early_start is not EarlyStart.GATED or policy.run_calls is RunCalls.STOP_REASON:
        return False
    return settings.any_early


def may_start_early(entry: LedgerEntry, session: Session) -> bool:
    """Whether the call may start while its reply still streams (rule TOOL-9)."""
    settings = session.settings
    policy, tool, given = settings.policy, offered(settings, entry.tool), entry.given
    if not _any_may_start_early(settings) or not _has_budget(entry, session):
        return False
    if tool is None or tool.profile is None or not tool.profile.early or isinstance(given, RawInput):
        return False
    too_deep = starts_child(tool) and policy.child.depth < 1
    if tool.profile.effect is EffectClass.DANGEROUS or too_deep:
        return False
    claims, doubted = checked_claims(entry), entry.person.doubted
    decision = decide(policy, settings.remembered, tool, given, doubted=doubted, claims=claims, tools=settings.tools)
    return decision is Decision.ALLOW


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
