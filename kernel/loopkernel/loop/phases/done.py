"""`Done`: the run is over; nothing changes any more but usage that is billed late (rules STATE-7 and DELTA-2)."""

from typing import assert_never

from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Done
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import RefusalReason
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal


def on_done(state: Done, ctx: Context) -> Step[Done]:
    """Everything is refused."""
    match ctx.delta:
        case FromUser() | FromThread() as delta:
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case _:
            assert_never(ctx.delta)
