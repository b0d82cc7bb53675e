"""What a run in the background has to tell stays when the user edits a message behind its call."""

import pytest
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.user_deltas import EditMessage
from loopkernel.data.words import ErrorClass

from tests.kernel.building import after, failed, made_call, say, session_of, succeeded, text, working


@pytest.mark.rule("INPUT-4")
def test_the_end_of_a_background_run_of_the_last_reply_that_stays_is_told() -> None:
    state = after(
        working(made_call("write")),
        succeeded(1, background=True),
        failed(ErrorClass.AUTH, reply=2),
        say("two"),
        succeeded(1, "late"),
    )
    said = [message for message in session_of(state).thread if isinstance(message, UserMessage)]
    edited = after(state, EditMessage(message=said[-1].id, content=text("rather this")))
    told = [message for message in session_of(edited).thread if isinstance(message, UserMessage)]
    origins = [message.origin for message in told]
    assert origins == [UserOrigin.SAID, UserOrigin.SAID, UserOrigin.BACKGROUND_RESULT]
