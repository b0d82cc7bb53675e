"""What a user does, and the deltas that it is: every action and every delta has its row, and a row loses nothing."""

from typing import get_args

from hypothesis import assume, given
from hypothesis import strategies as st
from loopkernel.data import user_deltas as said
from loopkernel.data.ids import ModelOperation
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.user_inputs import TWINS, Naming, action_for, delta_of

from tests.kernel.testing.test_scenario_writer import ACTIONS

# The drive does these, since they are more than a delta.
OF_THE_DRIVE = {actions.ReportAgain, actions.ChangeTools, actions.Crash, actions.Fork}
# The format has no words for these.
UNSAID = {said.Remember, said.ChangePolicy, said.ChangeTools, said.ChangeInstructions}


def test_every_action_is_a_delta_or_the_drives() -> None:
    assert {twin.action for twin in TWINS} == set(get_args(actions.UserAction)) - OF_THE_DRIVE


def test_every_delta_of_a_user_is_an_action_or_has_no_words() -> None:
    covered = {twin.delta for twin in TWINS} | {said.CancelAll}
    assert set(get_args(said.UserDelta)) - covered == UNSAID


@given(st.one_of(ACTIONS))
def test_there_and_back_it_is_the_same_delta(action: actions.UserAction) -> None:
    assume(type(action) not in OF_THE_DRIVE)
    assume(getattr(action, "text", None) != "" or isinstance(action, actions.AfterCrash))  # a user says something
    names = CallNames()
    named = getattr(action, "call", None)
    if named is not None:
        names.expect_calls(ModelOperation(1), [named])
    delta = delta_of(action, names)
    told = action_for(delta, Naming(names.name_of, names.number_of))
    assert told is not None
    assert delta_of(told, names) == delta
