"""The scripted model says what its script says, under the operation that it is asked for."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.threads import Thread
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, RequestReason, StopReason
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, call_reply, text_reply


def request(number: int) -> Request:
    return Request(
        number=ModelOperation(number),
        reason=RequestReason.USER,
        model="scripted",
        instructions="",
        tools=(),
        thread=Thread(),
        max_output_tokens=None,
    )


async def asked(provider: ScriptedProvider, number: int) -> list[ModelDelta]:
    return [delta async for delta in provider.stream(request(number), ModelOperation(number))]


@given(texts=st.lists(st.text(), max_size=4), first=st.integers(1, 1_000))
def test_replies_come_in_order_and_name_the_operation(texts: list[str], first: int) -> None:
    async def run() -> None:
        provider = ScriptedProvider([text_reply(text, Usage(output=1)) for text in texts])
        for number, text in enumerate(texts, start=first):
            operation = ModelOperation(number)
            assert await asked(provider, number) == [
                ModelText(operation, text),
                ModelCompleted(operation, StopReason.END_TURN, Usage(output=1)),
            ]
        (failure,) = await asked(provider, first + len(texts))
        assert isinstance(failure, ModelFailed)
        assert (failure.operation, failure.error) == (first + len(texts), ErrorClass.BAD_REQUEST)
        assert [asked.number for asked in provider.requests] == list(range(first, first + len(texts) + 1))

    asyncio.run(run())


def test_calls_stand_in_order_with_ids_of_their_own() -> None:
    reply = call_reply(("read", Json.of({"path": "a"})), ("read", Json.of({"path": "b"})))
    calls = [item for item in reply if isinstance(item, ModelCall)]
    assert [call.input.text for call in calls if isinstance(call.input, Json)] == ['{"path":"a"}', '{"path":"b"}']
    assert len({call.provider_id for call in calls}) == 2
    assert reply[-1] == ModelCompleted(ANY, StopReason.TOOL_USE)


def test_an_event_is_waited_for_and_an_exception_raised() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        stream = ScriptedProvider([(ModelText(ANY, "a"), gate, ModelText(ANY, "b"), KeyError("script"))]).stream(
            request(1), ModelOperation(1)
        )
        assert await anext(stream) == ModelText(ModelOperation(1), "a")
        second = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not second.done()
        gate.set()
        assert await second == ModelText(ModelOperation(1), "b")
        with pytest.raises(KeyError, match="script"):
            await anext(stream)

    asyncio.run(run())
