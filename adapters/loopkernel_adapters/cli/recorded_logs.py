"""A log of loopkernel among recordings: counted as they are, and judged as it is, since it need not be played anew."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen
from loopkernel import laws
from loopkernel.codec import effects_to_text, record_from_text, record_to_text, state_to_text
from loopkernel.data.usage import NO_USAGE
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, StepRecord, fold

from loopkernel_adapters.cli.located import log_at
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.stores.jsonl import line_of
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Finding
from loopkernel_adapters.transcripts.readers.own_log import OwnLog
from loopkernel_adapters.transcripts.replaying import Conversation, Replayed
from loopkernel_adapters.transcripts.source import Head, RawLine, Source, parsed


@frozen
class LogSource(Source):
    """A log of ours as a recording, wherever it lies; `path` is how it is named."""

    records: tuple[LogRecord, ...] = field(default=(), repr=False)

    @override
    def head(self) -> Head:
        return Head(tuple(parsed(raw.content) for raw in itertools.islice(self.raw_lines(), 1)), None, False, "")

    @override
    def raw_lines(self) -> Iterator[RawLine]:
        for number, record in enumerate(self.records, start=1):
            yield RawLine(number, line_of(number, record), True)


def log_source(path: Path) -> LogSource:
    """The log in the file. Raises Unusable where it cannot be trusted or holds nothing."""
    log = log_at(path)
    if not log.records:
        raise Unusable(f"the log {path} holds no complete record, so there is nothing to replay")
    return LogSource(path, log.records)


def replayed_log(log: LogSource) -> Replayed:
    """The log, judged. Raises Unreadable, OSError."""
    reader = OwnLog()
    tally = Tally(counts_reasoning=reader.counts_reasoning)
    found = Replayed(format=reader.name, counts=tally.counts, bookkeeping=tally.bookkeeping)
    for entry in tally.taken(reader.entries(log)):
        if isinstance(entry, Finding):
            found.findings.append(entry)
    steps = fold(log.records)
    again = fold([record_from_text(record_to_text(record)) for record in log.records])
    session = steps[-1].after.session
    found.conversations.append(
        Conversation(
            name="",
            records=log.records,
            breaches=(*laws.check_trace(steps).breaches, *laws.check_pairs(steps).breaches),
            identical=_text(steps) == _text(again),
            usage=NO_USAGE if session is None else session.usage,
        )
    )
    return found


def _text(steps: tuple[StepRecord, ...]) -> list[str]:
    return [*(effects_to_text(step.effects) for step in steps), state_to_text(steps[-1].after)]
