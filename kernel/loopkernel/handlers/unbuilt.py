"""The phases that exist as types but are never entered yet: whatever comes, nothing changes.

`Dispatching`, `Compacting` and `HandingOff` get handlers of their own, one file each,
when their rules are built.
"""

from typing import TypeVar, assert_never

from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Compacting, Dispatching, HandingOff
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import RefusalReason
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report

U = TypeVar("U", bound=Dispatching | Compacting | HandingOff)


def on_unbuilt(state: U, ctx: Context) -> Step[U]:
    """Everything is refused."""
    match ctx.delta:
        case FromUser() | FromThread() as delta:
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case _:
            assert_never(ctx.delta)
