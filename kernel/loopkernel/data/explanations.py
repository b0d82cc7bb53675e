"""Why a step did what it did: what `explain` gives, and law WHY judges."""

from collections.abc import Callable
from typing import final

from attrs import frozen

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.states import State
from loopkernel.data.waits import Wait


@final
@frozen
class Cause:
    """An effect, the delta that caused it, the rule that asks for it, and that rule in a sentence."""

    effect: Effect
    delta: Delta
    rule: str
    because: str


@final
@frozen
class Explanation:
    """Why each effect of a step, in order; and what each open call waits for in the state after it.

    The waits are told where they are asked for, since telling them costs as much as the reply has calls.
    """

    causes: tuple[Cause, ...]
    after: State
    tell: Callable[[State], tuple[Wait, ...]]

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What each open call waits for, in the order of the calls."""
        return self.tell(self.after)
