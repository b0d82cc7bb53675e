"""A run that has asked ends without an answer, while a hook is asked about its end: nobody is asked any more."""

import pytest
from loopkernel.data.events import Refused
from loopkernel.data.states import Executing
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.user_deltas import AnswerQuestion, Reject
from loopkernel.data.words import CallStatus, RefusalReason, UserAction

from tests.kernel.building import a, after, call_id, effects_of, entries_of, made_call, run, succeeded, working
from tests.kernel.gates import AFTER_TOOL, gated, hooked


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("TOOL-19")
def test_a_question_ends_with_its_run_also_where_a_hook_is_asked_about_the_end() -> None:
    before = working(made_call("write"), policy=hooked(gated(AFTER_TOOL)))
    state = a(Executing, after(before, ToolAsked(run(1), "which?"), succeeded(1)))
    (entry,) = entries_of(state)
    assert (entry.status, entry.person.wait, entry.timer) == (CallStatus.IN_PROGRESS, None, None)
    assert (state.ledger.running, state.ledger.waiting, state.ledger.asking) == (1, 0, 0)
    for delta, action in (
        (AnswerQuestion(call=call_id(1), value=None), UserAction.ANSWER),
        (Reject(call=call_id(1)), UserAction.REJECT),
    ):
        assert effects_of(state, delta) == (Refused(action, RefusalReason.STALE),)
