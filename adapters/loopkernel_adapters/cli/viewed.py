"""What a page is to show of a run or a recording, as it is named on the command line: a document of each part."""

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import evolve, frozen
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import CallAnswer
from loopkernel.replaying import fold

from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import located, log_of
from loopkernel_adapters.cli.recording_files import LogSource, read_in_words, replayed_log, where
from loopkernel_adapters.cli.recordings import is_one_run
from loopkernel_adapters.cli.what_if import as_recorded, asked_what_if, in_words
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.transcripts.comparing import Difference
from loopkernel_adapters.transcripts.diagnosing import Diagnosis, diagnosed
from loopkernel_adapters.transcripts.entries import Place
from loopkernel_adapters.transcripts.replaying import Conversation, Replayed, replayed
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.viewing.document import Sides
from loopkernel_adapters.viewing.live import LiveRun, Looking
from loopkernel_adapters.viewing.parting import parting_step
from loopkernel_adapters.viewing.run import Note, RunDocument

OURS = "a log of loopkernel"


@frozen(kw_only=True)
class Viewed:
    """One or several parts of what was named, the main one first; of each its records and its document."""

    conversations: tuple[Conversation, ...]
    documents: tuple[RunDocument, ...]


def viewed(name: str, store: str | None) -> Viewed:
    """What the name stands for. Raises Unusable where it cannot be read, or holds nothing."""
    if is_one_run([name], store):
        return _of_run(name, store)
    path = Path(name)
    with read_in_words(path):
        found = replayed(Source(path))
        diagnosis = diagnosed(Source(path))
    documents = [_document(name, found.format, each) for each in found.conversations]
    if not documents:
        raise Unusable(f"{name} holds no conversation, so there is nothing to show; name another recording")
    _mark(diagnosis, found, documents)
    return Viewed(conversations=tuple(found.conversations), documents=tuple(documents))


def _of_run(name: str, store: str | None) -> Viewed:
    """A run of ours, and the sub-agents that have logs of their own."""
    records = log_of(name, store).records
    if not records:
        raise Unusable(f"the log of {name} holds no complete record yet, so there is nothing to show")
    logs = [(name, records)]
    with located(name, store) as (place, run):
        logs += [(f"{name}: sub-agent {child}", log) for child in place.runs_of(run) if (log := place.read(child))]
    conversations: list[Conversation] = []
    for part, log in logs:
        with read_in_words(Path(part)):
            conversations += replayed_log(LogSource(Path(part), log)).conversations
    parts = zip(logs, conversations, strict=True)
    documents = [_document(part, OURS, conversation) for (part, _), conversation in parts]
    return Viewed(conversations=tuple(conversations), documents=tuple(documents))


def live_run(name: str, store: str | None, answer: Callable[[WaitingCall, CallAnswer], None] | None = None) -> LiveRun:
    """The run, as its logs are each time that it is looked at. Raises Unusable where it is none of ours.

    `answer`: see `Looking`.
    """
    if not is_one_run([name], store):
        raise Unusable(f"{name} is a recording, which does not go on; write it to a page with --html FILE")
    if not log_of(name, store).records:
        raise Unusable(f"the log of {name} holds no complete record yet, so there is nothing to show")

    def sub_agents() -> dict[str, Sequence[LogRecord]]:
        with located(name, store) as (place, run):
            logs = {child: place.read(child) for child in place.runs_of(run)}
        return {f"{name}: sub-agent {child}": log for child, log in logs.items() if log}

    return LiveRun(
        name,
        Looking(read=lambda: log_of(name, store).records, read_sub_agents=sub_agents, judge=_judged, answer=answer),
    )


def _judged(log: Sequence[LogRecord]) -> list[Note]:
    """The laws that are broken in a log of ours."""
    (conversation,) = replayed_log(LogSource(Path(), tuple(log))).conversations
    return _broken(conversation, len(log))


def two_runs(names: Sequence[str], store: str | None) -> tuple[list[RunDocument], Sides]:
    """Both, from where they part. Raises Unusable."""
    left, right = (viewed(name, store) for name in names)
    documents = [*left.documents, *right.documents]
    step = parting_step(left.conversations[0].records, right.conversations[0].records)
    text = "both take the same steps" if step is None else f"they part at step {step}"
    return documents, Sides(left=0, right=len(left.documents), steps=(step or 1, step or 1), text=text)


def two_policies(
    name: str, store: str | None, policies: Sequence[tuple[str, Policy]]
) -> tuple[list[RunDocument], Sides]:
    """The run as it was recorded and under a policy, or under two, from where they part. Raises Unusable."""
    source: Source = Source(Path(name))
    if is_one_run([name], store):
        source = LogSource(Path(name), log_of(name, store).records)
    with read_in_words(Path(name)):
        if len(policies) == 1:
            policies = [("as recorded", as_recorded(source)), *policies]
        (first, one), (second, other) = policies
        found_left = replayed(source, one)
        found_right, under = asked_what_if(source, second, other, recorded=one)
    if not found_left.conversations:
        raise Unusable(f"{name} holds no conversation, so there is nothing to show; name another recording")
    left = [_document(f"{first}", found_left.format, each) for each in found_left.conversations]
    right = [_document(f"{second}", found_right.format, each) for each in found_right.conversations]
    for difference in under.comparison.differences:
        if difference.place is None:
            continue
        names = [each.name for each in found_right.conversations]
        at = names.index(difference.conversation)
        there = (
            _last_step_of(found_left.conversations[at], difference.place),
            _step_of(found_right.conversations[at], difference),
        )
        text = f"they part at {where(found_right.format, difference.place.record)}: {in_words(difference)}"
        return [*left, *right], Sides(left=at, right=len(left) + at, steps=there, text=text)
    return [*left, *right], Sides(left=0, right=len(left), steps=(1, 1), text="nothing goes otherwise")


def _document(name: str, kind: str, conversation: Conversation) -> RunDocument:
    """The conversation, with the laws that are broken in it."""
    document = RunDocument(name=f"{name}{f': {conversation.name}' if conversation.name else ''}", kind=kind)
    document.take(conversation.records)
    document.notes += _broken(conversation, document.length)
    return document


def _broken(conversation: Conversation, length: int) -> list[Note]:
    return [
        Note(kind=f"law {breach.law} is broken", text=breach.detail, step=min(breach.step + 1, length))
        for breach in conversation.breaches
    ]


def _mark(diagnosis: Diagnosis, found: Replayed, documents: Sequence[RunDocument]) -> None:
    """What is wrong with the recording, at the steps that it has led to."""
    for fault in diagnosis.faults:
        note = Note(
            kind=fault.kind.value,
            text=fault.text,
            effect=diagnosis.effect(fault) or "none",
            remedy=fault.remedy,
            place=where(found.format, fault.place.record, fault.place.part),
        )
        _note(note, fault.place, found.conversations, documents)
    for finding in diagnosis.harmless:
        place = where(found.format, finding.place.record, finding.place.part)
        note = Note(kind=finding.kind.value, text=finding.text, effect="none", place=place)
        _note(note, finding.place, found.conversations, documents)


def _note(note: Note, place: Place, conversations: Sequence[Conversation], documents: Sequence[RunDocument]) -> None:
    for conversation, document in zip(conversations, documents, strict=True):
        step = step_of_place(conversation, place)
        if step is not None:
            document.notes.append(evolve(note, step=step))
            return
    documents[0].notes.append(note)


def _last_step_of(conversation: Conversation, place: Place) -> int:
    """The last step that the record of the recording has led to."""
    places = enumerate(conversation.places, start=1)
    return max((number for number, other in places if other is not None and other.record == place.record), default=1)


def _step_of(conversation: Conversation, difference: Difference) -> int:
    """The step that the difference is told in, or else the first that its record has led to."""
    for number, step in enumerate(fold(conversation.records), start=1):
        if difference.place == conversation.places[number - 1] and difference.event in step.effects:
            return number
    return 1 if difference.place is None else step_of_place(conversation, difference.place) or 1


def step_of_place(conversation: Conversation, place: Place) -> int | None:
    """The first step that a record of the recording has led to, from 1; None where it has led to none."""
    for number, other in enumerate(conversation.places, start=1):
        if other is not None and other.record == place.record:
            return number
    return None
