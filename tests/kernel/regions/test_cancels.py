"""How a turn is cut short: the reason that the cause gives, the order of the effects, and what stays in the thread."""

import pytest
from hypothesis import given
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import MessageAdded, ToolEnded
from loopkernel.data.ids import CheckOperation, ReceiptId
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage
from loopkernel.data.model_deltas import ModelInput, ModelText
from loopkernel.data.sessions import OpenReply
from loopkernel.data.states import Streaming
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import CancelReason, TurnEndReason
from loopkernel.planning.replies import assemble
from loopkernel.regions.cancels import Cause, cut_calls, cut_reply, end_cut_short, reason_of
from loopkernel.testing.strategies.states import streaming_states

from tests.kernel.building import ONE, a, asked, at_rest, call_id, made_call, named, of_kind, say, text, working

CAUSES: dict[Cause, tuple[CancelReason, TurnEndReason]] = {
    CancelAll(): (CancelReason.USER_CANCELLED, TurnEndReason.USER_ABORT),
    Disposed(): (CancelReason.DISPOSED, TurnEndReason.DISPOSED),
    say("instead", "k"): (CancelReason.USER_INTERRUPTED, TurnEndReason.INTERRUPTED),
}


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)
def test_each_cause_has_its_reason_and_its_end(cause: Cause) -> None:
    cancel, reason = CAUSES[cause]
    session, ending = end_cut_short(at_rest().session, cause)
    assert reason_of(cause) is cancel
    then = NextInput(receipt=ReceiptId(1), content=text("instead"), key="k") if cause == say("instead", "k") else None
    assert ending == Ending(reason=reason, cancel=cancel, then=then)
    assert list(session.inbox.keys) == ([] if then is None else ["k"])


@pytest.mark.rule("INPUT-5")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
@given(streaming_states())
def test_a_cut_reply_stays_with_what_had_come_and_every_call_is_answered_once(state: Streaming) -> None:
    reason = CancelReason.USER_CANCELLED
    session, effects = cut_reply(state.session, state.reply, state.pieces, state.ledger, reason)
    entries = list(state.ledger.entries)
    added = [effect.message for effect in of_kind(MessageAdded, effects)]
    reply = a(AssistantMessage, added[0])
    assert (reply.state, reply.stop, reply.usage) == (ReplyState.CANCELLED, None, state.reply.usage)
    assert reply.content == assemble(state.pieces, (entry.call for entry in entries), state.reply.model)
    answered = [effect.result.call for effect in of_kind(ToolEnded, effects)]
    assert answered == [entry.call.id for entry in entries if entry.is_open]
    if entries:
        assert [result.call for result in a(ResultMessage, added[1]).results] == [entry.call.id for entry in entries]
    assert len(added) == (2 if entries else 1)
    assert session.usage == state.session.usage.plus(state.reply.usage)
    order = ["AbortModel", "ReplyAborted", "MessageAdded", "AbortTool", "ToolEnded", "MessageAdded", "WorkCancelled"]
    remaining = iter(order)
    assert all(any(name == expected for expected in remaining) for name in _without_repeats(named(effects)))


def _without_repeats(names: list[str]) -> list[str]:
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-2")
def test_what_a_cut_reply_was_billed_for_is_kept_beside_its_id() -> None:
    state = asked()
    billed = OpenReply(ONE, "default", Usage(input=4))
    session, _ = cut_reply(state.session, billed, state.pieces, state.ledger, CancelReason.DISPOSED)
    index = session.operations.abandoned_model_index(ONE)
    assert index == 0
    assert session.operations.abandoned_models[index].counted == Usage(input=4)


@pytest.mark.rule("INPUT-5")
def test_a_half_written_call_is_dropped() -> None:
    state = asked(at_rest().session.settings.policy, ModelText(ONE, "so"), ModelInput(ONE, '{"pa'))
    session, effects = cut_reply(state.session, state.reply, state.pieces, state.ledger, CancelReason.USER_CANCELLED)
    assert a(AssistantMessage, session.thread.messages[1]).content == text("so")
    assert named(effects) == ["AbortModel", "ReplyAborted", "MessageAdded", "WorkCancelled"]


@pytest.mark.rule("CANCEL-2")
def test_cut_calls_leave_no_check_and_no_run_open() -> None:
    state = working(made_call(), made_call(verdict=None))
    session, effects = cut_calls(state.session, state.ledger, CancelReason.DISPOSED)
    assert named(effects) == ["AbortTool", "ToolEnded", "ToolEnded", "MessageAdded", "WorkCancelled"]
    assert [list(kind) for kind in session.operations.abandoned[1:3]] == [[CheckOperation(1)], [1]]
    assert [result.call for result in a(ResultMessage, session.thread.messages[2]).results] == [call_id(1), call_id(2)]
