"""Every recorded reply of the Messages API: read as it says, however it is split, and never as more than came."""

import asyncio
import itertools
import math
import os
import re
from collections.abc import Iterable

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelServerCall,
    ModelStarted,
)
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
from loopkernel_adapters.providers.anthropic.reply import ReplyReader
from loopkernel_adapters.providers.event_stream import DamagedStream, EventReader
from loopkernel_adapters.providers.wire_names import ToolNames

from tests.adapters.providers.anthropic_world import (
    SHARED_RECORDINGS,
    InMemory,
    PlainReading,
    Recording,
    calls_in,
    completed,
    failed,
    own_recordings,
    plainly,
    read,
    reasoning_in,
    replies,
    text_in,
    with_shared,
)
from tests.adapters.providers.asked_requests import OPERATION
from tests.adapters.providers.wire_server import EVENT_STREAM, Answer, WireServer

OWN = {recording.name: recording for recording in own_recordings()}
EVERY_BYTE = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EVERYTHING = [*OWN.values(), *SHARED_RECORDINGS]
# Of the fifteen replies of one file, thirteen are alike: a message that begins with its call, and ends.
VARIED = [
    recording for recording in EVERYTHING if EVERY_BYTE or not re.search("calling.*#([3-9]|1[0-4])$", recording.name)
]
SPLICED = "spliced-message-start"
# Split and cut at every byte of these through the client, of our own without it; others where it matters, and spread.
EVERYWHERE = ("cut_call.sse", "odd_text_raw_input.sse", "refusal_response.sse")
LARGE = 6_000  # bytes
STOPS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
LOST = httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


def by_name(recordings: Iterable[Recording]) -> pytest.MarkDecorator:
    listed = list(recordings)
    return pytest.mark.parametrize("recording", listed, ids=[recording.name for recording in listed])


def places_in(recording: Recording) -> list[int]:
    """Where to split or to cut: at every byte of some; of others at each event, beside it, and in a spread."""
    if EVERY_BYTE or recording.name.startswith(EVERYWHERE):
        return list(range(len(recording.data) + 1))
    places, end = set(range(0, len(recording.data), 401)), 0
    for number, event in enumerate(recording.events()):
        end += len(event)
        if len(recording.data) < LARGE or number % 4 == 0:
            places |= {end - 1, end, end + 1}
    return sorted(place for place in places if place <= len(recording.data))


def complete_at(data: bytes, ends_cleanly: bool) -> float:
    """From how many bytes on the reply is whole: with its last event, and the empty line if the stream is cut there."""
    marker = data.rindex(b'"message_stop"')
    if ends_cleanly:
        return data.index(b"}", marker) + 1
    for empty_line in (b"\n\n", b"\r\n\r"):
        if empty_line in data[marker:]:
            return data.index(empty_line, marker) + len(empty_line)
    return math.inf


def demand_agreement(deltas: list[ModelDelta], said: PlainReading) -> None:
    """What was read is what the recording says."""
    assert text_in(deltas) == said.text
    assert reasoning_in(deltas) == said.reasoning
    whole = [call for call in calls_in(deltas) if not isinstance(call.input, RawInput)]
    assert [(call.tool, call.provider_id, call.input.value()) for call in whole] == said.calls  # type: ignore[union-attr]
    last = completed(deltas)
    assert last.stop is STOPS[said.stop or ""]
    counted = (
        said.usage.get(f"{kind}_tokens", 0) for kind in ("input", "output", "cache_read_input", "cache_creation_input")
    )
    assert last.usage == Usage(*counted)


@with_shared
@pytest.mark.rule("INFER-3")
@pytest.mark.rule("INFER-4")
@by_name(recording for recording in SHARED_RECORDINGS if SPLICED not in recording.name)
def test_a_recorded_reply_is_read_as_it_says(recording: Recording) -> None:
    (deltas,) = replies(recording.data)
    demand_agreement(deltas, plainly(recording.data))


@with_shared
def test_all_recordings_of_this_api_are_found() -> None:
    names = [recording.name for recording in SHARED_RECORDINGS]
    assert len(names) == 8 + 15 + 1 + 1 + 2 + 2 + 2, names
    said = [plainly(recording.data) for recording in SHARED_RECORDINGS if SPLICED not in recording.name]
    assert sum(len(reading.calls) for reading in said) == 19  # 13 of them are part of the message as it begins


@with_shared
@pytest.mark.rule("TOOL-15")
@by_name(recording for recording in SHARED_RECORDINGS if SPLICED in recording.name)
def test_a_second_reply_within_a_reply_is_a_failure_and_no_call_of_either_runs(recording: Recording) -> None:
    (deltas,) = replies(recording.data)
    assert failed(deltas).error is ErrorClass.NETWORK  # asked again, with what was shown taken back
    assert calls_in(deltas) == []


@by_name(VARIED)
def test_however_it_is_split_a_reply_is_the_same(recording: Recording) -> None:
    (whole,) = replies(recording.data)

    async def split() -> None:
        world = InMemory()
        for place in places_in(recording):
            assert await world.reply([recording.data[:place], recording.data[place:]]) == whole, place
        assert await world.reply([recording.data[place : place + 1] for place in range(len(recording.data))]) == whole

    asyncio.run(split())


@pytest.mark.rule("TOOL-15")
@pytest.mark.rule("INFER-11")
@by_name(recording for recording in VARIED if SPLICED not in recording.name)
@pytest.mark.parametrize("then", [None, LOST], ids=["ended cleanly", "connection lost"])
def test_cut_anywhere_a_reply_fails_and_no_unfinished_call_comes_of_it(
    recording: Recording, then: Exception | None
) -> None:
    (whole,) = replies(recording.data)
    least = complete_at(recording.data, then is None)
    places = places_in(recording)
    places = places if then is None or EVERY_BYTE else places[::7]

    async def cut() -> None:
        world = InMemory()
        for place in places:
            deltas = await world.reply([recording.data[:place]], then)
            if place >= least:
                assert deltas == whole, place
            else:
                assert failed(deltas).error is ErrorClass.NETWORK, place
                assert deltas[:-1] == whole[: len(deltas) - 1]  # so its calls, too, are those of the whole reply
                assert not any(
                    isinstance(call.input, RawInput) and completed(whole).cut_call for call in calls_in(deltas)
                )

    asyncio.run(cut())


@by_name(VARIED)
@given(data=st.data())
@settings(max_examples=5 if not EVERY_BYTE else 100)
def test_read_without_the_client_any_pieces_give_the_same(recording: Recording, data: st.DataObject) -> None:
    """The same of the pure readers, which are quick enough for pieces of any number."""
    places = sorted(data.draw(st.sets(st.integers(0, len(recording.data)), max_size=30)))
    edges = [0, *places, len(recording.data)]
    assert purely(recording.data[a:b] for a, b in itertools.pairwise(edges)) == purely([recording.data])


@by_name(OWN.values())
def test_read_without_the_client_our_own_may_be_split_and_cut_at_every_byte(recording: Recording) -> None:
    data = recording.data
    whole = purely([data])
    for place in range(len(data)):
        assert purely([data[:place], data[place:]]) == whole, place
        *before, last = purely([data[:place]])
        if place < complete_at(data, ends_cleanly=True):
            assert isinstance(last, ModelFailed), place
            assert before == whole[: len(before)], place


def purely(pieces: Iterable[bytes]) -> list[object]:
    """What the readers make of the pieces; a stream that ends within a character ends the reply as damaged."""
    events, reply = EventReader(), ReplyReader(OPERATION, ToolNames(()))
    deltas: list[object] = [delta for piece in pieces for delta in reply.read_all(events.feed(piece))]
    try:
        deltas += reply.read_all(events.end())
    except DamagedStream:
        return [*deltas, ModelFailed(operation=OPERATION, error=ErrorClass.NETWORK)]
    reply.end()
    return [*deltas, reply.last]


# --- the recordings of our own ------------------------------------------------------------------------


def test_thinking_is_kept_signed_and_calls_are_given_when_they_are_complete() -> None:
    (deltas,) = replies(OWN["thinking_and_calls.sse"].data)
    assert reasoning_in(deltas) == "Two files, so two calls."
    assert [delta.payload.value() for delta in deltas if isinstance(delta, ModelOpaque)] == [
        {"type": "thinking", "thinking": "Two files, so two calls.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
    ]
    assert text_in(deltas) == "I look at both."
    assert [(call.tool, call.provider_id, call.input.text) for call in calls_in(deltas)] == [
        ("read_file", "toolu_a", '{"path":"a.txt"}'),
        ("now", "toolu_b", "{}"),
    ]
    assert isinstance(deltas[0], ModelStarted)
    assert deltas[0].model == "claude-test"
    assert [delta.text for delta in deltas if isinstance(delta, ModelInput)] == ['{"path": "a', '.txt"}']
    usage = Usage(input=7, output=41, cache_read=2_000, cache_write=90)
    assert deltas[-1] == ModelCompleted(OPERATION, StopReason.TOOL_USE, usage)


@pytest.mark.rule("TOOL-15")
def test_calls_of_the_server_are_no_calls_and_what_is_unknown_is_kept_or_passed_over() -> None:
    (deltas,) = replies(OWN["server_tools_paused.sse"].data)
    assert calls_in(deltas) == []
    shown = [delta for delta in deltas if isinstance(delta, ModelServerCall)]
    assert [(call.provider_id, call.input.value(), call.result is None) for call in shown] == [
        ("srvtoolu_1", {"query": "tides"}, False),
        ("srvtoolu_2", {"query": "moon"}, True),
    ]
    kept = [delta.payload.value() for delta in deltas if isinstance(delta, ModelOpaque)]
    assert [item["type"] for item in kept if isinstance(item, dict)] == [
        "server_tool_use",
        "web_search_tool_result",
        "later_block",
        "server_tool_use",
    ]
    assert kept[2] == {"type": "later_block", "state": "abcd", "n": 2}
    assert text_in(deltas) == "Twice a day."
    assert completed(deltas).stop is StopReason.PAUSE


@pytest.mark.rule("INFER-7")
def test_a_call_that_the_output_limit_has_cut_is_told_as_cut() -> None:
    (deltas,) = replies(OWN["cut_call.sse"].data)
    (call,) = calls_in(deltas)
    assert call.input == RawInput('{"path": "a.txt", "text": "once upon')
    assert deltas[-1] == ModelCompleted(OPERATION, StopReason.MAX_TOKENS, Usage(input=12, output=64), cut_call=True)


@pytest.mark.rule("TOOL-18")
def test_odd_characters_pass_and_arguments_that_do_not_parse_stay_as_they_came() -> None:
    (deltas,) = replies(OWN["odd_text_raw_input.sse"].data)
    assert text_in(deltas) == "Grüße 🌍\u2028\u0085 \x7f ends \ufffd"
    (call,) = calls_in(deltas)
    assert call.input == RawInput('{"pattern": "ü🌊", "pattern": 1}')
    assert not completed(deltas).cut_call


@by_name(OWN.values())
def test_over_a_real_socket_the_same_is_read(recording: Recording) -> None:
    (whole,) = replies(recording.data)
    third = len(recording.data) // 3
    pieces = (recording.data[:third], recording.data[third : 2 * third], recording.data[2 * third :])
    answers = [
        Answer(headers=EVENT_STREAM, pieces=pieces, ends="clean"),
        Answer(headers=EVENT_STREAM, pieces=pieces[:2], ends="cut"),
    ]

    async def run(url: str) -> tuple[list[ModelDelta], list[ModelDelta]]:
        async with AnthropicProvider(api_key="k", base_url=url) as provider:
            return await read(provider), await read(provider)

    with WireServer(answers) as server:
        same, cut = asyncio.run(run(server.url))
    assert same == whole
    assert isinstance(cut[-1], ModelFailed)
    assert cut[:-1] == whole[: len(cut) - 1]
    assert all(isinstance(call, ModelCall) for call in calls_in(cut))
