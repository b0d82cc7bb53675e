"""A log of loopkernel among recordings: counted as they are, and judged as it is, since it need not be played anew."""

from pathlib import Path

from loopkernel import laws
from loopkernel.codec import effects_to_text, record_from_text, record_to_text, state_to_text
from loopkernel.data.usage import NO_USAGE
from loopkernel.replay import StepRecord, fold

from loopkernel_adapters.cli.located import log_at
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Finding
from loopkernel_adapters.transcripts.readers.own_log import OwnLog
from loopkernel_adapters.transcripts.replaying import Conversation, Replayed
from loopkernel_adapters.transcripts.source import Source


def replayed_log(path: Path) -> Replayed:
    """The log, judged. Raises Unusable where it cannot be trusted or holds nothing, Unreadable, OSError."""
    log = log_at(path)
    if not log.records:
        raise Unusable(f"the log {path} holds no complete record, so there is nothing to replay")
    reader = OwnLog()
    tally = Tally(counts_reasoning=reader.counts_reasoning)
    found = Replayed(format=reader.name, counts=tally.counts, bookkeeping=tally.bookkeeping)
    for entry in tally.taken(reader.entries(Source(path))):
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
