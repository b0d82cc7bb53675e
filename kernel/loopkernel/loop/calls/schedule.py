"""The schedule of a reply: which call is decided on, asked about or started next, and which gives the output.

Rules TOOL-3, TOOL-5, TOOL-9 and CALL-5.
"""

from collections.abc import Iterator
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.choices import EarlyStart, OnToolFailure, OutputCalls, RunCalls, Schedule, WriteConflict
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.tools import Decision, EffectClass, Tool, ValidCall
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import CallStatus, CancelReason, HookPoint, LimitName
from loopkernel.loop.algorithms.approval import decide, resource_in_the_way
from loopkernel.loop.algorithms.budget import budget_reached, may_call
from loopkernel.loop.algorithms.children import shares_budgets, starts_child
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    blockers,
    conflict,
    draw,
    end,
    look,
    next_candidate,
    park,
    places_of,
    wait,
)
from loopkernel.loop.algorithms.wording import OUTPUT_TAKEN, denied_text, unknown_tool_text
from loopkernel.loop.calls.call_hooks import ask_about, hooks_before_run
from loopkernel.loop.calls.children import any_child, share_of, start_child, waits_for_share
from loopkernel.loop.calls.ledger import (
    NO_CLAIMS,
    answer_of,
    checked_claims,
    claimant_of,
    claimant_that_may_run,
    close,
    error_result,
    is_output_call,
    never_runs,
    offered,
    only_reads,
)
from loopkernel.loop.calls.starting import ask, start_run
from loopkernel.loop.calls.stopping import cancel_calls
from loopkernel.loop.calls.totals import totals_of, with_totals
from loopkernel.loop.draft import CallsDraft

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
        held = stopping.get(entry.call.id) if stopping else None
        needs = () if entry.links is None else entry.links.sources
        wanted = entry.is_open or plan.schedule is Schedule.BATCHES  # a batch keeps members that have ended
        passes = never_runs(entry, settings)
        claimant: Claimant | None = None
        if wanted:
            claimant = NO_CLAIMS if passes else claimant_that_may_run(entry, settings)
        if held is not None:  # it keeps what it took, whatever its tool is now (rule TOOL-17)
            claimant = Claimant(held.claims)
        plan = add(plan, claimant, reads=only_reads(entry, settings), sources=needs, batch=entry.batch)
        if passes:
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
    plan = plan.updated(
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
            plan = plan.updated(batched=place + 1, batch=entry.batch)
            continue
        if entry.check is not None and entry.verdict is None:
            break  # what it uses is about to be known
        if entry.is_open and not never_runs(entry, settings):
            plan = draw(plan, place)
            ledger = ledger.put(place, evolve(entry, batch=plan.batch))
        else:
            plan = plan.updated(batched=place + 1)
    return evolve(ledger, plan=plan)


# --- what may start -------------------------------------------------------------------------------------


@frozen
class OverBudget:
    """A call could have started, if this budget left room for it (rule LIMIT-2); the draft is that of all before it."""

    draft: CallsDraft
    limit: LimitName


def start_ready(draft: CallsDraft, *, early: bool = False) -> CallsDraft | OverBudget:
    """Every call that the schedule lets start is decided on: denied, put to a person, or started if a slot is free.

    `early`: the reply still streams, so that only calls that may start early are started, and no other is decided on.
    """
    settings = draft.session.settings
    if early and not _any_may_start_early(settings):
        return draft
    one_for_all = early and settings.policy.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS
    if one_for_all or settings.policy.output_tool is not None:
        draft = draft.with_ledger(with_totals(draft.ledger, settings))
    if early and failed_run(draft.ledger, settings):
        return draft
    if settings.policy.output_tool is not None and not early and unjudged_output(draft.ledger, settings) is not None:
        return draft
    taken: CallsDraft | OverBudget = draft
    if draft.ledger.entries.size > 1:
        taken = _take_all(draft, early)
    elif draft.ledger.entries.size:
        taken = _take(draft, 0, early)
    if isinstance(taken, OverBudget) or early or settings.policy.output_tool is None:
        return taken
    given = take_output(taken)
    return taken if given is None else start_ready(given)


def _take_all(draft: CallsDraft, early: bool) -> CallsDraft | OverBudget:
    """The candidates, one after the other: what becomes of one may let more in."""
    settings = draft.session.settings
    ledger = _batched(planned(draft.ledger, draft.session), settings)
    draft = draft if ledger is draft.ledger else draft.with_ledger(ledger)
    while (place := _next_place(draft.ledger, settings)) is not None:
        taken = _take(draft, place, early)
        if isinstance(taken, OverBudget):
            return OverBudget(taken.draft.with_ledger(_batched(taken.draft.ledger, settings)), taken.limit)
        ledger = _batched(taken.ledger, settings)
        draft = taken if ledger is taken.ledger else taken.with_ledger(ledger)
    return OverBudget(draft, LimitName.TOOL_CALLS) if not early and _passes_budget(draft) else draft


def _next_place(ledger: Ledger, settings: Settings) -> int | None:
    """The next call to look at; None if there is none."""
    plan = ledger.plan
    if plan is None or not (plan.candidates or plan.allowed):
        return None
    return next_candidate(plan, slot_free=_slot_free(ledger, settings))


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


def _take(draft: CallsDraft, place: int, early: bool) -> CallsDraft | OverBudget:
    """One candidate is looked at, and leaves the candidates."""
    entry, plan = draft.ledger.entries[place], draft.ledger.plan
    if not _may_be_looked_at(entry, draft.session.settings) or (early and not may_start_early(entry, draft.session)):
        return _set_aside(draft, place)
    if plan is not None and plan.candidates >> place & 1:
        plan, may_start = look(plan, place)
        draft = draft.with_ledger(draft.ledger.updated(draft.ledger.entries, plan=plan))
        if not may_start:
            return draft
    if draft.session.held and holder_elsewhere(draft.ledger, draft.session, place) is not None:
        return _parked(draft, place)
    return _decide(draft, place)


def _set_aside(draft: CallsDraft, place: int) -> CallsDraft:
    plan = draft.ledger.plan
    return draft if plan is None else draft.with_ledger(evolve(draft.ledger, plan=wait(plan, place)))


def _parked(draft: CallsDraft, place: int) -> CallsDraft:
    plan = draft.ledger.plan
    return draft if plan is None else draft.with_ledger(evolve(draft.ledger, plan=park(plan, place)))


def _decide(draft: CallsDraft, place: int) -> CallsDraft | OverBudget:
    """The hooks before a call that the schedule lets start, the decision on it, and what follows (TOOL-5, ASK-1)."""
    settings = draft.session.settings
    entry = draft.ledger.entries[place]
    while hooks := hooks_before_run(entry, draft.session):
        draft = ask_about(draft, place, hooks, HookPoint.BEFORE_TOOL)
        entry = draft.ledger.entries[place]
        if entry.hooks.open is not None:
            return _set_aside(draft, place)
    given, tool, claims = entry.given, offered(settings, entry.tool), checked_claims(entry)
    if tool is None or isinstance(given, RawInput):
        return close(draft, place, error_result(entry, unknown_tool_text(entry.tool)))
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
    if decision is not Decision.DENY and not _has_budget(entry, draft.session):
        return OverBudget(draft, LimitName.TOOL_CALLS)
    match decision:
        case Decision.DENY:
            found = resource_in_the_way(settings.policy, tool, given, claims=claims, tools=settings.tools)
            return close(draft, place, error_result(entry, denied_text(entry.tool, found)))
        case Decision.ASK:
            return ask(_set_aside(draft, place), place, ApprovalWait())
        case Decision.ALLOW:
            return _start(draft, place, given, tool) if _slot_free(draft.ledger, settings) else draft
        case _:
            assert_never(decision)


def _start(draft: CallsDraft, place: int, given: Json, tool: Tool) -> CallsDraft | OverBudget:
    """The call runs, as a sub-agent where its tool says so; or waits for what other sub-agents may still spend."""
    session, settings = draft.session, draft.session.settings
    child = starts_child(tool)
    if shares_budgets(settings.policy):
        if child or any_child(draft.ledger):
            draft = draft.with_ledger(with_totals(draft.ledger, settings))
        if waits_for_share(draft.ledger, session, place):
            return _parked(draft, place)
    if not child:
        return start_run(draft, place, given, tool)
    reserved = share_of(draft.ledger, session)
    if reserved is None:
        spent = budget_reached(settings.policy, session.usage, draft.stamp.now_ms - draft.ledger.opened_ms)
        return OverBudget(draft, spent or LimitName.TOOL_CALLS)
    return start_child(draft, place, given, reserved)


def _has_budget(entry: LedgerEntry, session: Session) -> bool:
    """Whether the call may start as far as the budget of tool calls goes; one that has started is counted already."""
    return entry.runs > 0 or may_call(session.settings.policy, session.started)


def _passes_budget(draft: CallsDraft) -> bool:
    """Whether a call that waits for a slot alone would pass the budget, which a sibling has used up since."""
    plan = draft.ledger.plan
    if plan is None or not plan.allowed or may_call(draft.session.settings.policy, draft.session.started):
        return False
    return any(draft.ledger.entries[place].runs == 0 for place in places_of(plan.allowed))


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


# --- calls that give the output -------------------------------------------------------------------------


def gives_output(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call was a valid output call, and is answered so."""
    return is_output_call(entry, settings) and entry.status is CallStatus.DONE and entry.runs == 0


def unjudged_output(ledger: Ledger, settings: Settings) -> LedgerEntry | None:
    """The output call whose first check decides whether the other calls run at all; None if there is none."""
    if settings.policy.output_tool is None or settings.policy.output_calls is not OutputCalls.SKIP:
        return None
    return next((entry for _, entry in _outputs(ledger, settings) if _is_unjudged(entry)), None)


def _outputs(ledger: Ledger, settings: Settings) -> Iterator[tuple[int, LedgerEntry]]:
    """The open calls that are to give the output."""
    return ((place, ledger.entries[place]) for place in places_of(totals_of(ledger, settings).outputs))


def _is_unjudged(entry: LedgerEntry) -> bool:
    resolved = entry.links is not None and entry.links.resolved is not None
    return entry.verdict is None and not resolved


def take_output(draft: CallsDraft) -> CallsDraft | None:
    """Valid output calls are answered once the other calls have ended, or instead of them, by policy; None: none is."""
    settings, ledger = draft.session.settings, draft.ledger
    ready = [place for place, entry in _outputs(ledger, settings) if _is_ready(ledger, entry)]
    if not ready or (settings.policy.output_calls is OutputCalls.RUN and others_open(ledger, settings)):
        return None
    for place in ready:
        entry = draft.ledger.entries[place]
        draft = close(draft, place, answer_of(entry, CallStatus.DONE, (TextBlock(OUTPUT_TAKEN),)))
    return draft


def skip_for_output(draft: CallsDraft) -> CallsDraft:
    """Where the policy skips the other calls, they are answered as soon as a valid output call is there."""
    settings = draft.session.settings
    if settings.policy.output_tool is None or settings.policy.output_calls is not OutputCalls.SKIP:
        return draft
    outputs = [place for place, entry in _outputs(draft.ledger, settings) if isinstance(entry.verdict, ValidCall)]
    if not outputs:
        return draft
    needed = _sources_of(draft.ledger, outputs)
    return cancel_calls(
        draft,
        CancelReason.SUPERSEDED,
        lambda place, entry: place not in needed and not is_output_call(entry, settings),
    )


def _is_ready(ledger: Ledger, entry: LedgerEntry) -> bool:
    """Whether the output is complete: found valid, and all that it depends on is done."""
    if not isinstance(entry.verdict, ValidCall) or entry.refers or entry.check is not None:
        return False
    needed = () if entry.links is None else entry.links.sources
    return all(ledger.entries[source].status is CallStatus.DONE for source in needed)


def others_open(ledger: Ledger, settings: Settings) -> bool:
    """Whether calls are open that neither give the output nor wait, at any remove, for one that does."""
    waiting = 0
    for place in range(ledger.entries.size) if ledger.plan is None else places_of(ledger.plan.open):
        entry = ledger.entries[place]
        if not entry.is_open:
            continue
        behind = 0 if ledger.plan is None else blockers(ledger.plan, place)
        if not is_output_call(entry, settings) and not behind & waiting:
            return True
        waiting |= 1 << place
    return False


def _sources_of(ledger: Ledger, places: list[int]) -> set[int]:
    """The calls at these places, and all that they depend on."""
    needed: set[int] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            links = ledger.entries[place].links
            waiting.extend(() if links is None else links.sources)
    return needed
