"""A streamed chat completion, chunk by chunk, as deltas of the model family."""

from collections.abc import Iterator, Mapping

from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import JsonValue
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelInput,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.providers.openai_chat_calls import CallFragments
from loopkernel_adapters.providers.openai_errors import CutStream, ToldError
from loopkernel_adapters.providers.openai_fields import JsonObject, items, members, text
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_stream import Reply
from loopkernel_adapters.providers.openai_usage import NO_TOKENS, chat_tokens

_STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,  # Mistral: the context is full
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTERED,
    "sensitive": StopReason.CONTENT_FILTERED,  # GLM
}
# Ends that are none of the model's.
_FAILED: Mapping[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "abort": "server_error",
    "insufficient_system_resource": "overloaded",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")  # where a server fills both, they say the same


class ChatReply(Reply):
    """Reads the chunks of one reply. Complete when a choice has given its finish reason; usage may come after it."""

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._calls = CallFragments(operation, names)
        self._tokens = NO_TOKENS
        self._finish: str | None = None
        self._refused = False
        self._used_is_told = False

    @property
    @override
    def usage(self) -> Usage:
        return self._tokens.usage

    @property
    @override
    def ended(self) -> bool:
        return self._finish is not None and self._used_is_told  # most servers tell the usage behind the end

    @override
    def read(self, event: object) -> Iterator[ModelDelta]:
        chunk = members(event)
        told = members(chunk.get("x_groq")).get("usage")
        self._tokens = self._tokens.most(chat_tokens(chunk.get("usage"))).most(chat_tokens(told))
        if chunk.get("error"):
            raise ToldError(chunk["error"])
        if chunk.get("object") == "error":
            raise ToldError(chunk)
        for choice in map(members, items(chunk.get("choices"))):
            if choice.get("index") in (0, None):
                self._tokens = self._tokens.most(chat_tokens(choice.get("usage")))
                yield from self._delta(members(choice.get("delta")) or members(choice.get("message")))
                self._finish = text(choice.get("finish_reason")) or self._finish
        self._used_is_told = bool(members(chunk.get("usage")))

    def _delta(self, delta: JsonObject) -> Iterator[ModelDelta]:
        reasoning = next((said for field in _REASONING_FIELDS if (said := text(delta.get(field)))), "")
        if reasoning:
            yield ModelReasoning(self._operation, reasoning)
        yield from self._content(delta.get("content"))
        refusal = text(delta.get("refusal"))
        if refusal:
            self._refused = True
            yield ModelText(self._operation, refusal)
        fragments = [members(fragment) for fragment in items(delta.get("tool_calls"))]
        if members(delta.get("function_call")):
            fragments.append({"index": 0, "function": delta["function_call"]})  # before there were several
        for fragment in fragments:
            piece, begins = self._calls.add(fragment)
            if begins:
                yield from self._calls.whole()  # before anything of the next call is shown
            if piece:
                yield ModelInput(self._operation, piece)
            if not begins:
                yield from self._calls.whole()

    def _content(self, content: JsonValue) -> Iterator[ModelDelta]:
        """The text, or Mistral's parts of text and of thinking."""
        if isinstance(content, str) and content:
            yield ModelText(self._operation, content)
        for part in map(members, items(content)):
            if said := text(part.get("text")):
                yield ModelText(self._operation, said)
            for thought in map(members, items(part.get("thinking"))):
                if said := text(thought.get("text")):
                    yield ModelReasoning(self._operation, said)

    @override
    def survives(self, fault: Exception) -> bool:
        """A reply with its finish reason is complete, wherever the connection goes then. What the server tells counts,
        but for a reply at its limit: some servers tell that as an error as well."""
        if self._finish is None:
            return False
        return not isinstance(fault, ToldError) or _STOPS.get(self._finish) is StopReason.MAX_TOKENS

    @override
    def ending(self) -> tuple[ModelDelta, ...]:
        if self._finish is None:
            raise CutStream
        if self._finish in _FAILED:
            message = f"the reply was given up with the finish reason {self._finish}"
            raise ToldError({"type": _FAILED[self._finish], "message": message})
        stop = _STOPS.get(self._finish, StopReason.END_TURN)
        calls, cut_call = self._calls.rest(cut=stop in (StopReason.MAX_TOKENS, StopReason.CONTENT_FILTERED))
        return (*calls, self._completed(stop, calls, cut_call))

    def _completed(self, stop: StopReason, calls: list[ModelCall], cut_call: bool) -> ModelCompleted:
        if self._refused and stop is StopReason.END_TURN:
            stop = StopReason.REFUSAL
        elif self._finish not in _STOPS and self._calls:
            stop = StopReason.TOOL_USE  # a word of the server's own
        return ModelCompleted(self._operation, stop, self.usage, cut_call=cut_call and stop is StopReason.MAX_TOKENS)
