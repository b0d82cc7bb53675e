"""What servers of the Responses API send, well and badly: items, calls, the provider's own items, ends, errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelInput, ModelOpaque, ModelServerCall, ModelUsage
from loopkernel.data.tools import Tool
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import ErrorClass, StopReason

from tests.adapters.providers.openai_world import (
    asking,
    called,
    completed,
    failed,
    reasoning_in,
    reply_to,
    text_in,
)
from tests.adapters.providers.test_openai_chat import json_things

Event = dict[str, object]
PATH = '{"path":"a"}'
USED = {"input_tokens": 30, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 20}}


def event(kind: str, **fields: object) -> Event:
    return {"type": f"response.{kind}", **fields}


def begun(item: Event, place: int = 0) -> Event:
    return event("output_item.added", output_index=place, item=item)


def done(item: Event, place: int = 0) -> Event:
    return event("output_item.done", output_index=place, item=item)


def call(arguments: str = "", call_id: str = "c", name: str = "read_file", status: str = "completed") -> Event:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def piece(text: str, place: int = 0, **more: object) -> Event:
    return event("function_call_arguments.delta", output_index=place, delta=text, **more)


def ended(status: str = "completed", **fields: object) -> Event:
    return event(status, response={"status": status, **fields})


COMPLETED = ended()


@pytest.mark.rule("TOOL-9")
@pytest.mark.parametrize(
    "events",
    [
        pytest.param([begun(call()), piece(PATH[:4]), piece(PATH[4:]), done(call(PATH))], id="as it should be"),
        pytest.param([done(call(PATH))], id="the item alone"),
        pytest.param([begun(call()), piece(PATH), done(call())], id="arguments in pieces alone"),
        pytest.param(
            [begun(call()), piece(PATH, item_id="other"), done({**call(PATH), "id": "another"})], id="other ids"
        ),
        pytest.param([done(call(PATH)), done(call(PATH))], id="done twice"),
        pytest.param(
            [begun(call()), event("function_call_arguments.done", output_index=0, arguments=PATH)], id="never done"
        ),
    ],
)
def test_a_call_is_given_once_and_whole(events: list[Event]) -> None:
    reply = reply_to("responses", *events, COMPLETED)
    assert called(reply) == [("read_file", "c", {"path": "a"})]
    assert completed(reply).stop is StopReason.TOOL_USE


@pytest.mark.rule("TOOL-15")
def test_a_call_that_was_never_done_is_not_given_by_a_stream_that_breaks() -> None:
    reply = reply_to("responses", begun(call()), event("function_call_arguments.done", output_index=0, arguments=PATH))
    assert failed(reply).error is ErrorClass.NETWORK
    assert called(reply) == []


@pytest.mark.rule("TOOL-9")
def test_a_call_is_given_when_its_item_is_done_and_shown_while_it_is_written() -> None:
    reply = reply_to("responses", begun(call()), piece("{"), piece("}"), done(call("{}")), begun(call("", "d"), 1))
    assert [type(delta) for delta in reply[:-1]] == [ModelInput, ModelInput, ModelCall]


@pytest.mark.rule("TOOL-14")
def test_calls_with_one_id_are_two_calls() -> None:
    reply = reply_to("responses", done(call(PATH, "c"), 0), done(call("{}", "c"), 1), COMPLETED)
    assert called(reply) == [("read_file", "c", {"path": "a"}), ("read_file", "c", {})]


def test_arguments_that_do_not_parse_come_as_they_are() -> None:
    assert called(reply_to("responses", done(call("{oh")), COMPLETED)) == [("read_file", "c", "{oh")]


def test_a_tool_is_called_by_its_own_name() -> None:
    reply = reply_to("responses", done(call("{}", name="a_b")), COMPLETED, request=asking(tools=(Tool(name="a.b"),)))
    assert called(reply) == [("a.b", "c", {})]


def test_a_call_in_free_text_is_a_call_with_an_input() -> None:
    item: Event = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"}
    assert called(reply_to("responses", done(item), COMPLETED)) == [("patch", "c", {"input": "*** Begin"})]


# --- text and reasoning -------------------------------------------------------------------------------


def test_a_text_that_comes_whole_is_read_once() -> None:
    told = event("output_text.done", output_index=0, content_index=0, text="Yes.")
    assert text_in(reply_to("responses", told, COMPLETED)) == "Yes."
    pieces = event("output_text.delta", output_index=0, content_index=0, delta="Yes.")
    assert text_in(reply_to("responses", pieces, told, COMPLETED)) == "Yes."


def test_a_server_that_tells_all_at_the_end_is_read() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
    reply = reply_to("responses", ended(output=[message, call(PATH)], usage=USED))
    assert (text_in(reply), called(reply)) == ("Yes.", [("read_file", "c", {"path": "a"})])
    assert completed(reply).usage == Usage(10, 4, 20)


def test_the_parts_of_a_summary_are_paragraphs() -> None:
    part = event("reasoning_summary_part.added", output_index=0)
    said = event("reasoning_summary_text.delta", output_index=0, delta="Hm.")
    assert reasoning_in(reply_to("responses", part, said, part, said, COMPLETED)) == "Hm.\n\nHm."
    open_model = event("reasoning_text.delta", output_index=0, delta="Hm.")
    assert reasoning_in(reply_to("responses", open_model, COMPLETED)) == "Hm."


# --- the provider's own items -------------------------------------------------------------------------


@pytest.mark.rule("INFER-15")
@pytest.mark.parametrize(
    ("item", "kept"),
    [
        ({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "c2Vj"}, True),
        ({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": None}, False),  # the server keeps none
        ({"type": "web_search_call", "id": "w", "action": {"type": "search", "odd": [None, 1.5]}}, True),
        ({"type": "compaction", "id": "x", "encrypted_content": "c2Vj"}, True),
        ({"type": "of_the_future", "id": "x"}, True),
        ({"type": "mcp_approval_request", "id": "m", "name": "n", "arguments": "{}"}, False),  # nobody answers it
        ({"type": "computer_call", "id": "m", "call_id": "c"}, False),
        ({"type": "message", "id": "m", "content": []}, False),
    ],
)
def test_items_that_go_back_are_kept_as_they_came(item: Event, kept: bool) -> None:
    reply = reply_to("responses", begun(item), done(item), COMPLETED)
    opaque = [delta.payload for delta in reply if isinstance(delta, ModelOpaque)]
    assert opaque == ([Json.of(item)] if kept else [])  # type: ignore[arg-type]  # JSON


@pytest.mark.rule("TOOL-15")
def test_what_the_provider_runs_is_shown_and_owes_nothing() -> None:
    item: Event = {"type": "mcp_call", "id": "m", "name": "n", "server_label": "s", "arguments": "{}", "output": "done"}
    reply = reply_to("responses", event("mcp_call.in_progress"), done(item), COMPLETED)
    (shown,) = [delta for delta in reply if isinstance(delta, ModelServerCall)]
    assert (shown.tool, shown.provider_id) == ("mcp", "m")
    assert shown.input == Json.of({"server_label": "s", "name": "n", "arguments": "{}"})
    assert shown.result == Json.of({"output": "done"})
    assert completed(reply).stop is StopReason.END_TURN
    assert [delta.usage for delta in reply if isinstance(delta, ModelUsage)] == [NO_USAGE]  # a sign of life


def test_an_item_too_deep_for_the_log_is_left_out() -> None:
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    assert called(reply_to("responses", done({"type": "x_call", "id": "x", "action": deep}), COMPLETED)) == []


# --- ends ---------------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-4")
@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.CONTENT_FILTERED),
        ("of_the_future", StopReason.MAX_TOKENS),
    ],
)
def test_an_incomplete_response_says_why(reason: str, stop: StopReason) -> None:
    last = ended("incomplete", incomplete_details={"reason": reason}, usage=USED)
    reply = reply_to("responses", done(call("{}", "c"), 0), begun(call("", "d"), 1), piece('{"pa', 1), last)
    assert completed(reply).stop is stop
    assert completed(reply).usage == Usage(10, 4, 20)
    cut = [("read_file", "d", '{"pa')] if stop is StopReason.MAX_TOKENS else []
    assert called(reply) == [("read_file", "c", {}), *cut]
    assert completed(reply).cut_call is bool(cut)


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize(
    "events", [(), ("[DONE]",), (event("created", response={}), event("output_text.delta", delta="Yes"))]
)
def test_a_response_without_its_end_is_none(events: tuple[object, ...]) -> None:
    assert failed(reply_to("responses", *events)).error is ErrorClass.NETWORK


@pytest.mark.rule("INFER-10")
def test_a_refusal_is_text_and_an_end_of_its_own() -> None:
    reply = reply_to("responses", event("refusal.delta", delta="No."), COMPLETED)
    assert (text_in(reply), completed(reply).stop) == ("No.", StopReason.REFUSAL)


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize(
    ("told", "error"),
    [
        (ended("failed", error={"code": "server_error", "message": "x"}), ErrorClass.SERVER),
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "x"}), ErrorClass.RATE_LIMITED),
        (ended("failed", error=None), ErrorClass.UNKNOWN),
        (ended("cancelled"), ErrorClass.UNKNOWN),
        (
            {"type": "error", "code": "context_length_exceeded", "message": "x", "param": None},
            ErrorClass.PROMPT_TOO_LONG,
        ),
        ({"type": "error", "error": {"type": "insufficient_quota", "message": "x"}}, ErrorClass.AUTH),
        ({"type": "error", "error": "all is lost"}, ErrorClass.UNKNOWN),
        ({"error": {"code": 503, "message": "x"}}, ErrorClass.OVERLOADED),
    ],
)
def test_a_failure_in_the_stream_is_classified(told: Event, error: ErrorClass) -> None:
    usage = event("in_progress", response={"usage": USED})
    reply = reply_to("responses", usage, begun(call()), piece(PATH), told, COMPLETED)
    assert failed(reply).error is error
    assert failed(reply).usage == Usage(10, 4, 20)
    assert called(reply) == []


KINDS = (
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.done",
    "response.output_item.added",
    "response.output_item.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.reasoning_summary_text.delta",
    "response.created",
    "response.x_call.delta",
    "of the future",
)
ITEM_TYPES = ("function_call", "message", "reasoning", "web_search_call", "custom_tool_call")
items = st.fixed_dictionaries(
    {"type": st.sampled_from(ITEM_TYPES) | json_things},
    optional={"id": json_things, "arguments": json_things, "name": json_things},
)
odd_events = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | st.text(max_size=3)},
    optional={
        "item": items | json_things,
        "output_index": json_things,
        "delta": json_things,
        "text": json_things,
        "arguments": json_things,
        "response": json_things,
    },
)


@given(st.lists(odd_events | json_things.filter(lambda told: not isinstance(told, dict)), max_size=5))
def test_no_field_of_any_kind_breaks_a_reply(events: list[object]) -> None:
    completed(reply_to("responses", *map(json.dumps, events), COMPLETED))
