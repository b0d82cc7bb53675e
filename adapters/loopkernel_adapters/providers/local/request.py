"""What the embedded model is asked: the JSON schema of the replies that are legal now, and the messages.

The model knows no tool protocol, so each reply is held to a schema: one object, either a tool call or an answer.
What a model of this size cannot be trusted with is taken out of the schema by `ReplyRules`, which are data. All
of it is a pure function of the request.
"""

import json
from collections.abc import Iterator
from typing import assert_never

from attrs import frozen
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import JsonValue
from loopkernel.data.projected import ProjectedMessage, Role
from loopkernel.data.tools import Tool
from loopkernel.loop.algorithms.projection import project

JsonObject = dict[str, JsonValue]


@frozen(kw_only=True)
class ReplyRules:
    """What a reply may be: the judgement that a model of this size lacks, as data.

    Offered a tool after a result, it calls the same one again, for ever: after `calls_per_turn` calls only an
    answer is legal. Left to end its answer, it repeats itself: an answer is one sentence of at most
    `longest_answer` characters, with no full stop, quote or line break within. Left to name a file, it invents one:
    where a tool gives examples for a field, only these are legal.
    """

    calls_per_turn: int = 1
    longest_answer: int = 150


DEFAULT_RULES = ReplyRules()


def reply_schema(request: Request, rules: ReplyRules = DEFAULT_RULES) -> JsonObject:
    """The JSON schema of the replies that are legal now: a call of an offered tool, or an answer."""
    tools = legal_tools(request, rules)
    forms = [_call_form(tool) for tool in tools]
    if request.forced_tool is None or not forms:
        answer: JsonObject = {"type": "string", "pattern": f'^[^.!?\\n"\\\\]{{1,{rules.longest_answer}}}[.!?]$'}
        forms.append(_object_form({"answer": answer}))
    return forms[0] if len(forms) == 1 else {"anyOf": [*forms]}


def legal_tools(request: Request, rules: ReplyRules) -> tuple[Tool, ...]:
    """The tools that may be called now; a forced one is the only one."""
    if _calls_in_turn(request) >= rules.calls_per_turn:
        return ()
    forced = request.forced_tool
    return tuple(tool for tool in request.tools if forced is None or tool.name == forced)


def _calls_in_turn(request: Request) -> int:
    calls = 0
    for message in project(request.thread, request.model):
        for block in message.content:
            if message.role is Role.USER and not isinstance(block, ToolResult):
                calls = 0  # the user has spoken: another turn
            elif isinstance(block, ToolCall):
                calls += 1
    return calls


def _object_form(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _call_form(tool: Tool) -> JsonObject:
    return _object_form({"tool": {"const": tool.name}, "input": _held_to_examples(tool.input_schema.value())})


def _held_to_examples(schema: JsonValue) -> JsonValue:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return schema
    return {**schema, "properties": {name: _only_examples(field) for name, field in properties.items()}}


def _only_examples(field: JsonValue) -> JsonValue:
    return {**field, "enum": field["examples"]} if isinstance(field, dict) and "examples" in field else field


def chat_messages(request: Request, rules: ReplyRules = DEFAULT_RULES) -> list[JsonValue]:
    """The messages for the engine. Short and without examples: this model copies examples.

    A result stands below the text that it was asked for, where the model finds it; the calls are left out.
    """
    system = [_explain_replies(legal_tools(request, rules))]
    if request.instructions.strip():
        system.insert(0, request.instructions)
    told: list[tuple[str, str]] = [("system", "\n".join(system))]
    inputs: dict[CallId, str] = {}
    for message in project(request.thread, request.model):
        text = "\n\n".join(_shown(message, inputs))
        if not text:
            continue
        if told[-1][0] == message.role.value:
            text = f"{told.pop()[1]}\n\n{text}"
        told.append((message.role.value, text))
    return [{"role": role, "content": text} for role, text in told]


def _explain_replies(tools: tuple[Tool, ...]) -> str:
    answer = '{"answer": "..."}'
    if not tools:
        return f"Reply with one JSON object: {answer}."
    schema = tools[0].input_schema.value()
    required = schema.get("required") if isinstance(schema, dict) else None
    fields = {str(name): "..." for name in required} if isinstance(required, list) else {}
    call = json.dumps({"tool": tools[0].name, "input": fields})
    listed = "\n".join(f"{tool.name}: {tool.description}" for tool in tools)
    return f"Reply with one JSON object. To use a tool: {call}. When you know the answer: {answer}.\nTools:\n{listed}"


def _shown(message: ProjectedMessage, inputs: dict[CallId, str]) -> Iterator[str]:
    """The texts of a message. Notes the input of each call, to be shown with its result."""
    for block in message.content:
        match block:
            case TextBlock():
                yield block.text
            case MediaBlock():
                yield f"({block.media_type}, which this model cannot see)"
            case ToolCall():
                inputs[block.id] = (
                    block.input.text if isinstance(block.input, RawInput) else json.dumps(block.input.value())
                )
            case ToolResult():
                content = "\n".join(part.text for part in block.content if isinstance(part, TextBlock))
                yield f"{block.tool} {inputs.get(block.call, '')}:\n{content}"
            case ReasoningBlock() | OpaqueBlock() | ServerCall():
                pass  # nothing that this model made, and nothing that it can use
            case _:
                assert_never(block)
