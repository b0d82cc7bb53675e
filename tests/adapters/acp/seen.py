"""What a client has of a session: its messages as lines, as it sent and got them, and the conversation in them.

The lines are read by the reader of recordings, which knows nothing of how they were made.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from acp.schema import SessionNotification
from acp.utils import serialize_params
from attrs import evolve, frozen
from loopkernel.data.blocks import OpaqueBlock, RawInput, ReasoningBlock, ServerCall, TextBlock, ToolCall, UserBlock
from loopkernel.data.foreign import ForeignCall
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.words import CallStatus
from loopkernel_adapters.acp.content import shown
from loopkernel_adapters.acp.updates import Update
from loopkernel_adapters.transcripts.entries import Outcome, ReplyPart, ResultSeen, UserSaid
from loopkernel_adapters.transcripts.readers.acp import AgentClientProtocol
from loopkernel_adapters.transcripts.source import Source

SESSION = "a"
Line = dict[str, JsonValue]


@frozen(kw_only=True)
class Seen:
    """A conversation: what was said, thought and called, in order, pieces of a text put together; and each answer."""

    parts: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str, bool, tuple[UserBlock, ...]], ...]  # id, tool, whether it was done, and what it gave

    def in_any_order(self) -> "Seen":
        """The same, without where in a reply its calls stand."""
        calls = sorted(part for part in self.parts if part[0] == "call")
        return evolve(self, parts=(*_joined(part for part in self.parts if part[0] != "call"), *calls))


def line_of(update: Update) -> Line:
    """The update as it goes over the wire."""
    params = serialize_params(SessionNotification(session_id=SESSION, update=update))
    line: Line = json.loads(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    return line


def prompt_line(content: Sequence[UserBlock], number: int) -> Line:
    """What the user says, as the client sends it."""
    prompt = [shown(block).model_dump(mode="json", by_alias=True, exclude_none=True) for block in content]
    params = {"sessionId": SESSION, "prompt": prompt}
    line: Line = json.loads(json.dumps({"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}))
    return line


def seen_by_client(lines: Iterable[Line], folder: Path) -> Seen:
    """The conversation that a client has, who knows what this agent marks as taken back."""
    path = folder / "updates.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in _kept(list(lines))), encoding="utf-8")
    parts: list[tuple[str, str]] = []
    results: dict[str, tuple[str, str, bool, tuple[UserBlock, ...]]] = {}
    for entry in AgentClientProtocol().entries(Source(path)):
        if isinstance(entry, UserSaid):
            parts += [("user", _told(block)) for block in entry.content]
        elif isinstance(entry, ReplyPart):
            parts += [_part(block) for block in entry.content]
        elif isinstance(entry, ResultSeen) and not (entry.call or "").startswith(
            "provider/"
        ):  # in its call, in a thread
            done = entry.outcome is Outcome.DONE
            call = entry.call or ""
            results[call] = call, entry.tool, done, entry.content
    return Seen(parts=_joined(parts), results=tuple(sorted(results.values())))


def said_in(messages: Iterable[Message]) -> Seen:
    """The conversation of a thread."""
    parts: list[tuple[str, str]] = []
    results: dict[str, tuple[str, str, bool, tuple[UserBlock, ...]]] = {}
    for message in messages:
        match message:
            case UserMessage():
                parts += [("user", _told(block)) for block in message.content]
            case AssistantMessage():
                parts += [_part(block) for block in message.content if not isinstance(block, OpaqueBlock)]
            case ResultMessage():
                for each in message.results:
                    done = each.status is CallStatus.DONE
                    results[str(each.call)] = str(each.call), each.tool, done, each.content
    return Seen(parts=_joined(parts), results=tuple(sorted(results.values())))


def _part(block: object) -> tuple[str, str]:
    match block:
        case ReasoningBlock():
            return "thought", block.text
        case TextBlock():
            return "text", block.text
        case ForeignCall() | ToolCall() | ServerCall():
            given = block.input
            # arguments that do not parse go over the wire as the text that they are
            text = json.dumps(given.text) if isinstance(given, RawInput) else given.text
            return "call", f"{block.tool} {Json.of(json.loads(text)).text}"
        case _:
            raise AssertionError(block)


def _told(block: UserBlock) -> str:
    return block.text if isinstance(block, TextBlock) else f"{block.media_type} {block.data}"


def _joined(parts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    joined: list[tuple[str, str]] = []
    for kind, text in parts:
        if joined and joined[-1][0] == kind and kind != "call":
            joined[-1] = kind, joined[-1][1] + text
        elif text:
            joined.append((kind, text))
    return tuple(joined)


def _kept(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines without what was taken back and without the views of an input; of an input, as it was told last."""
    gone = {_name(line) for line in lines if _mark(line, "retracted")}
    inputs = {_name(line): _update(line)["rawInput"] for line in lines if "rawInput" in _update(line)}
    for line in lines:
        if _name(line) is None or _name(line) not in gone:
            yield _without_diffs(_with_input(line, inputs))


def _with_input(line: Line, inputs: Mapping[JsonValue, JsonValue]) -> Line:
    if _name(line) not in inputs:
        return line
    params = line["params"]
    assert isinstance(params, dict)
    return {**line, "params": {**params, "update": {**_update(line), "rawInput": inputs[_name(line)]}}}


def _update(line: Line) -> Line:
    params = line["params"]
    assert isinstance(params, dict)
    update = params.get("update", {})
    assert isinstance(update, dict)
    return update


def _name(line: Line) -> JsonValue:
    update = _update(line)
    return update.get("messageId") if update.get("messageId") is not None else update.get("toolCallId")


def _mark(line: Line, name: str) -> bool:
    meta = _update(line).get("_meta")
    ours = meta.get("loopkernel") if isinstance(meta, dict) else None
    return isinstance(ours, dict) and ours.get(name) is True


def _without_diffs(line: Line) -> Line:
    content = _update(line).get("content")
    if not isinstance(content, list):
        return line
    kept = [part for part in content if not (isinstance(part, dict) and part.get("type") == "diff")]
    params = line["params"]
    assert isinstance(params, dict)
    return {**line, "params": {**params, "update": {**_update(line), "content": kept}}}
