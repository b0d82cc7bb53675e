"""Parts of a reply that both of OpenAI's APIs tell alike."""

from attrs import frozen
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.usage import Usage

from loopkernel_adapters.providers.json_fields import JsonObject, members, tokens


def json_or_none(value: JsonValue) -> Json | None:
    """The value as the log can hold it; None where it cannot, for its depth or its numbers."""
    try:
        return Json.of(value)
    except CodecError:
        return None


# --- what a reply used -----------------------------------------------------------------------------------
# The APIs' input includes what a cache held, that of `Usage` does not.


@frozen(kw_only=True)
class TokenCounts:
    """The counts of one reply, in tokens: all of the prompt, all of the output, and of the prompt what a cache held."""

    prompt: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0

    def most(self, other: "TokenCounts") -> "TokenCounts":
        """The larger of each, since a server may report more than once."""
        return TokenCounts(
            prompt=max(self.prompt, other.prompt),
            output=max(self.output, other.output),
            cached=max(self.cached, other.cached),
            written=max(self.written, other.written),
        )

    @property
    def usage(self) -> Usage:
        """The same, with no token counted twice."""
        cached = min(self.cached, self.prompt)
        written = min(self.written, self.prompt - cached)
        return Usage(input=self.prompt - cached - written, output=self.output, cache_read=cached, cache_write=written)


NO_TOKENS = TokenCounts()


def chat_tokens(usage: JsonValue) -> TokenCounts:
    """The `usage` of a chat completion; DeepSeek tells of its cache beside the details."""
    fields = members(usage)
    details = members(fields.get("prompt_tokens_details"))
    return TokenCounts(
        prompt=tokens(fields.get("prompt_tokens")),
        output=tokens(fields.get("completion_tokens")),
        cached=tokens(details.get("cached_tokens")) or tokens(fields.get("prompt_cache_hit_tokens")),
        written=tokens(details.get("cache_write_tokens")),
    )


def responses_tokens(response: JsonObject) -> TokenCounts:
    """The `usage` of a response."""
    fields = members(response.get("usage"))
    details = members(fields.get("input_tokens_details"))
    return TokenCounts(
        prompt=tokens(fields.get("input_tokens")),
        output=tokens(fields.get("output_tokens")),
        cached=tokens(details.get("cached_tokens")),
        written=tokens(details.get("cache_write_tokens")),
    )
