"""The shown error: at most one, until the next accepted delta."""

import pytest
from loopkernel.data.events import ErrorShown
from loopkernel.data.sessions import ShownError
from loopkernel.data.words import ErrorClass
from loopkernel.loop.gates.shown_error import show_error

from tests.kernel.building import at_rest


@pytest.mark.rule("RETRY-5")
@pytest.mark.parametrize("error", ErrorClass)
def test_the_latest_error_is_shown(error: ErrorClass) -> None:
    session, _ = show_error(at_rest().session, ErrorClass.NETWORK, "gone")
    session, effects = show_error(session, error, "this one")
    assert session.error == ShownError(error, "this one")
    assert effects == (ErrorShown(error, "this one"),)
