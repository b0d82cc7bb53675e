"""Runs that outlast the answer to their call: aborted ones that have not stopped, and those in the background."""

from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import CallId, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Claim, EffectClass
from loopkernel.data.value_classes import frozen


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class HeldRun:
    """A run that holds its resources though its call is answered (rules TOOL-17 and TOOL-20).

    `claims` is None when it conflicts with everything. An aborted run has a `grace` time; one in the background has
    none, and its end is still wanted. `effect` is the worst that it may do; `handle` tells that it has reported going
    on in the background, which a run that a restart repeats has still to do. `approved`: a person has let exactly this
    call run. `nonce` is that of its idempotency key.
    """

    operation: RunOperation
    call: CallId
    tool: str
    input: Json
    runs: int
    effect: EffectClass = EffectClass.DANGEROUS
    claims: tuple[Claim, ...] | None
    grace: Timer | None = None
    handle: bool = True
    approved: bool = False
    nonce: str = ""

    @property
    def background(self) -> bool:
        """Whether the run goes on in the background."""
        return self.grace is None
