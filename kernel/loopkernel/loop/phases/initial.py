"""`Initial`: not created yet, not acquired yet, or released (rule STATE-3)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.events import ApprovalAsked, Refused, RunStarted, SessionResumed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Settings, Stamp
from loopkernel.data.states import Executing, Idle, Initial
from loopkernel.data.steps import Context, Step, is_refused
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
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.imports import import_thread
from loopkernel.loop.life.restart import ask_anew, changes_settings, keep_leases, restart_held_runs, wait_again
from loopkernel.loop.turn.request import open_turn


def on_initial(state: Initial, ctx: Context) -> Step[Initial | Idle | Executing]:
    """Creation, acquisition, `resumed` and disposal; anything else is refused."""
    match ctx.delta:
        case FromThread() as delta:
            return _on_life(state, ctx, delta)
        case FromUser() as delta:
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if state.session is None:
                return Step(state, (Refused(UserAction.REPORT, RefusalReason.UNKNOWN),))
            late = late_report(state.session, report, state.ledger)
            if is_refused(late.effects):
                return Step(
                    state if late.session is state.session else evolve(state, session=late.session), late.effects
                )
            stamp = state.stamp.next(ctx.now_ms)
            return Step(Initial(session=late.session, stamp=stamp, ledger=late.ledger), late.effects)
        case _:
            assert_never(ctx.delta)


def _on_life(state: Initial, ctx: Context, delta: ThreadDelta) -> Step[Initial | Idle | Executing]:
    stamp = state.stamp.next(ctx.now_ms)
    session = state.session
    match delta:
        case Created():
            if session is not None:
                return Step(state, refusal(delta, RefusalReason.NOT_NOW))
            if delta.rules_version != RULES_VERSION:
                return Step(state, refusal(delta, RefusalReason.INVALID))
            session, imported = import_thread(Session(settings=_settings(delta)), delta.start)
            return Step(Initial(session=session, stamp=stamp), (RunStarted(delta.session_id), *imported))
        case Acquired() | Resumed():
            if session is None:
                return Step(state, refusal(delta, RefusalReason.NOT_NOW))
            resumed: tuple[Effect, ...] = (SessionResumed(),) if isinstance(delta, Resumed) else ()
            if isinstance(delta, Resumed):
                session, restarted = restart_held_runs(session, delta)
            else:
                session, restarted = keep_leases(session)
            if state.ledger is not None:
                return _go_on_waiting(session, state.ledger, delta, stamp, (*resumed, *restarted))
            return Step(Idle(session=session, stamp=stamp), (*resumed, *restarted))
        case Disposed():
            return Step(Initial(session=session, stamp=stamp, ledger=state.ledger), ())
        case Forked():
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(delta)


def _go_on_waiting(
    session: Session, ledger: Ledger, delta: Acquired | Resumed, stamp: Stamp, effects: tuple[Effect, ...]
) -> Step[Executing]:
    """Calls waited for a person when the thread was released: they are shown again, in a new turn (CANCEL-2)."""
    shown: list[Effect] = [*effects]
    doubted = isinstance(delta, Resumed) and delta.doubted
    ledger = forget_plan(ledger)
    for place, entry in enumerate(ledger.entries):
        if entry.is_open and doubted:
            waiting = ask_anew(ledger, session, place)
            ledger, session = waiting.ledger, waiting.session
            shown.extend(waiting.effects)
        elif entry.is_open:
            waiting = wait_again(ledger, session, place, stamp.now_ms)
            ledger, session = waiting.ledger, waiting.session
            shown.extend((ApprovalAsked(entry.call.id), *waiting.effects))
    if isinstance(delta, Resumed) and changes_settings(delta):
        again = reconsider(ledger, session)
        ledger, session = again.ledger, again.session
        shown.extend(again.effects)
    session, turn = open_turn(session, stamp.now_ms, RequestReason.RESUME)
    ledger = evolve(ledger, opened_ms=turn.opened_ms)
    return Step(Executing(session=session, stamp=stamp, turn=turn, ledger=ledger), tuple(shown))


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
