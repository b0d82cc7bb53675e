"""The draft of a step: what is told comes out once and in order, and each change keeps all that it does not name."""

from collections.abc import Callable

import pytest
from attrs import evolve, fields_dict
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import CancelTimer, Effect
from loopkernel.data.events import ErrorCleared
from loopkernel.data.ids import ModelOperation, OperationKind, TimerOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.sessions import Stamp
from loopkernel.data.timers import Timer
from loopkernel.data.words import ErrorClass, TimerPurpose
from loopkernel.loop.draft import CallsDraft, Draft

from tests.kernel.building import at_rest

SESSION = at_rest().session
OTHER = evolve(SESSION, started=7)
LEDGER, MORE = Ledger(reply=ModelOperation(1)), Ledger(reply=ModelOperation(2))
TIMER = Timer(TimerOperation(3), TimerPurpose.GRACE, 9)
BEGUN: CallsDraft = Draft(SESSION, Stamp(4, 5), LEDGER).tell(ErrorCleared())


def some(number: int) -> Effect:
    return CancelTimer(TimerOperation(number))


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=6))
def test_what_is_told_comes_out_in_order(told: list[list[int]]) -> None:
    draft: Draft[None] = Draft(SESSION, Stamp(), None)
    for numbers in told:
        before = draft
        draft = draft.tell(*map(some, numbers))
        assert draft.effects == (*before.effects, *map(some, numbers))
    assert draft.effects == tuple(some(number) for numbers in told for number in numbers)


def test_a_draft_that_was_told_more_has_not_changed() -> None:
    first, second = BEGUN.tell(some(1)), BEGUN.tell(some(2))
    assert (BEGUN.effects, first.effects[1:], second.effects[1:]) == ((ErrorCleared(),), (some(1),), (some(2),))


def test_very_many_effects_come_out() -> None:
    draft = BEGUN
    for number in range(20_000):
        draft = draft.tell(some(number))
    assert (len(draft.effects), draft.effects[-1]) == (20_001, some(19_999))


# What each change names; the rest it keeps.
CHANGES: dict[str, tuple[Callable[[CallsDraft], object], set[str]]] = {
    "tell": (lambda draft: draft.tell(some(1)), {"told"}),
    "with_session": (lambda draft: draft.with_session(OTHER), {"session"}),
    "with_ledger": (lambda draft: draft.with_ledger(MORE), {"ledger"}),
    "without_ledger": (lambda draft: draft.without_ledger(), {"ledger"}),
    "as_of": (lambda draft: draft.as_of(Stamp(1, 1)), {"stamp"}),
    "mint": (lambda draft: draft.mint(OperationKind.RUN)[0], {"session"}),
    "abandon": (lambda draft: draft.abandon(OperationKind.RUN, 1), {"session"}),
    "start_timer": (lambda draft: draft.start_timer(TimerPurpose.GRACE, 9)[0], {"session", "told"}),
    "close_timer": (lambda draft: draft.close_timer(TIMER), {"told"}),
    "show_error": (lambda draft: draft.show_error(ErrorClass.AUTH, "why"), {"session", "told"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_keeps_all_that_it_does_not_name(name: str) -> None:
    change, named = CHANGES[name]
    after = change(BEGUN)
    assert {field for field in fields_dict(Draft) if getattr(after, field) is not getattr(BEGUN, field)} == named


def test_every_change_is_held_so() -> None:
    made = {name for name, found in vars(Draft).items() if callable(found) and not name.startswith("_")}
    assert made - {"put"} == CHANGES.keys()  # a call is put into the ledger: see the tests of calls
