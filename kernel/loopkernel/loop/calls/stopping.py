"""Calls that end without a word of their tool: at fault, or cut short with their runs aborted.

Rules TOOL-5, TOOL-6, TOOL-10, ASK-7 and CANCEL-2.
"""

from collections.abc import Callable
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import RawInput, ToolResult
from loopkernel.data.events import ChildFinished
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Session
from loopkernel.data.timers import Timer
from loopkernel.data.tools import InvalidCall, UnknownTool, ValidCall
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.loop.algorithms.children import end_of, starts_child
from loopkernel.loop.algorithms.loop_detection import is_disabled
from loopkernel.loop.algorithms.scheduling import Claimant
from loopkernel.loop.algorithms.wording import (
    blocked_text,
    disabled_text,
    invalid_call_text,
    too_deep_text,
    unknown_tool_text,
)
from loopkernel.loop.calls.call_hooks import abort_call_hook, without_call_hook
from loopkernel.loop.calls.held_runs import abort_run
from loopkernel.loop.calls.ledger import (
    cancelled_result,
    claimant_of,
    close,
    close_alone,
    effect_class,
    error_result,
    forget_check,
    offered,
)
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.gates.hooks import abort_asking

# --- calls that may not run -----------------------------------------------------------------------------


def answer_faulty(draft: CallsDraft, place: int) -> CallsDraft:
    """A checked call that may not run is answered with an error (rule TOOL-5); any other is left as it is."""
    entry = draft.ledger.entries[place]
    if entry.status is not CallStatus.QUEUED or entry.verdict is None:
        return draft
    why = _why_faulty(entry, draft.session)
    return draft if why is None else close_unstarted(draft, place, why)


def answer_all_faulty(draft: CallsDraft) -> CallsDraft:
    """The reply is complete: every checked call that may not run is answered."""
    for place in range(draft.ledger.entries.size):
        draft = answer_faulty(draft, place)
    return draft


def close_unstarted(draft: CallsDraft, place: int, why: str) -> CallsDraft:
    """The call never runs: nothing is asked about it any more, and it is answered with an error."""
    draft = abort_call_hook(forget_check(draft, place), place)
    return close(draft, place, error_result(draft.ledger.entries[place], why))


def _why_faulty(entry: LedgerEntry, session: Session) -> str | None:
    """Why a checked call is answered with an error whatever policy says; None if it is sound."""
    name = entry.tool
    if entry.hooks.blocked is not None:
        return blocked_text(name, entry.hooks.blocked)
    tool = offered(session.settings, name)
    match entry.verdict:
        case InvalidCall(why):
            return invalid_call_text(name, why)
        case UnknownTool() | None:
            return disabled_text(name) if is_disabled(session.watch, name) else unknown_tool_text(name)
        case ValidCall():
            if tool is None:
                return unknown_tool_text(name)
        case _:
            assert_never(entry.verdict)
    if session.settings.policy.child.depth < 1 and starts_child(tool):
        return too_deep_text(name)
    return None


# --- calls that are cut short ---------------------------------------------------------------------------


def stop_call(draft: CallsDraft, place: int, reason: CancelReason, result: ToolResult | None = None) -> CallsDraft:
    """The open call is answered, as cancelled where no `result` is given; its run is aborted, its check forgotten."""
    draft, runs = abort_work(draft, place, reason)
    given = cancelled_result(draft.ledger.entries[place], reason) if result is None else result
    return close(draft, place, given, stopped=not runs)


def abort_work(draft: CallsDraft, place: int, reason: CancelReason) -> tuple[CallsDraft, bool]:
    """What the call has under way is aborted; whether it has a run that must still stop is told too."""
    draft, runs = _abort_run_of(draft, place, reason)
    return abort_call_hook(draft, place), runs


def _abort_run_of(draft: CallsDraft, place: int, reason: CancelReason) -> tuple[CallsDraft, bool]:
    """The check of the call is forgotten, its run aborted; whether there is one that must still stop is told too."""
    draft = forget_check(draft, place)
    entry = draft.ledger.entries[place]
    run = run_of(entry, draft.session, draft.ledger.nonce)
    if run is None:
        return draft, False
    draft = abort_run(draft, run, reason)
    return (draft if entry.child is None else draft.tell(ChildFinished(entry.call.id, end_of(reason)))), True


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


def open_place(ledger: Ledger, call: CallId) -> int | None:
    """The place of the open call; None if it is not open here."""
    place = call.position - 1
    if call.reply != ledger.reply or not 0 <= place < ledger.entries.size or not ledger.entries[place].is_open:
        return None
    return place


def cancel_calls(draft: CallsDraft, reason: CancelReason, chosen: Callable[[int, LedgerEntry], bool]) -> CallsDraft:
    """Each open call that is chosen, by its place and as it stands then, is answered as cancelled."""
    for place in range(draft.ledger.entries.size):
        entry = draft.ledger.entries[place]
        if entry.is_open and chosen(place, entry):
            draft = stop_call(draft, place, reason)
    return draft


def cancel_unstarted(draft: CallsDraft, reason: CancelReason) -> CallsDraft:
    """The calls that have not started are cancelled (rule ASK-7)."""
    return cancel_calls(draft, reason, lambda _, entry: entry.runs == 0)


def cancel_others(draft: CallsDraft, reason: CancelReason) -> CallsDraft:
    """All calls that are still open are cancelled, one after the other (rule TOOL-6)."""
    return cancel_calls(draft, reason, lambda _, entry: True)


def cancel_open(
    draft: CallsDraft,
    reason: CancelReason,
    *,
    but_waiting: bool = False,
    gate: OpenHook | None = None,
    timers: tuple[Timer | None, ...] = (),
) -> CallsDraft:
    """Every open call is answered as cancelled: first all aborts, then all timers, then all answers (rule CANCEL-2).

    `but_waiting`: calls that wait for a person's approval stay open. `gate` is a hook that is asked about the reply,
    and `timers` are those of the reply.
    """
    places = [
        place
        for place, entry in enumerate(draft.ledger.entries)
        if entry.is_open and not (but_waiting and waits_for_person(entry))
    ]
    for place in places:
        draft, _ = _abort_run_of(draft, place, reason)
    gates = [draft.ledger.entries[place].hooks.open for place in places]
    for place in places:
        draft = without_call_hook(draft, place)
    asked = [each for each in (*gates, gate) if each is not None]
    for each in asked:
        draft = abort_asking(draft, each)
    entries = draft.ledger.entries
    for timer in (*(each.timer for each in asked), *timers, *(entries[place].timer for place in places)):
        draft = draft.close_timer(timer)
    for place in places:
        result = cancelled_result(draft.ledger.entries[place], reason)
        draft = close_alone(draft, place, result, timed=False)
    return draft


def waits_for_person(entry: LedgerEntry) -> bool:
    """Whether the call waits for a person, and nothing of it runs."""
    return entry.status is CallStatus.BLOCKED_ON_USER and not entry.is_running


def user_cancelled(answers: tuple[ToolResult, ...]) -> bool:
    """Whether the user cancelled one of the calls, which ends the turn (rule TOOL-7)."""
    return CancelReason.USER_CANCELLED in [result.reason for result in answers]


def release_calls(draft: CallsDraft) -> CallsDraft:
    """The thread is released while calls wait for a person: nobody's time runs, and no edit is being checked."""
    for place in range(draft.ledger.entries.size):
        entry = draft.ledger.entries[place]
        if entry.is_open:
            draft = forget_check(draft.put(place, evolve(entry, timer=None)), place).close_timer(entry.timer)
    return draft
