"""How far a reader has to go to follow one call of a tool that only reads, from `ModelCall` to the next `CallModel`."""

import sys
from collections.abc import Sequence
from types import CodeType, FrameType

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.words import StopReason
from loopkernel.loop.transition import transition

from tests.kernel.building import asked, checked, completed, made_call, reads, succeeded

MOST_FILES = 31  # of the loop; a change that passes more has cut by size what belongs together
MOST_FUNCTIONS = 131  # of the loop, its comprehensions included


def functions_passed(state: State, deltas: Sequence[Delta]) -> tuple[set[CodeType], bool]:
    """The functions of the loop that the deltas pass, and whether the model is asked after the last of them."""
    passed: set[CodeType] = set()
    asks = False

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/loopkernel/loop/" in frame.f_code.co_filename:
            passed.add(frame.f_code)

    for delta in deltas:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            step = transition(state, Context(delta, 0))
        finally:
            sys.setprofile(before)
        state = step.next
        asks = any(isinstance(effect, CallModel) for effect in step.effects)
    return passed, asks


def test_the_way_of_one_call_is_no_longer_than_it_was() -> None:
    deltas = (made_call("read", verdict=None), completed(StopReason.TOOL_USE), checked(1, reads("a")), succeeded(1))
    passed, asks = functions_passed(asked(), deltas)
    assert asks
    assert len({code.co_filename for code in passed}) <= MOST_FILES
    assert len(passed) <= MOST_FUNCTIONS
