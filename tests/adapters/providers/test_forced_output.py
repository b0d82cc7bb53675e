"""A text that is a JSON object, where a call was forced, is that call; and nothing else changes."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelReasoning,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.threads import Thread
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers import forced_output
from loopkernel_adapters.providers.forced_output import ForcedOutput
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, ScriptItem

from tests.adapters.driver.driver_world import FunctionProvider, World, one_turn

ONE = ModelOperation(1)
USED = Usage(output=3)


ALIVE = ModelUsage(ONE, NO_USAGE)


def asking(forced: str | None) -> Request:
    return Request(
        number=ONE,
        reason=RequestReason.NUDGE,
        model="m",
        instructions="",
        tools=(),
        thread=Thread(),
        max_output_tokens=None,
        forced_tool=forced,
    )


def replied(reply: Reply, forced: str | None = "answer") -> list[ModelDelta]:
    """What a session is given of the reply, but for the signs of life."""

    async def read() -> list[ModelDelta]:
        stream = ForcedOutput(ScriptedProvider([reply])).stream(asking(forced), ONE)
        return [delta async for delta in stream if delta != ALIVE]

    return asyncio.run(read())


def texts(*pieces: str, stop: StopReason = StopReason.END_TURN) -> Reply:
    return (*(ModelText(ONE, piece) for piece in pieces), ModelCompleted(ONE, stop, USED))


@pytest.mark.rule("CALL-5")
def test_a_json_object_is_the_input_of_the_forced_call() -> None:
    thought = ModelReasoning(ONE, "seven")
    assert replied((thought, *texts('{"val', 'ue": 7}'))) == [
        thought,
        ModelCall(ONE, provider_id="forced_1", tool="answer", input=Json.of({"value": 7})),
        ModelCompleted(ONE, StopReason.TOOL_USE, USED),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        texts("It is seven."),
        texts("[7]"),
        texts('{"value": 7} or so'),
        texts('{"value": 7}', stop=StopReason.MAX_TOKENS),
        texts(),
        (
            ModelText(ONE, "{}"),
            ModelCall(ONE, provider_id="c", tool="answer", input=Json.of({"value": 7})),
            ModelCompleted(ONE, StopReason.TOOL_USE, USED),
        ),
        (ModelText(ONE, '{"value": 7}'),),
    ],
)
def test_any_other_reply_passes_as_it_is(reply: Reply) -> None:
    assert replied(reply) == list(reply)


def test_a_text_that_nobody_forced_stays_one() -> None:
    assert replied(texts('{"value": 7}'), forced=None) == list(texts('{"value": 7}'))


# --- any reply, as it streams ----------------------------------------------------------------------------

BOUND = 12
USAGE, STARTED = ModelUsage(ONE, USED), ModelStarted(ONE, "m")
CALL = ModelCall(ONE, provider_id="c", tool="answer", input=Json.of({"value": 7}))
pieces: st.SearchStrategy[ScriptItem] = st.sampled_from(
    ["", " ", "\n", "\u00a0", "{", "}", '{"a', '": 1', "1", "[", "{}", '{"a": 1}']
).map(lambda text: ModelText(ONE, text))
OTHERS: list[ScriptItem] = [USAGE, STARTED, ModelReasoning(ONE, "so"), CALL]
beginnings = st.lists(pieces | st.sampled_from(OTHERS), max_size=4)
objects = st.lists(pieces | st.sampled_from(OTHERS[:2]), max_size=6)
ENDS: list[Reply] = [
    [ModelCompleted(ONE, StopReason.END_TURN, USED)],
    [ModelCompleted(ONE, StopReason.END_TURN, USED)],
    [ModelCompleted(ONE, StopReason.MAX_TOKENS)],
    [ModelFailed(ONE, error=ErrorClass.SERVER)],
    [],
    [ConnectionError("cut")],
]
ends = st.sampled_from(ENDS)


def joined(parts: tuple[Reply, Reply, Reply]) -> list[ScriptItem]:
    return [item for part in parts for item in part]


def counted(item: object) -> int:
    """How much a text is in what is held: an empty piece counts as a character."""
    return max(len(item.text), 1) if isinstance(item, ModelText) else 0


class Streamed:
    """A stream that takes notes: how much of its text had not passed on when more was asked for, and that it ended."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.most_held = 0
        self.passed = 0
        self.lives = True  # each text so far was answered by something
        self.closed = False
        self.seen: list[ModelDelta] = []

    async def stream(self, operation: ModelOperation) -> AsyncGenerator[ModelDelta, None]:
        given = 0
        try:
            for item in self.reply:
                if isinstance(item, Exception):
                    raise item
                assert not isinstance(item, asyncio.Event)
                before = len(self.seen)
                yield item
                given += counted(item)
                self.lives = self.lives and len(self.seen) > before
                if not any(isinstance(told, ModelCall) for told in self.seen):
                    self.most_held = max(self.most_held, given - self.passed)
        finally:
            await asyncio.sleep(0)
            self.closed = True

    async def read(self, most: int | None = None) -> None:
        """Read so many deltas, or all, and close what was read."""
        stream = ForcedOutput(FunctionProvider(self.stream)).stream(asking("answer"), ONE)
        assert isinstance(stream, AsyncGenerator)
        try:
            while most is None or len(self.seen) < most:
                delta = await anext(stream)
                self.seen.append(delta)
                self.passed += counted(delta)
        except (StopAsyncIteration, ConnectionError):
            pass
        finally:
            await stream.aclose()


def said(deltas: Sequence[object]) -> list[object]:
    """The content and the end: what shows life may overtake them."""
    return [delta for delta in deltas if not isinstance(delta, ModelUsage | ModelStarted | Exception)]


def is_blank(delta: object) -> bool:
    return isinstance(delta, ModelText) and not delta.text.strip(" \t\n\r")


def told_as_call(reply: Sequence[object]) -> list[object] | None:
    """The reply with a call for its text, blank pieces left out; None where there is nothing to change."""
    content = [delta for delta in said(reply) if not is_blank(delta)]
    end = content.pop() if content else None
    if not isinstance(end, ModelCompleted) or end.stop is not StopReason.END_TURN:
        return None
    before = [delta for delta in content if not isinstance(delta, ModelText)]
    text = "".join(delta.text for delta in said(reply) if isinstance(delta, ModelText))
    if CALL in before or any(isinstance(delta, ModelText) for delta in content[: len(before)]):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    call = ModelCall(ONE, provider_id="forced_1", tool="answer", input=Json.of(value))
    return [*before, call, ModelCompleted(ONE, StopReason.TOOL_USE, end.usage)]


def held_size(reply: Sequence[object]) -> int:
    """How much text comes behind the last of the other content; an empty piece counts as a character."""
    size = 0
    for delta in said(reply)[:-1]:
        size = size + counted(delta) if isinstance(delta, ModelText) else 0
    return size


def in_texts(*texts: str, then: Reply = ENDS[0]) -> list[ScriptItem]:
    """A reply of these texts; `R` stands for reasoning, `C` for a call."""
    others: dict[str, ScriptItem] = {"R": ModelReasoning(ONE, "so"), "C": CALL}
    return [*(others.get(text) or ModelText(ONE, text) for text in texts), *then]


# Each finds out a mistake that is planted where it says, and that few replies come by.
@example(reply=in_texts("{", '{"a": 1}', '{"a": 1}'))  # the bound
@example(reply=in_texts("{", *[""] * BOUND))  # the bound, of empty pieces
@example(reply=in_texts(*[" "] * 9, "R", '{"a": 1}'))  # what was let go is not held
@example(reply=in_texts("{", "R", "{}"))  # other content rules an object out
@example(reply=in_texts("1", "{}"))  # and so does other text
@example(reply=in_texts("C", "{}"))  # and a call
@given(reply=st.tuples(beginnings, objects, ends).map(joined))
def test_any_reply_passes_as_it_is_or_with_a_call_for_its_text(reply: list[ScriptItem]) -> None:
    streamed = Streamed(reply)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forced_output, "MOST_HELD", BOUND)
        asyncio.run(streamed.read())
    called = told_as_call(reply)
    if called is None or said(streamed.seen) == said(reply):
        assert said(streamed.seen) == said(reply)
        assert called is None or held_size(reply) > BOUND  # a beginning that is blank is let go as well
    else:
        assert [delta for delta in said(streamed.seen) if not is_blank(delta)] == called
    shown = [delta for delta in streamed.seen if isinstance(delta, ModelUsage | ModelStarted) and delta != ALIVE]
    assert shown == [delta for delta in reply if isinstance(delta, ModelUsage | ModelStarted)]
    assert streamed.most_held <= BOUND
    assert streamed.lives
    assert streamed.closed


@given(st.tuples(beginnings, objects, ends).map(joined), st.integers(1, 5))
def test_the_stream_is_closed_with_the_one_around_it(reply: list[ScriptItem], most: int) -> None:
    streamed = Streamed([STARTED, *reply])
    asyncio.run(streamed.read(most))
    assert streamed.closed


def test_a_text_that_can_be_no_object_passes_piece_by_piece() -> None:
    streamed = Streamed([ModelText(ONE, " "), ModelText(ONE, "It"), ModelText(ONE, " is {7}.")])
    asyncio.run(streamed.read())
    assert streamed.seen == [ALIVE, *streamed.reply]


@pytest.mark.rule("INFER-11")
def test_an_object_that_is_written_slowly_is_no_silence() -> None:
    clock = ManualClock(1_000)
    asked: list[ModelOperation] = []

    async def stream(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        asked.append(operation)
        if len(asked) == 1:
            yield ModelText(operation, "It is seven.")
        else:
            for piece in ('{"val', 'ue"', ": 7", "}"):
                clock.advance(900)
                yield ModelText(operation, piece)
                await asyncio.sleep(0)
        yield ModelCompleted(operation, StopReason.END_TURN, USED)

    policy = Policy(output_tool="echo", output_required=True, silence_ms=1_000, retry=Retry(retries=0))
    world = World(provider=ForcedOutput(FunctionProvider(stream)), clock=clock, policy=policy)
    asyncio.run(one_turn(world))
    assert world.endings() == [TurnEndReason.OUTPUT]
    assert len(asked) == 2
