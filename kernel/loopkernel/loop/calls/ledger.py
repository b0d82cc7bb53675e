"""The calls of a reply: what they use, and how they are added, checked and answered.

Rules TOOL-1, TOOL-2, TOOL-18, CALL-1 and CALL-3.

A call is answered exactly once; what comes after finds it closed and is refused by the caller.
"""

from collections.abc import Iterable

from attrs import evolve

from loopkernel.data.blocks import RawInput, TextBlock, ToolCall, ToolResult, UserBlock, text_of
from loopkernel.data.choices import NoProfile
from loopkernel.data.effects import CancelTimer, CheckCall, new_check_call
from loopkernel.data.errors import quoted
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import CheckOperation, OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry, Links, new_entry
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Settings
from loopkernel.data.text_map import TextMap
from loopkernel.data.tools import Claim, EffectClass, InvalidCall, Tool, UnknownTool, ValidCall, Verdict
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose, UserAction
from loopkernel.loop.algorithms.loop_detection import is_disabled
from loopkernel.loop.algorithms.redaction import redacted
from loopkernel.loop.algorithms.references import has_references, references, resolved, sources
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    end,
    know,
    look_again,
    pass_over,
    places_of,
    unpark,
)
from loopkernel.loop.algorithms.wording import (
    UNPARSED,
    cancelled_text,
    edited_text,
    unreachable_text,
)
from loopkernel.loop.draft import CallsDraft, new_draft

# --- what a call uses, under the settings that hold now -------------------------------------------------


def offered(settings: Settings, name: str) -> Tool | None:
    """The offered tool of that name."""
    return settings.offered.get(name)


def is_output_call(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call, if it is valid, gives the output: it is never run, and uses nothing (rule CALL-5).

    One that has run already, since its tool gives the output only by a later policy, is a call as any.
    """
    output_tool = settings.policy.output_tool
    return output_tool is not None and output_tool == entry.tool and not entry.runs


def never_runs(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call is answered without a run, whatever is decided: it holds no other back."""
    if isinstance(entry.verdict, InvalidCall | UnknownTool) or entry.hooks.blocked is not None:
        return True
    return is_output_call(entry, settings)


NO_CLAIMS = Claimant(())


def claimant_of(entry: LedgerEntry, settings: Settings) -> Claimant | None:
    """The entry as the schedule sees it; None before its first check.

    What a reference will name is not known to the check either: a resource that it stands for makes the claims None.
    """
    return NO_CLAIMS if never_runs(entry, settings) else claimant_that_may_run(entry, settings)


def claimant_that_may_run(entry: LedgerEntry, settings: Settings) -> Claimant | None:
    """As `claimant_of`, of a call that is not answered without a run."""
    if not isinstance(entry.verdict, ValidCall):
        return None
    tool = offered(settings, entry.tool)
    if tool is not None and tool.profile is None:
        return Claimant(() if settings.policy.no_profile is NoProfile.NO_CONFLICT else None)
    return Claimant(entry.verdict.claims, tool is not None and tool.profile is not None and tool.profile.serial)


def checked_claims(entry: LedgerEntry) -> tuple[Claim, ...] | None:
    """What rules of approval take the call to use: the claims of its last check; None where they are not known."""
    return entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None


def effect_class(entry: LedgerEntry, settings: Settings) -> EffectClass:
    """What runs of the entry may have done, as it was when they started; before that, what its tool may do."""
    return class_of(settings, entry.tool) if entry.effect is None else entry.effect


def class_of(settings: Settings, name: str) -> EffectClass:
    """What running the tool of that name may do."""
    return worst_effect_of(offered(settings, name))


def worst_effect_of(tool: Tool | None) -> EffectClass:
    """What running the tool may do; one without a profile counts as dangerous."""
    return EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect


def only_reads(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the entry's tool is read-only."""
    return effect_class(entry, settings) is EffectClass.READ_ONLY


# --- calls come in --------------------------------------------------------------------------------------


def add_call(draft: CallsDraft, call: ToolCall, verdict: Verdict | None) -> CallsDraft:
    """The reply holds one more complete call; it is checked unless the verdict came with it (rule TOOL-18).

    What that changes is changed at once, since every call comes by.
    """
    ledger, links, faults = _linked(draft.ledger, call)
    place = ledger.entries.size
    given = call.input
    if isinstance(given, RawInput):
        verdict = InvalidCall(UNPARSED)
    elif is_disabled(draft.session.watch, call.tool):
        verdict = UnknownTool()  # it is not offered, for now
    elif faults:
        verdict = InvalidCall(f"call {quoted(call.provider_id)} cannot be placed among the others: {'; '.join(faults)}")
    elif links is not None and links.refers and _all_done(ledger, links):
        given = resolved(given, outputs_of(ledger, links.sources))
        links, verdict = evolve(links, resolved=given), None  # what it uses is asked about with its final input
    failed = None if links is None else _failed_source(ledger, links)
    session, told = draft.session, draft.told
    check: CheckOperation | None = None
    checked = ledger.checked
    if failed is None and verdict is None and not isinstance(given, RawInput):
        operations, number = session.operations.mint(OperationKind.CHECK)
        session, check = session.updated(operations=operations), CheckOperation(number)
        told = (told, new_check_call(operation=check, call=call.id, tool=call.tool, input=given))
        checked = noted(checked, number - ledger.first_check, place)
    entry = new_entry(call=call, check=check, verdict=verdict, links=links)
    ledger = ledger.updated(
        ledger.entries.append(entry),
        unanswered=ledger.unanswered + 1,
        checking=ledger.checking + (check is not None),
        linked=ledger.linked or links is not None,
        checked=checked,
        plan=None if ledger.plan is None else _planned(ledger.plan, entry, session.settings),
        ids=None if ledger.ids is None else ledger.ids.put(call.provider_id, place),
    )
    draft = new_draft(session, draft.stamp, ledger, told)
    return draft if failed is None else close(draft, place, _unreachable(draft.ledger, place, failed))


def _planned(plan: Plan, entry: LedgerEntry, settings: Settings) -> Plan:
    """The plan with one more call, behind all others."""
    return add(
        plan,
        claimant_of(entry, settings),
        reads=only_reads(entry, settings),
        passive=never_runs(entry, settings),
        sources=() if entry.links is None else entry.links.sources,
    )


def noted(places: Vector[int], index: int, place: int) -> Vector[int]:
    """The places by number, with one more at `index`; numbers that belong to no call are passed over."""
    while places.size < index:
        places = places.append(-1)
    return places.append(place)


def _linked(ledger: Ledger, call: ToolCall) -> tuple[Ledger, Links | None, tuple[str, ...]]:
    """What the call depends on, and what is wrong with that (rule CALL-1)."""
    refers_to = isinstance(call.input, Json) and has_references(call.input)
    if not call.after and not refers_to:
        return ledger, None, ()
    given = call.input if isinstance(call.input, Json) else Json.of(None)
    ids = ledger.ids
    if ids is None:
        ids = TextMap()
        for place, entry in enumerate(ledger.entries):
            ids = ids.put(entry.call.provider_id, place)
        ledger = evolve(ledger, ids=ids)
    wanted = {name: ids.get(name) for name in (*call.after, *references(given))}
    earlier = {name: place for name, place in wanted.items() if place is not None}
    found = sources(earlier, call.provider_id, call.after, given)
    return ledger, Links(sources=found.places, refers=refers_to), found.faults


# --- reports find their calls -----------------------------------------------------------------------------


def open_check(ledger: Ledger, operation: CheckOperation) -> int | None:
    """The place of the entry that waits for this check; None if no open entry does."""
    place = ledger.place_of_check(operation)
    return None if place is None or ledger.entries[place].check != operation else place


def open_run(ledger: Ledger, operation: RunOperation) -> int | None:
    """The place of the entry that this run is the open run of; None if it is not open."""
    place = ledger.place_of_run(operation)
    if place is None:
        return None
    entry = ledger.entries[place]
    return place if entry.operation == operation and entry.has_run else None


# --- checks -----------------------------------------------------------------------------------------------


def take_verdict(draft: CallsDraft, place: int, verdict: Verdict) -> CallsDraft:
    """The check of the entry has answered."""
    ledger = draft.ledger
    before = ledger.entries[place]
    entry = before.judged(verdict)
    plan = None if ledger.plan is None else _replanned(ledger.plan, place, before, entry, draft.session.settings)
    return draft.with_ledger(
        ledger.updated(ledger.entries.replace(place, entry), checking=ledger.checking - 1, plan=plan)
    )


def _replanned(plan: Plan, place: int, before: LedgerEntry, entry: LedgerEntry, settings: Settings) -> Plan | None:
    """The plan after a verdict on the call; None: all is to be planned anew."""
    known, claimant = claimant_of(before, settings), claimant_of(entry, settings)
    if claimant == known:
        plan = look_again(plan, 1 << place)
    elif claimant is not None and (known is None or known.claims is None):
        plan = know(plan, place, claimant)
    else:  # other claims than those that the plan knows
        return None
    return pass_over(plan, place) if never_runs(entry, settings) else plan


def ask_check(draft: CallsDraft, place: int, tool: str, given: Json) -> CallsDraft:
    """The adapter is asked about the call, with another tool or input than before."""
    draft, number = draft.mint(OperationKind.CHECK)
    check, ledger = CheckOperation(number), draft.ledger
    entry = ledger.entries[place]
    ledger = ledger.updated(
        ledger.entries.replace(place, evolve(entry, check=check)),
        checking=ledger.checking + 1,
        checked=noted(ledger.checked, number - ledger.first_check, place),
        plan=ledger.plan,
    )
    return draft.with_ledger(ledger, CheckCall(operation=check, call=entry.call.id, tool=tool, input=given))


def forget_check(draft: CallsDraft, place: int) -> CallsDraft:
    """The open check of the entry, if any, is of no more interest."""
    entry, ledger = draft.ledger.entries[place], draft.ledger
    if entry.check is None:
        return draft
    entries = ledger.entries.replace(place, evolve(entry, check=None))
    draft = draft.with_ledger(ledger.updated(entries, checking=ledger.checking - 1, plan=ledger.plan))
    return draft.abandon(OperationKind.CHECK, entry.check)


def set_timer(draft: CallsDraft, place: int, purpose: TimerPurpose, deadline_ms: int) -> CallsDraft:
    """The entry is bounded by a new timer."""
    draft, timer = draft.start_timer(purpose, deadline_ms)
    ledger = draft.ledger
    entries = ledger.entries.replace(place, evolve(ledger.entries[place], timer=timer))
    timed = noted(ledger.timed, timer.operation - ledger.first_timer, place)
    return draft.with_ledger(ledger.updated(entries, timed=timed, plan=ledger.plan))


# --- answers ----------------------------------------------------------------------------------------------


def answer_of(
    entry: LedgerEntry,
    status: CallStatus,
    content: tuple[UserBlock, ...],
    reason: CancelReason | None = None,
) -> ToolResult:
    """The answer to a call that does not come from its tool; of a run that was edited, with a note of that."""
    content = (*note_on_edit(entry), *content) if entry.runs else content
    return ToolResult(
        call=entry.call.id,
        provider_id=entry.call.provider_id,
        tool=entry.call.tool,
        status=status,
        content=content,
        reason=reason,
        ran=entry.runs > 0,
        decided=entry.person.answered,
    )


def note_on_edit(entry: LedgerEntry) -> tuple[UserBlock, ...]:
    """What a person has changed of the call, told before its output (rule ASK-3)."""
    edit = entry.person.edit
    if edit is None:
        return ()
    shown = redacted(edit.input).text  # the note is shown on screens too
    return (TextBlock(edited_text(edit.tool, shown, edit.action is UserAction.SWAP)),)


def error_result(entry: LedgerEntry, why: str, reason: CancelReason | None = None) -> ToolResult:
    """The call is answered with an error, which says why."""
    return answer_of(entry, CallStatus.ERROR, (TextBlock(why),), reason)


def cancelled_result(entry: LedgerEntry, reason: CancelReason) -> ToolResult:
    """The call is answered as cancelled."""
    return answer_of(entry, CallStatus.CANCELLED, (TextBlock(cancelled_text(reason)),), reason)


def close(
    draft: CallsDraft,
    place: int,
    result: ToolResult,
    *,
    stopped: bool = True,
    output: tuple[UserBlock, ...] | None = None,
) -> CallsDraft:
    """The open entry gets its one result; the calls that depend on it go on, or are answered too (rule CALL-3).

    A run that has not `stopped` keeps its resources. `output` is what the tool returned, where the result differs.
    """
    draft = close_alone(draft, place, result, stopped=stopped, output=output)
    if not draft.ledger.linked:
        return draft
    ended = [place]
    while ended:
        for follower in _dependents(draft.ledger, ended.pop(0)):
            entry = draft.ledger.entries[follower]
            if not entry.is_open or entry.links is None:
                continue
            failed = _failed_source(draft.ledger, entry.links)
            if failed is None:
                draft = _resolve(draft, follower)
                continue
            draft = forget_check(draft, follower)
            draft = close_alone(draft, follower, _unreachable(draft.ledger, follower, failed))
            ended.append(follower)
    return draft


def close_alone(
    draft: CallsDraft,
    place: int,
    result: ToolResult,
    *,
    stopped: bool = True,
    output: tuple[UserBlock, ...] | None = None,
    timed: bool = True,
) -> CallsDraft:
    """The open entry gets its result, and no other call is looked at. Not `timed`: its timer is closed already."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    waits = entry.status is CallStatus.BLOCKED_ON_USER
    running = entry.status is CallStatus.IN_PROGRESS
    plan = ledger.plan
    if plan is not None:
        plan = end(plan, place, stopped=stopped)
        plan = plan if entry.child is None else unpark(plan)  # what was reserved for it is there for others (LIMIT-2)
    ledger = ledger.updated(
        ledger.entries.replace(place, entry.ended(result, output)),
        unanswered=ledger.unanswered - 1,
        running=ledger.running - running,
        waiting=ledger.waiting - waits,
        asking=ledger.asking - (waits and entry.is_running),
        children=ledger.children - (running and entry.child is not None),
        hooked=ledger.hooked - (entry.status is CallStatus.QUEUED and entry.hooks.open is not None),
        plan=plan,
    )
    timer = entry.timer if timed else None
    closed = () if timer is None else (CancelTimer(timer.operation),)
    return draft.with_ledger(ledger, *closed, ToolEnded(result))


def _dependents(ledger: Ledger, place: int) -> Iterable[int]:
    if ledger.plan is not None:
        return places_of(ledger.plan.dependents[place])
    return (
        later
        for later in range(place + 1, ledger.entries.size)
        if (links := ledger.entries[later].links) is not None and place in links.sources
    )


def _failed_source(ledger: Ledger, links: Links) -> LedgerEntry | None:
    """The first call that these links need, and that has ended otherwise than done."""
    needed = (ledger.entries[source] for source in links.sources)
    return next((entry for entry in needed if not entry.is_open and entry.status is not CallStatus.DONE), None)


def _all_done(ledger: Ledger, links: Links) -> bool:
    return all(ledger.entries[source].status is CallStatus.DONE for source in links.sources)


def _unreachable(ledger: Ledger, place: int, source: LedgerEntry) -> ToolResult:
    return error_result(ledger.entries[place], unreachable_text(source.call.provider_id, source.status))


def _resolve(draft: CallsDraft, place: int) -> CallsDraft:
    """A source of the call is done: when all are, its references are resolved, and its input is checked again."""
    entry = draft.ledger.entries[place]
    links, given = entry.links, entry.call.input
    if links is None or not entry.refers or not isinstance(given, Json) or not _all_done(draft.ledger, links):
        return draft
    draft = forget_check(draft, place)
    entry = draft.ledger.entries[place]
    if isinstance(entry.verdict, UnknownTool | InvalidCall):
        return draft  # it will not run, whatever it refers to
    ready = resolved(given, outputs_of(draft.ledger, links.sources))
    return ask_check(draft.put(place, evolve(entry, links=evolve(links, resolved=ready))), place, entry.tool, ready)


def outputs_of(ledger: Ledger, places: Iterable[int]) -> dict[str, str]:
    """What the calls at these places returned, as text, by the provider's ids: in full, without any note."""
    outputs: dict[str, str] = {}
    for place in places:
        entry = ledger.entries[place]
        content = entry.output
        if content is None:
            content = () if entry.result is None else entry.result.content
        outputs[entry.call.provider_id] = text_of(content)
    return outputs


def results(ledger: Ledger) -> tuple[ToolResult, ...]:
    """The answers so far, in call order (rule TOOL-8)."""
    return tuple([entry.result for entry in ledger.entries if entry.result is not None])
