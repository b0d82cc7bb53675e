"""Small sessions of each format, written by hand, as lines or messages that a test can break."""

import json
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "transcripts"
SESSION = "11111111-2222-4333-8444-555555555555"
FORMATS = ("claude-code", "codex", "openai-chat")


def shared_files() -> list[Path]:
    """The recordings of others that these formats are tried on."""
    return [path for name in FORMATS for path in sorted((SHARED / name).glob("*")) if path.is_file()]


def demand_shared() -> None:
    """Skip, and say so, where they are not there."""
    if not shared_files():
        pytest.skip(f"NOT TESTED on real recordings: there are none in {SHARED}")


def line(record: object) -> bytes:
    """A record as a line."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def claude(number: int, parent: int | None, kind: str, message: object, **more: object) -> bytes:
    """A record of Claude Code. Its id tells its number."""
    record = {
        "parentUuid": None if parent is None else uuid(parent),
        "isSidechain": False,
        "cwd": "/x",
        "sessionId": SESSION,
        "version": "2.0.1",
        "type": kind,
        "message": message,
        "uuid": uuid(number),
        "timestamp": f"2026-01-02T03:04:{number % 60:02}.000Z",
    }
    return line({**record, **more})


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def asks(text: str) -> object:
    return {"role": "user", "content": text}


def answers(reply: str, *blocks: object) -> object:
    return {"id": reply, "type": "message", "role": "assistant", "model": "m-1", "content": list(blocks)}


def text(words: str) -> object:
    return {"type": "text", "text": words}


def use(name: str, tool: str = "Bash") -> object:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"command": f"echo {name}"}}


def results(*names: str) -> object:
    blocks = [{"tool_use_id": name, "type": "tool_result", "content": f"result of {name}"} for name in names]
    return {"role": "user", "content": blocks}


def claude_session() -> list[bytes]:
    """Two parallel calls in a reply of three records, a sub-agent of its own, a question, and a call more."""
    side = {"isSidechain": True}
    return [
        claude(1, None, "user", asks("Look around.")),
        claude(2, 1, "assistant", answers("msg_1", text("I look."))),
        claude(3, 2, "assistant", answers("msg_1", use("toolu_1"))),
        claude(4, 3, "assistant", answers("msg_1", use("toolu_2", "Task"))),
        claude(5, 4, "user", results("toolu_1"), toolUseResult={"stdout": "x"}),
        claude(20, None, "user", asks("You are a sub-agent."), **side),
        claude(21, 20, "assistant", answers("msg_9", use("toolu_9")), **side),
        claude(22, 21, "user", results("toolu_9"), **side),
        claude(23, 22, "assistant", answers("msg_8", text("Done.")), **side),
        claude(6, 5, "user", results("toolu_2")),
        claude(7, 6, "assistant", answers("msg_2", text("Seen."))),
        claude(8, 7, "user", asks("Now write.")),
        claude(9, 8, "assistant", answers("msg_3", use("toolu_3"))),
        claude(10, 9, "user", results("toolu_3")),
        claude(11, 10, "assistant", answers("msg_4", text("Written."))),
    ]


def forked_session() -> list[bytes]:
    """A sub-agent that is told by its chain alone, with a second result of its call, and replies behind both."""
    side = {"isSidechain": True}
    return [
        *claude_session()[:8],
        claude(24, 21, "user", results("toolu_9"), **side),
        claude(23, 22, "assistant", answers("msg_8", text("Done.")), **side),
        claude(25, 24, "assistant", answers("msg_7", text("Done again.")), **side),
        *claude_session()[9:],
    ]


def codex(kind: str, **payload: object) -> bytes:
    """A record of Codex that holds an item."""
    return line(
        {"timestamp": "2026-01-02T03:04:05.000Z", "type": "response_item", "payload": {"type": kind, **payload}}
    )


def codex_says(role: str, words: str) -> bytes:
    kind = "input_text" if role == "user" else "output_text"
    return codex("message", role=role, content=[{"type": kind, "text": words}])


def codex_call(name: str) -> bytes:
    return codex("function_call", name="shell", arguments='{"command":["ls"]}', call_id=name)


def codex_output(name: str) -> bytes:
    return codex("function_call_output", call_id=name, output=f"output of {name}")


def codex_session() -> list[bytes]:
    """Two parallel calls, a custom one, and a question between."""
    meta = {"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": {"id": SESSION, "cwd": "/x"}}
    return [
        line(meta),
        codex_says("user", "Look around."),
        codex("reasoning", summary=[{"type": "summary_text", "text": "Let me see."}]),
        codex_call("call_1"),
        codex_call("call_2"),
        codex_output("call_1"),
        codex_output("call_2"),
        codex_says("assistant", "Seen."),
        codex_says("user", "Now write."),
        codex("custom_tool_call", name="apply_patch", input="*** Begin", call_id="call_3"),
        codex("custom_tool_call_output", call_id="call_3", output="Done."),
        codex_says("assistant", "Written."),
    ]


def chat_call(*names: str, words: str | None = None) -> dict[str, object]:
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": words, "tool_calls": calls}


def chat_result(name: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": name, "name": "f", "content": f"result of {name}"}


def chat_session() -> list[dict[str, object]]:
    """The same as chat messages."""
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look around."},
        chat_call("call_1", "call_2"),
        chat_result("call_1"),
        chat_result("call_2"),
        {"role": "assistant", "content": "Seen."},
        {"role": "user", "content": "Now write."},
        chat_call("call_3"),
        chat_result("call_3"),
        {"role": "assistant", "content": "Written."},
    ]
