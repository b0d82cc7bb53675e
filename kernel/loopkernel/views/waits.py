"""What each open call waits for: what `explain` tells, and a screen shows. Law WHY judges each reason.

for wait in waits_of(state):
    print(told(wait, names))  # call c3 waits for call c1, which writes b.txt, and for your approval
"""

from collections.abc import Callable, Iterator
from typing import assert_never

from loopkernel.data.blocks import RawInput
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import OutputCalls
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, Ledger, LedgerEntry, QuestionWait
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.tools import AccessMode, Decision, ValidCall
from loopkernel.data.waits import (
    ForAnswer,
    ForApproval,
    ForCheck,
    ForChild,
    ForConflict,
    ForHook,
    ForMore,
    ForOthers,
    ForOwnResult,
    ForReply,
    ForShare,
    ForSlot,
    ForSource,
    ForTurn,
    ForWord,
    Reason,
    Wait,
)
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.approval import decide
from loopkernel.loop.algorithms.scheduling import Claimant, blockers, clash_of, places_of
from loopkernel.loop.calls.children import waits_for_share
from loopkernel.loop.calls.ledger import checked_claims, claimant_of, never_runs, offered
from loopkernel.loop.calls.schedule import (
    failed_run,
    holder_elsewhere,
    may_start_early,
    others_open,
    planned,
    unjudged_output,
)
from loopkernel.loop.calls.totals import with_totals
from loopkernel.loop.turn.limits import budget_hit

MOST = 4  # so many calls in the way are named; the rest is counted


def waits_of(state: State) -> tuple[Wait, ...]:
    """What each open call waits for, in the order of the calls."""
    match state:
        case Streaming():
            spent = budget_hit(state.session, state.turn, state.stamp.now_ms) is not None or state.after is not None
            return tuple(_waits(state.ledger, state.session, streaming=True, spent=spent))
        case Executing() | Confirming() | Dispatching():
            return tuple(_waits(state.ledger, state.session, streaming=False))
        case Initial() | Idle() | Thinking() | Finishing() | Compacting() | Backoff() | HandingOff():
            return ()
        case Cancelled() | Done():
            return ()
        case _:
            assert_never(state)


def _waits(ledger: Ledger, session: Session, *, streaming: bool, spent: bool = False) -> Iterator[Wait]:
    """`streaming`: the reply is not complete; `spent`: a budget is, so that nothing starts before it is."""
    if not ledger.unanswered:
        return
    ledger = with_totals(planned(ledger, session), session.settings)
    for place, entry in enumerate(ledger.entries):
        if entry.is_open and ledger.plan is not None:
            yield Wait(entry.call.id, tuple(_reasons(ledger, ledger.plan, session, place, streaming, spent)))


def _reasons(
    ledger: Ledger, plan: Plan, session: Session, place: int, streaming: bool, spent: bool
) -> Iterator[Reason]:
    entry = ledger.entries[place]
    wait = entry.person.wait
    if entry.hooks.open is not None:
        yield ForHook(entry.hooks.open.hook.name)
        return
    if entry.status is CallStatus.IN_PROGRESS:
        yield ForOwnResult()
        return
    if entry.check is not None:
        yield ForCheck()
    match wait:
        case ApprovalWait():
            yield ForApproval()
        case QuestionWait():
            yield ForAnswer(wait.question)
        case CrashWait():
            yield ForWord()
        case ChildWait():
            yield ForChild(wait.asked)
        case None:
            yield from _reasons_to_queue(ledger, plan, session, place, streaming, spent)
        case _:
            assert_never(wait)


def _reasons_to_queue(
    ledger: Ledger, plan: Plan, session: Session, place: int, streaming: bool, spent: bool
) -> Iterator[Reason]:
    """Why a call has not been started, nor put to a person."""
    entry, settings = ledger.entries[place], session.settings
    passive = never_runs(entry, settings)
    early = not passive and entry.verdict is not None and may_start_early(entry, session)
    if streaming and (not early or spent or failed_run(ledger, settings)):
        yield ForReply()
    output = None if streaming else unjudged_output(ledger, settings)
    if output is not None and output.call.id != entry.call.id:
        yield ForTurn(output.call.id)
        return
    if passive:
        if isinstance(entry.verdict, ValidCall) and entry.hooks.blocked is None:
            yield from _reasons_of_output(ledger, plan, settings, place)
        return
    in_the_way, more = _in_the_way(ledger, plan, session, place)
    yield from in_the_way
    if more:
        yield ForMore(more)
    limit = settings.policy.max_parallel
    if not in_the_way and limit is not None and ledger.running + ledger.asking >= limit:
        yield ForSlot(limit)
    elif not in_the_way and waits_for_share(ledger, session, place):
        yield ForShare()
    if entry.check is None and not entry.person.approved and _will_be_asked(entry, settings):
        yield ForApproval()


def _reasons_of_output(ledger: Ledger, plan: Plan, settings: Settings, place: int) -> Iterator[Reason]:
    """Why a valid output call is not taken yet."""
    yield from (ForSource(ledger.entries[source].call.id) for source in places_of(plan.sources[place] & plan.open))
    if settings.policy.output_calls is OutputCalls.RUN and others_open(ledger, settings):
        yield ForOthers()


def _will_be_asked(entry: LedgerEntry, settings: Settings) -> bool:
    tool, given = offered(settings, entry.tool), entry.given
    if tool is None or isinstance(given, RawInput):
        return False
    claims, doubted = checked_claims(entry), entry.person.doubted
    decision = decide(
        settings.policy, settings.remembered, tool, given, doubted=doubted, claims=claims, tools=settings.tools
    )
    return decision is Decision.ASK


def _in_the_way(ledger: Ledger, plan: Plan, session: Session, place: int) -> tuple[list[Reason], int]:
    """The first MOST of the calls that must end, or stop, before this one may start; and how many more there are."""
    entry = ledger.entries[place]
    needed = plan.sources[place] & plan.open
    waits = blockers(plan, place)
    found: list[Reason] = []
    for _, blocker in zip(range(MOST), places_of(waits), strict=False):
        before = ledger.entries[blocker]
        if needed >> blocker & 1:
            found.append(ForSource(before.call.id))
        else:
            found.append(_behind(entry, before, session, plan.last_write))
    more = waits.bit_count() - len(found)
    index = holder_elsewhere(ledger, session, place)
    if index is None or len(found) == MOST:
        return found, more + (index is not None)
    run = session.held[index]
    mine = claimant_of(entry, session.settings)
    clash = None if mine is None else clash_of(Claimant(run.claims), mine, last_write=plan.last_write)
    writes = clash is None or clash.mode is AccessMode.WRITE
    return [*found, ForConflict(run.call, None if clash is None else clash.key, writes, True)], more


def _behind(entry: LedgerEntry, before: LedgerEntry, session: Session, last_write: bool) -> ForConflict | ForTurn:
    """Why a call stands behind another: what both use, or their order alone. A run that must stop uses what it took."""
    mine, theirs = claimant_of(entry, session.settings), claimant_of(before, session.settings)
    stopping = not before.is_open
    if stopping:
        theirs = next((Claimant(run.claims) for run in session.held if run.call == before.call.id), theirs)
    if mine is None or theirs is None or mine.alone or theirs.alone:
        return ForConflict(before.call.id, None, True, stopping)
    clash = clash_of(theirs, mine, last_write=last_write)
    if clash is None:
        return ForTurn(before.call.id)
    return ForConflict(before.call.id, clash.key, clash.mode is AccessMode.WRITE, stopping)


# --- in words -------------------------------------------------------------------------------------------


def told(wait: Wait, name: Callable[[CallId], str] = str) -> str:
    """The wait as a sentence for a screen; `name` says what the screen calls a call."""
    parts = [_told(reason, name) for reason in wait.reasons]
    if len(parts) > 1:
        parts = [", ".join(parts[:-1]) + ", and " + parts[-1]]
    return f"call {name(wait.call)} waits {''.join(parts)}"


def _told(reason: Reason, name: Callable[[CallId], str]) -> str:
    match reason:
        case ForReply():
            return "for the end of the reply"
        case ForCheck():
            return "for the check of its input"
        case ForOwnResult():
            return "for its own result"
        case ForApproval():
            return "for your approval"
        case ForAnswer():
            return f"for your answer to: {reason.question}"
        case ForHook():
            return f"for hook {reason.name}"
        case ForChild():
            return f"for your answer to its sub-agent ({', '.join(_address(call) for call in reason.asked)})"
        case ForWord():
            return "for your word on what became of it before the restart"
        case ForSource():
            return f"for the result of call {name(reason.call)}"
        case ForConflict():
            return f"for call {name(reason.call)}, {_told_conflict(reason)}"
        case ForTurn():
            return f"for its turn behind call {name(reason.call)}"
        case ForMore():
            return f"for {reason.calls} more {'call' if reason.calls == 1 else 'calls'}"
        case ForSlot():
            return f"for a free slot (all {reason.slots} are taken)"
        case ForShare():
            return "for what is reserved for sub-agents"
        case ForOthers():
            return "for the other calls to end"
        case _:
            assert_never(reason)


def _address(call: ChildCall) -> str:
    return "/".join(str(step) for step in call.path)


def _told_conflict(conflict: ForConflict) -> str:
    still = "is stopping, and still " if conflict.stopping else ""
    if conflict.key is None:
        return f"which {still}must not overlap with it"
    return f"which {still}{'writes' if conflict.writes else 'reads'} {conflict.key}"
