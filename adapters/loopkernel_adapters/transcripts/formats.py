"""The formats that can be read, those that can be written back, and how a file is told to be of one: by its content."""

import shlex

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.transcripts.readers.acp import AgentClientProtocol
from loopkernel_adapters.transcripts.readers.aider import Aider
from loopkernel_adapters.transcripts.readers.anthropic_messages import AnthropicMessages
from loopkernel_adapters.transcripts.readers.atif import Atif
from loopkernel_adapters.transcripts.readers.claude_code import ClaudeCode
from loopkernel_adapters.transcripts.readers.claude_stream import ClaudeStream
from loopkernel_adapters.transcripts.readers.codex import Codex
from loopkernel_adapters.transcripts.readers.codex_exec import CodexExec
from loopkernel_adapters.transcripts.readers.copilot_cli import CopilotCli
from loopkernel_adapters.transcripts.readers.droid import Droid
from loopkernel_adapters.transcripts.readers.gemini_cli import GeminiCli
from loopkernel_adapters.transcripts.readers.gemini_contents import GeminiContents
from loopkernel_adapters.transcripts.readers.inspect_logs import Inspect
from loopkernel_adapters.transcripts.readers.kimi_cli import KimiCli
from loopkernel_adapters.transcripts.readers.langsmith import Langsmith
from loopkernel_adapters.transcripts.readers.mini_swe_agent import MiniSweAgent
from loopkernel_adapters.transcripts.readers.openai_chat import OpenAIChat
from loopkernel_adapters.transcripts.readers.opencode import OpenCode
from loopkernel_adapters.transcripts.readers.openhands import OpenHands
from loopkernel_adapters.transcripts.readers.otel_genai import OtelGenAI
from loopkernel_adapters.transcripts.readers.own_log import OwnLog
from loopkernel_adapters.transcripts.readers.pi import Pi
from loopkernel_adapters.transcripts.readers.provider_stream import ProviderStream
from loopkernel_adapters.transcripts.readers.qwen_code import QwenCode
from loopkernel_adapters.transcripts.readers.responses_items import ResponsesItems
from loopkernel_adapters.transcripts.readers.run_state import RunState
from loopkernel_adapters.transcripts.readers.sharegpt import ShareGPT
from loopkernel_adapters.transcripts.readers.swe_agent import SweAgent
from loopkernel_adapters.transcripts.source import MARK, Head, NoRecording, Reader, Source, Unreadable
from loopkernel_adapters.transcripts.understanding import likely
from loopkernel_adapters.transcripts.writers.claude_code import ClaudeCodeWriter
from loopkernel_adapters.transcripts.writers.codex import CodexWriter
from loopkernel_adapters.transcripts.writers.openai_chat import OpenAIChatWriter
from loopkernel_adapters.transcripts.writers.writer import Writer

READERS: tuple[Reader, ...] = (
    ClaudeCode(),
    ClaudeStream(),
    Codex(),
    CodexExec(),
    SweAgent(),
    MiniSweAgent(),
    OpenHands(),
    Inspect(),
    GeminiCli(),
    GeminiContents(),
    QwenCode(),
    OpenCode(),
    AnthropicMessages(),
    OpenAIChat(),
    ResponsesItems(),
    Atif(),
    Pi(),
    Droid(),
    CopilotCli(),
    KimiCli(),
    OtelGenAI(),
    Langsmith(),
    RunState(),
    Aider(),
    ShareGPT(),
    AgentClientProtocol(),
    OwnLog(),
    ProviderStream(),
)


# How files begin that hold others, and how those are got out.
PACKED = {
    b"\x1f\x8b": "unpack it with gunzip",
    b"\x28\xb5\x2f\xfd": "unpack it with unzstd",
    b"BZh": "unpack it with bunzip2",
    b"\xfd7zXZ": "unpack it with unxz",
    b"PK\x03\x04": "unpack it with unzip",
}
UTF16 = (b"\xff\xfe", b"\xfe\xff")
# How the files of recordings are named, which tells a damaged one from a file that is something else.
SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".traj"})


def reader_of(source: Source) -> Reader:
    """The reader of the format that the file is in.

    Raises NoRecording where it is something else, another Unreadable where it is damaged, in several formats, or in one
    that is not read as it stands; OSError.
    """
    head = source.head()
    found = [reader for reader in READERS if takes(reader, head)]
    if len(found) > 1:
        several = " and ".join(reader.name for reader in found)
        raise Unreadable(f"{source.path} begins as {several} do, so it is not known which it is; take them apart")
    if not found:
        raise _none(source, head)
    return found[0]


def takes(reader: Reader, head: Head) -> bool:
    """Whether the recording that begins so is one of the reader's format."""
    return (reader.takes_folders or not head.is_folder) and reader.fits(head)


def _none(source: Source, head: Head) -> Unreadable:
    """What is known of a file that is in no format, and what to do about it."""
    if head.is_folder:
        return NoRecording(f"{source.path} is a folder; name the files in it")
    if (damage := _damage(source, head)) is not None:
        kind = NoRecording if SUFFIXES.isdisjoint(source.path.suffixes[-2:]) else Unreadable
        return kind(f"{source.path} {damage}")
    if (whole := _folder_of(head)) is not None:
        text = f"is one record of a recording, which is a folder of such files ({whole}); name that folder"
        return NoRecording(f"{source.path} {text}")
    if (what := _document_in_lines(source, head)) is not None:
        return Unreadable(f"{source.path} {what}")
    known = ", ".join(reader.name for reader in READERS)
    text = f"{source.path} is not a recording in a format that is known here ({known})"
    found = likely(head)
    return NoRecording(text) if found is None else Unreadable(f"{text}; it may be {found}")


def _damage(source: Source, head: Head) -> str | None:
    """Why nothing can be read of the file, whatever its format, and what to do about it; None where it can be."""
    packed = next((how for begin, how in PACKED.items() if head.begun.startswith(begin)), None)
    if packed is not None:
        return f"is packed; {packed}, and name what comes of it"
    if not head.begun.removeprefix(MARK).strip():
        return "is empty, so there is no recording in it"
    if head.begun.startswith(UTF16):
        return "is text in UTF-16; write it anew in UTF-8 (iconv -f utf-16 -t utf-8), and name that file"
    if b"\0" in head.begun:
        return "is not text, as a recording is; take another copy"
    if head.begun.lstrip()[:1] in (b"{", b"[") and (wrong := source.wrong_in_document()) is not None:
        return f"is one JSON document, which is damaged: {wrong}; mend it there, or take another copy"
    return None


def _folder_of(head: Head) -> str | None:
    """The format whose recordings are folders of files like this one, if there is one."""
    as_folder = Head((head.document, *head.lines)[:1], None, False, "", is_folder=True)
    return next((reader.name for reader in READERS if reader.takes_folders and reader.fits(as_folder)), None)


def _document_in_lines(source: Source, head: Head) -> str | None:
    """What to do about a format that is read as one document, where the file holds its pieces line by line."""
    if head.document is not None or not head.lines:
        return None
    path = shlex.quote(str(source.path))
    if (name := _document_of(list(head.lines))) is not None:
        return (
            f"holds {name} in lines, which are read as one document; put the lines into a list "
            f"(jq -s . {path} > list.json), and name that"
        )
    if (name := _document_of(head.lines[0])) is not None:
        return (
            f"holds a document of {name} in each line, which are read one at a time; put each line into a file of its "
            f"own (split -l 1 {path}), and name those"
        )
    return None


def _document_of(value: JsonValue) -> str | None:
    """The format of the value as a document, if there is one."""
    head = Head((), value, False, "")
    return next((reader.name for reader in READERS if reader.fits(head)), None)


# --- formats that can be written back --------------------------------------------------------------------

WRITERS: tuple[Writer, ...] = (ClaudeCodeWriter(), CodexWriter(), OpenAIChatWriter())


def writer_of(name: str) -> Writer | None:
    """The writer of the format of that name, None where there is none."""
    return next((writer for writer in WRITERS if writer.name == name), None)
