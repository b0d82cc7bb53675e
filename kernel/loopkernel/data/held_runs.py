"""Runs that outlast the answer to their call: aborted ones that have not stopped, and those in the background."""

from typing import final

from attrs import field, frozen

from loopkernel.data.ids import CallId, RunOperation
from loopkernel.data.json_text import Json, safe_text
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Claim, EffectClass


@final
@frozen(kw_only=True)
class HeldRun:
    """A run that holds its resources though its call is answered (rules TOOL-17 and TOOL-20).

    `claims` is None when it conflicts with everything. An aborted run has a `grace` time; one in the background has
    none, and its end is still wanted. `effect` is the worst that it may do; `handle` tells that it has reported going
    on in the background, which a run that a restart repeats has still to do. `approved`: a person has approved the call
    of one in the background itself, so that it may be repeated unasked.
    """

    operation: RunOperation
    call: CallId
    tool: str = field(converter=safe_text)
    input: Json
    runs: int
    effect: EffectClass = EffectClass.DANGEROUS
    claims: tuple[Claim, ...] | None
    grace: Timer | None = None
    handle: bool = True
    approved: bool = False

    @property
    def background(self) -> bool:
        """Whether the run goes on in the background."""
        return self.grace is None
