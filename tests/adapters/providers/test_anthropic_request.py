"""Requests to the Messages API: well-formed for every thread there can be, and saying what the request says."""

import asyncio
import base64
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.data.blocks import (
    AssistantBlock,
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import CallModel, Request
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Tool
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.testing.strategies.conversation import threads
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.providers.anthropic.request import RequestOptions, request_body
from loopkernel_adapters.providers.wire_names import ToolNames

from tests.adapters.providers.anthropic_world import InMemory, asking, read, replies, start, text, wire
from tests.adapters.providers.anthropic_world import ending as ending_of
from tests.adapters.providers.messages_api import Body, faults_of

PNG = base64.b64encode(b"\x89PNG not really").decode()
THINKING = Json.of({"type": "thinking", "thinking": "So.", "signature": "c2ln"})
REDACTED = Json.of({"type": "redacted_thinking", "data": "eHg="})
SEARCH = Json.of({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
FOUND = Json.of({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})


def body_of(request: Request, **options: Any) -> Body:  # the options are of many types
    body: Body = request_body(request, RequestOptions(**options), ToolNames(request.tools))
    assert faults_of(body) == []
    return body


def reply(*content: AssistantBlock, number: int = 1, stop: StopReason | None = StopReason.END_TURN) -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(100 + number),
        reply=ModelOperation(number),
        model="claude-test",
        content=content,
        stop=stop,
        state=ReplyState.COMPLETE if stop else ReplyState.CANCELLED,
    )


def call(position: int, provider_id: str = "toolu_1", reply_number: int = 1, **fields: Any) -> ToolCall:  # as above
    known: dict[str, Any] = {"tool": "read_file", "input": Json.of({"path": "a"})}
    call_id = CallId(ModelOperation(reply_number), position)
    return ToolCall(id=call_id, provider_id=provider_id, **{**known, **fields})


def results(*calls: ToolCall, status: CallStatus = CallStatus.DONE, **fields: Any) -> ResultMessage:  # as above
    known: dict[str, Any] = {"content": (TextBlock("done"),), "status": status}
    answered = tuple(
        ToolResult(call=made.id, provider_id=made.provider_id, tool=made.tool, **{**known, **fields}) for made in calls
    )
    return ResultMessage(id=MessageId(200 + calls[0].id.reply), reply=calls[0].id.reply, results=answered)


def said(words: str, number: int = 900) -> UserMessage:
    return UserMessage(id=MessageId(number), content=(TextBlock(words),))


def shown(*messages: Message, **fields: Any) -> list[Body]:  # as above
    """The messages as they are sent, without the marks for the cache."""
    found: list[Body] = body_of(asking(*messages, **fields), caching=False)["messages"]
    return found


# --- for every thread ---------------------------------------------------------------------------------

ODD_TEXTS = st.sampled_from(["\ud800", "a\udfff", "\x00", "\u2028", "😀", " ", "ok"])
OPAQUE = st.sampled_from([THINKING, REDACTED, SEARCH, FOUND, Json.of("text"), Json.of({}), Json.of({"type": "later"})])
OPTIONS = st.builds(
    RequestOptions,
    max_output_tokens=st.sampled_from([1, 1_024, 4_000, 32_000]),
    thinking=st.sampled_from([None, 1_024, 8_000, "adaptive"]),
    caching=st.booleans(),
)
NAMES = st.text(st.sampled_from("ab._-/é"), max_size=3) | st.sampled_from(["a" * 70, "a" * 64, "a" * 63 + "."])
SOME_SCHEMAS: list[JsonValue] = [
    {},
    {"type": "string"},
    {"anyOf": []},
    {"type": "object", "properties": {}},
    5,
    None,
    [],
]
SCHEMAS = st.sampled_from(SOME_SCHEMAS)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request with any coherent thread, with the opaque items of this API, and with tools of any name."""
    thread = Thread()
    for message in draw(threads(max_rounds=3)):
        if isinstance(message, AssistantMessage):
            content = [
                OpaqueBlock("claude-test", draw(OPAQUE)) if isinstance(block, OpaqueBlock) else block
                for block in message.content
            ]
            message = evolve(message, content=tuple(content))
        thread = thread.append(message)
    offered = [
        Tool(name=name, description=draw(ODD_TEXTS), input_schema=Json.of(draw(SCHEMAS)))
        for name in draw(st.lists(NAMES, max_size=4, unique=True))
    ]
    return asking(
        thread=thread,
        tools=tuple(offered),
        instructions=draw(ODD_TEXTS),
        model=draw(st.sampled_from(["claude-test", "claude-\udc80"])),
        max_output_tokens=draw(st.sampled_from([None, 1, 2_000])),
        forced_tool=draw(st.sampled_from([None, *(tool.name for tool in offered)])),
    )


@pytest.mark.rule("INFER-2")
@pytest.mark.rule("TOOL-14")
@given(request=requests(), options=OPTIONS)
@settings(max_examples=settings().max_examples * 4)
def test_the_request_of_any_thread_is_one_that_the_api_takes(request: Request, options: RequestOptions) -> None:
    names = ToolNames(request.tools)
    body = request_body(request, options, names)
    assert faults_of(body) == []
    assert {names.own(wire): tool for wire, tool in names.offered} == {
        tool.name: tool for tool in reversed(request.tools)
    }


@pytest.mark.rule("INFER-2")
@given(run=runs(most=30), options=OPTIONS)
@settings(max_examples=max(settings().max_examples // 3, 5))
def test_every_request_that_a_run_makes_is_one_that_the_api_takes(run: Any, options: RequestOptions) -> None:
    for step in run.steps:
        for effect in step.effects:
            if isinstance(effect, CallModel):
                request = effect.request
                body = request_body(request, options, ToolNames(request.tools))
                if request.forced_tool is not None and all(tool.name != request.forced_tool for tool in request.tools):
                    continue  # the API will say so
                assert faults_of(body) == []


@given(request=requests())
def test_a_longer_thread_begins_with_the_messages_of_the_shorter_one(request: Request) -> None:
    """So the provider's cache is met."""
    request = evolve(request, thread=request.thread.append(said("go on")))
    grown = request.thread
    for message in (said("more"), reply(TextBlock("yes"), number=50), said("and", 901)):
        grown = grown.append(message)
    before, after = (
        shown(*thread, tools=request.tools, forced_tool=request.forced_tool) for thread in (request.thread, grown)
    )
    assert after[: len(before) - 1] == before[:-1]
    assert after[len(before) - 1]["content"][: len(before[-1]["content"])] == before[-1]["content"]


# --- what is said -------------------------------------------------------------------------------------


def test_a_round_with_a_call_is_shown_as_the_api_has_it() -> None:
    made = call(1)
    assert shown(said("Read a"), reply(TextBlock("I read"), made), results(made), said("Thanks", 901)) == [
        {"role": "user", "content": [{"type": "text", "text": "Read a"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I read"},
                {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "done"}]},
                {"type": "text", "text": "Thanks"},
            ],
        },
    ]


def test_instructions_tools_and_limits_are_those_of_the_request() -> None:
    tool = Tool(name="files.read", description="Reads.", input_schema=Json.of({"properties": {"a": {}}, "oneOf": []}))
    request = asking(
        "Hi", tools=(tool,), instructions="Be\ud800 brief.", max_output_tokens=77, forced_tool="files.read"
    )
    body = body_of(request, caching=False, thinking=5_000)
    assert body == {
        "model": "claude-test",
        "max_tokens": 77,
        "stream": True,
        "system": [{"type": "text", "text": "Be\ufffd brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "tools": [
            {"name": "files_read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"a": {}}}}
        ],
        "tool_choice": {"type": "tool", "name": "files_read"},
    }
    assert body_of(asking("Hi", instructions=" "))["max_tokens"] == 32_000
    assert "system" not in body_of(asking("Hi", instructions=" "))
    assert "tools" not in body_of(asking("Hi", tools=()))


def test_names_that_meet_when_they_are_made_safe_are_told_apart() -> None:
    names = ToolNames([Tool(name=name) for name in ("a.b", "a/b", "a_b", "a_b_2", "", "x" * 80, "x" * 81)])
    assert names.on_the_wire("a_b") == "a_b"
    assert len({wire for wire, _ in names.offered}) == 7
    assert all(names.own(wire) == tool.name for wire, tool in names.offered)


def test_a_name_that_is_offered_twice_is_offered_once() -> None:
    tools = tuple(Tool(name=name, description=words) for name, words in (("a", "first"), ("b", ""), ("a", "second")))
    offered = body_of(asking("Hi", tools=tools), caching=False)["tools"]
    assert [(tool["name"], tool.get("description")) for tool in offered] == [("a", "first"), ("b", None)]


@pytest.mark.rule("TOOL-14")
def test_ids_that_a_provider_uses_again_are_told_apart_and_stay_with_their_results() -> None:
    first, second = call(1, "call_0"), call(1, "call_0", 2)
    third, odd = call(1, "a b", 3), call(2, "", 3)
    thread = [said("go")]
    messages: list[Message] = [*thread]
    for number, made in enumerate([(first,), (second,), (third, odd)], 1):
        messages += [reply(*made, number=number), results(*made)]
    ids = [block["id"] for message in shown(*messages) for block in message["content"] if block["type"] == "tool_use"]
    assert ids == ["call_0", "call_2_1", "call_3_1", "call_3_2"]


@pytest.mark.rule("INFER-15")
def test_signed_thinking_goes_back_as_it_came_and_only_to_its_model() -> None:
    (deltas,) = replies(wire([start(), *text(0, "Hi"), *ending_of("end_turn")]))
    assert deltas
    made = call(1)
    thinking = (ReasoningBlock("So."), OpaqueBlock("claude-test", THINKING), OpaqueBlock("claude-test", REDACTED))
    messages = (said("go"), reply(*thinking, made), results(made))
    content = shown(*messages)[1]["content"]
    assert content[:2] == [THINKING.value(), REDACTED.value()]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "tool_use"]
    other = body_of(asking(*messages, model="claude-other"), caching=False)
    assert [block["type"] for block in other["messages"][1]["content"]] == ["tool_use"]


def test_thinking_is_asked_for_only_where_the_api_takes_it() -> None:
    made = call(1)
    thought = (said("go"), reply(OpaqueBlock("claude-test", THINKING), made), results(made))
    unthought = (said("go"), reply(made), results(made))
    again = call(1, "toolu_2", 2)
    assert body_of(asking("Hi"), thinking=5_000)["thinking"] == {"type": "enabled", "budget_tokens": 5_000}
    assert body_of(asking("Hi", max_output_tokens=3_000), thinking=5_000)["thinking"]["budget_tokens"] == 2_999
    assert "thinking" not in body_of(asking("Hi", max_output_tokens=1_024), thinking=5_000)
    assert "thinking" not in body_of(asking("Hi", forced_tool="read_file"), thinking=5_000)
    assert "thinking" not in body_of(asking("Hi"))
    assert body_of(asking("Hi"), thinking="adaptive")["thinking"] == {"type": "adaptive"}
    assert "thinking" in body_of(asking(*thought), thinking=5_000)
    assert "thinking" in body_of(asking(*thought, reply(again, number=2), results(again)), thinking=5_000)
    assert "thinking" not in body_of(asking(*unthought), thinking=5_000)
    assert "thinking" in body_of(asking(*unthought, reply(TextBlock("ok"), number=2), said("and now")), thinking=5_000)


@pytest.mark.rule("TOOL-15")
def test_calls_of_the_server_go_back_with_their_results_or_not_at_all() -> None:
    search, found = OpaqueBlock("claude-test", SEARCH), OpaqueBlock("claude-test", FOUND)
    seen = ServerCall(provider_id="srvtoolu_1", tool="web_search", input=Json.of({}), result=FOUND)
    whole = shown(said("go"), reply(search, found, seen, TextBlock("So.")), said("on", 901))
    assert [block["type"] for block in whole[1]["content"]] == ["server_tool_use", "web_search_tool_result", "text"]
    paused = shown(said("go"), reply(search, stop=StopReason.PAUSE))
    assert [block["type"] for block in paused[-1]["content"]] == ["server_tool_use"]
    cut = shown(said("go"), reply(TextBlock("I search"), search, stop=None), said("stop", 901))
    assert [block["type"] for block in cut[1]["content"]] == ["text"]


def test_a_reply_that_was_cut_while_the_model_thought_is_left_out() -> None:
    cut = shown(said("go"), reply(OpaqueBlock("claude-test", THINKING), stop=None), said("on", 901))
    assert [message["role"] for message in cut] == ["user"]
    assert cut[0]["content"][-1]["text"] == "on"


def test_a_thread_that_begins_with_a_reply_or_with_nothing_is_led_in() -> None:
    assert [message["role"] for message in shown(reply(TextBlock("Hello")), said("Hi"))] == [
        "user",
        "assistant",
        "user",
    ]
    assert [message["role"] for message in shown(said("  "))] == ["user"]
    assert shown(said("go"), reply(TextBlock("so \n")))[-1]["content"] == [{"type": "text", "text": "so"}]


def test_arguments_that_are_no_object_go_back_as_text() -> None:
    raw, listed = call(1, input=RawInput('{"pa')), call(2, "toolu_2", input=Json.of([1]))
    content = shown(said("go"), reply(raw, listed), results(raw, listed))[1]["content"]
    assert [block["input"] for block in content] == [{"unparsed_arguments": '{"pa'}, {"unparsed_arguments": "[1]"}]


@pytest.mark.parametrize(
    "status", [CallStatus.ERROR, CallStatus.CANCELLED, CallStatus.REJECTED_BY_USER, CallStatus.LOST]
)
def test_a_result_that_is_no_success_says_so(status: CallStatus) -> None:
    made = call(1)
    (result,) = shown(said("go"), reply(made), results(made, status=status, content=()))[2]["content"]
    assert result["is_error"]
    assert result["content"] == [{"type": "text", "text": f"({status.value})"}]
    (quiet,) = shown(said("go"), reply(made), results(made, content=()))[2]["content"]
    assert quiet == {"type": "tool_result", "tool_use_id": "toolu_1"}


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}
TRUE_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and the rest of it").decode()
LABELLED = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TRUE_PNG}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        (MediaBlock("image/png", PNG), IMAGE),
        (MediaBlock("Image/PNG; q=1", f" {PNG}\n"), IMAGE),
        (MediaBlock("", f"data:image/png;base64,{PNG}"), IMAGE),
        (MediaBlock("image/jpeg", TRUE_PNG), LABELLED),  # under its own name, or the API refuses it for ever
        (MediaBlock("application/pdf", PNG), PDF),
        (
            MediaBlock("image/jpg", "https://example.org/a.jpg"),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.jpg"}},
        ),
        (MediaBlock("text/csv", base64.b64encode("a;ü".encode()).decode()), {"type": "text", "text": "a;ü"}),
        (MediaBlock("audio/wav", PNG), {"type": "text", "text": "(audio/wav, which this model cannot be shown)"}),
        (MediaBlock("image/png", ""), {"type": "text", "text": "(image/png, which this model cannot be shown)"}),
        (
            MediaBlock("image/png", "/tmp/a.png"),
            {"type": "text", "text": "(image/png, which this model cannot be shown)"},
        ),
        (MediaBlock("", "x"), {"type": "text", "text": "(a file, which this model cannot be shown)"}),
    ],
)
def test_media_are_shown_in_messages_and_in_results(media: MediaBlock, expected: Body) -> None:
    made = call(1)
    user = UserMessage(id=MessageId(1), content=(media,))
    messages = shown(user, reply(made), results(made, content=(media,)))
    assert messages[0]["content"] == [expected]
    assert messages[2]["content"][0]["content"] == [expected]


def test_what_stays_is_marked_for_the_cache() -> None:
    made = call(1)
    messages = (said("go"), reply(made), results(made), reply(TextBlock("ok"), number=2), said("and", 901))
    body = body_of(asking(*messages, instructions="Be brief."))
    marked = [block for part in (body["tools"], body["system"]) for block in part if "cache_control" in block]
    assert len(marked) == 2
    users = [message["content"][-1] for message in body["messages"] if message["role"] == "user"]
    assert ["cache_control" in block for block in users] == [False, True, True]
    assert "cache_control" not in json.dumps(body_of(asking(*messages, instructions="Be brief."), caching=False))


def test_tools_of_the_server_are_offered_as_they_are_given() -> None:
    search = Json.of({"type": "web_search_20260209", "name": "web_search", "max_uses": 2})
    assert body_of(asking("Hi"), server_tools=(search,), caching=False)["tools"][1] == search.value()


def test_what_is_sent_is_the_body_and_nothing_else() -> None:
    async def run() -> None:
        world = InMemory()
        world.body = world.body.__class__([wire([start(), *text(0, "Hi"), *ending_of("end_turn")])])  # type: ignore[call-arg]
        await read(world.provider, asking("Grüße \U0001f30d"))
        (request,) = world.asked
        assert (request.method, request.url.path) == ("POST", "/v1/messages")
        assert json.loads(request.content) == body_of(asking("Grüße \U0001f30d"))

    asyncio.run(run())
