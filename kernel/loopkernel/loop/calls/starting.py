"""Calls start to run, as tools or as sub-agents, or are put to a person (rules TOOL-10, ASK-2, ASK-6 and CHILD-1)."""

from attrs import evolve

from loopkernel.data.children import ChildRun, Reservation
from loopkernel.data.effects import Effect, StartChild, StartTool
from loopkernel.data.events import ApprovalAsked, ChildStarted
from loopkernel.data.ids import CallId, OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry, Wait
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.thread_deltas import Created
from loopkernel.data.timers import Timer
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, LimitName, TimerPurpose
from loopkernel.loop.algorithms.budget import budget_reached
from loopkernel.loop.algorithms.children import (
    calls_left,
    child_policy,
    child_tools,
    share,
    shares_budgets,
    task_of,
)
from loopkernel.loop.algorithms.scheduling import park, start
from loopkernel.loop.calls.claims import class_of, offered
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import noted
from loopkernel.loop.calls.totals import is_child, totals_of, with_totals
from loopkernel.loop.gates.timers import start_timer


def start_call(ledger: Ledger, session: Session, place: int, given: Json, now_ms: int) -> Ledgered:
    """The call runs, as a sub-agent where its tool says so; or waits for what other sub-agents may still spend."""
    settings = session.settings
    child = is_child(ledger.entries[place], settings)
    if shares_budgets(settings.policy) and (child or _any_child(ledger)):
        ledger = with_totals(ledger, settings)
    if waits_for_share(ledger, session, place):
        return Ledgered(ledger if ledger.plan is None else evolve(ledger, plan=park(ledger.plan, place)), session)
    if not child:
        return start_run(ledger, session, place, given, now_ms)
    reserved = _share(ledger, session)
    if reserved is None:
        spent = budget_reached(settings.policy, session.usage, now_ms - ledger.opened_ms)
        return Ledgered(ledger, session, spent=spent or LimitName.TOOL_CALLS)
    return _start_child(ledger, session, place, given, reserved, now_ms)


def waits_for_share(ledger: Ledger, session: Session, place: int) -> bool:
    """Whether all that the call would need of a budget is reserved for sub-agents under way (rule LIMIT-2)."""
    entry, settings = ledger.entries[place], session.settings
    if not shares_budgets(settings.policy) or not _any_child(ledger):
        return False
    taken = totals_of(ledger, settings).taken
    if not taken.shares:
        return False
    if is_child(entry, settings):
        return _share(ledger, session) is None
    limited = settings.policy.max_tool_calls is not None
    return limited and not entry.runs and calls_left(settings.policy, session.started, taken) < 1


def _any_child(ledger: Ledger) -> bool:
    """Whether a sub-agent may be under way."""
    return bool(ledger.children or ledger.asking)


# --- tools ----------------------------------------------------------------------------------------------


def start_run(ledger: Ledger, session: Session, place: int, given: Json, now_ms: int) -> Ledgered:
    """One more run of the call starts, within its time (rule TOOL-10)."""
    settings = session.settings
    limit_ms = timeout_of(ledger.entries[place], settings)
    ledger, session, effects = _started(ledger, session, place, TimerPurpose.TOOL_TIMEOUT, limit_ms, now_ms)
    entry = ledger.entries[place]
    command = StartTool(
        operation=RunOperation(session.operations.minted[OperationKind.RUN]),
        call=entry.call.id,
        run=entry.runs,
        tool=entry.tool,
        input=given,
        key=run_key(settings, ledger.nonce, entry.call.id),
    )
    return Ledgered(ledger, session, (command, *effects))


def run_key(settings: Settings, nonce: str, call: CallId) -> str:
    """What a run of the call is known by outside, the same for each run of it, and for no other call of any run."""
    key = f"{settings.session_id}/{settings.lineage}/{call}"
    return f"{key}/{nonce}" if nonce else key


def _child_id(settings: Settings, entry: LedgerEntry) -> str:
    """The id of the session of a sub-agent: its place below the run that it belongs to."""
    return f"{settings.session_id}/{settings.lineage}/{entry.call.id}"


def _started(
    ledger: Ledger,
    session: Session,
    place: int,
    purpose: TimerPurpose,
    limit_ms: int | None,
    now_ms: int,
    child: ChildRun | None = None,
) -> tuple[Ledger, Session, tuple[Effect, ...]]:
    """The entry runs, under the operation minted last, until its time is over."""
    entry = ledger.entries[place]
    operations, number = session.operations.mint(OperationKind.RUN)
    timer: Timer | None = None
    effects: tuple[Effect, ...] = ()
    timed = ledger.timed
    if limit_ms is not None:
        operations, timer, command = start_timer(operations, purpose, now_ms + limit_ms)
        timed = noted(timed, timer.operation - ledger.first_timer, place)
        effects = (command,)
    waited = entry.status is CallStatus.BLOCKED_ON_USER
    effect = class_of(session.settings, entry.tool)
    first = entry.runs == 0
    entry = entry.started(RunOperation(number), timer, effect.worst(entry.effect), child)
    ledger = ledger.updated(
        ledger.entries.replace(place, entry),
        running=ledger.running + 1,
        waiting=ledger.waiting - waited,
        children=ledger.children + (child is not None),
        started=noted(ledger.started, number - ledger.first_run, place),
        timed=timed,
        plan=None if ledger.plan is None else start(ledger.plan, place),
    )
    if not first:
        return ledger, session.with_operations(operations), effects
    course = session.course.with_call(writes=effect is not EffectClass.READ_ONLY)
    return ledger, session.updated(operations=operations, started=session.started + 1, course=course), effects


def timeout_of(entry: LedgerEntry, settings: Settings) -> int | None:
    """How long a run of the entry may take, in milliseconds; None: as long as it likes."""
    tool = offered(settings, entry.tool)
    own = None if tool is None or tool.profile is None else tool.profile.timeout_ms
    return settings.policy.tool_timeout_ms if own is None else own


# --- sub-agents -----------------------------------------------------------------------------------------


def _start_child(
    ledger: Ledger, session: Session, place: int, given: Json, reserved: Reservation, now_ms: int
) -> Ledgered:
    """A sub-agent runs for the call (rule CHILD-1)."""
    limit_ms = _time_of_child(ledger, session.settings, now_ms)
    child = ChildRun(session_id=_child_id(session.settings, ledger.entries[place]), reserved=reserved)
    ledger, session, effects = _started(ledger, session, place, TimerPurpose.CHILD_TIMEOUT, limit_ms, now_ms, child)
    entry = ledger.entries[place]
    command = child_command(ledger, place, child, given, session)
    return Ledgered(ledger, session, (command, ChildStarted(entry.call.id), *effects))


def child_command(
    ledger: Ledger, place: int, child: ChildRun, given: Json, session: Session, *, resumed: bool = False
) -> StartChild:
    """What is asked for, under the operation minted last."""
    entry = ledger.entries[place]
    return StartChild(
        operation=RunOperation(session.operations.minted[OperationKind.RUN]),
        call=entry.call.id,
        run=entry.runs,
        tool=entry.tool,
        input=given,
        created=_created(session.settings, child, ledger.nonce),
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


def _share(ledger: Ledger, session: Session) -> Reservation | None:
    """What the next sub-agent may spend, as one of those that the reply still asks for; None: nothing is left now."""
    settings = session.settings
    if not shares_budgets(settings.policy):
        return Reservation()
    totals = totals_of(ledger, settings)
    return share(settings.policy, session.usage, session.started, totals.taken, max(totals.to_come, 1))


# --- people ---------------------------------------------------------------------------------------------


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
