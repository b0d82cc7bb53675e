"""A recording, replayed: what it holds, the log that it gives, whether the laws hold, and what is wrong with it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import Factory, define, evolve, field, frozen
from loopkernel import judging, laws
from loopkernel.codec import effects_to_text, record_from_text, record_to_text, state_to_text
from loopkernel.data import choices
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.laws import Breach
from loopkernel.replaying import LogRecord, StepRecord, fold

from loopkernel_adapters.transcripts.counting import Counts, Tally
from loopkernel_adapters.transcripts.entries import Bookkeeping, Finding, Place, Said
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.reenacting import Reenactment
from loopkernel_adapters.transcripts.source import Reader, Source
from loopkernel_adapters.transcripts.understanding import understood

# As recordings were made under: nothing is limited, late, retried or held back by the kernel of its own accord.
AS_RECORDED = Policy(
    max_turns=None,
    schedule=choices.Schedule.ALL,
    max_parallel=None,
    early_start=choices.EarlyStart.NEVER,
    no_profile=choices.NoProfile.NO_CONFLICT,
    no_profile_approval=choices.NoProfileApproval.ALLOW,
    on_busy=choices.OnBusy.INTERRUPT,
    retry=None,
    silence_ms=None,
    tool_timeout_ms=None,
    hook_timeout_ms=None,
    loop=None,
    compaction=Compaction(trigger_ratio=None, keep_turns=None, keep_messages=1),
    clear_results=None,
    result_limit=None,
    empty_reply_nudges=0,
)
HELD = "held"


@frozen(kw_only=True)
class Conversation:
    """One conversation of a recording: its log, what of it the log leaves out, and what the laws say.

    `places` has for each record of the log where in the recording it came about; nothing for a log of our own.
    """

    name: str
    records: tuple[LogRecord, ...]
    places: tuple[Place | None, ...] = ()
    unplaced: tuple[Place, ...] = ()
    breaches: tuple[Breach, ...]
    identical: bool
    usage: Usage


@define
class Replayed:
    """What came of a file."""

    format: str
    counts: Counts
    findings: list[Finding] = Factory(list)
    bookkeeping: Counter[str] = field(factory=Counter)
    retries: int = 0  # failed requests that the recording says were made again
    inferred: Counter[str] = field(factory=Counter)  # what the recording does not tell, and how often
    conversations: list[Conversation] = Factory(list)
    times_pieces: bool = False  # whether it tells when each piece of a reply came

    @property
    def deltas(self) -> int:
        """How many deltas its logs have."""
        return sum(len(conversation.records) for conversation in self.conversations)

    @property
    def identical(self) -> bool:
        """Whether each log gives the same bytes when it is replayed."""
        return all(conversation.identical for conversation in self.conversations)

    @property
    def laws(self) -> dict[str, str]:
        """Of each law, that it held, or the first breach."""
        told = {law.id: HELD for law in laws.LAWS}
        for conversation in self.conversations:
            for breach in conversation.breaches:
                if told[breach.law] == HELD:
                    told[breach.law] = str(breach)
        return told

    @property
    def held(self) -> bool:
        """Whether no law is broken."""
        return not any(conversation.breaches for conversation in self.conversations)


def replayed(source: Source, policy: Policy = AS_RECORDED) -> Replayed:
    """The recording, played through the kernel under the policy. Raises Unreadable, OSError."""
    reader = reader_of(source)
    tally = Tally(counts_reasoning=reader.counts_reasoning, expects_results=reader.holds_results)
    found = Replayed(format=reader.name, counts=tally.counts, bookkeeping=tally.bookkeeping, inferred=tally.inferred)
    found.times_pieces = reader.times_pieces
    for name, played in reenacted(source, reader, policy, tally, found.findings).items():
        found.conversations.append(_judged(name, played))
    found.retries = tally.retries
    return found


def reenacted(
    source: Source, reader: Reader, policy: Policy, tally: Tally, findings: list[Finding]
) -> dict[str, Reenactment]:
    """Each conversation of the recording, played to its end; what is wrong with it goes to `findings`."""
    if not reader.times_pieces:  # a reply that streamed all the while comes whole, at its end: that is not a silence
        policy = evolve(policy, silence_ms=None)
    played: dict[str, Reenactment] = {}
    for entry in tally.taken(understood(reader, source)):
        if isinstance(entry, Finding):
            findings.append(entry)
        elif not isinstance(entry, Bookkeeping):
            _of(entry, played, policy).take(entry)
    for one in played.values():
        one.finish()
    return played


def _of(entry: Said, played: dict[str, Reenactment], policy: Policy) -> Reenactment:
    if entry.conversation not in played:
        played[entry.conversation] = Reenactment(entry.conversation or "recording", policy)
    return played[entry.conversation]


def _judged(name: str, played: Reenactment) -> Conversation:
    steps = fold(played.records)
    breaches = judging.check_all(steps).breaches
    session = played.state.session
    return Conversation(
        name=name,
        records=tuple(played.records),
        places=tuple(played.places),
        unplaced=tuple(played.unplaced),
        breaches=breaches,
        identical=_digest(steps) == _digest(fold(_read_back(played.records))),
        usage=NO_USAGE if session is None else session.usage,
    )


def _read_back(records: Iterable[LogRecord]) -> list[LogRecord]:
    """The records as a log would give them back."""
    return [record_from_text(record_to_text(record)) for record in records]


def _digest(steps: Sequence[StepRecord]) -> bytes:
    """SHA-256 of every record and every effect of the run, and of the state that it ends in."""
    digest = hashlib.sha256()
    for step in steps:
        digest.update(record_to_text(LogRecord(step.context.delta, step.context.now_ms)).encode())
        digest.update(effects_to_text(step.effects).encode())
    if steps:
        digest.update(state_to_text(steps[-1].after).encode())
    return digest.digest()
