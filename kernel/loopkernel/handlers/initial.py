"""`Initial`: not created yet, not acquired yet, or released (rule STATE-3)."""

from typing import assert_never

from loopkernel.data.effects import Effect
from loopkernel.data.events import Refused, RunStarted, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import Idle, Initial
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
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.regions.imports import import_thread
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report


def on_initial(state: Initial, ctx: Context) -> Step[Initial | Idle]:
    """Creation, acquisition, `resumed` and disposal; anything else is refused."""
    match ctx.delta:
        case FromThread() as delta:
            return _on_life(state, ctx, delta)
        case FromUser() as delta:
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if state.session is None:
                return Step(state, (Refused(UserAction.REPORT, RefusalReason.UNKNOWN),))
            session, reason = late_report(state.session, report)
            kept = state if session is state.session else Initial(session=session, stamp=state.stamp)
            return Step(kept, (Refused(UserAction.REPORT, reason),))
        case _:
            assert_never(ctx.delta)


def _on_life(state: Initial, ctx: Context, delta: ThreadDelta) -> Step[Initial | Idle]:
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
            return Step(Idle(session=session, stamp=stamp), resumed)
        case Disposed():
            return Step(Initial(session=session, stamp=stamp), ())
        case Forked():
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(delta)


def _settings(created: Created) -> Settings:
    return Settings(
        session_id=created.session_id,
        policy=created.policy,
        tools=created.tools,
        instructions=created.instructions,
        rules_version=created.rules_version,
    )
