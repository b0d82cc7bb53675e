"""Requests, tools and replies around the embedded model."""

import asyncio
import threading

from loopkernel.data.blocks import AssistantBlock, TextBlock, ToolCall, ToolResult
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCall, ModelDelta
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Tool
from loopkernel.data.usage import Usage
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, RequestReason, StopReason
from loopkernel_adapters.providers.local.provider import (
    LocalProvider,
)
from loopkernel_adapters.providers.local.request import JsonObject
from loopkernel_adapters.tools.input_schema import InputSchema

OPERATION = ModelOperation(1)
FILES = ("door.txt", "notes.txt")
PATH_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"path": {"enum": [*FILES]}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = Tool(name="read_file", description="Read a text file.", input_schema=Json.of(PATH_SCHEMA))
LIST = Tool(name="list_files", description="List the files.", input_schema=Json.of({"type": "object"}))
READ_CALL = '{"tool": "read_file", "input": {"path": "notes.txt"}}'


def user(text: str) -> UserMessage:
    return UserMessage(id=MessageId(1), content=(TextBlock(text),))


def reply(*content: AssistantBlock) -> AssistantMessage:
    return AssistantMessage(id=MessageId(1), reply=OPERATION, model="local", content=content, stop=StopReason.TOOL_USE)


def call(position: int = 1, path: str = "notes.txt") -> ToolCall:
    return ToolCall(
        id=CallId(OPERATION, position), provider_id="call-1", tool="read_file", input=Json.of({"path": path})
    )


def results(*texts: str) -> ResultMessage:
    return ResultMessage(
        id=MessageId(1),
        reply=OPERATION,
        results=tuple(
            ToolResult(
                call=CallId(OPERATION, position),
                provider_id="call-1",
                tool="read_file",
                status=CallStatus.DONE,
                content=(TextBlock(text),),
            )
            for position, text in enumerate(texts, start=1)
        ),
    )


def request(
    *messages: Message,
    tools: tuple[Tool, ...] = (READ, LIST),
    forced: str | None = None,
    limit: int | None = None,
    instructions: str = "",
) -> Request:
    return Request(
        number=OPERATION,
        reason=RequestReason.USER,
        model="local",
        instructions=instructions,
        tools=tools,
        thread=Thread(Vector.of(messages)),
        max_output_tokens=limit,
        forced_tool=forced,
    )


def fits(schema: JsonObject, value: JsonValue) -> bool:
    return not list(InputSchema(schema).faults(value))


USAGE = Usage(input=3, output=4)
A_CALL = ModelCall(operation=OPERATION, provider_id="call-1", tool="read_file", input=Json.of({"path": "notes.txt"}))


def streamed_from(provider: LocalProvider, *messages: Message, tools: tuple[Tool, ...] = ()) -> list[ModelDelta]:
    async def collect() -> list[ModelDelta]:
        return [delta async for delta in provider.stream(request(*messages, tools=tools), OPERATION)]

    return asyncio.run(collect())


def threads_of_the_model() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("local-model")]
