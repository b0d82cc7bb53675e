"""What is seen of a conversation that a loop has had, the same for both loops: its requests, runs, waits and ends."""

import re

from attrs import frozen
from loopkernel_adapters.tools.spilling import FOLDER

from tests.differential.claude.service import JsonObject, Service

# ("text", text), ("call", id, tool), ("result", id, how, where all of it is: "here" or "in a file") or ("note",)
Block = tuple[str, ...]
Shown = tuple[str, tuple[Block, ...]]  # a message: its role and its blocks

_IN_A_FILE = re.compile(rf"all of it is in {FOLDER}/|[Oo]utput saved to: /")


@frozen
class Seen:
    """What came of a conversation.

    `limits` are the output limits asked for, `streamed` says of each request whether its reply was to be a stream, and
    `ends` whether each turn went well.
    """

    requests: tuple[tuple[Shown, ...], ...]
    limits: tuple[object, ...]
    streamed: tuple[bool, ...]
    summaries: tuple[int, ...]
    runs: tuple[str, ...]
    waits: int
    ends: tuple[bool, ...]


def seen(service: Service, runs: tuple[str, ...], waits: int, ends: tuple[bool, ...]) -> Seen:
    """What the service and the world have seen."""
    return Seen(
        requests=tuple(messages_of(asked.body) for asked in service.asked),
        limits=tuple(asked.body.get("max_tokens") for asked in service.asked),
        streamed=tuple(bool(asked.body.get("stream")) for asked in service.asked),
        summaries=tuple(service.summaries),
        runs=runs,
        waits=waits,
        ends=ends,
    )


def messages_of(body: JsonObject) -> tuple[Shown, ...]:
    """The messages of a request, those of one role behind each other as one, without what is not a conversation."""
    messages: list[tuple[str, list[Block]]] = []
    given = body["messages"]
    assert isinstance(given, list)
    for message in given:
        if message["role"] == "system":
            continue
        blocks = _blocks(message["role"], message["content"])
        if messages and messages[-1][0] == message["role"]:
            messages[-1][1].extend(blocks)
        else:
            messages.append((message["role"], blocks))
    return tuple((role, _notes_as_one(blocks)) for role, blocks in messages)


def _blocks(role: str, content: object) -> list[Block]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    assert isinstance(content, list)
    found: list[Block] = []
    for block in content:
        match block["type"]:
            case "text" if block["text"].lstrip().startswith("<system-reminder>"):
                continue
            case "text":
                found.append(_text(role, block["text"]))
            case "tool_use":
                found.append(("call", block["id"], block["name"]))
            case "tool_result":
                how = "error" if block.get("is_error") else "success"
                where = "in a file" if _IN_A_FILE.search(str(block["content"])) else "here"
                found.append(("result", block["tool_use_id"], how, where))
            case other:
                found.append((str(other),))
    return found


def _text(role: str, text: str) -> Block:
    """The script's own text, or a note of the loop, however it is worded."""
    if text.startswith("say: " if role == "user" else "re: "):
        return ("text", text.strip())
    return ("note",)


def _notes_as_one(blocks: list[Block]) -> tuple[Block, ...]:
    return tuple(
        block for place, block in enumerate(blocks) if place == 0 or block != ("note",) or blocks[place - 1] != block
    )
