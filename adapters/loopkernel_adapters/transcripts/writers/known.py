"""The formats that a repaired recording can be written back in."""

from loopkernel_adapters.transcripts.writers.claude_code import ClaudeCodeWriter
from loopkernel_adapters.transcripts.writers.codex import CodexWriter
from loopkernel_adapters.transcripts.writers.openai_chat import OpenAIChatWriter
from loopkernel_adapters.transcripts.writers.writer import Writer

WRITERS: tuple[Writer, ...] = (ClaudeCodeWriter(), CodexWriter(), OpenAIChatWriter())


def writer_of(name: str) -> Writer | None:
    """The writer of the format of that name, None where there is none."""
    return next((writer for writer in WRITERS if writer.name == name), None)
