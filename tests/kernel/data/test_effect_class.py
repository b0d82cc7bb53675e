"""What a tool may do to the world: of two classes, the worse."""

from itertools import product

import pytest
from loopkernel.data.tools import EffectClass

FROM_HARMLESS = [EffectClass.READ_ONLY, EffectClass.IDEMPOTENT, EffectClass.DANGEROUS]


@pytest.mark.rule("TOOL-1")
@pytest.mark.parametrize(("one", "other"), list(product(FROM_HARMLESS, repeat=2)))
def test_of_two_classes_the_one_that_may_do_more_counts(one: EffectClass, other: EffectClass) -> None:
    assert FROM_HARMLESS.index(one.worst(other)) == max(map(FROM_HARMLESS.index, (one, other)))
    assert one.worst(None) is one
