"""Each event in a line of words: one line, ASCII, never long for what stands in it, and another for each kind."""

import re
from collections import defaultdict
from typing import get_args

import pytest
from hypothesis import Phase, given, settings
from loopkernel import event_to_text
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, TextBlock
from loopkernel.data.events import ClockJumped, Event, HandoffEnded, MessageAdded, Refused, ReplyGrew, ToolEnded
from loopkernel.data.ids import MessageId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.words import RefusalReason, StopReason, UserAction
from loopkernel.testing.strategies.effects import all_events

from tests.kernel.played import PLAYED


@given(all_events)
def test_an_event_is_one_line_of_ascii(event: Event) -> None:
    line = event_to_text(event)
    assert line.isascii()
    assert line.isprintable()
    assert line


def test_every_kind_of_event_has_words_of_its_own() -> None:
    """Whatever stands in two events, their words differ: quoted texts and numbers are left out."""
    words: dict[str, set[type]] = defaultdict(set)

    @settings(max_examples=3_000, phases=[Phase.generate])
    @given(all_events)
    def look(event: Event) -> None:
        words[re.sub(r'"[^"]*"|[0-9]+', "", event_to_text(event))].add(type(event))

    look()
    assert set().union(*words.values()) == set(get_args(Event))
    assert [kinds for kinds in words.values() if len(kinds) > 1] == []


def test_a_handoff_tells_where_the_work_goes_on() -> None:
    assert event_to_text(HandoffEnded("s2")) == 'the work goes on in "s2"'
    assert event_to_text(HandoffEnded(None)) == "the handoff failed"


def test_the_events_of_a_run_read_as_its_story() -> None:
    steps = PLAYED["reads"]
    lines = [event_to_text(effect) for step in steps for effect in step.effects if isinstance(effect, Event)]
    ended = [effect for step in steps for effect in step.effects if isinstance(effect, ToolEnded)]
    assert any(line.startswith("the turn ended: ") for line in lines)
    for effect in ended:
        (line,) = [line for line in lines if line.startswith(f"call {effect.result.call} is answered: ")]
        assert effect.result.status.value in line


def test_a_message_tells_all_its_blocks_and_cuts_them() -> None:
    content = (
        TextBlock("x" * 100),
        ReasoningBlock("hm"),
        OpaqueBlock("m", Json.of(1)),
    )
    message = AssistantMessage(
        id=MessageId(4), reply=ModelOperation(1), model="m", content=content, stop=StopReason.END_TURN
    )
    assert event_to_text(MessageAdded(message)) == (
        f'message 4, the reply of "m": "{"x" * 60}"... (100 characters), thought "hm", an item of its provider'
    )


@pytest.mark.parametrize(("reasoning", "verb"), [(False, "says"), (True, "thinks")])
def test_a_piece_of_a_reply_is_what_the_model_says_or_thinks(reasoning: bool, verb: str) -> None:
    assert event_to_text(ReplyGrew(ModelOperation(7), "on", reasoning)) == f'reply 7 {verb} "on"'


def test_a_message_without_a_block_says_so() -> None:
    message = AssistantMessage(id=MessageId(4), reply=ModelOperation(1), model="m", content=(), stop=StopReason.REFUSAL)
    assert event_to_text(MessageAdded(message)) == 'message 4, the reply of "m": nothing'


@pytest.mark.parametrize(("by_ms", "told"), [(5, "forward by 5 ms"), (-5, "back by 5 ms")])
def test_a_clock_is_told_which_way_it_was_set(by_ms: int, told: str) -> None:
    assert event_to_text(ClockJumped(by_ms)) == f"the clock was set {told}"


@pytest.mark.rule("DELTA-2")
def test_each_reason_of_a_refusal_has_a_meaning_of_its_own() -> None:
    texts = {event_to_text(Refused(UserAction.SAY, reason)) for reason in RefusalReason}
    meanings = {re.fullmatch(r"say was refused: [a-z-]+ \((.+)\)", text) for text in texts}
    assert len({found[1] for found in meanings if found is not None}) == len(RefusalReason)
