"""Whether a reader understands the recording that it was given: what it does not, is refused in words, never guessed.

Formats resemble each other. A reader that knows the frame of a file and not what stands in it would give a conversation
without its calls, and a repair of that would lose them. So a recording is refused when a call or a result stands in it
in the words of another format, and when too many of its records are of kinds that the reader does not know.
"""

from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.transcripts.entries import Entry, Finding, FindingKind, Place
from loopkernel_adapters.transcripts.fields import UnnamedCall, kind_of
from loopkernel_adapters.transcripts.source import Head, Reader, Source, Unreadable

FEW = 3  # records of unknown kinds, which a recording of any size may have, unless they are half of it
MOST = 10  # beyond these, one record in so many
SHOWN = 3  # of them
DEEPEST, WIDEST = 8, 4_000  # of what is looked at to tell which format a file may be in

# What calls, results and texts are called in the formats that are most often taken for each other.
ANTHROPIC = "messages of the Anthropic API, as Cline, Roo and Amp keep them"
RESPONSES = "items of the OpenAI Responses API"
GEMINI = "contents of the Gemini API, as Gemini CLI and Qwen Code keep them"
PI = "a session of pi"
CONVERSE = "messages of Amazon Bedrock's Converse API, as Strands keeps them"
VERCEL = "messages of the AI SDK"
OTEL_LOGS = "log records of OpenTelemetry, of which the spans beside them are read"
LIKELY = {
    "tool_use": ANTHROPIC,
    "tool_result": ANTHROPIC,
    "function_call": RESPONSES,
    "function_call_output": RESPONSES,
    "custom_tool_call": RESPONSES,
    "custom_tool_call_output": RESPONSES,
    "input_text": RESPONSES,
    "output_text": RESPONSES,
    "functionCall": GEMINI,
    "functionResponse": GEMINI,
    "toolCall": PI,
    "toolUse": CONVERSE,
    "toolResult": CONVERSE,
    "tool-call": VERCEL,
    "tool-result": VERCEL,
}
OWN = {"claude-code": ANTHROPIC, "codex": RESPONSES, "gemini-cli": GEMINI, "pi": PI}  # of the readers that say so too


def understood(reader: Reader, source: Source) -> Iterator[Entry]:
    """What the recording says, as the reader tells it.

    Raises Unreadable where that is not nearly all that it says (at its end, when it is known), OSError.
    """
    judged = _Judged()
    try:
        for entry in reader.entries(source):
            judged.take(entry)
            yield entry
    except UnnamedCall as error:
        raise Unreadable(
            f"{source.path} begins as {reader.name} does, but a part of its messages is {error.kind!r}, a call or a "
            f"result in the words of another format. {_may_be(LIKELY.get(error.kind))}Nothing was made of it"
        ) from error
    if judged.too_little:
        raise Unreadable(
            f"{source.path} begins as {reader.name} does, but {judged.unknown} of its {judged.records} records are of "
            f"kinds that are not known there ({judged.told}). {_may_be(_other(reader, source))}Nothing was made of it"
        )


def likely(head: Head) -> str | None:
    """What the file may be, by how the parts of its messages are called; None where nothing tells."""
    left = WIDEST
    waiting: list[tuple[JsonValue, int]] = [(value, 0) for value in (*head.lines, head.document)]
    while waiting and left > 0:
        left -= 1
        value, depth = waiting.pop(0)
        if isinstance(value, dict):
            if any(str(value.get(key)).startswith("gen_ai.") for key in ("eventName", "event.name")):
                return OTEL_LOGS
            kind = kind_of(value)
            if kind in LIKELY and (kind != "tool_result" or "tool_use_id" in value):
                return LIKELY[kind]
        if depth < DEEPEST and isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            waiting += [(item, depth + 1) for item in inner if isinstance(item, dict | list)]
    return None


def _other(reader: Reader, source: Source) -> str | None:
    """What the file may be, if that is not what its reader has taken it for."""
    found = likely(source.head())
    return None if found == OWN.get(reader.name) else found


def _may_be(likely: str | None) -> str:
    return "" if likely is None else f"It may be {likely}. "


@define
class _Judged:
    """How much of the recording was understood so far."""

    records: int = 0
    unknown: int = 0
    latest: Place | None = None
    latest_unknown: Place | None = None
    shown: list[str] = Factory(list)

    def take(self, entry: Entry) -> None:
        """The next entry; those of a record come one behind the other."""
        if entry.place != self.latest:
            self.latest = entry.place
            self.records += 1
        if not isinstance(entry, Finding) or entry.kind is not FindingKind.UNKNOWN_RECORD:
            return
        if entry.place != self.latest_unknown:
            self.latest_unknown = entry.place
            self.unknown += 1
        if len(self.shown) < SHOWN and entry.text not in self.shown:
            self.shown.append(entry.text)

    @property
    def too_little(self) -> bool:
        """Whether what was understood is less than nearly all."""
        return 2 * self.unknown >= max(2, self.records) or self.unknown > max(FEW, self.records // MOST)

    @property
    def told(self) -> str:
        """Some of what is not known."""
        return "; ".join(self.shown)
