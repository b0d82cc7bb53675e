"""`Initial`: not created yet, not acquired yet, or released (rule STATE-3)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.events import ApprovalAsked, Refused, RunStarted, SessionResumed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import Executing, Idle, Initial
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import (
    RULES_VERSION,
    Acquired,
    Created,
    Disposed,
    Forked,
    FromThread,
    Resumed,
    ThreadDelta,
)
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import RefusalReason, RequestReason, UserAction
from loopkernel.loop.calls.approvals import reconsider
from loopkernel.loop.calls.late_reports import LateReport, Report, late_report
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.draft import CallsDraft, Draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.imports import import_thread
from loopkernel.loop.life.restart import ask_anew, changes_settings, keep_leases, restart_held_runs, wait_again
from loopkernel.loop.phases.moves import to_executing, to_idle, to_initial
from loopkernel.loop.turn.request import open_turn


def on_initial(state: Initial, ctx: Context) -> Step[Initial | Idle | Executing]:
    """Creation, acquisition, `resumed` and disposal; anything else is refused."""
    match ctx.delta:
        case FromThread() as delta:
            return _on_life(state, ctx, delta)
        case FromUser() as delta:
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            return _reported(state, ctx, report)
        case _:
            assert_never(ctx.delta)


def _reported(state: Initial, ctx: Context, report: Report) -> Step[Initial]:
    """A report to a released thread is late."""
    stamp, session, ledger = state.stamp.next(ctx.now_ms), state.session, state.ledger
    if session is None:
        return Step(state, (Refused(UserAction.REPORT, RefusalReason.UNKNOWN),))
    late: Draft[None] | Draft[Ledger] | LateReport[None] | LateReport[Ledger]
    if ledger is None:
        late = late_report(Draft(session, stamp, None), report)
    else:
        late = late_report(Draft(session, stamp, ledger), report)
    if isinstance(late, LateReport):
        again = late.draft.session
        return Step(state if again is session else evolve(state, session=again), late.draft.effects)
    return to_initial(late.without_ledger(), late.ledger)


def _on_life(state: Initial, ctx: Context, delta: ThreadDelta) -> Step[Initial | Idle | Executing]:
    stamp, session = state.stamp.next(ctx.now_ms), state.session
    match delta:
        case Created():
            if session is not None:
                return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
            if delta.rules_version != RULES_VERSION:
                return Step(state, (refusal(delta, RefusalReason.INVALID),))
            created = Draft(Session(settings=_settings(delta)), stamp, None).tell(RunStarted(delta.session_id))
            return to_initial(import_thread(created, delta.start))
        case Acquired() | Resumed():
            if session is None:
                return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
            draft = Draft(session, stamp, None)
            if isinstance(delta, Resumed):
                draft = restart_held_runs(draft.tell(SessionResumed()), delta)
            else:
                draft = keep_leases(draft)
            return to_idle(draft) if state.ledger is None else _wait_on(draft.with_ledger(state.ledger), delta)
        case Disposed():
            return Step(evolve(state, stamp=stamp), ())
        case Forked():
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(delta)


def _wait_on(draft: CallsDraft, delta: Acquired | Resumed) -> Step[Executing]:
    """Calls waited for a person when the thread was released: they are shown again, in a new turn (CANCEL-2)."""
    doubted = isinstance(delta, Resumed) and delta.doubted
    draft = draft.with_ledger(forget_plan(draft.ledger))
    for place, entry in enumerate(draft.ledger.entries):
        if entry.is_open and doubted:
            draft = ask_anew(draft, place)
        elif entry.is_open:
            draft = wait_again(draft.tell(ApprovalAsked(entry.call.id)), place)
    if isinstance(delta, Resumed) and changes_settings(delta):
        draft = reconsider(draft)
    draft, turn = open_turn(draft, RequestReason.RESUME)
    return to_executing(draft.with_ledger(evolve(draft.ledger, opened_ms=turn.opened_ms)), turn)


def _settings(created: Created) -> Settings:
    return Settings(
        session_id=created.session_id,
        policy=created.policy,
        tools=created.tools,
        instructions=created.instructions,
        rules_version=created.rules_version,
        remembered=created.remembered,
        nonce=created.nonce,
    )
