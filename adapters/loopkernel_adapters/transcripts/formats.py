"""The formats that can be read, and how a file is told to be of one of them: by its content, never by its name."""

from loopkernel_adapters.transcripts.readers.atif import Atif
from loopkernel_adapters.transcripts.readers.claude_code import ClaudeCode
from loopkernel_adapters.transcripts.readers.codex import Codex
from loopkernel_adapters.transcripts.readers.copilot_cli import CopilotCli
from loopkernel_adapters.transcripts.readers.gemini_cli import GeminiCli
from loopkernel_adapters.transcripts.readers.inspect_logs import Inspect
from loopkernel_adapters.transcripts.readers.kimi_cli import KimiCli
from loopkernel_adapters.transcripts.readers.mini_swe_agent import MiniSweAgent
from loopkernel_adapters.transcripts.readers.openai_chat import OpenAIChat
from loopkernel_adapters.transcripts.readers.openhands import OpenHands
from loopkernel_adapters.transcripts.readers.own_log import OwnLog
from loopkernel_adapters.transcripts.readers.pi import Pi
from loopkernel_adapters.transcripts.readers.provider_stream import ProviderStream
from loopkernel_adapters.transcripts.readers.reader import Reader
from loopkernel_adapters.transcripts.readers.swe_agent import SweAgent
from loopkernel_adapters.transcripts.source import Source, Unreadable

READERS: tuple[Reader, ...] = (
    ClaudeCode(),
    Codex(),
    SweAgent(),
    MiniSweAgent(),
    OpenHands(),
    Inspect(),
    GeminiCli(),
    OpenAIChat(),
    Atif(),
    Pi(),
    CopilotCli(),
    KimiCli(),
    OwnLog(),
    ProviderStream(),
)


def reader_of(source: Source) -> Reader:
    """The reader of the format that the file is in. Raises Unreadable where it is in none, OSError."""
    head = source.head()
    found = next((reader for reader in READERS if reader.fits(head)), None)
    if found is None:
        known = ", ".join(reader.name for reader in READERS)
        raise Unreadable(f"{source.path} is no recording in a format that is known here ({known})")
    return found
