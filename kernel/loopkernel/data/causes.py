"""Why an effect is there: what `explain` tells of each, and law WHY judges."""

from typing import final

from attrs import frozen

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect


@final
@frozen
class Cause:
    """An effect, the delta that caused it, the rule that asks for it, and that rule in a sentence."""

    effect: Effect
    delta: Delta
    rule: str
    because: str
