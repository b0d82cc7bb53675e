"""What is alike is written with the same bytes: equal is not enough."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.endings import Ending
from loopkernel.data.policy import Compaction
from loopkernel.data.states import State
from loopkernel.data.usage import Usage
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import TurnEndReason
from loopkernel.laws.likeness import alike
from loopkernel.testing.strategies.states import states


@given(states)
def test_what_is_alike_has_the_same_text(state: State) -> None:
    again = state_from_text(state_to_text(state))
    assert alike(state, state)
    assert not alike(state, again) or state_to_text(state) == state_to_text(again)
    assert not alike(state, evolve(state, stamp=evolve(state.stamp, now_ms=state.stamp.now_ms + 1)))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        ("ab", "".join(("a", "b")), True),
        ((1, ("a",)), (1, ("a",)), True),
        ((1, 2), (1,), False),
        ((1,), [1], False),
        (Usage(input=1), Usage(input=1), True),
        (Usage(input=1), Usage(input=2), False),
        (Compaction(trigger_ratio=0.0), Compaction(trigger_ratio=-0.0), False),
        (Ending(reason=TurnEndReason.STUCK), Ending(reason=TurnEndReason.STUCK), True),
        (Vector.of((1, 2)), Vector.of((1, 2)), True),
        (GrowingSet.of((1, 2)), GrowingSet.of((1, 2)), False),  # perhaps: their texts will tell
        (None, None, True),
    ],
)
def test_alike_is_alike_to_the_last_type(one: object, other: object, expected: bool) -> None:
    assert alike(one, other) is expected
    assert alike(other, one) is expected
