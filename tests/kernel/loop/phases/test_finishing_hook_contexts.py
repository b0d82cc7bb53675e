"""What the hooks at the end of a turn are told of it: how it ends, and whether a stop hook has kept it going."""

import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, TellHook
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import ErrorClass, HookPoint, TurnEndReason

from tests.kernel.building import ONE, TWO, asked, completed, effects_of, failed, of_kind
from tests.kernel.gates import AFTER_TURN, STOP, blocks, gated, hooked, observed, says

POLICY = hooked(gated(STOP), gated(AFTER_TURN, "after"), observed(AFTER_TURN))
DONE = (ModelText(ONE, "done"), completed())
Told = tuple[HookPoint, TurnEndReason | None, bool]


@pytest.mark.rule("HOOK-1")
@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (DONE, [(STOP, TurnEndReason.MODEL_STOP, False)]),
        ((*DONE, says(1)), [(AFTER_TURN, TurnEndReason.MODEL_STOP, False)]),
        (
            (*DONE, blocks(1), ModelText(TWO, "done"), completed(reply=2)),
            [(STOP, TurnEndReason.MODEL_STOP, True)],
        ),
        ((failed(ErrorClass.AUTH),), [(AFTER_TURN, TurnEndReason.ERROR, False)]),
        ((CancelAll(),), [(AFTER_TURN, TurnEndReason.USER_ABORT, False)]),
    ],
    ids=["before a stop", "after it", "before the next stop", "failed", "cancelled"],
)
def test_a_hook_at_the_end_of_a_turn_is_told_how_it_ends(deltas: tuple[Delta, ...], expected: list[Told]) -> None:
    effects = effects_of(asked(POLICY), *deltas)
    told = [each.context for each in of_kind(AskHook, effects)] + [each.context for each in of_kind(TellHook, effects)]
    assert {(about.point, about.reason, about.stop_hook_active) for about in told} == set(expected)
