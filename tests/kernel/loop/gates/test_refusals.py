"""How inputs that do not apply are named: one word for each action, one reason for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.events import Refused
from loopkernel.data.foreign import ForeignReply
from loopkernel.data.ids import CallId, MessageId, ModelOperation, OperationKind, RunOperation
from loopkernel.data.states import Executing, Initial, State, Streaming
from loopkernel.data.thread_deltas import Created, FromThread, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.user_deltas import EditMessage, FromUser, RetryNow
from loopkernel.data.words import ErrorClass, RefusalReason, StopReason, UserAction
from loopkernel.loop.gates.refusals import action_of, answer_refusal, cancel_refusal, refusal

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    enqueue,
    failed,
    made_call,
    say,
    session_of,
    steer,
    succeeded,
    text,
    working,
)
from tests.kernel.foreign import foreign_call
from tests.kernel.grids import deltas_about

ACTIONS = {
    "Say": UserAction.SAY,
    "Enqueue": UserAction.ENQUEUE,
    "Steer": UserAction.STEER,
    "Discard": UserAction.DISCARD,
    "EditMessage": UserAction.EDIT,
    "CancelAll": UserAction.CANCEL,
    "CancelCall": UserAction.CANCEL,
    "RetryNow": UserAction.RETRY,
    "DismissError": UserAction.DISMISS,
    "CompactNow": UserAction.COMPACT,
    "StartHandoff": UserAction.HANDOFF,
    "Approve": UserAction.APPROVE,
    "Reject": UserAction.REJECT,
    "Correct": UserAction.CORRECT,
    "Swap": UserAction.SWAP,
    "AnswerQuestion": UserAction.ANSWER,
    "AnswerAfterCrash": UserAction.AFTER_CRASH,
    "ChangeMode": UserAction.MODE,
    "Permit": UserAction.PERMIT,
    "Remember": UserAction.PERMIT,
    "Forget": UserAction.FORGET,
    "ChangePolicy": UserAction.POLICY,
    "ChangeTools": UserAction.TOOLS,
    "ChangeInstructions": UserAction.INSTRUCTIONS,
    "Created": UserAction.CREATE,
    "Acquired": UserAction.ACQUIRE,
    "Resumed": UserAction.RESUME,
    "Forked": UserAction.FORK,
    "Disposed": UserAction.DISPOSE,
}


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-4")
def test_each_input_has_its_word() -> None:
    inputs = [delta for delta in deltas_about(1) if isinstance(delta, FromUser | FromThread)]
    assert {type(delta).__name__: action_of(delta) for delta in inputs} == ACTIONS
    assert set(ACTIONS.values()) == set(UserAction) - {UserAction.REPORT}


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-6")
@given(st.sampled_from(RefusalReason))
def test_a_refusal_carries_the_reason_and_the_key_of_a_message(reason: RefusalReason) -> None:
    assert refusal(say("a", "k"), reason) == Refused(UserAction.SAY, reason, "k")
    assert refusal(steer("a", "k"), reason) == Refused(UserAction.STEER, reason, "k")
    assert refusal(enqueue("a"), reason) == Refused(UserAction.ENQUEUE, reason, None)


# Replies 1 and 3 have calls, 2 has none; reply 4 has two calls, the first of which is answered.
RUN: State = after(
    working(made_call()),
    ToolSucceeded(RunOperation(1)),
    completed(reply=2),
    *(made_call(reply=3), completed(StopReason.TOOL_USE, reply=3), ToolSucceeded(RunOperation(2))),
    *(made_call(reply=4), made_call(reply=4), completed(StopReason.TOOL_USE, reply=4), ToolSucceeded(RunOperation(3))),
)


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("CANCEL-5")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (call_id(1, reply=1), RefusalReason.STALE),
        (call_id(2, reply=1), RefusalReason.UNKNOWN),
        (call_id(1, reply=2), RefusalReason.UNKNOWN),
        (call_id(1, reply=3), RefusalReason.STALE),
        (call_id(1, reply=4), RefusalReason.STALE),
        (call_id(2, reply=4), RefusalReason.NOT_NOW),
        (call_id(3, reply=4), RefusalReason.UNKNOWN),
        (call_id(0, reply=4), RefusalReason.UNKNOWN),
        (call_id(1, reply=5), RefusalReason.UNKNOWN),
        (CallId(ModelOperation(-1), 1), RefusalReason.UNKNOWN),
    ],
    ids=str,
)
def test_a_word_on_a_call_is_named_by_where_the_call_stands(call: CallId, reason: RefusalReason) -> None:
    executing = a(Executing, RUN)
    assert answer_refusal(executing.session, executing.ledger, call) is reason


@pytest.mark.rule("DELTA-2")
def test_a_call_of_a_retracted_reply_is_gone() -> None:
    session = session_of(after(at_rest(), say(), made_call(), failed(ErrorClass.AUTH)))
    assert answer_refusal(session, None, call_id(1)) is RefusalReason.STALE


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("RESUME-5")
def test_the_calls_of_an_imported_reply_are_known() -> None:
    start = (ForeignReply(content=(foreign_call("c1"),)), ForeignReply(content=text("well")))
    session = session_of(after(Initial(), Created(session_id="s", start=start)))
    for number, reason in ((-1, RefusalReason.STALE), (0, RefusalReason.UNKNOWN), (-2, RefusalReason.UNKNOWN)):
        assert answer_refusal(session, None, CallId(ModelOperation(number), 1)) is reason


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("INFER-10")
@pytest.mark.parametrize(
    "state",
    [
        after(at_rest(), say(), made_call(), failed(ErrorClass.AUTH)),
        after(working(made_call()), EditMessage(message=MessageId(1), content=text("rather"))),
        after(asked(ASKING_NOBODY, made_call()), completed(StopReason.REFUSAL), RetryNow()),
        after(asked(ASKING_NOBODY, made_call()), Resumed()),
    ],
    ids=["retracted", "edited away", "refused", "lost in a crash"],
)
def test_a_word_on_a_call_of_a_reply_that_has_left_the_thread_is_stale(state: State) -> None:
    session = session_of(state)
    ledger = state.ledger if isinstance(state, Streaming) else None
    minted = session.operations.minted[OperationKind.MODEL]
    for refused in (answer_refusal, cancel_refusal):
        assert refused(session, ledger, call_id(1)) is RefusalReason.STALE
        assert refused(session, ledger, call_id(1, reply=minted + 1)) is RefusalReason.UNKNOWN
        if ledger is not None:
            assert refused(session, ledger, call_id(1, reply=ledger.reply)) is RefusalReason.UNKNOWN


@pytest.mark.rule("DELTA-2")
def test_a_call_that_a_reply_in_the_thread_never_made_is_unknown() -> None:
    session = session_of(after(RUN, succeeded(1), succeeded(2)))
    for refused in (answer_refusal, cancel_refusal):
        assert refused(session, None, call_id(99)) is RefusalReason.UNKNOWN
