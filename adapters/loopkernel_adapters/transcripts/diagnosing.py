"""What is wrong with a recording, where it came in, what it would do at a provider, and how it is repaired."""

from attrs import frozen

from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Entry, Finding, FindingKind, Inferred, Place, ReplyPart
from loopkernel_adapters.transcripts.foreign_threads import repaired_threads
from loopkernel_adapters.transcripts.formats import reader_of, writer_of
from loopkernel_adapters.transcripts.repairing import Lost, Renamed, repair_steps
from loopkernel_adapters.transcripts.source import Reader, Source
from loopkernel_adapters.transcripts.understanding import understood
from loopkernel_adapters.transcripts.writers.writer import Fault, faults_of

REFUSED = "the provider refuses every later request"
# What each fault does when the conversation is sent on as it stands. None: nothing, it is told for completeness.
AT_A_PROVIDER: dict[FindingKind, str | None] = {
    FindingKind.BROKEN_RECORD: "a program that reads it line by line stops here, and loses all that follows",
    FindingKind.TORN_TAIL: "a program that adds to the file joins its first record to this one, and loses both",
    FindingKind.UNKNOWN_RECORD: None,
    FindingKind.ODD_FIELD: None,
    FindingKind.REPEATED_RECORD: "the same message, or the same result, would be sent twice",
    FindingKind.REUSED_RECORD_ID: "a program that looks records up by their ids finds only one of the two",
    FindingKind.UNANSWERED: f"{REFUSED}: each call has to be followed by its result",
    FindingKind.ORPHAN_RESULT: f"{REFUSED}: a result has to name a call of the message before",
    FindingKind.REPEATED_RESULT: f"{REFUSED}: a call has exactly one result",
    FindingKind.REUSED_ID: f"{REFUSED} that holds both calls, where ids have to be unique",
    FindingKind.OUT_OF_ORDER: None,
    FindingKind.EARLY_RESULT: None,
    FindingKind.RESULT_APART: f"{REFUSED}: a result has to stand right behind its call",
    FindingKind.USER_WHILE_OPEN: f"{REFUSED}: the results have to come before anything else that the user says",
    FindingKind.CALLS_OF_BROKEN_REPLY: f"{REFUSED} that holds this reply: its calls never ran and have no results",
    FindingKind.EMPTY_MESSAGE: f"{REFUSED}: each message has to say something",
    FindingKind.EMPTY_TEXT: f"{REFUSED}: no text may be empty",
    FindingKind.BROKEN_TEXT: f"{REFUSED} as broken text, or a program that reads the file strictly stops here",
    FindingKind.UNSIGNED_REASONING: f"{REFUSED}: reasoning has to have the signature that it came with",
    FindingKind.ODD_SHAPE: f"{REFUSED}: arguments are an object, texts are texts",
    FindingKind.ODD_NAME: f"{REFUSED}: ids and names are short, of letters, digits, - and _",
    FindingKind.UNUSABLE_IMAGE: f"{REFUSED}: an image has to be whole, of the kind that it says, and at most 5 MB",
    FindingKind.REPLY_FIRST: f"{REFUSED}: a conversation has to begin with the user",
}


UNREAD = "go on without what cannot be read"
WENT_ON = "; here the model answered again all the same, so what made the recording mends this, or it came in later"


def is_refused(kind: FindingKind) -> bool:
    """Whether a provider refuses a conversation with such a fault, sent as it stands."""
    return (AT_A_PROVIDER[kind] or "").startswith(REFUSED)


def effect_of(fault: Fault, *, went_on: bool) -> str | None:
    """What the fault does. `went_on`: the model answered after it, so that no later request was refused for it."""
    told = AT_A_PROVIDER[fault.kind]
    if told is None or not went_on or not is_refused(fault.kind):
        return told
    return told.replace(REFUSED, "a provider refuses a request", 1) + WENT_ON


@frozen(kw_only=True)
class Diagnosis:
    """What was found in a file: all findings, and the faults that keep the conversation from going on, with remedies.

    The faults that a provider refuses come first, each group in the order of the file.
    `own_format`: a repaired recording can be written back in the format that it has. `goes_on`: it holds a conversation
    that can be gone on with.
    """

    format: str
    findings: tuple[Finding, ...]
    faults: tuple[Fault, ...]
    own_format: bool
    goes_on: bool
    answered_after: frozenset[Fault]  # the faults after which the model answered

    def effect(self, fault: Fault) -> str | None:
        """What the fault does when the conversation is sent on as it stands; None: nothing."""
        return effect_of(fault, went_on=fault in self.answered_after)

    @property
    def harmless(self) -> tuple[Finding, ...]:
        """The findings that do no harm at a provider."""
        return tuple(finding for finding in self.findings if AT_A_PROVIDER[finding.kind] is None)


def diagnosed(source: Source) -> Diagnosis:
    """Look through the recording. Raises Unreadable, OSError."""
    reader = reader_of(source)
    tally = Tally(counts_reasoning=reader.counts_reasoning, expects_results=reader.holds_results)
    entries: list[Entry] = []
    findings: list[Finding] = []
    for entry in tally.taken(understood(reader, source)):
        if isinstance(entry, Finding):
            findings.append(entry)
        else:
            entries.append(entry)
    writer = writer_of(reader.name)
    faults = _faults(reader, entries, findings) if writer is None else writer.repaired(source).faults
    ordered = sorted(faults, key=lambda fault: (not is_refused(fault.kind), fault.place.part, fault.place.record))
    return Diagnosis(
        format=reader.name,
        findings=tuple(findings),
        faults=tuple(ordered),
        own_format=writer is not None,
        goes_on=bool(repaired_threads(entries)),
        answered_after=_answered_after(entries, faults),
    )


def _answered_after(entries: list[Entry], faults: tuple[Fault, ...]) -> frozenset[Fault]:
    """The faults behind which another reply begins in their conversation, of those that did not fail."""
    stands: dict[Place, tuple[int, str]] = {}  # where each record stands, and in which conversation
    begun: dict[tuple[str, str], int] = {}
    last: dict[str, int] = {}
    for at, entry in enumerate(entries):
        if isinstance(entry, Finding):
            continue
        stands.setdefault(entry.place, (at, entry.conversation))
        if isinstance(entry, ReplyPart) and entry.end is None:
            last[entry.conversation] = begun.setdefault((entry.conversation, entry.reply), at)
    found: list[Fault] = []
    for fault in faults:
        at, conversation = stands.get(fault.place, (len(entries), fault.conversation))
        if last.get(conversation, 0) > at:
            found.append(fault)
    return frozenset(found)


def _faults(reader: Reader, entries: list[Entry], findings: list[Finding]) -> tuple[Fault, ...]:
    """Those of a format that is not written: the records that cannot be read are passed over.

    A call that was read from a text is none for the provider, and where a format has no results, none is missing.
    """
    unread = (FindingKind.BROKEN_RECORD, FindingKind.TORN_TAIL)
    passed_over = [
        Fault(conversation="", place=found.place, kind=found.kind, text=found.text, remedy=UNREAD)
        for found in findings
        if found.kind in unread
    ]
    spoken = {(e.conversation, e.place) for e in entries if isinstance(e, ReplyPart) and Inferred.CALL in e.inferred}
    steps = [
        step
        for step in repair_steps(entries, interrupts_speak=False)
        if not isinstance(step, Lost) or (reader.holds_results and (step.conversation, step.call.place) not in spoken)
    ]
    named = [step for step in steps if not isinstance(step, Renamed) or (step.call is not None and step.old)]
    return (*passed_over, *faults_of(named))  # a format without ids is none the worse for it
