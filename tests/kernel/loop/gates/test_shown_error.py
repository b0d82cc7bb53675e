"""The shown error: at most one, until the next accepted delta."""

import pytest
from loopkernel.data.events import ErrorShown
from loopkernel.data.sessions import ShownError
from loopkernel.data.words import ErrorClass

from tests.kernel.building import at_rest
from tests.kernel.drafts import drafted


@pytest.mark.rule("RETRY-5")
@pytest.mark.parametrize("error", ErrorClass)
def test_the_latest_error_is_shown(error: ErrorClass) -> None:
    draft = drafted(at_rest().session).show_error(ErrorClass.NETWORK, "gone").show_error(error, "this one")
    assert draft.session.error == ShownError(error, "this one")
    assert draft.effects[1:] == (ErrorShown(error, "this one"),)
