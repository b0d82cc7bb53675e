"""A session that begins from a conversation recorded elsewhere: repaired, numbered, and reported."""

import pytest
from hypothesis import given
from loopkernel.data.blocks import OpaqueBlock, ToolResult
from loopkernel.data.effects import CallModel
from loopkernel.data.events import MessageAdded, OpaqueDropped, ThreadRepaired, ToolEnded
from loopkernel.data.foreign import ForeignMessage, ForeignReply, ForeignResult, ForeignResults, ForeignUser
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.states import Initial
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.words import OPEN_STATUSES, CallStatus, StopReason
from loopkernel.loop.algorithms.repair import repair
from loopkernel.loop.history.imports import import_thread

from tests.kernel.building import NOTHING, ONE, at_rest, effects_of, of_kind, say, text
from tests.kernel.drafts import drafted, outcome
from tests.kernel.foreign import broken_conversations, foreign_call, foreign_result

EMPTY = at_rest().session


def as_it_was(message: Message) -> ForeignMessage:
    """A message of the session as the conversation from elsewhere would have held it, but for its content."""
    if isinstance(message, UserMessage):
        return ForeignUser(message.content)
    if isinstance(message, ResultMessage):
        return ForeignResults(
            tuple(
                ForeignResult(provider_id=result.provider_id, status=result.status, content=result.content)
                for result in message.results
            )
        )
    calls = tuple(foreign_call(call.provider_id) for call in message.calls)
    return ForeignReply(content=calls)


def calls_only(message: ForeignMessage) -> ForeignMessage:
    return ForeignReply(content=message.calls) if isinstance(message, ForeignReply) else message


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_what_goes_in_is_the_repaired_conversation(start: list[ForeignMessage]) -> None:
    session, effects = outcome(import_thread(drafted(EMPTY), tuple(start)))
    repaired = repair(start)
    thread = list(session.thread)
    assert [as_it_was(message) for message in thread] == [calls_only(message) for message in repaired.messages]
    assert [message.id for message in thread] == list(range(1, len(thread) + 1))
    assert [effect.message for effect in of_kind(MessageAdded, effects)] == thread
    reports = [ThreadRepaired(repaired.repairs)] if repaired.repairs else []
    assert of_kind(ThreadRepaired, effects) == reports


@pytest.mark.rule("RESUME-5")
@pytest.mark.rule("TOOL-14")
@given(broken_conversations)
def test_replies_are_numbered_so_that_the_first_request_is_the_first(start: list[ForeignMessage]) -> None:
    session, _ = outcome(import_thread(drafted(EMPTY), tuple(start)))
    replies = [message for message in session.thread if isinstance(message, AssistantMessage)]
    assert [reply.reply for reply in replies] == list(range(1 - len(replies), 1))
    for reply in replies:
        assert [call.id.position for call in reply.calls] == list(range(1, len(reply.calls) + 1))
        assert {call.id.reply for call in reply.calls} <= {reply.reply}
        assert reply.stop is (StopReason.TOOL_USE if reply.calls else StopReason.END_TURN)
    (call,) = of_kind(CallModel, effects_of(Initial(), Created(session_id="s", start=tuple(start)), Acquired(), say()))
    assert call.operation == ONE


@pytest.mark.rule("TOOL-16")
@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_only_a_lost_result_is_told_and_never_ran(start: list[ForeignMessage]) -> None:
    session, effects = outcome(import_thread(drafted(EMPTY), tuple(start)))
    results = [result for message in session.thread if isinstance(message, ResultMessage) for result in message.results]
    assert all(result.ran is (result.status is not CallStatus.LOST) for result in results)
    lost = [result for result in results if result.status is CallStatus.LOST]
    assert of_kind(ToolEnded, effects) == [ToolEnded(result) for result in lost]


@pytest.mark.rule("TOOL-16")
def test_a_status_that_was_read_from_text_says_so() -> None:
    read = ForeignResult(provider_id="c1", status=CallStatus.ERROR, content=text("Error"), status_from_text=True)
    start = (
        ForeignReply(content=(foreign_call("c1"), foreign_call("c1"))),
        ForeignResults((read, foreign_result("c1"))),
    )
    session, _ = outcome(import_thread(drafted(EMPTY), start))
    message = session.thread.messages[1]
    assert isinstance(message, ResultMessage)
    assert [result.status_from_text for result in message.results] == [True, False]
    assert all(isinstance(result, ToolResult) for result in message.results)


@pytest.mark.parametrize(
    "status", [status for status in CallStatus if status in OPEN_STATUSES], ids=lambda status: status.value
)
def test_a_recorded_result_has_ended(status: CallStatus) -> None:
    with pytest.raises(ValueError, match="must have ended"):
        foreign_result("c1", status=status)


def asked_after(*start: ForeignMessage) -> list[OpaqueDropped]:
    """What the first request of the default model leaves out."""
    return of_kind(OpaqueDropped, effects_of(Initial(), Created(session_id="s", start=start), Acquired(), say()))


@pytest.mark.rule("INFER-15")
@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize(("model", "block", "dropped"), [("", "default", ()), ("default", "other", ("other",))])
def test_an_opaque_block_belongs_to_the_model_that_it_names(model: str, block: str, dropped: tuple[str, ...]) -> None:
    told = asked_after(ForeignReply(content=(OpaqueBlock(block, NOTHING),), model=model))
    assert told == ([OpaqueDropped(ModelOperation(1), dropped)] if dropped else [])


@pytest.mark.rule("INFER-15")
def test_the_opaque_blocks_of_another_model_are_told_to_be_left_out() -> None:
    reply = ForeignReply(content=(OpaqueBlock("other", NOTHING),), model="other")
    assert asked_after(reply) == [OpaqueDropped(ONE, ("other",))]


def test_a_session_without_a_past_begins_empty() -> None:
    assert outcome(import_thread(drafted(EMPTY), ())) == (EMPTY, ())
