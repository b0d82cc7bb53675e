"""The conversations that a recording leaves behind, repaired: what a run can begin from, and the log of such a run."""

import hashlib
from collections.abc import Iterator

from attrs import field, frozen
from loopkernel.data.foreign import ForeignMessage
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.transcripts.diagnosing import diagnosed
from loopkernel_adapters.transcripts.entries import Bookkeeping, Entry, Finding, FindingKind, Place
from loopkernel_adapters.transcripts.foreign_threads import repaired_threads
from loopkernel_adapters.transcripts.formats import reader_of, writer_of
from loopkernel_adapters.transcripts.source import Line, Source, parsed
from loopkernel_adapters.transcripts.understanding import understood
from loopkernel_adapters.transcripts.writers.writer import Fault


@frozen
class SourceInMemory(Source):
    """A recording that is not a file yet; `path` is where it came from."""

    held: bytes = field(default=b"", repr=False)

    @override
    def lines(self) -> Iterator[Line | Finding]:
        for number, content in enumerate(self.held.split(b"\n"), start=1):
            value = parsed(content)
            if value is not None:
                yield Line(number, value)
            elif content.strip():
                text = f"line {number} is not JSON; it was passed over"
                yield Finding(place=Place(number), kind=FindingKind.BROKEN_RECORD, text=text)

    @override
    def content(self) -> bytes:
        return self.held


@frozen(kw_only=True)
class Conversations:
    """The repaired conversations of a recording by their names, in the order in which they begin.

    `ended_ms` is when the last thing was said, 0 where no times were recorded (of a log of ours, without the time in
    which nothing ran); `digest` is of what they were read from. `unknown` tells of each record that is not in them
    because its kind is not known.
    """

    format: str
    messages: dict[str, tuple[ForeignMessage, ...]]
    faults: tuple[Fault, ...]
    unknown: tuple[str, ...]
    ended_ms: int
    digest: str

    @property
    def main(self) -> str | None:
        """The one that is not a sub-agent's; where there are several, the first; None where there is none at all."""
        return next((name for name in self.messages if "/" not in name), next(iter(self.messages), None))


def repaired_conversations(source: Source) -> Conversations:
    """The conversations of the recording, made whole. Raises Unreadable, OSError."""
    reader = reader_of(source)
    writer = writer_of(reader.name)
    if writer is None:
        faults = diagnosed(source).faults
    else:
        written = writer.repaired(source)
        source, faults = SourceInMemory(source.path, b"".join(written.pieces)), written.faults
    entries = list(understood(reader, source))
    messages = repaired_threads(entries)
    return Conversations(
        format=reader.name,
        messages=messages,
        faults=faults,
        unknown=tuple(
            entry.text for entry in entries if isinstance(entry, Finding) and entry.kind is FindingKind.UNKNOWN_RECORD
        ),
        ended_ms=max((_time_of(entry) for entry in entries), default=0),
        digest=hashlib.sha256(repr(sorted(messages.items())).encode("utf-8", "replace")).hexdigest(),
    )


def _time_of(entry: Entry) -> int:
    return 0 if isinstance(entry, Finding | Bookkeeping) or entry.at_ms is None else max(0, entry.at_ms)


def begun_log(found: Conversations, name: str) -> tuple[LogRecord, ...]:
    """The log of a run that begins from that conversation. The same recording gives the same log."""
    session = f"repaired-{hashlib.sha256(f'{found.digest} {name}'.encode()).hexdigest()[:16]}"
    created = Created(session_id=session, policy=Policy(), start=found.messages[name])
    return (LogRecord(created, found.ended_ms), LogRecord(Acquired(), found.ended_ms))
