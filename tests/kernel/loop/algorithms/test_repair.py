"""The repair of a conversation from elsewhere: whole afterwards, nothing invented but `lost`, and always the same."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from loopkernel.data.blocks import ReasoningBlock, TextBlock
from loopkernel.data.foreign import (
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
    Repair,
    RepairKind,
)
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.repair import Repaired, repair, repair_text
from loopkernel.loop.algorithms.wording import LOST

from tests.kernel.building import text
from tests.kernel.counting import python_calls
from tests.kernel.foreign import broken_conversations, foreign_call
from tests.kernel.foreign import foreign_result as result


def lost(name: str) -> ForeignResult:
    return result(name, LOST, CallStatus.LOST)


def reply(*names: str) -> ForeignReply:
    return ForeignReply(content=(TextBlock("well"), *map(foreign_call, names)))


def results(*given: ForeignResult) -> ForeignResults:
    return ForeignResults(given)


def says_nothing(message: ForeignUser | ForeignReply) -> bool:
    return all(isinstance(block, TextBlock | ReasoningBlock) and not block.text.strip() for block in message.content)


def answers_in(thread: Sequence[ForeignMessage]) -> list[ForeignResult]:
    return [answer for message in thread if isinstance(message, ForeignResults) for answer in message.results]


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_every_call_is_answered_once_right_behind_its_reply_and_in_order(thread: list[ForeignMessage]) -> None:
    repaired = repair(thread).messages
    for place, message in enumerate(repaired):
        if isinstance(message, ForeignReply) and message.calls:
            answers = repaired[place + 1]
            assert isinstance(answers, ForeignResults)
            assert [answer.provider_id for answer in answers.results] == [made.provider_id for made in message.calls]
        if isinstance(message, ForeignResults):
            before = repaired[place - 1]
            assert place > 0
            assert isinstance(before, ForeignReply)
            assert before.calls


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_what_was_said_stays_in_its_order_and_the_empty_goes(thread: list[ForeignMessage]) -> None:
    said = [message for message in thread if not isinstance(message, ForeignResults) and not says_nothing(message)]
    kept = [message for message in repair(thread).messages if not isinstance(message, ForeignResults)]
    assert kept == said


@pytest.mark.rule("RESUME-5")
@pytest.mark.rule("TOOL-16")
@given(broken_conversations)
def test_nothing_is_invented_but_what_is_lost(thread: list[ForeignMessage]) -> None:
    recorded = Counter(answers_in(thread))
    used = Counter(answers_in(repair(thread).messages))
    invented = used - recorded
    assert all(answer == lost(answer.provider_id) for answer in invented)


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_no_answer_is_lost_that_was_on_record(thread: list[ForeignMessage]) -> None:
    replies = [message for message in thread if isinstance(message, ForeignReply)]
    calls = Counter(made.provider_id for message in replies for made in message.calls)
    recorded = Counter(answer.provider_id for answer in answers_in(thread))
    kept = [answer for answer in answers_in(repair(thread).messages) if answer.status is not CallStatus.LOST]
    answered = Counter(answer.provider_id for answer in kept)
    assert all(answered[name] >= 1 for name in calls if recorded[name])
    assert all(answered[name] <= min(calls[name], recorded[name]) for name in calls)


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_repairing_twice_changes_nothing_and_reports_nothing(thread: list[ForeignMessage]) -> None:
    repaired = repair(thread)
    assert repair(repaired.messages) == Repaired(repaired.messages, ())
    assert repair(list(thread)) == repaired


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_a_thread_that_is_whole_is_left_as_it_is(thread: list[ForeignMessage]) -> None:
    repaired = repair(thread)
    if repaired.messages == tuple(thread):
        assert repaired.repairs == ()


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize(
    "thread",
    [
        [reply("c1", "c2"), results(result("c2"), result("c1"))],
        [reply("c1", "c2"), results(result("c1")), results(result("c2"))],
    ],
)
def test_results_right_behind_their_reply_are_joined_and_ordered_and_are_no_fault(thread: list[ForeignMessage]) -> None:
    repaired = repair(thread)
    assert repaired.messages == (reply("c1", "c2"), results(result("c1"), result("c2")))
    assert repaired.repairs == ()


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize(
    ("thread", "answers", "repairs"),
    [
        ([reply("c1")], [lost("c1")], 1),
        ([reply("c1"), results()], [lost("c1")], 2),
        ([results(result("c1")), reply("c1")], [result("c1")], 1),
        ([results(result("c1"), result("c1", "again")), reply("c1")], [result("c1")], 2),
        ([reply("c1"), results(result("c1"), result("c1", "again"))], [result("c1")], 1),
        ([reply("c1"), results(result("c1"), result("c9"))], [result("c1")], 1),
        ([reply("c1"), ForeignUser(text("hm")), results(result("c1"))], [result("c1")], 1),
        ([reply("c1"), ForeignUser(text(" ")), results(result("c1"))], [result("c1")], 1),
        ([reply("c1"), reply(), results(result("c1"))], [result("c1")], 1),
        ([reply("c1"), ForeignReply(content=()), results(result("c1"))], [result("c1")], 1),
        (
            [reply("c1", "c1"), results(result("c1", "a"), result("c1", "b"))],
            [result("c1", "a"), result("c1", "b")],
            0,
        ),
        ([reply("c1"), reply("c1"), results(result("c1", "a"))], [lost("c1"), result("c1", "a")], 1),
        (
            [reply("c1"), reply("c1"), results(result("c1", "a"), result("c1", "b"))],
            [result("c1", "b"), result("c1", "a")],
            1,
        ),
    ],
    ids=[
        "without an answer",
        "with an empty message",
        "before its call",
        "before its call, and twice",
        "twice",
        "of no call",
        "behind another message",
        "behind an empty message",
        "behind another reply",
        "behind an empty reply",
        "of an id that is used twice",
        "of the nearest call",
        "of two calls of one id",
    ],
)
def test_a_result(thread: list[ForeignMessage], answers: list[ForeignResult], repairs: int) -> None:
    repaired = repair(thread)
    assert (answers_in(repaired.messages), len(repaired.repairs)) == (answers, repairs)


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize(
    ("thread", "repairs"),
    [
        ([reply("c1")], [Repair(RepairKind.LOST, 0, "c1")]),
        ([results(result("c1")), reply("c1")], [Repair(RepairKind.MOVED, 0, "c1")]),
        ([reply("c1"), ForeignUser(text("hm")), results(result("c1"))], [Repair(RepairKind.MOVED, 2, "c1")]),
        ([results(result("c9"))], [Repair(RepairKind.ORPHAN, 0, "c9")]),
        ([reply("c1"), results(result("c1"), result("c1"))], [Repair(RepairKind.DUPLICATE, 1, "c1")]),
        ([results(result("c1")), reply("c1"), results(result("c1"))], [Repair(RepairKind.DUPLICATE, 0, "c1")]),
        (
            [ForeignUser(text(" ")), ForeignReply(content=())],
            [Repair(RepairKind.EMPTY, 0), Repair(RepairKind.EMPTY, 1)],
        ),
        ([results()], [Repair(RepairKind.EMPTY, 0)]),
        (
            [reply("c1"), results(result("c2")), ForeignUser(())],
            [Repair(RepairKind.LOST, 0, "c1"), Repair(RepairKind.ORPHAN, 1, "c2"), Repair(RepairKind.EMPTY, 2)],
        ),
    ],
)
def test_each_repair_is_named_with_its_message_in_their_order(
    thread: list[ForeignMessage], repairs: list[Repair]
) -> None:
    assert list(repair(thread).repairs) == repairs


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_what_is_named_is_what_has_changed(thread: list[ForeignMessage]) -> None:
    repaired = repair(thread)
    kinds = Counter(made.kind for made in repaired.repairs)
    given_answers, answers = answers_in(thread), answers_in(repaired.messages)
    lost_answers = sum(made.kind is RepairKind.LOST for made in repaired.repairs)
    dropped = kinds[RepairKind.ORPHAN] + kinds[RepairKind.DUPLICATE]
    assert len(answers) == len(given_answers) - dropped + lost_answers
    empty = sum(
        not message.results if isinstance(message, ForeignResults) else says_nothing(message) for message in thread
    )
    assert kinds[RepairKind.EMPTY] == empty
    assert all(0 <= made.place < len(thread) for made in repaired.repairs)


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize("kind", RepairKind)
def test_each_repair_is_told_with_its_place(kind: RepairKind) -> None:
    sentence = repair_text(Repair(kind, 2, "c1"))
    assert "message 3" in sentence
    assert kind is RepairKind.EMPTY or "c1" in sentence


def after_their_replies(count: int) -> list[ForeignMessage]:
    return [*(reply("c") for _ in range(count)), results(*(result("c") for _ in range(count)))]


def before_their_replies(count: int) -> list[ForeignMessage]:
    return [results(*(result("c") for _ in range(count))), *(reply("c") for _ in range(count))]


def twice_in_one_reply(count: int) -> list[ForeignMessage]:
    return [reply(*["c"] * count), results(*(result("c") for _ in range(2 * count)))]


@pytest.mark.parametrize("thread", [after_their_replies, before_their_replies, twice_in_one_reply])
def test_many_calls_of_one_id_are_repaired_in_linear_time(thread: Callable[[int], list[ForeignMessage]]) -> None:
    few, many = (python_calls(repair, thread(count)) for count in (40, 80))
    assert many < 2.2 * few
