"""A run of AG-UI over a real connection: its events are those of the protocol, in an order that its clients accept."""

import asyncio
import json

from ag_ui.core import Event
from loopkernel.data.json_text import JsonValue
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelReasoning, ModelText
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.providers.scripted import ANY, text_reply
from pydantic import TypeAdapter

from tests.adapters.server.server_world import Answer, Client, Till, agent_of, pay, serving, words

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


def asked(words: str, number: int = 1, **more: JsonValue) -> JsonValue:
    return {
        "threadId": "thread-1",
        "runId": f"run-{number}",
        "messages": [{"id": f"m{number}", "role": "user", "content": words}],
        **more,
    }


async def ran(client: Client, body: JsonValue) -> list[Answer]:
    """The events of one run, each valid and in its place."""
    status, _, text = await client.ask("POST", "/ag-ui", body)
    assert status == 200, text
    events = [json.loads(line[6:]) for line in text.decode().split("\n\n") if line.startswith("data: ")]
    for event in events:
        EVENTS.validate_python(event)
    demand_order(events)
    return events


def demand_order(events: list[Answer]) -> None:
    """What begins ends, one message at a time, and nothing is told of what has not begun."""
    assert events[0]["type"] == "RUN_STARTED"
    assert [event["type"] for event in events if event["type"] in ("RUN_FINISHED", "RUN_ERROR")] == [events[-1]["type"]]
    begun: set[str] = set()
    for event in events:
        kind, _, step = event["type"].rpartition("_")
        name = event.get("messageId") or event.get("toolCallId")
        if kind in ("TEXT_MESSAGE", "REASONING_MESSAGE", "TOOL_CALL") and step in ("START", "CONTENT", "ARGS", "END"):
            if step == "START":
                assert not begun
                begun.add(name)
            assert name in begun
            if step == "END":
                begun.remove(name)
    assert not begun


def kinds(events: list[Answer]) -> list[str]:
    return [event["type"] for event in events if event["type"] != "CUSTOM"]


def test_text_and_reasoning_are_messages_of_their_own() -> None:
    async def play() -> None:
        reply = (
            ModelReasoning(ANY, "Hm"),
            ModelText(ANY, "Good "),
            ModelText(ANY, "morning"),
            ModelCompleted(ANY, StopReason.END_TURN),
        )
        async with serving(agent_of([reply])) as client:
            events = await ran(client, asked("Hello"))
            text = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
            assert text == ["Good ", "morning"]
            assert "REASONING_MESSAGE_CONTENT" in kinds(events)
            assert events[-1]["result"] == {"reason": "model_stop"}

    asyncio.run(play())


def test_an_approval_is_an_interrupt_and_its_answer_lets_exactly_that_call_run() -> None:
    till = Till()

    async def play() -> None:
        async with serving(agent_of([pay(5), text_reply("Done.")], tools=[till.tool])) as client:
            events = await ran(client, asked("Pay"))
            (interrupt,) = events[-1]["outcome"]["interrupts"]
            assert interrupt["toolCallId"] == "1.1"
            stale: JsonValue = [{"interruptId": "0" * 32, "status": "resolved", "payload": True}]
            status, _, _ = await client.ask("POST", "/ag-ui", asked("Pay", 1, resume=stale))
            assert (status, till.paid) == (409, [])
            given: JsonValue = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"answer": "yes"}}]
            events = await ran(client, asked("Pay", 1, resume=given))
            assert till.paid == [{"amount": 5}]
            assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ["paid"]
            assert "outcome" not in events[-1]

    asyncio.run(play())


def test_an_answer_that_is_cancelled_denies() -> None:
    till = Till()

    async def play() -> None:
        async with serving(agent_of([pay(5), text_reply("Done.")], tools=[till.tool])) as client:
            events = await ran(client, asked("Pay"))
            (interrupt,) = events[-1]["outcome"]["interrupts"]
            given: JsonValue = [{"interruptId": interrupt["id"], "status": "cancelled"}]
            assert (await ran(client, asked("Pay", 1, resume=given)))[-1]["type"] == "RUN_FINISHED"
            assert till.paid == []

    asyncio.run(play())


def test_what_was_taken_back_is_mended_and_a_failure_is_told() -> None:
    async def play() -> None:
        broken = (ModelText(ANY, "Half"), ModelFailed(operation=ANY, error=ErrorClass.BAD_REQUEST, message="no"))
        async with serving(agent_of([broken, words("Whole")])) as client:
            events = await ran(client, asked("Hello"))
            assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "bad_request")
            again = await ran(client, asked("Again", 2))
            assert again[-1]["type"] == "RUN_FINISHED"
            twice = await ran(client, asked("Again", 2))  # sent once more, as after a broken connection
            assert kinds(twice) == ["RUN_STARTED", "RUN_FINISHED"]

    asyncio.run(play())


def test_a_body_that_is_no_input_of_the_protocol_is_refused() -> None:
    async def play() -> None:
        async with serving(agent_of([])) as client:
            bodies: list[JsonValue] = [{}, {"threadId": "a/b", "runId": "r", "messages": []}, {"threadId": 1}]
            for body in bodies:
                status, _, _ = await client.ask("POST", "/ag-ui", body)
                assert status == 400

    asyncio.run(play())
