"""Threads and requests as the tests of OpenAI's two APIs send them, and the bodies that are made of them."""

import base64

from loopkernel.data.blocks import (
    MediaBlock,
    RawInput,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage
from loopkernel.data.words import CallStatus, StopReason
from loopkernel_adapters.providers.json_fields import JsonObject
from loopkernel_adapters.providers.openai.chat import COMPATIBLE, OPENAI, ChatDialect, chat_body
from loopkernel_adapters.providers.openai.responses import responses_body
from loopkernel_adapters.providers.wire_names import ToolNames

from tests.adapters.providers.openai_rules import demand_chat, demand_responses
from tests.adapters.providers.openai_world import MODEL

PNG = base64.b64encode(b"\x89PNG").decode()
DIALECTS = (OPENAI, COMPATIBLE, ChatDialect(instructions_role="developer", reasoning_field="reasoning_content"))


def chat(request: Request, dialect: ChatDialect = OPENAI, **more: JsonValue) -> JsonObject:
    body = chat_body(request, ToolNames(request.tools), dialect, more)
    demand_chat(body)
    return body


def responses(request: Request, encrypted: bool = True, **more: JsonValue) -> JsonObject:
    body = responses_body(request, ToolNames(request.tools), encrypted, more)
    demand_responses(body)
    return body


def call(position: int, tool_input: Json | RawInput, provider_id: str = "c", reply: int = 1) -> ToolCall:
    place = CallId(ModelOperation(reply), position)
    return ToolCall(id=place, provider_id=provider_id, tool="read_file", input=tool_input)


def result(of: ToolCall, *content: TextBlock | MediaBlock, status: CallStatus = CallStatus.DONE) -> ToolResult:
    return ToolResult(call=of.id, provider_id=of.provider_id, tool=of.tool, status=status, content=content)


def reply(*content: object, state: ReplyState = ReplyState.COMPLETE) -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(2),
        reply=ModelOperation(1),
        model=MODEL,
        content=content,  # type: ignore[arg-type]  # blocks
        stop=StopReason.TOOL_USE,
        state=state,
    )


def results(*all_results: ToolResult) -> ResultMessage:
    return ResultMessage(id=MessageId(3), reply=ModelOperation(1), results=all_results)


PATH = Json.of({"path": "a"})
FIRST, SECOND = call(1, PATH), call(2, RawInput("{oh"))
ROUND: tuple[Message, ...] = (
    UserMessage(id=MessageId(1), content=(TextBlock("Read."), TextBlock("Both."))),
    reply(ReasoningBlock("Hm."), TextBlock("I read."), FIRST, SECOND),
    results(result(FIRST, TextBlock("milk")), result(SECOND, TextBlock("no JSON"), status=CallStatus.ERROR)),
)
