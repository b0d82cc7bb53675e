"""No format is taken for another: a file is of one format alone, or is refused in words."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.later_typing import override
from loopkernel_adapters.transcripts.diagnosing import diagnosed
from loopkernel_adapters.transcripts.entries import Bookkeeping, Entry, Finding, FindingKind, Place
from loopkernel_adapters.transcripts.formats import WRITERS, reader_of
from loopkernel_adapters.transcripts.source import Head, Reader, Source, Unreadable
from loopkernel_adapters.transcripts.understanding import FEW, MOST, understood
from loopkernel_adapters.transcripts.writers.claude_code import ClaudeCodeWriter
from loopkernel_adapters.transcripts.writers.codex import CodexWriter
from loopkernel_adapters.transcripts.writers.openai_chat import OpenAIChatWriter
from loopkernel_adapters.transcripts.writers.writer import Writer

from tests.adapters.transcripts.mutations import CONTENTS, mutated
from tests.adapters.transcripts.recordings_world import EXAMPLES, NOT_THERE, SHARED, examples, fitting, read

Json = Any  # what the json module reads and writes

# --- neighbours: what looks like a format, and is another's -----------------------------------------------------------


def lines(*records: Json) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


QWEN = {"sessionId": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/x", "version": "0.5.0", "isSidechain": False}
QWEN_SESSION = lines(
    {**QWEN, "uuid": "q1", "parentUuid": None, "type": "system", "subtype": "ui_telemetry", "systemPayload": {}},
    {**QWEN, "uuid": "q2", "type": "user", "message": {"role": "user", "parts": [{"text": "List."}]}},
    {
        **QWEN,
        "uuid": "q3",
        "type": "assistant",
        "message": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "ls", "args": {}}}]},
    },
)
DROID_SESSION = lines(
    {"type": "session_start", "id": "d", "title": "A title", "cwd": "/x"},
    {"type": "message", "id": "m1", "parentId": "d", "message": {"role": "user", "content": "List."}},
    {
        "type": "message",
        "id": "m2",
        "parentId": "m1",
        "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Execute", "input": {}}]},
    },
)
SAID, CALLED, ANSWERED = (
    {"role": "user", "content": "List."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a"}]},
)
NEIGHBOURS = {
    "Qwen Code": (QWEN_SESSION, "claude-code"),
    "Droid": (DROID_SESSION, "pi"),
    "Anthropic messages, a list": (json.dumps([SAID, CALLED, ANSWERED]), "openai-chat"),
    "Anthropic messages, a request": (json.dumps({"model": "m", "messages": [SAID, CALLED, ANSWERED]}), "openai-chat"),
    "Anthropic messages, late calls": (json.dumps([SAID] * 90 + [CALLED, ANSWERED]), "openai-chat"),
    "Cline": (json.dumps({"version": 1, "system_prompt": "x", "messages": [SAID]}), "openai-chat"),
    "Gemini contents": (json.dumps([{"role": "user", "parts": [{"text": "List."}]}]), "openai-chat"),
    "Responses items": (
        json.dumps([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}]),
        "openai-chat",
    ),
    "Responses items, after a plain one": (
        json.dumps([SAID, {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}]),
        "openai-chat",
    ),
    "AI SDK messages": (
        json.dumps([SAID, {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c"}]}]),
        "openai-chat",
    ),
    "a document of records of Claude Code": (
        "[\n"
        + ",\n".join(
            json.dumps(json.loads(line)) for line in CONTENTS["claude-code/split-replies.jsonl"].split(b"\n") if line
        )
        + "\n]\n",
        "claude-code",
    ),
    "a document that holds one": (
        '{\n"log": [\n' + CONTENTS["claude-code/split-replies.jsonl"].split(b"\n")[0].decode() + "\n]\n}\n",
        "claude-code",
    ),
    "a page with a word of cassettes": (
        "# Interviews\n\ninteractions:\nWe spoke with five people.\n",
        "provider-stream",
    ),
    "notes that begin as events do": ("id: 7\nevent: the fair\ndata: none yet\n", "provider-stream"),
    "calls of another protocol": (lines({"method": "session/update", "response": {}}), "provider-stream"),
    "events of another kind": (lines({"source": "user", "kind": "click"}), "openhands"),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_is_not_taken_for_the_format_that_it_resembles(tmp_path: Path, name: str) -> None:
    content, resembled = NEIGHBOURS[name]
    (tmp_path / "file").write_text(content)
    assert resembled not in fitting(tmp_path / "file")


def test_what_a_file_may_be_is_said_where_its_calls_tell(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({"turns": [CALLED]}))
    with pytest.raises(Unreadable, match=r"known here .*; it may be messages of the Anthropic API"):
        reader_of(Source(tmp_path / "file"))


REFUSED_BY_NAME = {
    "Roo's newest history": (
        json.dumps(
            [
                {"role": "user", "content": [{"type": "text", "text": "x"}], "ts": 1},
                {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "ls"}], "ts": 2},
            ]
        ),
        "it may be messages of the AI SDK",
    ),
    "log records in OTLP": (
        json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"eventName": "gen_ai.user.message"}]}]}]}),
        "it may be log records of OpenTelemetry, of which the spans beside them are read",
    ),
    "log records of an SDK": (
        lines({"body": {"content": "x"}, "attributes": {"event.name": "gen_ai.user.message"}}),
        "it may be log records of OpenTelemetry",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_NAME)
def test_a_format_that_is_known_and_not_read_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    content, told = REFUSED_BY_NAME[name]
    (tmp_path / "file").write_text(content)
    with pytest.raises(Unreadable, match=told):
        reader_of(Source(tmp_path / "file"))


def test_a_file_that_fits_two_formats_is_refused(tmp_path: Path) -> None:
    first = CONTENTS["codex/rollout.jsonl"].split(b"\n", 1)[0]
    (tmp_path / "file").write_bytes(first + b"\n" + CONTENTS["kimi-cli/events.jsonl"])
    with pytest.raises(Unreadable, match="begins as codex and kimi-cli do"):
        reader_of(Source(tmp_path / "file"))


@given(content=mutated)
def test_a_damaged_recording_is_of_one_format_or_is_refused_in_words(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        path.write_bytes(content)
        fits = fitting(path)
        try:
            assert fits == [reader_of(Source(path)).name]
        except Unreadable as error:
            assert len(fits) != 1
            assert all(name in str(error) for name in fits)


@pytest.mark.skipif(not SHARED.is_dir(), reason=NOT_THERE)
def test_no_recording_that_nobody_here_has_made_is_taken_for_two_formats() -> None:
    for path in sorted(path for path in (SHARED / "more").glob("**/*") if path.is_file()):
        fits = fitting(path)
        assert len(fits) <= 1, (path, fits)


# --- a recording in words of another ----------------------------------------------------------------------------------

WORDS = ["tool_use", "toolCall", "function_call", "functionCall", "tool-call", "tool_call"]


def _in_other_words(value: Json, other: str) -> Json:
    """The value, with the types of calls in its messages called so."""
    if isinstance(value, dict):
        changed = {key: _in_other_words(item, other) for key, item in value.items()}
        return {**changed, "type": other} if changed.get("type") in WORDS else changed
    return [_in_other_words(item, other) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["claude-code/split-replies.jsonl", "pi/aborted-failed.jsonl"])
@pytest.mark.parametrize("other", WORDS)
def test_calls_in_the_words_of_another_format_are_never_passed_over(tmp_path: Path, name: str, other: str) -> None:
    content = CONTENTS[name].decode()
    changed = [_in_other_words(json.loads(line), other) for line in content.split("\n") if line.endswith("}")]
    path = tmp_path / "recording"
    path.write_text(lines(*changed))
    calls = read(EXAMPLES / name)[1].counts.calls
    assert calls > 0
    try:
        source = Source(path)
        assert sum(1 for _ in understood(reader_of(source), source)) > 0
        assert read(path)[1].counts.calls == calls
    except Unreadable as error:
        assert "in the words of another format" in str(error) or "no recording" in str(error)


# --- how much has to be understood ------------------------------------------------------------------------------------


class _Halting(Reader):
    """A reader that knows some of its records."""

    name = "halting"

    def __init__(self, known: int, unknown: int) -> None:
        self.known, self.unknown = known, unknown

    @override
    def fits(self, head: Head) -> bool:
        return True

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        for number in range(self.known):
            yield Bookkeeping(place=Place(number), kind="known")
        for number in range(self.known, self.known + self.unknown):
            for _ in range(2):
                yield Finding(place=Place(number), kind=FindingKind.UNKNOWN_RECORD, text="a riddle")


@example(known=0, unknown=1)
@example(known=1, unknown=1)
@example(known=2, unknown=1)
@example(known=3, unknown=3)
@example(known=4, unknown=3)
@example(known=35, unknown=4)
@example(known=36, unknown=4)
@given(known=st.integers(0, 200), unknown=st.integers(0, 40))
def test_a_recording_of_which_too_little_is_known_is_refused(known: int, unknown: int) -> None:
    source = Source(EXAMPLES / examples()[0])
    few = unknown <= FEW or unknown <= (known + unknown) // MOST
    nearly_all = unknown == 0 or (few and unknown < known) or (known, unknown) == (0, 0)
    try:
        assert len(list(understood(_Halting(known, unknown), source))) == known + 2 * unknown
        assert nearly_all
    except Unreadable as error:
        assert not nearly_all
        assert f"{unknown} of its {known + unknown} records are of kinds that are not known there (a riddle)" in str(
            error
        )


# --- nothing is written that was not understood -----------------------------------------------------------------------


def _odd_message(writer: Writer) -> str:
    """A recording whose second message says something in a place that the format does not have."""
    said: Json = {"role": "user", "parts": [{"text": "and this is what I want"}]}
    match writer:
        case ClaudeCodeWriter():
            whole = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "Hello."}}
            return lines(whole, {**whole, "uuid": "v", "message": said})
        case CodexWriter():
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
            odd = {"type": "response_item", "payload": {"type": "message", **said}}
            return lines({"type": "session_meta", "payload": {"id": "s"}}, {**odd, "payload": item}, odd)
        case OpenAIChatWriter():
            return json.dumps([{"role": "user", "content": "Hello."}, {**said, "content": None}])
        case _:
            raise NotImplementedError(writer.name)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_a_message_that_is_not_understood_is_never_left_out_of_what_is_written(writer: Writer, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_text(_odd_message(writer))
    with pytest.raises(Unreadable, match="holds 'parts', which is not understood: it would be lost"):
        writer.repaired(Source(path))


def test_a_block_that_is_not_understood_is_never_left_out_of_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    blocks = [{"type": "text", "text": "Hello."}, {"functionCall": {"name": "ls"}}]
    path.write_text(lines({"type": "user", "sessionId": "s", "uuid": "u", "message": {"content": blocks}}))
    with pytest.raises(Unreadable, match="functionCall"):
        ClaudeCodeWriter().repaired(Source(path))


def test_what_repair_and_diagnosis_say_of_a_neighbour_is_that_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_text(
        lines({"type": "user", "sessionId": "s", "uuid": "u", "message": {"content": "Hello."}})
        + lines({"type": "assistant", "sessionId": "s", "uuid": "v", "message": {"content": [{"type": "toolCall"}]}})
    )
    for asked in (diagnosed, ClaudeCodeWriter().repaired):
        with pytest.raises(Unreadable, match=r"'toolCall', a call or a result in the words .* may be a session of pi"):
            asked(Source(path))
