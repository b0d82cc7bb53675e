"""Why an effect is there: what `explain` tells of each, and law WHY judges."""

from typing import final

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.value_classes import frozen


@final
@frozen
class Cause:
    """An effect, the delta that caused it, the rule that asks for it, and that rule in a sentence."""

    effect: Effect
    delta: Delta
    rule: str
    because: str
