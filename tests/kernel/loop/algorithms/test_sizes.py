"""How large a thread is: what was reported, and the characters of what came after that."""

from fractions import Fraction

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
)
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.compactions import ContextSize
from loopkernel.data.ids import MessageId
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, UserMessage, UserOrigin
from loopkernel.data.policy import Compaction
from loopkernel.data.threads import Thread
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.vector import Vector
from loopkernel.loop.algorithms.compaction import characters_of, grown, is_too_large, is_too_long, rewritten
from loopkernel.testing.strategies.conversation import threads as any_threads

from tests.kernel.building import ONE, call_id
from tests.kernel.loop.algorithms.threads import thread_of, threads

SAID = UserOrigin.SAID
WINDOW = CompactionStrategy.WINDOW


def reply(*content: TextBlock, usage: Usage = NO_USAGE) -> AssistantMessage:
    """A reply with that usage."""
    return AssistantMessage(id=MessageId(1), reply=ONE, model="m", content=content, stop=None, usage=usage)


def size_of(messages: Vector[Message]) -> ContextSize:
    """The size, message by message."""
    size = ContextSize()
    for message in messages:
        size = grown(size, message)
    return size


@pytest.mark.rule("COMPACT-1")
@given(any_threads())
def test_the_size_is_the_last_report_and_the_characters_after_it(thread: Thread) -> None:
    messages = list(thread)
    size = size_of(thread.messages)
    reported = [
        place for place, found in enumerate(messages) if isinstance(found, AssistantMessage) and found.usage.total
    ]
    later = messages if not reported else messages[reported[-1] + 1 :]
    last = messages[reported[-1]] if reported else None
    assert size.tokens == (last.usage.total if isinstance(last, AssistantMessage) else 0)
    assert size.characters == sum(map(characters_of, later))
    assert size.total == sum(map(characters_of, messages))


@pytest.mark.rule("COMPACT-1")
@given(threads)
def test_a_rewritten_thread_is_counted_by_its_characters_alone(messages: Vector[Message]) -> None:
    """No reply of these threads reports its usage: grown and recounted are the same."""
    assert size_of(messages) == rewritten(sum(map(characters_of, messages)))


@pytest.mark.rule("COMPACT-1")
def test_texts_names_and_inputs_count_and_media_do_not() -> None:
    call = ToolCall(id=call_id(1), provider_id="ignored", tool="read", input=Json.of([1]))
    blocks = (
        TextBlock("12345"),
        ReasoningBlock("123"),
        OpaqueBlock("m", Json.of("12")),
        call,
        evolve(call, input=RawInput("{")),
        ServerCall(provider_id="ignored", tool="ab", input=Json.of(1)),
    )
    message = AssistantMessage(id=MessageId(1), reply=ONE, model="m", content=blocks, stop=None)
    assert characters_of(message) == 5 + 3 + 4 + (4 + 3) + (4 + 1) + (2 + 1)
    assert characters_of(UserMessage(id=MessageId(1), content=(MediaBlock("image/png", "x" * 99),))) == 0


@pytest.mark.rule("COMPACT-1")
@given(st.integers(0, 100), st.integers(0, 400), st.integers(1, 100))
def test_a_thread_is_too_large_from_the_trigger_on(tokens: int, characters: int, trigger: int) -> None:
    size = ContextSize(tokens, characters, 0)
    estimate = tokens + Fraction(characters, 4)
    absolute = Compaction(trigger_ratio=None, trigger_tokens=trigger)
    assert is_too_large(size, absolute) is (estimate >= trigger)
    ratio = Compaction(trigger_ratio=0.7, window_tokens=trigger)
    assert is_too_large(size, ratio) is (estimate >= Fraction(7, 10) * trigger)
    either = evolve(ratio, trigger_tokens=1)
    assert is_too_large(size, either) is (estimate >= min(Fraction(1), Fraction(7, 10) * trigger))
    assert not is_too_large(size, evolve(ratio, trigger_ratio=None))


@pytest.mark.rule("COMPACT-1")
def test_a_report_takes_the_place_of_what_was_counted_before_it() -> None:
    size = grown(ContextSize(5, 40, 60), reply(TextBlock("1234"), usage=Usage(input=7, output=2)))
    assert size == ContextSize(9, 0, 64)
    assert grown(size, reply(TextBlock("1234"))) == ContextSize(9, 4, 68)


@pytest.mark.rule("COMPACT-2")
def test_a_window_is_trimmed_whatever_its_size_once_it_is_longer_than_what_it_keeps() -> None:
    turns = thread_of([(SAID, [(1, None)])] * 3)
    by_turns = Compaction(strategy=WINDOW, keep_turns=3)
    by_messages = Compaction(strategy=WINDOW, keep_turns=None, keep_messages=9)
    by_ratio = Compaction(strategy=WINDOW, keep_turns=None, keep_ratio=0.1)
    one_more = thread_of([(SAID, [(1, None)])] * 4)
    for first in (False, True):
        assert not is_too_long(turns, by_turns, first=first)
        assert is_too_long(one_more, by_turns, first=first) is first  # turns are looked at when a turn begins
        assert not is_too_long(turns, by_messages, first=first)
        assert is_too_long(one_more, by_messages, first=first)
        assert not is_too_long(one_more, by_ratio, first=first)
        assert not is_too_long(one_more, Compaction(keep_turns=1), first=first)
