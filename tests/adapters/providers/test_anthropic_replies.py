"""Replies that are out of order, broken off, or end in every way there is: read, or failed, never raised."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.model_deltas import ModelDelta, ModelInput, ModelOpaque, ModelServerCall, ModelUsage
from loopkernel.data.tools import Tool
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.providers.anthropic.reply import ReplyReader
from loopkernel_adapters.providers.event_stream import EventReader, ServerEvent
from loopkernel_adapters.providers.wire_names import ToolNames

from tests.adapters.providers.anthropic_world import (
    InMemory,
    block,
    calls_in,
    completed,
    delta,
    ending,
    failed,
    own_recordings,
    replies,
    reply_to,
    start,
    stop,
    text,
    text_in,
    tool_use,
    wire,
)
from tests.adapters.providers.asked_requests import OPERATION


@pytest.mark.rule("INFER-4")
@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
    ],
)
def test_each_stop_reason_is_told(reason: str, stop_reason: StopReason) -> None:
    deltas = reply_to([start(), *text(0, "Hi"), *ending(reason, input_tokens=14)])
    assert completed(deltas).stop is stop_reason
    assert completed(deltas).usage == Usage(input=14, output=5)  # the most of each report


@pytest.mark.rule("INFER-8")
def test_a_reply_that_fills_the_window_asks_for_a_smaller_prompt() -> None:
    assert failed(reply_to([start(), *ending("model_context_window_exceeded")])).error is ErrorClass.PROMPT_TOO_LONG


def test_a_stop_reason_of_a_later_version_is_an_error_that_nobody_repeats() -> None:
    last = failed(reply_to([start(), *text(0, "Hi"), *ending("bored")]))
    assert last.error is ErrorClass.UNKNOWN
    assert "bored" in last.message


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize(
    "events",
    [
        [],
        [start()],
        [start(), *text(0, "Hi")],
        [start(), *text(0, "Hi"), *ending("end_turn")[:1]],  # without message_stop
        [start(), *text(0, "Hi"), *ending("end_turn")[1:]],  # without a reason
        [start(), *text(0, "Hi"), *ending(None)],
        [start(), *text(0, "Hi"), *ending({"no": "text"})],
    ],
)
def test_an_early_clean_end_is_a_failure(events: list[dict[str, object]]) -> None:
    assert failed(reply_to(events)).error is ErrorClass.NETWORK


def test_a_message_that_begins_twice_counts_once() -> None:
    deltas = reply_to([start(), start(), *text(0, "Hi"), *ending("end_turn")])
    assert text_in(deltas) == "Hi"
    assert completed(deltas).usage == Usage(input=12, output=5)


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "stop_sequence"])
def test_a_call_that_never_ends_is_damage(reason: str) -> None:
    deltas = reply_to([start(), *tool_use(0, '{"path": "a"}', ends=False), *ending(reason)])
    assert calls_in(deltas) == []
    assert failed(deltas).error is ErrorClass.NETWORK


@pytest.mark.parametrize("reason", ["refusal", "pause_turn"])
def test_a_call_that_is_given_up_with_its_reply_is_none(reason: str) -> None:
    deltas = reply_to([start(), *tool_use(0, '{"path": "a"}', ends=False), *ending(reason)])
    assert calls_in(deltas) == []
    completed(deltas)


@pytest.mark.rule("INFER-7")
@pytest.mark.parametrize(
    ("events", "cut"),
    [
        (tool_use(0, '{"pa'), True),  # ended in form, but not in substance
        (tool_use(0, ""), True),
        (tool_use(0), True),
        (tool_use(0, '{"path": "a"}'), False),
        ([*tool_use(0, '{"pa'), *text(1, "so")], False),
        ([*tool_use(0, "{}"), *tool_use(1, '{"pa', ends=False)], True),
    ],
)
def test_the_output_limit_cuts_only_the_last_call(events: list[dict[str, object]], cut: bool) -> None:
    assert completed(reply_to([start(), *events, *ending("max_tokens")])).cut_call is cut


@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize("written", ["nope", '{"a": 1', '{"a": NaN}', '{"a":1,"a":2}', "[" * 100_000, "9" * 5_000])
def test_arguments_that_do_not_parse_stay_as_they_came(written: str) -> None:
    (call,) = calls_in(reply_to([start(), *tool_use(0, written), *ending("tool_use")]))
    assert call.input == RawInput(written)


def test_arguments_may_come_whole_with_the_block() -> None:
    begun = block(0, type="tool_use", id="t", name="read_file", input={"path": "a"})
    (call,) = calls_in(reply_to([start(), begun, stop(0), *ending("tool_use")]))
    assert call.input.text == '{"path":"a"}'


@pytest.mark.parametrize(
    "events",
    [
        [delta(3, type="input_json_delta", partial_json="{}")],
        [block(0, type="tool_use", id="a", name="x", input={}), block(0, type="text", text="")],
        [block(0, type="tool_use", id="a", input={}), stop(0)],
        [{"type": "content_block_start", "index": "0", "content_block": {"type": "text"}}],
        [{"type": "content_block_stop"}],
        [{"type": "content_block_delta", "delta": {}}],
        [*text(0, "a"), start(id="another")],
    ],
)
def test_what_breaks_the_order_fails_the_reply(events: list[dict[str, object]]) -> None:
    deltas = reply_to([start(), *events, *ending("end_turn")])
    assert failed(deltas).error is ErrorClass.NETWORK
    assert calls_in(deltas) == []


@pytest.mark.parametrize(
    "events",
    [
        [stop(9)],
        [delta(9, type="text_delta", text="")],
        [delta(9, type="signature_delta", signature="x")],
        [delta(9, type="thinking_delta", thinking="")],
        [delta(9, type="later_delta", x=1)],
        [delta(9)],
        [block(9, type="later")],
        [block(9), stop(9)],
        [{"type": "later_event", "index": []}],
        [{"type": "ping"}],
        [{"type": "message_delta"}],
        [{"type": "message_delta", "delta": None, "usage": {"input_tokens": -4, "output_tokens": True}}],
        [block(9, type="thinking", thinking=""), stop(9)],
    ],
)
def test_what_is_odd_but_harmless_is_passed_over(events: list[dict[str, object]]) -> None:
    deltas = reply_to([start(), *events, *text(0, "Hi"), *ending("end_turn")])
    assert text_in(deltas) == "Hi"
    completed(deltas)


@pytest.mark.parametrize(
    "bad", [b"data: [1]\n\n", b"data: {\n\n", b'event: message_stop\ndata: "x"\n\n', b"data: \xff\n\n"]
)
def test_what_is_no_event_fails_the_reply(bad: bytes) -> None:
    (deltas,) = replies(wire([start(), *text(0, "Hi")]) + bad + wire(ending("end_turn")))
    assert failed(deltas).error is ErrorClass.NETWORK
    assert text_in(deltas) == "Hi"


def test_an_event_is_known_by_its_data_and_else_by_its_name() -> None:
    body = wire([start(), *text(0, "Hi"), ending("end_turn")[0]])
    (nameless,) = replies(body.replace(b"event: ", b"x: ") + b'data: {"type": "message_stop"}\n\n')
    (named,) = replies(body + b"event: message_stop\ndata: {}\n\n")
    assert nameless == named
    completed(named)


def test_a_ping_shows_that_a_slow_reply_lives() -> None:
    deltas = reply_to([start(), {"type": "ping"}, {"type": "ping"}, *ending("end_turn")])
    assert [item for item in deltas if isinstance(item, ModelUsage)] == [ModelUsage(OPERATION, Usage(12, 1))] * 3


def test_names_of_tools_are_given_back_as_they_are() -> None:
    reply = ReplyReader(OPERATION, ToolNames([Tool(name="files.read")]))
    events = wire([*tool_use(0, "{}", name="files_read"), *tool_use(1, "{}", name="other")])
    found = [item for event in EventReader().feed(events) for item in reply.read(event)]
    assert [call.tool for call in calls_in(found)] == ["files.read", "other"]


@pytest.mark.rule("TOOL-15")
def test_a_call_of_the_server_with_damaged_arguments_fails_the_reply() -> None:
    begun = block(0, type="server_tool_use", id="s", name="web_search", input={})
    deltas = reply_to(
        [start(), begun, delta(0, type="input_json_delta", partial_json="{"), stop(0), *ending("end_turn")]
    )
    assert failed(deltas).error is ErrorClass.NETWORK
    assert not any(isinstance(item, ModelOpaque | ModelServerCall | ModelInput) for item in deltas)


# --- errors within a response of status 200 -----------------------------------------------------------

ERRORS = {
    "overloaded_error": ErrorClass.OVERLOADED,
    "rate_limit_error": ErrorClass.RATE_LIMITED,
    "api_error": ErrorClass.SERVER,
    "invalid_request_error": ErrorClass.BAD_REQUEST,
    "authentication_error": ErrorClass.AUTH,
    "brand_new_error": ErrorClass.UNKNOWN,
}


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_at_any_event_of_a_stream_ends_it_classified(kind: str) -> None:
    error = wire([{"type": "error", "error": {"type": kind, "message": "It did not work"}}])

    async def run() -> None:
        world = InMemory()
        for recording in own_recordings():
            events = recording.events()
            for place in range(len(events)):
                deltas = await world.reply([*events[:place], error, *events[place:]])
                last = failed(deltas)
                assert last.error is ERRORS[kind], place
                assert "It did not work" in last.message
                assert kind in last.message
                before = await world.reply(events[:place])
                assert deltas[:-1] == before[:-1]

    asyncio.run(run())


@pytest.mark.parametrize("data", ["", "overloaded", '{"error": null}', '{"error": {"type": 5}}', "{}"])
def test_an_error_of_any_form_ends_the_reply(data: str) -> None:
    (deltas,) = replies(wire([start()]) + f"event: error\ndata: {data}\n\n".encode())
    failed(deltas)


# --- nothing that comes raises ------------------------------------------------------------------------

KINDS = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
        "ping",
        "other",
    ]
)
SMALL_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
TYPES = st.sampled_from(["text", "thinking", "tool_use", "server_tool_use", "web_search_tool_result", "new"])
CHANGES = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "new_delta"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2) | SMALL_JSON,
        "content_block": st.fixed_dictionaries(
            {"type": TYPES | SMALL_JSON}, optional={"id": SMALL_JSON, "name": st.text(max_size=2), "input": SMALL_JSON}
        )
        | SMALL_JSON,
        "delta": st.fixed_dictionaries(
            {"type": CHANGES | SMALL_JSON},
            optional={
                "text": SMALL_JSON,
                "thinking": SMALL_JSON,
                "partial_json": st.text(max_size=3),
                "stop_reason": SMALL_JSON,
            },
        )
        | SMALL_JSON,
        "message": st.fixed_dictionaries({}, optional={"content": SMALL_JSON, "usage": SMALL_JSON}) | SMALL_JSON,
        "usage": SMALL_JSON,
        "error": SMALL_JSON,
    },
)


@given(events=st.lists(st.builds(lambda kind, fields: {"type": kind, **fields}, KINDS, FIELDS), max_size=12))
@settings(max_examples=settings().max_examples * 2)
def test_whatever_the_events_are_the_reply_ends_once_and_only_whole_calls_come_of_it(
    events: list[dict[str, object]],
) -> None:
    reply = ReplyReader(OPERATION, ToolNames(()))
    given_out: list[ModelDelta] = []
    ended = {
        event["index"] for event in events if event["type"] == "content_block_stop" and _is_number(event.get("index"))
    }
    for event in EventReader().feed(wire(events)):
        assert isinstance(event, ServerEvent)
        if reply.last is None:
            given_out += reply.read(event)
    reply.end()
    assert reply.last is not None
    begun_whole = any(event["type"] == "message_start" for event in events)
    cut = getattr(reply.last, "cut_call", False)
    assert ended or begun_whole or cut or not calls_in(given_out)


def _is_number(index: object) -> bool:
    return isinstance(index, int)
