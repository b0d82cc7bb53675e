"""The files that are named on the command line as recordings: paths, folders and patterns; and logs of our own."""

import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen
from loopkernel import judging
from loopkernel.codec import effects_to_text, record_from_text, record_to_text, state_to_text
from loopkernel.data.usage import NO_USAGE
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, StepRecord, fold

from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.outcomes import Unusable, described
from loopkernel_adapters.cli.places import log_at
from loopkernel_adapters.ports import RulesDiffer
from loopkernel_adapters.stores.jsonl import NotALog, line_of
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Finding
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.readers.own_log import OwnLog
from loopkernel_adapters.transcripts.replaying import Conversation, Replayed
from loopkernel_adapters.transcripts.source import Head, RawLine, Source, Unreadable, parsed

# --- logs of our own among recordings --------------------------------------------------------------------
# They are counted and judged as they are, since they need not be played anew.


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
            breaches=(*judging.check_trace(steps).breaches, *judging.check_pairs(steps).breaches),
            identical=_text(steps) == _text(again),
            usage=NO_USAGE if session is None else session.usage,
        )
    )
    return found


def _text(steps: tuple[StepRecord, ...]) -> list[str]:
    return [*(effects_to_text(step.effects) for step in steps), state_to_text(steps[-1].after)]


# --- the files that are named ----------------------------------------------------------------------------

HEAD = b'{"n":1,"crc":"'  # what a log of ours begins with
PATTERN = frozenset("*?[")
LINES = frozenset(
    [
        "acp",
        "aider",
        "claude-code",
        "claude-stream-json",
        "codex",
        "codex-exec",
        "copilot-cli",
        "droid",
        "kimi-cli",
        "loopkernel",
        "pi",
        "qwen-code",
    ]
)  # a record is a line


@frozen
class NamedFile:
    """A file that was named, or that lies in a folder that was: of the latter, those that are not recordings are left.

    A run of a store is named by its id in the place of a path, and brings its `log`.
    """

    path: Path
    by_name: bool
    log: LogSource | None = None


def named_files(names: Sequence[str]) -> list[NamedFile]:
    """The files, in the order of the names; those of a folder by their paths. Raises Unusable where there is none."""
    found: dict[str, NamedFile] = {}
    for name in names:
        path = Path(name)
        if path.is_dir() and _is_recording(path):
            found.setdefault(os.path.abspath(path), NamedFile(path, by_name=True))
        elif path.is_dir():
            for inner in _files_in(path):
                found.setdefault(os.path.abspath(inner), NamedFile(inner, by_name=False))
        elif not os.path.lexists(path) and PATTERN & set(name):
            matches = [match for match in sorted(glob.glob(name, recursive=True)) if os.path.isfile(match)]
            if not matches:
                raise Unusable(f"no file fits {name}; put the pattern in quotes, and try it with ls")
            for match in matches:
                found.setdefault(os.path.abspath(match), NamedFile(Path(match), by_name=False))
        else:
            found.setdefault(os.path.abspath(path), NamedFile(path, by_name=True))
    return list(found.values())


def _is_recording(folder: Path) -> bool:
    """Whether the folder is one recording, in which each record is a file."""
    try:
        return bool(reader_of(Source(folder)).name)
    except Unreadable:
        return False


def _files_in(folder: Path) -> list[Path]:
    found: list[Path] = []
    for inner, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        found += [Path(inner, name) for name in sorted(names) if not name.startswith(".")]
    return [path for path in found if path.is_file()]


def _raise(error: OSError) -> None:
    raise error


def is_our_log(path: Path) -> bool:
    """Whether the file is a log of loopkernel, sound or not. Raises Unreadable, OSError."""
    head = Source(path).head()  # which refuses what is neither a file nor a folder
    if head.is_folder:
        return False
    with path.open("rb") as file:
        begun = file.read(len(HEAD))
    return bool(begun and HEAD.startswith(begun)) or OwnLog().fits(head)


def is_sound_log(path: Path) -> bool:
    """Whether it can be resumed as it is. Raises Unusable where it is of other rules, Unreadable, OSError."""
    if not is_our_log(path):
        return False
    try:
        return bool(log_at(path).records)
    except Unusable as error:
        if isinstance(error.__cause__, RulesDiffer):  # it is whole, and to be gone on with by the version that wrote it
            raise
        return False


@contextmanager
def to_be_no_recording(name: str, instead: str, what: str) -> Iterator[None]:
    """Of a recording that is named in the place of a log of ours, say which command takes it. Raises Unusable."""
    try:
        yield
    except Unusable as error:
        if not isinstance(error.__cause__, NotALog):
            raise
        try:
            found = reader_of(Source(Path(name))).name
        except (Unreadable, OSError):
            raise error from error.__cause__
        if found == OwnLog.name:  # one of ours that is damaged in line 1, which no other command could show
            raise
        told = f"{name} is not a log of loopkernel, but a recording ({found}): `{command(instead, name)}` {what}"
        raise Unusable(told) from error


def where(kind: str, record: int, part: str = "") -> str:
    """A place of a file of that format, in words."""
    what = "line" if kind in LINES else "record"
    return f"{what} {record}{f' ({part})' if part else ''}"


@contextmanager
def read_in_words(path: Path) -> Iterator[None]:
    """What cannot be read, in words. Raises Unusable alone."""
    try:
        yield
    except Unreadable as error:
        raise Unusable(str(error)) from error
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror or error}; name another file") from error
    except MemoryError as error:
        raise Unusable(f"{path} is too large for the memory of this machine; give a shorter recording") from error
    except (Unusable, KeyboardInterrupt):
        raise
    except Exception as error:
        raise Unusable(f"{path}: something that nobody foresaw: {described(error)}; please report this") from error
