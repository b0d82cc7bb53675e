"""Sub-agents under way: started, told what changes, and what they say and ask (section CHILD)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.children import ChildRun, Reservation
from loopkernel.data.effects import StartChild, TellChild
from loopkernel.data.events import ChildAsked, ChildStarted, ToolProgressed
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ChildWait, Ledger, LedgerEntry
from loopkernel.data.outside_deltas import ChildAsks
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.thread_deltas import Created
from loopkernel.data.user_deltas import (
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Forget,
    Permit,
    Remember,
    SettingsChange,
)
from loopkernel.data.words import CallStatus, TimerPurpose
from loopkernel.loop.algorithms.children import (
    calls_left,
    child_policy,
    child_tools,
    share,
    shares_budgets,
    task_of,
)
from loopkernel.loop.calls.ledger import class_of, noted, set_timer
from loopkernel.loop.calls.starting import put_started
from loopkernel.loop.calls.totals import is_child, totals_of
from loopkernel.loop.draft import CallsDraft

# --- what they may spend --------------------------------------------------------------------------------


def waits_for_share(ledger: Ledger, session: Session, place: int) -> bool:
    """Whether all that the call would need of a budget is reserved for sub-agents under way (rule LIMIT-2)."""
    entry, settings = ledger.entries[place], session.settings
    if not shares_budgets(settings.policy) or not any_child(ledger):
        return False
    taken = totals_of(ledger, settings).taken
    if not taken.shares:
        return False
    if is_child(entry, settings):
        return share_of(ledger, session) is None
    limited = settings.policy.max_tool_calls is not None
    return limited and not entry.runs and calls_left(settings.policy, session.started, taken) < 1


def any_child(ledger: Ledger) -> bool:
    """Whether a sub-agent may be under way."""
    return bool(ledger.children or ledger.asking)


def share_of(ledger: Ledger, session: Session) -> Reservation | None:
    """What the next sub-agent may spend, as one of those that the reply still asks for; None: nothing is left now."""
    settings = session.settings
    if not shares_budgets(settings.policy):
        return Reservation()
    totals = totals_of(ledger, settings)
    return share(settings.policy, session.usage, session.started, totals.taken, max(totals.to_come, 1))


# --- started --------------------------------------------------------------------------------------------


def start_child(draft: CallsDraft, place: int, given: Json, reserved: Reservation) -> CallsDraft:
    """A sub-agent runs for the call (rule CHILD-1); its session is named by its place below the run it belongs to."""
    entry, settings = draft.ledger.entries[place], draft.session.settings
    session_id = f"{settings.session_id}/{settings.lineage}/{entry.call.id}"
    child = ChildRun(session_id=session_id, reserved=reserved)
    effect = class_of(settings, entry.tool)
    operations, number = draft.session.operations.mint(OperationKind.RUN)
    operation = RunOperation(number)
    limit_ms = _time_of_child(draft.ledger, settings, draft.stamp.now_ms)
    command = _command(draft, entry, operation, child, given, entry.runs + 1)
    limit = TimerPurpose.CHILD_TIMEOUT, limit_ms
    told = ((draft.told, command), ChildStarted(entry.call.id))
    return put_started(draft, place, operations, operation, effect, limit, told, child)


def resume_child(draft: CallsDraft, place: int, child: ChildRun, given: Json, operation: RunOperation) -> CallsDraft:
    """The process was restarted: the sub-agent goes on from its own log, within the time that it had (RESUME-3)."""
    entry = draft.ledger.entries[place]
    wait, timer = entry.person.wait, entry.timer
    deadline_ms = None if timer is None else timer.deadline_ms
    if isinstance(wait, ChildWait):
        deadline_ms = None if wait.left_ms is None else draft.stamp.now_ms + wait.left_ms
        draft = _goes_on(draft, place)
    draft, number = draft.abandon(OperationKind.RUN, operation).mint(OperationKind.RUN)
    again, ledger = RunOperation(number), draft.ledger
    entry = evolve(ledger.entries[place], operation=again, timer=None)
    started = noted(ledger.started, number - ledger.first_run, place)
    draft = draft.with_ledger(ledger.updated(ledger.entries.replace(place, entry), started=started, plan=ledger.plan))
    draft = draft.tell(
        _command(draft, entry, again, child, given, entry.runs, resumed=True),
        TellChild(
            again, ChangePolicy(child_policy(draft.session.settings.policy, child.reserved))
        ),  # it may not have heard of changes
        *((TellChild(again, Forget()),) if child.forgets else ()),
        *(TellChild(again, Remember(remembered)) for remembered in draft.session.settings.remembered),
    )
    return draft if deadline_ms is None else set_timer(draft, place, TimerPurpose.CHILD_TIMEOUT, deadline_ms)


def _command(
    draft: CallsDraft,
    entry: LedgerEntry,
    operation: RunOperation,
    child: ChildRun,
    given: Json,
    run: int,
    *,
    resumed: bool = False,
) -> StartChild:
    return StartChild(
        operation=operation,
        call=entry.call.id,
        run=run,
        tool=entry.tool,
        input=given,
        created=_created(draft.session.settings, child, draft.ledger.nonce),
        task=task_of(given),
        resumed=resumed,
    )


def _created(settings: Settings, child: ChildRun, nonce: str) -> Created:
    """The first record of a sub-agent's log: its parent's settings, less what is the parent's alone."""
    policy = child_policy(settings.policy, child.reserved)
    return Created(
        session_id=child.session_id,
        policy=policy,
        tools=child_tools(policy, settings.tools),
        instructions=settings.instructions,
        remembered=settings.remembered,
        nonce=nonce,
    )


def _time_of_child(ledger: Ledger, settings: Settings, now_ms: int) -> int | None:
    """How long a sub-agent may take: its limit, and no more than the turn has left."""
    policy = settings.policy
    if policy.max_wall_ms is None:
        return policy.child.timeout_ms
    left_ms = max(ledger.opened_ms + policy.max_wall_ms - now_ms, 0)
    return left_ms if policy.child.timeout_ms is None else min(left_ms, policy.child.timeout_ms)


# --- told -----------------------------------------------------------------------------------------------


def tell_children(draft: CallsDraft, delta: SettingsChange) -> CallsDraft:
    """Mode, rules, policy and approvals hold for sub-agents too; tools and instructions stay as they began (ASK-5)."""
    if not draft.ledger.unanswered:
        return draft
    for place, entry in enumerate(draft.ledger.entries):
        told = None if entry.child is None or not entry.has_run else _for_child(delta, entry.child)
        if told is None or entry.child is None or entry.operation is None:
            continue
        draft = draft.tell(TellChild(entry.operation, told))
        if isinstance(told, Forget):
            draft = draft.put(place, evolve(entry, child=evolve(entry.child, forgets=True)))
    return draft


def _for_child(delta: SettingsChange, child: ChildRun) -> ChangeMode | Permit | Remember | Forget | ChangePolicy | None:
    match delta:
        case ChangeMode() | Permit() | Remember() | Forget():
            return delta
        case ChangePolicy():
            return ChangePolicy(child_policy(delta.policy, child.reserved))
        case ChangeTools() | ChangeInstructions():
            return None
        case _:
            assert_never(delta)


# --- heard ----------------------------------------------------------------------------------------------


def child_said(draft: CallsDraft, place: int, child: ChildRun, text: str) -> CallsDraft:
    """The sub-agent has said something, which is what is left of it should it not come to an end."""
    entry = draft.ledger.entries[place]
    draft = draft.put(place, evolve(entry, child=evolve(child, text=text), progress=entry.progress.append(text)))
    return draft if entry.operation is None else draft.tell(ToolProgressed(entry.call.id, entry.operation, text))


def child_asks(draft: CallsDraft, place: int, delta: ChildAsks) -> CallsDraft:
    """Calls of the sub-agent wait for a person, or none does any more; its time does not run meanwhile."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    before = entry.person.wait
    waited = isinstance(before, ChildWait)
    asked = before.asked if isinstance(before, ChildWait) else ()
    if not delta.asked:
        if not isinstance(before, ChildWait):
            return draft
        draft = _goes_on(draft, place)
        if before.left_ms is None:
            return draft
        return set_timer(draft, place, TimerPurpose.CHILD_TIMEOUT, draft.stamp.now_ms + before.left_ms)
    if isinstance(before, ChildWait):
        left_ms = before.left_ms
    else:
        left_ms = None if entry.timer is None else max(entry.timer.deadline_ms - draft.stamp.now_ms, 0)
    person = evolve(entry.person, wait=ChildWait(delta.asked, left_ms))
    waiting = evolve(entry, status=CallStatus.BLOCKED_ON_USER, timer=None, person=person)
    ledger = ledger.updated(
        ledger.entries.replace(place, waiting),
        running=ledger.running - (not waited),
        children=ledger.children - (not waited),
        waiting=ledger.waiting + (not waited),
        asking=ledger.asking + (not waited),
        plan=ledger.plan,
    )
    draft = draft.with_ledger(ledger).close_timer(entry.timer)
    return draft.tell(*(ChildAsked(entry.call.id, call) for call in delta.asked if call not in asked))


def _goes_on(draft: CallsDraft, place: int) -> CallsDraft:
    """Nobody is asked any more: the sub-agent runs."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    running = evolve(entry, status=CallStatus.IN_PROGRESS, person=evolve(entry.person, wait=None))
    return draft.with_ledger(
        ledger.updated(
            ledger.entries.replace(place, running),
            running=ledger.running + 1,
            children=ledger.children + 1,
            waiting=ledger.waiting - 1,
            asking=ledger.asking - 1,
            plan=ledger.plan,
        )
    )
