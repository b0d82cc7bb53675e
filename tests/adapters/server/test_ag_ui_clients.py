"""What clients of AG-UI bring along: pictures and files in messages, and tools that they run themselves."""

import asyncio
import base64

import pytest
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply

from tests.adapters.server.server_world import Till, agent_of, serving
from tests.adapters.server.test_ag_ui import kinds, ran

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
PICTURE: JsonValue = {"type": "image", "source": {"type": "data", "value": PNG, "mimeType": "image/jpeg"}}
COLOUR: JsonValue = {
    "name": "set_colour",
    "description": "Sets the colour of the page.",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
DONE = text_reply("Done.")


def listening(*replies: Reply) -> ScriptedProvider:
    """A model that keeps what it was asked."""
    return ScriptedProvider(replies)


def last_result(model: ScriptedProvider) -> list[tuple[UserBlock, ...]]:
    """What the model was told last of its calls."""
    (*_, message) = [each for each in model.requests[-1].thread if isinstance(each, ResultMessage)]
    return [result.content for result in message.results]


def painting(*colours: str) -> Reply:
    return call_reply(*(("set_colour", Json.of({"to": colour})) for colour in colours))


def answered(before: JsonValue, *results: tuple[str, JsonValue], error: str | None = None) -> list[JsonValue]:
    """The messages, and what came of calls."""
    assert isinstance(before, list)
    failed: dict[str, JsonValue] = {} if error is None else {"error": error}
    told: list[JsonValue] = [
        {"id": f"t{call}", "role": "tool", "toolCallId": call, "content": content, **failed}
        for call, content in results
    ]
    return [*before, *told]


def input_of(*messages: JsonValue, tools: JsonValue = None, number: int = 1) -> JsonValue:
    body: dict[str, JsonValue] = {"threadId": "thread-1", "runId": f"run-{number}", "messages": [*messages]}
    return body if tools is None else {**body, "tools": tools}


HELLO: JsonValue = {"id": "m1", "role": "user", "content": "Paint it"}


def test_pictures_and_files_reach_the_model_by_their_bytes() -> None:
    model = listening(DONE)
    document: JsonValue = {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "text/plain"}}

    async def play() -> None:
        async with serving(agent_of(model)) as client:
            parts: JsonValue = [{"type": "text", "text": "What is this?"}, PICTURE, document]
            events = await ran(client, input_of({"id": "m1", "role": "user", "content": parts}))
            assert events[-1]["type"] == "RUN_FINISHED"

    asyncio.run(play())
    (message,) = [each for each in model.requests[0].thread if isinstance(each, UserMessage)]
    assert message.content == (
        TextBlock("What is this?"),
        MediaBlock("image/png", PNG),
        MediaBlock("text/plain", "aGk="),
    )


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "data", "value": "bm90IGFuIGltYWdl", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "data", "value": "#", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "http://169.254.169.254/x.png"}},
        {"type": "document", "source": {"type": "file", "value": "file-1"}},
        {"type": "audio", "source": {"type": "data", "value": PNG, "mimeType": "audio/wav"}},
        {"type": "text", "text": " "},
    ],
)
def test_what_cannot_be_taken_is_refused_in_words(part: JsonValue) -> None:
    async def play() -> None:
        async with serving(agent_of([DONE])) as client:
            body = input_of({"id": "m1", "role": "user", "content": [part]})
            status, _, _ = await client.ask("POST", "/ag-ui", body)
            assert status == 400

    asyncio.run(play())


def test_a_tool_of_the_client_is_called_and_its_result_goes_on_with_the_turn() -> None:
    model = listening(painting("red", "blue"), DONE)

    async def play() -> None:
        async with serving(agent_of(model)) as client:
            events = await ran(client, input_of(HELLO, tools=[COLOUR]))
            called = [event["toolCallName"] for event in events if event["type"] == "TOOL_CALL_START"]
            assert called == ["set_colour", "set_colour"]
            assert events[-1]["type"] == "RUN_FINISHED" and "outcome" not in events[-1]
            assert [tool.name for tool in model.requests[0].tools] == ["set_colour"]
            messages = answered([HELLO], ("1.1", "red it is"), ("1.2", [PICTURE]))
            events = await ran(client, input_of(*messages, tools=[COLOUR], number=2))
            assert "TOOL_CALL_RESULT" not in kinds(events)  # the client has them
            assert events[-1]["result"] == {"reason": "model_stop"}

    asyncio.run(play())
    assert last_result(model) == [(TextBlock("red it is"),), (MediaBlock("image/png", PNG),)]


def test_a_result_that_failed_or_never_came_is_told_to_the_model_as_such() -> None:
    model = listening(painting("red"), painting("blue"), DONE)

    async def play() -> None:
        async with serving(agent_of(model)) as client:
            await ran(client, input_of(HELLO, tools=[COLOUR]))
            messages = answered([HELLO], ("1.1", ""), error="no such colour")
            await ran(client, input_of(*messages, tools=[COLOUR], number=2))
            assert last_result(model) == [(TextBlock("no such colour"),)]
            again: JsonValue = {"id": "m2", "role": "user", "content": "Never mind"}
            events = await ran(client, input_of(*messages, again, tools=[COLOUR], number=3))
            assert "gone on" in str(last_result(model))
            assert "TOOL_CALL_RESULT" in kinds(events)

    asyncio.run(play())


def test_a_call_of_the_client_outlasts_the_server_and_tools_that_are_taken_away_are_gone() -> None:
    model = listening(painting("red"), DONE, DONE)

    async def play() -> None:
        agent = agent_of(model)
        async with serving(agent) as client:
            await ran(client, input_of(HELLO, tools=[COLOUR]))
        async with serving(agent) as client:
            messages = answered([HELLO], ("1.1", "red it is"))
            events = await ran(client, input_of(*messages, tools=[COLOUR], number=2))
            assert events[-1]["result"] == {"reason": "model_stop"}
            assert last_result(model) == [(TextBlock("red it is"),)]
            await ran(client, input_of(*messages, {"id": "m2", "role": "user", "content": "More"}, number=3))
            assert model.requests[-1].tools == ()

    asyncio.run(play())


def test_an_approval_and_a_tool_of_the_client_wait_side_by_side() -> None:
    till = Till()
    both = call_reply(("pay", Json.of({"amount": 5})), ("set_colour", Json.of({"to": "red"})))
    model = listening(both, DONE)

    async def play() -> None:
        async with serving(agent_of(model, tools=[till.tool])) as client:
            events = await ran(client, input_of(HELLO, tools=[COLOUR]))
            (interrupt,) = events[-1]["outcome"]["interrupts"]
            assert interrupt["toolCallId"] == "1.1"
            resume: JsonValue = [{"interruptId": interrupt["id"], "status": "resolved", "payload": True}]
            body = input_of(*answered([HELLO], ("1.2", "red")), tools=[COLOUR], number=2)
            assert isinstance(body, dict)
            events = await ran(client, {**body, "resume": resume})
            assert events[-1]["result"] == {"reason": "model_stop"}
            assert till.paid == [{"amount": 5}]

    asyncio.run(play())


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "pay", "description": "takes the place of one of the agent's"},
        {"name": "a b", "description": ""},
        {"name": "x", "description": "", "parameters": {"type": "no type"}},
    ],
)
def test_tools_that_cannot_be_used_are_refused_in_words(tool: JsonValue) -> None:
    async def play() -> None:
        async with serving(agent_of([DONE], tools=[Till().tool])) as client:
            status, _, text = await client.ask("POST", "/ag-ui", input_of(HELLO, tools=[tool]))
            assert (status, b'"tools"' in text) == (400, True)
            twice: JsonValue = [COLOUR, COLOUR]
            assert (await client.ask("POST", "/ag-ui", input_of(HELLO, tools=twice)))[0] == 400

    asyncio.run(play())
