"""The calls of a reply as a region: added, checked, started, answered (sections TOOL and CANCEL).

A call is answered exactly once; what comes after finds it closed and is refused by the caller.
"""

from typing import assert_never

from attrs import evolve, frozen

from loopkernel.data.blocks import RawInput, TextBlock, ToolCall, ToolResult
from loopkernel.data.choices import NoProfile, Schedule
from loopkernel.data.effects import AbortTool, CheckCall, Effect, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.operations import Operations
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import Decision, InvalidCall, Tool, ToolOutput, UnknownTool, ValidCall, Verdict
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.planning.approval import decide
from loopkernel.planning.scheduling import Claimant, only_reads, waits_for
from loopkernel.planning.wording import (
    UNPARSED,
    cancelled_text,
    denied_text,
    invalid_call_text,
    not_supported_text,
    unknown_tool_text,
)

_REFERENCE = '{"$result":'  # how an input refers to the output of another call, in canonical text


@frozen
class Ledgered:
    """A ledger and the operation counters after a change, and what the change causes."""

    ledger: Ledger
    operations: Operations
    effects: tuple[Effect, ...] = ()


def add_call(ledger: Ledger, operations: Operations, call: ToolCall, verdict: Verdict | None) -> Ledgered:
    """The reply holds one more complete call; it is checked unless the verdict came with it (rule TOOL-18)."""
    place = ledger.entries.size
    unanswered = ledger.unanswered + 1
    if isinstance(call.input, RawInput):
        verdict = InvalidCall(UNPARSED)
    elif verdict is None:
        operations, number = operations.mint(OperationKind.CHECK)
        check = CheckOperation(number)
        entries = ledger.entries.append(LedgerEntry(call=call, check=check))
        grown = evolve(ledger, entries=entries, unanswered=unanswered, checked=ledger.checked.append(place))
        command = CheckCall(operation=check, call=call.id, tool=call.tool, input=call.input)
        return Ledgered(grown, operations, (command,))
    entries = ledger.entries.append(LedgerEntry(call=call, verdict=verdict))
    return Ledgered(evolve(ledger, entries=entries, unanswered=unanswered), operations)


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
    return place if entry.operation == operation and entry.is_open else None


def take_verdict(ledger: Ledger, place: int, verdict: Verdict) -> Ledger:
    """The check of the entry has answered."""
    return ledger.put(place, ledger.entries[place].judged(verdict))


def add_progress(ledger: Ledger, place: int, text: str) -> Ledger:
    """A running tool says how far it is."""
    entry = ledger.entries[place]
    return ledger.put(place, evolve(entry, progress=entry.progress.append(text)))


def answer_faulty(ledger: Ledger, place: int, settings: Settings) -> tuple[Ledger, tuple[Effect, ...]]:
    """A checked call that may not run is answered with an error (rule TOOL-5); any other is left as it is."""
    entry = ledger.entries[place]
    if entry.status is not CallStatus.QUEUED or entry.verdict is None:
        return ledger, ()
    why = _why_faulty(entry, settings)
    if why is None:
        return ledger, ()
    ledger, ended = answer(ledger, place, _error(entry, why))
    return ledger, (ended,)


def answer_all_faulty(ledger: Ledger, settings: Settings) -> tuple[Ledger, tuple[Effect, ...]]:
    """The reply is complete: every checked call that may not run is answered."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        ledger, ended = answer_faulty(ledger, place, settings)
        effects.extend(ended)
    return ledger, tuple(effects)


def start_ready(ledger: Ledger, operations: Operations, settings: Settings) -> Ledgered:
    """Every call that the schedule lets start is decided on, and denied, or started if a slot is free (TOOL-5)."""
    effects: list[Effect] = []
    ledger = _marked(ledger, settings)
    place, allowed = ledger.next_queued, max(ledger.allowed_until, ledger.next_queued)
    while place < ledger.entries.size:
        free = _slot_free(ledger, settings)
        if not free and place < allowed:
            place = allowed  # these wait for a slot, and nothing else
            continue
        entry = ledger.entries[place]
        given = entry.call.input
        if entry.status is CallStatus.QUEUED:
            if not isinstance(entry.verdict, ValidCall) or isinstance(given, RawInput):
                if _claimant(entry, place, settings).claims is None:
                    break  # what this call touches is not known, so nothing behind it may start
                place += 1
                continue
            if blocker(ledger, place, settings) is not None:
                place += 1
                continue
            why = _why_denied(entry.call, given, settings)
            if why is not None:
                ledger, ended = answer(ledger, place, _error(entry, why))
                effects.append(ended)
            elif free:
                ledger, operations, started = _start(ledger, operations, place, given, settings)
                effects.append(started)
        allowed = place + 1 if allowed == place else allowed
        place += 1
    ledger = _marked(ledger, settings)
    if allowed != ledger.allowed_until:
        ledger = evolve(ledger, allowed_until=allowed)
    return Ledgered(ledger, operations, tuple(effects))


def _slot_free(ledger: Ledger, settings: Settings) -> bool:
    limit = settings.policy.max_parallel
    return limit is None or ledger.running < limit


def blocker(ledger: Ledger, place: int, settings: Settings) -> int | None:
    """The place of the first earlier open call that the call at `place` waits for; None if it waits for none."""
    schedule = settings.policy.schedule
    candidate = _claimant(ledger.entries[place], place, settings)
    if schedule is Schedule.GRAPH and place <= ledger.calm_until and only_reads(candidate):
        return None
    earlier = (
        _claimant(ledger.entries[index], index, settings)
        for index in range(ledger.first_open, place)
        if ledger.entries[index].is_open
    )
    holding = waits_for(schedule, candidate, earlier)
    return None if holding is None else holding.position


def forget_schedule(ledger: Ledger) -> Ledger:
    """Tools or policy have changed: which calls only read, and which are allowed, is found anew."""
    return evolve(ledger, calm_until=0, allowed_until=0)


def _marked(ledger: Ledger, settings: Settings) -> Ledger:
    """The marks moved past all that they may pass by now; each call is passed once by each mark."""
    entries, size = ledger.entries, ledger.entries.size
    queued, first, calm = ledger.next_queued, ledger.first_open, ledger.calm_until
    while queued < size and entries[queued].status is not CallStatus.QUEUED:
        queued += 1
    while first < size and not entries[first].is_open:
        first += 1
    while calm < size and (not entries[calm].is_open or only_reads(_claimant(entries[calm], calm, settings))):
        calm += 1
    if (queued, first, calm) == (ledger.next_queued, ledger.first_open, ledger.calm_until):
        return ledger
    return evolve(ledger, next_queued=queued, first_open=first, calm_until=calm)


def _claimant(entry: LedgerEntry, place: int, settings: Settings) -> Claimant:
    """The entry as the schedule sees it; not checked yet means that its resources are not known."""
    tool = offered(settings, entry.call.tool)
    if tool is not None and tool.profile is None:
        free = settings.policy.no_profile is NoProfile.NO_CONFLICT
        return Claimant(place, () if free else None)
    claims = entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None
    return Claimant(place, claims, tool is not None and tool.profile is not None and tool.profile.serial)


def offered(settings: Settings, name: str) -> Tool | None:
    """The offered tool of that name."""
    return next((tool for tool in settings.tools if tool.name == name), None)


def _why_faulty(entry: LedgerEntry, settings: Settings) -> str | None:
    """Why a checked call is answered with an error whatever policy says; None if it is sound."""
    call, name = entry.call, entry.call.tool
    tool = offered(settings, name)
    match entry.verdict:
        case InvalidCall(why):
            return invalid_call_text(name, why)
        case UnknownTool() | None:
            return unknown_tool_text(name)
        case ValidCall():
            if tool is None:
                return unknown_tool_text(name)
        case _:
            assert_never(entry.verdict)
    if isinstance(call.input, RawInput):
        return invalid_call_text(name, UNPARSED)
    if call.after or _REFERENCE in call.input.text:
        return not_supported_text(name, "a call that depends on another call")
    if tool.profile is not None and tool.profile.child:
        return not_supported_text(name, "a sub-agent")
    return None


def _why_denied(call: ToolCall, given: Json, settings: Settings) -> str | None:
    """Why a sound call may not start now, by the decision of rule ASK-1; None if it may."""
    tool = offered(settings, call.tool)
    if tool is None:
        return unknown_tool_text(call.tool)
    match decide(settings.policy, settings.remembered, tool, given):
        case Decision.ALLOW:
            return None
        case Decision.ASK:
            return not_supported_text(call.tool, "asking a person for approval")
        case Decision.DENY:
            return denied_text(call.tool)
        case other:
            assert_never(other)


def _start(
    ledger: Ledger, operations: Operations, place: int, given: Json, settings: Settings
) -> tuple[Ledger, Operations, StartTool]:
    entry = ledger.entries[place]
    operations, number = operations.mint(OperationKind.RUN)
    operation = RunOperation(number)
    entry = entry.started(operation)
    started = ledger.started.append(place)
    ledger = ledger.put(place, entry, running=ledger.running + 1, started=started)
    call = entry.call
    command = StartTool(
        operation=operation,
        call=call.id,
        run=entry.runs,
        tool=call.tool,
        input=given,
        key=f"{settings.session_id}/{settings.lineage}/{call.id}",
    )
    return ledger, operations, command


def recheck(ledger: Ledger, operations: Operations, place: int, given: Json) -> Ledgered:
    """The check of the entry is asked for once more; the one before it is the caller's to abandon."""
    entry = ledger.entries[place]
    operations, number = operations.mint(OperationKind.CHECK)
    check = CheckOperation(number)
    ledger = ledger.put(place, evolve(entry, check=check, verdict=None))
    call = entry.call
    command = CheckCall(operation=check, call=call.id, tool=call.tool, input=given)
    return Ledgered(evolve(ledger, checked=ledger.checked.append(place)), operations, (command,))


def run_again(ledger: Ledger, operations: Operations, place: int, given: Json, settings: Settings) -> Ledgered:
    """The run of the entry is lost, and is repeated in its slot; it is the caller's to abandon the lost one."""
    running = ledger.running
    ledger, operations, command = _start(ledger, operations, place, given, settings)
    return Ledgered(evolve(ledger, running=running), operations, (command,))


def answer(ledger: Ledger, place: int, result: ToolResult) -> tuple[Ledger, ToolEnded]:
    """The open entry gets its one result."""
    entry = ledger.entries[place]
    running = ledger.running - 1 if entry.status is CallStatus.IN_PROGRESS else ledger.running
    ledger = ledger.put(place, entry.ended(result), running=running, unanswered=ledger.unanswered - 1)
    return ledger, ToolEnded(result)


def _error(entry: LedgerEntry, why: str) -> ToolResult:
    return ToolResult(
        call=entry.call.id,
        provider_id=entry.call.provider_id,
        tool=entry.call.tool,
        status=CallStatus.ERROR,
        content=(TextBlock(why),),
    )


def finish_run(ledger: Ledger, place: int, output: ToolOutput, status: CallStatus) -> tuple[Ledger, ToolEnded]:
    """The open run of the entry reported its end."""
    call = ledger.entries[place].call
    result = ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=status,
        content=output.content,
        ran=True,
        final=output.final,
        stops_loop=output.stops_loop,
    )
    return answer(ledger, place, result)


def stop_call(ledger: Ledger, operations: Operations, place: int, result: ToolResult, reason: CancelReason) -> Ledgered:
    """The open entry is answered with `result`; its run is aborted for `reason`, its check abandoned."""
    entry = ledger.entries[place]
    effects: list[Effect] = []
    if entry.check is not None:
        operations = operations.abandon(OperationKind.CHECK, entry.check)
    if entry.status is CallStatus.IN_PROGRESS and entry.operation is not None:
        operations = operations.abandon(OperationKind.RUN, entry.operation)
        effects.append(AbortTool(entry.operation, reason))
    ledger, ended = answer(ledger, place, result)
    return Ledgered(ledger, operations, (*effects, ended))


def _cancelled(entry: LedgerEntry, reason: CancelReason) -> ToolResult:
    """The answer to a call that is cancelled."""
    return ToolResult(
        call=entry.call.id,
        provider_id=entry.call.provider_id,
        tool=entry.call.tool,
        status=CallStatus.CANCELLED,
        content=(TextBlock(cancelled_text(reason)),),
        reason=reason,
        ran=entry.runs > 0,
    )


def cancel_call(ledger: Ledger, operations: Operations, call: CallId) -> Ledgered | None:
    """One open call is answered as cancelled by the user (rule CANCEL-5); None if it is not open here."""
    place = call.position - 1
    if call.reply != ledger.reply or not 0 <= place < ledger.entries.size or not ledger.entries[place].is_open:
        return None
    reason = CancelReason.USER_CANCELLED
    stopped = stop_call(ledger, operations, place, _cancelled(ledger.entries[place], reason), reason)
    return Ledgered(stopped.ledger, stopped.operations, stopped.effects)


def cancel_open(ledger: Ledger, operations: Operations, reason: CancelReason) -> Ledgered:
    """Every open call is answered as cancelled; first all aborts, then all answers (rule CANCEL-2)."""
    aborts: list[Effect] = []
    answers: list[Effect] = []
    for place, entry in enumerate(ledger.entries):
        if entry.is_open:
            stopped = stop_call(ledger, operations, place, _cancelled(entry, reason), reason)
            ledger, operations = stopped.ledger, stopped.operations
            *abort, ended = stopped.effects
            aborts.extend(abort)
            answers.append(ended)
    return Ledgered(ledger, operations, (*aborts, *answers))


def drop(ledger: Ledger, operations: Operations) -> Operations:
    """The reply is retracted with its calls, none of which has started: their checks are abandoned."""
    for entry in ledger.entries:
        if entry.check is not None:
            operations = operations.abandon(OperationKind.CHECK, entry.check)
    return operations


def results(ledger: Ledger) -> tuple[ToolResult, ...]:
    """The answers so far, in call order (rule TOOL-8)."""
    return tuple(entry.result for entry in ledger.entries if entry.result is not None)


def user_cancelled(answers: tuple[ToolResult, ...]) -> bool:
    """Whether the user cancelled one of the calls, which ends the turn (rule TOOL-7)."""
    return any(result.reason is CancelReason.USER_CANCELLED for result in answers)
