"""The classes of difference: each rests on a decision or a law that there is, and excuses nothing beyond itself."""

import re
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.laws import LAWS

from tests.differential.claude.classes import CLASSES, Class, Whose, class_of
from tests.differential.claude.comparing import Difference, What, differences
from tests.differential.claude.observations import Seen, messages_of
from tests.differential.claude.scripts import Conversation, Said, drawn, reply, shell, told, written_by_hand

SPECS = Path(__file__).resolve().parents[2] / "specs"
BY_HAND = {each.name: each for each in written_by_hand()}
GO = ("user", (("text", "say: go"),))
SEEN = Seen(
    requests=((GO,), (GO,)),
    limits=(1, 1),
    streamed=(True, True),
    summaries=(),
    runs=("t1",),
    waits=0,
    ends=(True,),
)
CALLED = Conversation("called", (reply(shell("t1")), reply(Said("re: 1"))))


@pytest.mark.parametrize("known", CLASSES, ids=lambda known: known.name)
def test_a_class_has_its_reason_and_its_smallest_conversation(known: Class) -> None:
    decisions = re.findall(r"^([0-9]+)\. ", (SPECS / "decisions.md").read_text(encoding="utf-8"), re.MULTILINE)
    reasons = decisions if known.whose is Whose.DECISION else [law.id for law in LAWS]
    assert known.because in reasons
    answers = BY_HAND[known.smallest].answers
    assert any(class_of(Difference(what, answer, None, None)) is known for what in known.what for answer in answers)


def test_the_page_has_a_line_for_each_class_that_is_a_decision() -> None:
    page = (SPECS / "presets" / "claude.md").read_text(encoding="utf-8")
    assert [known.because for known in CLASSES if f"{known.because}" not in page] == []


def test_what_is_the_same_differs_in_nothing() -> None:
    assert list(differences(CALLED, SEEN, SEEN)) == []


@pytest.mark.parametrize(
    ("ours", "what"),
    [
        (evolve(SEEN, requests=((GO,),)), What.NO_REQUEST),
        (evolve(SEEN, requests=((GO,), (GO,), (GO,))), What.ONE_MORE),
        (evolve(SEEN, requests=((GO,), ())), What.REQUEST),
        (evolve(SEEN, limits=(1, 2)), What.LIMIT),
        (evolve(SEEN, streamed=(True, False)), What.STREAM),
        (evolve(SEEN, summaries=(1,)), What.SUMMARY),
        (evolve(SEEN, runs=()), What.RUNS),
        (evolve(SEEN, ends=(False,)), What.ENDS),
        (evolve(SEEN, waits=1), What.WAITS),
    ],
)
def test_each_difference_is_found_and_none_behind_a_plain_call_is_excused(ours: Seen, what: What) -> None:
    (found,) = differences(CALLED, ours, SEEN)
    assert found.what is what
    assert class_of(found) is None


def test_an_order_of_results_is_told_beside_what_else_differs() -> None:
    one, two = (("result", "t1", "success"), ("result", "t2", "error"))
    ours, theirs = (evolve(SEEN, requests=((GO,), (("user", results),))) for results in ((one, two), (two, one)))
    found = [each.what for each in differences(CALLED, evolve(ours, runs=()), theirs)]
    assert found == [What.ORDER, What.RUNS]


def test_a_request_is_shown_without_what_is_no_conversation() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nRemember.\n</system-reminder>"}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"}
    body: dict[str, object] = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "say: go\n"}, reminder]},
            {"role": "system", "content": "It is Monday."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
            {"role": "user", "content": [result]},
            {"role": "user", "content": "Go on."},
            {"role": "user", "content": "Go on, please."},
        ]
    }
    assert messages_of(body) == (
        GO,
        ("assistant", (("call", "t1", "Bash"),)),
        ("user", (("result", "t1", "error", "here"), ("note",))),
    )


def test_a_seed_gives_one_conversation_and_others_give_others() -> None:
    assert drawn(3) == drawn(3)
    assert len({tuple(map(told, drawn(seed).answers)) for seed in range(50)}) > 40
