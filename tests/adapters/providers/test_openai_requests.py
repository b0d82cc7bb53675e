"""What the models of OpenAI's APIs are asked: well-formed whatever the thread, and what the API makes of each part."""

import base64
import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    ServerCall,
    TextBlock,
)
from loopkernel.data.effects import CallModel, Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage
from loopkernel.data.threads import Thread
from loopkernel.testing.run import Run
from loopkernel.testing.strategies import conversation, values
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.providers.json_fields import JsonObject

from tests.adapters.providers.openai_threads import (
    DIALECTS,
    FIRST,
    PATH,
    PNG,
    ROUND,
    SECOND,
    call,
    chat,
    reply,
    responses,
    result,
    results,
)
from tests.adapters.providers.openai_world import MODEL, asking

# --- whatever the thread ------------------------------------------------------------------------------

# Items as the Responses API makes them, of a model that the strategies ask, so that some of them go back.
item_payloads = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("reasoning", "web_search_call", "mcp_approval_request", "message")),
        "id": st.sampled_from(("rs_1", "rs_2", "")),
    },
    optional={"encrypted_content": st.sampled_from(("c2Vj", "")), "more": values.json_values},
)
own_items = st.builds(OpaqueBlock, values.models, item_payloads.map(Json.of))
awkward_media = st.builds(
    MediaBlock,
    st.sampled_from(("image/png", "IMAGE/JPEG; q=1", "application/pdf", "text/plain", "audio/wav", "", "\ud800")),
    st.sampled_from((PNG, "", " ", "http://h/i.png", "http://h/i p.png", f"data:image/png;base64,{PNG}", "data:,", "ü"))
    | values.raw_texts,
)


@st.composite
def awkward(draw: st.DrawFn, request: Request) -> Request:
    """The request with the provider's own items and with media put where they can stand."""
    thread = request.thread.__class__()
    for message in request.thread:
        if isinstance(message, AssistantMessage) and draw(st.booleans()):
            place = draw(st.integers(0, len(message.content)))
            content = (*message.content[:place], draw(own_items), *message.content[place:])
            message = evolve(message, content=content)
        elif isinstance(message, UserMessage) and draw(st.booleans()):
            message = evolve(message, content=(*message.content, draw(awkward_media)))
        elif isinstance(message, ResultMessage) and message.results and draw(st.booleans()):
            first, *others = message.results
            message = evolve(message, results=(evolve(first, content=(draw(awkward_media),)), *others))
        thread = thread.append(message)
    changed: Request = evolve(request, thread=thread)
    return changed


def requests_of(run: Run) -> list[Request]:
    return [effect.request for step in run.steps for effect in step.effects if isinstance(effect, CallModel)]


@pytest.mark.rule("INFER-2")
@given(st.data(), runs())
def test_what_a_run_asks_is_well_formed(data: st.DataObject, run: Run) -> None:
    """Each request of a run is; and each, once more, with what the provider might have added to its thread (I-5)."""
    for request in requests_of(run):
        for asked in (request, data.draw(awkward(request))):
            chat(asked, data.draw(st.sampled_from(DIALECTS)))
            responses(asked)


any_requests = st.builds(
    Request,
    number=st.just(ModelOperation(1)),
    reason=st.just(asking().reason),
    model=values.models,
    instructions=values.raw_texts,
    tools=conversation.tool_sets,
    thread=conversation.threads() | conversation.broken_threads,
    max_output_tokens=st.none() | st.integers(-1, 40),
    forced_tool=st.none() | values.names,
)


@pytest.mark.rule("INFER-2")
@given(st.data(), any_requests)
def test_any_request_is_well_formed(data: st.DataObject, request: Request) -> None:
    """Of threads that the kernel makes, and of broken ones, which it does not."""
    for asked in (request, data.draw(awkward(request))):
        chat(asked, data.draw(st.sampled_from(DIALECTS)))
        responses(asked)


@pytest.mark.rule("TOOL-14")
@given(conversation.threads(max_rounds=4))
def test_a_call_keeps_its_id_while_the_thread_grows(thread: Thread) -> None:
    """So that what the provider has cached of a request is found in the next one."""
    messages = list(thread)
    if messages and isinstance(messages[-1], AssistantMessage):
        messages.pop()  # its results are still to come
    whole = chat(asking(*messages, model="default"))["messages"]
    for length in range(1, len(messages)):
        if not isinstance(messages[length - 1], AssistantMessage):
            part = chat(asking(*messages[:length], model="default"))["messages"]
            assert isinstance(part, list)
            assert isinstance(whole, list)
            said_nothing = [{"role": "user", "content": "(nothing was said)"}]
            stopped = part[-1:] != whole[len(part) - 1 : len(part)]  # told behind a reply that was stopped
            assert part == said_nothing or part[: len(part) - stopped] == whole[: len(part) - stopped]


# --- the parts of a thread ----------------------------------------------------------------------------


def test_a_round_as_chat_completions_take_it() -> None:
    body = chat(asking(*ROUND, instructions="Be brief.", max_output_tokens=9, forced_tool="read_file"))
    arguments = ['{"path":"a"}', '{"unparsed_arguments":"{oh"}']
    assert body == {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Read a file.",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "read_file"}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read.\n\nBoth."},
            {
                "role": "assistant",
                "content": "I read.",
                "tool_calls": [
                    {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": written}}
                    for call_id, written in zip(("c", "call00002"), arguments, strict=True)
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "milk"},
            {"role": "tool", "tool_call_id": "call00002", "content": "Error: no JSON"},
        ],
    }


def test_a_round_as_the_responses_api_takes_it() -> None:
    body = responses(asking(*ROUND, instructions="Be brief.", max_output_tokens=9, forced_tool="read_file"))
    assert body == {
        "model": MODEL,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16,
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "read_file"},
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Read."}, {"type": "input_text", "text": "Both."}],
            },
            {"type": "message", "role": "assistant", "content": "I read."},
            {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": '{"path":"a"}'},
            {
                "type": "function_call",
                "call_id": "call00002",
                "name": "read_file",
                "arguments": '{"unparsed_arguments":"{oh"}',
            },
            {"type": "function_call_output", "call_id": "c", "output": "milk"},
            {"type": "function_call_output", "call_id": "call00002", "output": "Error: no JSON"},
        ],
    }


@pytest.mark.rule("TOOL-14")
@pytest.mark.parametrize("provider_id", ["", " ", "a b", "ü", "x" * 41, "x" * 65, "call00002"])
def test_an_id_that_no_server_takes_is_replaced(provider_id: str) -> None:
    calls = tuple(call(position, PATH, provider_id) for position in (1, 2, 3))
    thread = (reply(*calls), results(*[result(one, TextBlock("x")) for one in calls]))
    chat(asking(*thread))
    responses(asking(*thread))


@pytest.mark.rule("TOOL-14")
def test_a_good_id_is_kept() -> None:
    one = call(1, PATH, "functions.read_file:0")
    assert '"functions.read_file:0"' in json.dumps(chat(asking(reply(one), results(result(one)))))


@pytest.mark.rule("INFER-15")
def test_own_items_go_back_verbatim_and_in_their_place() -> None:
    reasoning: JsonObject = {
        "type": "reasoning",
        "id": "rs",
        "summary": [],
        "encrypted_content": "c2Vj",
        "status": None,
    }
    search: JsonObject = {"type": "web_search_call", "id": "ws", "action": {"odd": [1.5, None]}}
    shown = ServerCall(provider_id="ws", tool="web_search", input=Json.of({}))
    blocks = (OpaqueBlock(MODEL, Json.of(reasoning)), shown, OpaqueBlock(MODEL, Json.of(search)), TextBlock("Milk."))
    asked = responses(asking("Hi", reply(*blocks), "Go on"))["input"]
    assert isinstance(asked, list)
    assert asked[1:4] == [reasoning, search, {"type": "message", "role": "assistant", "content": "Milk."}]
    other = responses(asking("Hi", reply(*blocks), "Go on", model="another"))["input"]
    assert isinstance(other, list)
    assert other[1:2] == [{"type": "message", "role": "assistant", "content": "Milk."}]


@pytest.mark.rule("INFER-15")
def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    """A reply that was stopped while it reasoned: the API refuses such an item without what it led to."""
    reasoning = OpaqueBlock(MODEL, Json.of({"type": "reasoning", "id": "rs", "encrypted_content": "c2Vj"}))
    responses(asking("Hi", reply(reasoning, state=ReplyState.CANCELLED), "Go on"))


def test_media_go_where_each_api_has_a_place_for_them() -> None:
    image, pdf = MediaBlock("image/png", PNG), MediaBlock("application/pdf", "https://h/a.pdf")
    sound = MediaBlock("audio/wav", PNG)
    url = f"data:image/png;base64,{PNG}"
    thread: tuple[Message, ...] = (*ROUND[:2], results(result(FIRST, image), result(SECOND, TextBlock("x"))))
    messages = chat(asking(image, sound, *thread))["messages"]
    assert isinstance(messages, list)
    assert messages[0] == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    assert messages[1] == {
        "role": "user",
        "content": [{"type": "text", "text": "(audio/wav, which this model cannot be shown)"}],
    }
    assert messages[-3]["content"].startswith("(no output)\n(1 attached below")  # type: ignore[index,call-overload,union-attr]  # JSON
    assert messages[-1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "Attached to the result of call c:"},
            {"type": "image_url", "image_url": {"url": url}},
        ],
    }
    items = responses(asking(pdf, *thread))["input"]
    assert isinstance(items, list)
    assert items[0] == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_file", "file_url": "https://h/a.pdf"}],
    }
    assert items[-2] == {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_text", "text": "(no output)"},
            {"type": "input_image", "image_url": url, "detail": "auto"},
        ],
    }


def test_an_image_goes_by_the_name_of_what_it_is() -> None:
    data = base64.b64encode(b"\xff\xd8\xff and the rest of it").decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}
    assert chat(asking(MediaBlock("image/png", data)))["messages"] == [{"role": "user", "content": [image]}]


def test_a_text_file_is_read_to_the_model() -> None:
    note = MediaBlock("text/plain", base64.b64encode("Milch: ü".encode()).decode())
    messages = chat(asking(note))["messages"]
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "Milch: ü"}]}]


@pytest.mark.parametrize("instructions", ["", " \n", "\ud800"])
def test_a_request_with_nothing_to_say_says_so(instructions: str) -> None:
    empty = evolve(asking(), thread=Thread(), instructions=instructions)
    assert "(nothing was said)" in json.dumps(chat(empty))
    assert "(nothing was said)" in json.dumps(responses(empty))
