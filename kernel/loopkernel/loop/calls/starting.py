"""A call starts to run, or is put to a person (rules TOOL-10, ASK-2 and ASK-6)."""

from attrs import evolve

from loopkernel.data.children import ChildRun
from loopkernel.data.choices import Oversize
from loopkernel.data.effects import StartTool, new_start_tool
from loopkernel.data.events import ApprovalAsked
from loopkernel.data.ids import CallId, OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Wait
from loopkernel.data.operations import Operations
from loopkernel.data.sessions import Settings
from loopkernel.data.timers import Timer
from loopkernel.data.tools import EffectClass, Tool
from loopkernel.data.words import CallStatus, TimerPurpose
from loopkernel.loop.algorithms.scheduling import start
from loopkernel.loop.calls.ledger import noted, set_timer, worst_effect_of
from loopkernel.loop.draft import CallsDraft, Told, minted_timer, new_draft


def start_run(draft: CallsDraft, place: int, given: Json, tool: Tool | None) -> CallsDraft:
    """One more run of the call starts, within its time (rule TOOL-10); its tool is `tool`, where that is offered."""
    entry, settings = draft.ledger.entries[place], draft.session.settings
    effect = worst_effect_of(tool)
    operations, number = draft.session.operations.mint(OperationKind.RUN)
    operation = RunOperation(number)
    command = start_tool(
        settings,
        draft.ledger.nonce,
        operation=operation,
        call=entry.call.id,
        run=entry.runs + 1,
        name=entry.tool,
        tool=tool,
        given=given,
    )
    limit = TimerPurpose.TOOL_TIMEOUT, timeout_of(tool, settings)
    return put_started(draft, place, operations, operation, effect, limit, (draft.told, command))


def start_tool(
    settings: Settings,
    nonce: str,
    *,
    operation: RunOperation,
    call: CallId,
    run: int,
    name: str,
    tool: Tool | None,
    given: Json,
) -> StartTool:
    """The command that starts a run of the tool of that name, which is `tool` where it is offered.

    Its key is the same for each run of the call, and for no other call of any run. A shell puts its long output into a
    file, where the policy says so (rule TOOL-11).
    """
    key, limit = f"{settings.session_id}/{settings.lineage}/{call}", settings.policy.result_limit
    runs_commands = tool is not None and tool.profile is not None and bool(tool.profile.commands)
    return new_start_tool(
        operation=operation,
        call=call,
        run=run,
        tool=name,
        input=given,
        key=f"{key}/{nonce}" if nonce else key,
        spill=limit if runs_commands and limit is not None and limit.oversize is Oversize.SPILL else None,
    )


def timeout_of(tool: Tool | None, settings: Settings) -> int | None:
    """How long a run of the tool may take, in milliseconds; None: as long as it likes."""
    own = None if tool is None or tool.profile is None else tool.profile.timeout_ms
    return settings.policy.tool_timeout_ms if own is None else own


def put_started(
    draft: CallsDraft,
    place: int,
    operations: Operations,
    operation: RunOperation,
    effect: EffectClass,
    limit: tuple[TimerPurpose, int | None],
    told: Told,
    child: ChildRun | None = None,
) -> CallsDraft:
    """The entry runs under the operation, the last of these, which may do so much, until its time is over.

    `told` is all that was told, and that it starts. The first run of a call is counted (rules LIMIT-2 and HOOK-3). What
    a start changes is changed at once, since every call comes by.
    """
    session, ledger = draft.session, draft.ledger
    entry = ledger.entries[place]
    timer: Timer | None = None
    timed = ledger.timed
    purpose, limit_ms = limit
    if limit_ms is not None:
        operations, timer, command = minted_timer(operations, purpose, draft.stamp.now_ms + limit_ms)
        told = (told, command)
        timed = noted(timed, timer.operation - ledger.first_timer, place)
    started, course = session.started, session.course
    if entry.runs == 0:
        started, course = started + 1, course.with_call(writes=effect is not EffectClass.READ_ONLY)
    ledger = ledger.updated(
        ledger.entries.replace(place, entry.started(operation, timer, effect.worst(entry.effect), child)),
        running=ledger.running + 1,
        waiting=ledger.waiting - (entry.status is CallStatus.BLOCKED_ON_USER),
        children=ledger.children + (child is not None),
        started=noted(ledger.started, operation - ledger.first_run, place),
        timed=timed,
        plan=None if ledger.plan is None else start(ledger.plan, place),
    )
    session = session.updated(operations=operations, started=started, course=course)
    return new_draft(session, draft.stamp, ledger, told)


# --- people ---------------------------------------------------------------------------------------------


def ask(draft: CallsDraft, place: int, why: Wait) -> CallsDraft:
    """The call is put to a person, who may have only so much time (rules ASK-2 and ASK-6)."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    person = evolve(entry.person, wait=why, asked=True)
    entries = ledger.entries.replace(place, evolve(entry, status=CallStatus.BLOCKED_ON_USER, person=person))
    draft = draft.with_ledger(ledger.updated(entries, waiting=ledger.waiting + 1, plan=ledger.plan))
    return time_approval(draft.tell(ApprovalAsked(entry.call.id)), place)


def time_approval(draft: CallsDraft, place: int) -> CallsDraft:
    """The time in which a person must approve the call starts anew."""
    entry, limit_ms = draft.ledger.entries[place], draft.session.settings.policy.approval_timeout_ms
    if limit_ms is None or not isinstance(entry.person.wait, ApprovalWait):
        return draft.put(place, evolve(entry, timer=None))
    return set_timer(draft, place, TimerPurpose.APPROVAL_TIMEOUT, draft.stamp.now_ms + limit_ms)
