"""Models of any vendor that pydantic-ai has a model class for: Bedrock, Gemini, Mistral, Groq, Ollama, and more.

    Agent("pydantic-ai:groq:NAME")      # as pydantic-ai names it; its vendor's client is `pydantic-ai-slim[groq]`
    Agent(PydanticAIProvider(model))    # a model that was made with what it needs, as an address or a client

One request is streamed as it is, by pydantic-ai's direct way, with no agent of its own. Reasoning that a vendor has
signed goes back as it came. A class that tells no reason for its end is believed when its stream ends. Retries are
the kernel's: give the model a client that makes none. The keys of a vendor's client are not known here, so name them in
the secrets of the agent. Needs the extra `pydantic-ai`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import assert_never

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
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelStarted,
    ModelText,
)
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.later_typing import override
from loopkernel.loop.algorithms.projection import safe_tool_name

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.answered_turns import (
    NOTHING_SAID,
    ModelTurn,
    UserTurn,
    result_media,
    result_text,
    turns,
)
from loopkernel_adapters.providers.call_inputs import arguments_text, call_input
from loopkernel_adapters.providers.shown_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.wire_errors import (
    CONNECTION_LOST,
    STREAM_CUT,
    TIMED_OUT,
    UNREADABLE,
    failure,
    retry_after_ms,
)
from loopkernel_adapters.providers.wire_names import ToolNames

try:
    import pydantic
    from pydantic_ai import exceptions, messages
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
except ModuleNotFoundError as error:
    raise ImportError("models of pydantic-ai need an extra: pip install 'loopkernel[pydantic-ai]'") from error

_LONGEST_CALL_ID = 64
_OPAQUE = "pydantic-ai"  # marks an item of the thread as a part that was kept here
_FAULTS = (exceptions.AgentRunError, exceptions.UserError, OSError, TimeoutError)
_STOPS = {
    "stop": StopReason.END_TURN,
    "tool_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTERED,
}
_THINKING = pydantic.TypeAdapter(messages.ThinkingPart)


class PydanticAIProvider(Provider):
    """A model of pydantic-ai behind the provider port, or one by its name there (`groq:NAME`).

    A model that is given is asked whatever the request says of its name; a name raises what pydantic-ai raises for it.
    """

    def __init__(self, model: Model | str) -> None:
        self.model = infer_model(model)

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        names = ToolNames(request.tools)
        reply = _Reply(operation, names)
        yield ModelStarted(operation, request.model)
        last: ModelDelta
        try:
            async with aclosing(self._events(request, names, reply)) as deltas:
                async for delta in deltas:
                    yield delta
            last = reply.ending()
        except _FAULTS as fault:
            last = _failure_of(operation, fault, reply.usage)
        yield last

    async def _events(self, request: Request, names: ToolNames, reply: "_Reply") -> AsyncGenerator[ModelDelta, None]:
        settings = ModelSettings()
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        forced = names.on_the_wire(request.forced_tool)
        if forced is not None:
            settings["tool_choice"] = [forced]
        opened = model_request_stream(
            self.model,
            list(asked_messages(request, names)),
            model_settings=settings,
            model_request_parameters=ModelRequestParameters(function_tools=list(_definitions(names))),
            instrument=False,
        )
        async with opened as stream:
            async for event in stream:
                for delta in reply.read(event):
                    yield delta
            reply.end(stream)


# --- the request ---------------------------------------------------------------------------------------


def _definitions(names: ToolNames) -> Iterator[ToolDefinition]:
    for name, tool in names.offered:
        schema = tool.input_schema.value()
        yield ToolDefinition(
            name=name,
            description=tool.description,
            parameters_json_schema=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
        )


def asked_messages(request: Request, names: ToolNames) -> Iterator[messages.ModelMessage]:
    """The thread in pydantic-ai's messages, with the instructions; never none."""
    instructions = request.instructions if request.instructions.strip() else None
    said = False
    for turn in turns(request, _LONGEST_CALL_ID):
        match turn:
            case UserTurn():
                said = True
                content = [_content(block) for block in turn.content]
                yield messages.ModelRequest([messages.UserPromptPart(content)], instructions=instructions)
            case ModelTurn():
                parts = list(_reply_parts(turn, names))
                if parts:
                    yield messages.ModelResponse(parts)
                answers = list(_answers(turn, names))
                if answers:
                    said = True
                    yield messages.ModelRequest(answers, instructions=instructions)
            case _:
                assert_never(turn)
    if not said:
        yield messages.ModelRequest([messages.UserPromptPart(NOTHING_SAID)], instructions=instructions)


def _content(block: TextBlock | MediaBlock) -> messages.UserContent:
    if isinstance(block, TextBlock):
        return block.text
    found = shown(block)
    match found:
        case ShownText():
            return found.text
        case ShownImage() if found.url.startswith("data:"):
            return messages.BinaryContent.from_data_uri(found.url)
        case ShownFile() if found.is_data:
            return messages.BinaryContent.from_data_uri(found.url)
        case ShownImage():
            return messages.ImageUrl(found.url)
        case ShownFile():
            return messages.DocumentUrl(found.url)
        case _:
            assert_never(found)


def _wire_name(name: str, names: ToolNames) -> str:
    return names.on_the_wire(name) or safe_tool_name(name)


def _reply_parts(turn: ModelTurn, names: ToolNames) -> Iterator[messages.ModelResponsePart]:
    ids = {answered.call.id: answered.id for answered in turn.calls}
    for block in turn.content:
        match block:
            case TextBlock():
                yield messages.TextPart(block.text)
            case ToolCall():
                yield messages.ToolCallPart(_wire_name(block.tool, names), arguments_text(block), ids[block.id])
            case OpaqueBlock():
                kept = block.payload.value()
                if isinstance(kept, dict) and _OPAQUE in kept:
                    yield _THINKING.validate_python(kept[_OPAQUE])
            case ReasoningBlock() | MediaBlock() | ServerCall() | ToolResult():
                pass  # of a reply that is given back, its vendor wants none of these
            case _:
                assert_never(block)


def _answers(turn: ModelTurn, names: ToolNames) -> Iterator[messages.ModelRequestPart]:
    for answered in turn.calls:
        failed = answered.result is not None and answered.result.status is CallStatus.ERROR
        yield messages.ToolReturnPart(
            tool_name=_wire_name(answered.call.tool, names),
            content=result_text(answered.result),
            tool_call_id=answered.id,
            outcome="failed" if failed else "success",
        )
    media = [_content(block) for answered in turn.calls for block in result_media(answered.result)]
    if media:
        yield messages.UserPromptPart(media)


# --- the reply -----------------------------------------------------------------------------------------


class _Reply:
    """What a stream tells, as deltas."""

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._names = names
        self._calls: list[ModelCall] = []
        self._end: StreamedResponse | None = None
        self.usage = Usage()

    def read(self, event: messages.ModelResponseStreamEvent) -> Iterator[ModelDelta]:
        """The deltas of the next event. Calls are told at the end, when it is known whether they are whole."""
        match event:
            case messages.PartStartEvent(part=messages.TextPart(content=text)) if text:
                yield ModelText(self._operation, text)
            case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)) if text:
                yield ModelText(self._operation, text)
            case messages.PartStartEvent(part=messages.ThinkingPart(content=text)) if text:
                yield ModelReasoning(self._operation, text)
            case messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=str() as text)) if text:
                yield ModelReasoning(self._operation, text)
            case messages.PartDeltaEvent(delta=messages.ToolCallPartDelta(args_delta=str() as text)) if text:
                yield ModelInput(self._operation, text)
            case messages.PartEndEvent(part=messages.ToolCallPart() as part):
                call = ModelCall(
                    self._operation,
                    provider_id=part.tool_call_id,
                    tool=self._names.own(part.tool_name),
                    input=call_input(part.args_as_json_str()),
                )
                self._calls.append(call)
                yield call
            case messages.PartEndEvent(part=messages.ThinkingPart(signature=str()) as part):
                yield ModelOpaque(self._operation, Json.of({_OPAQUE: _THINKING.dump_python(part, mode="json")}))
            case _:
                pass  # parts of tools that the vendor runs, which are never asked for

    def end(self, stream: StreamedResponse) -> None:
        """The stream has come to its end."""
        self._end = stream
        used = stream.usage() if callable(stream.usage) else stream.usage
        self.usage = Usage(
            input=max(0, used.input_tokens - used.cache_read_tokens - used.cache_write_tokens),
            output=used.output_tokens,
            cache_read=used.cache_read_tokens,
            cache_write=used.cache_write_tokens,
        )

    def ending(self) -> ModelCompleted | ModelFailed:
        """The last delta."""
        end = self._end
        if end is None or end.state != "complete" or end.finish_reason == "error":
            return failure(
                self._operation,
                status=None,
                kind=STREAM_CUT,
                message="the reply ended before it was complete",
                usage=self.usage,
            )
        stop = StopReason.END_TURN if end.finish_reason is None else _STOPS[end.finish_reason]
        if self._calls and stop is StopReason.END_TURN:
            stop = StopReason.TOOL_USE
        cut = stop is StopReason.MAX_TOKENS and bool(self._calls) and isinstance(self._calls[-1].input, RawInput)
        return ModelCompleted(self._operation, stop, self.usage, cut_call=cut)


def _failure_of(operation: ModelOperation, fault: Exception, usage: Usage) -> ModelFailed:
    """What was raised, classified: the one place where that is done."""
    status: int | None = None
    kind: str | None = None
    wait_ms: int | None = None
    match fault:
        case exceptions.ModelHTTPError():
            status = fault.status_code
            wait_ms = retry_after_ms(fault.headers or {})
        case exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout() | TimeoutError():
            kind = TIMED_OUT
        case exceptions.ModelConnectionError() | OSError():
            kind = CONNECTION_LOST
        case exceptions.UserError():
            kind = "invalid_request_error"
        case exceptions.UnexpectedModelBehavior():
            kind = UNREADABLE
        case _:
            pass
    return failure(operation, status=status, kind=kind, message=str(fault), retry_after_ms=wait_ms, usage=usage)
