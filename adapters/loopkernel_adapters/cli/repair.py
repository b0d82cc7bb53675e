"""`loopkernel repair FILE --out NEW` and `continue FILE`: a recording made whole: a file, a log, or a new run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import evolve
from loopkernel.data.choices import Lifetime

from loopkernel_adapters.cli.chat import play_chat
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.recording_files import is_sound_log, read_in_words, where
from loopkernel_adapters.cli.screen import NoScreen, Screen, in_one_line
from loopkernel_adapters.cli.session import begun
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.stores.durable_files import write_new_file
from loopkernel_adapters.stores.jsonl import line_of
from loopkernel_adapters.transcripts.formats import reader_of, writer_of
from loopkernel_adapters.transcripts.repairing_threads import Conversations, begun_log, repaired_conversations
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.transcripts.writers.writer import Fault

SHOWN = 20  # repairs that are told one by one


def repair_recording(path: Path, out: Path, screen: Screen, *, as_log: bool, conversation: str | None) -> ExitStatus:
    """Write the repaired recording to `out`. Raises Unusable where it cannot be read, or `out` not be written."""
    with read_in_words(path):
        if is_sound_log(path):
            raise Unusable(f"{path} is a log of loopkernel, which needs no repair; `{command('resume', path)}` goes on")
        source = Source(path)
        kind = reader_of(source).name
        writer = None if as_log or conversation is not None else writer_of(kind)
        if writer is not None:
            written = writer.repaired(source)
            pieces, faults = written.pieces, written.faults
        else:
            found = repaired_conversations(source)
            name = chosen(found, conversation, path)
            _demand_all_known(found, path, kind)
            records = begun_log(found, name)
            pieces = tuple(line_of(number, record) for number, record in enumerate(records, start=1))
            faults = found.faults
    with written_in_words(out):
        write_new_file(out, pieces)
    tell_faults(faults, kind, screen)
    screen.labelled("written", f"{out}, {'as ' + kind if writer is not None else 'as a log of loopkernel'}")
    screen.labelled("go on", command("continue", out) if writer is not None else command("resume", out))
    return ExitStatus.NATURAL_END


def _demand_all_known(found: Conversations, path: Path, kind: str) -> None:
    """Refuse to leave out what is not understood. Raises Unusable."""
    if found.unknown:
        instead = (
            f"; `{command('repair', path)}` with --out, and neither --as-log nor --conversation, keeps them"
            if writer_of(kind) is not None
            else ""
        )
        raise Unusable(
            f"{path} holds {counted(len(found.unknown), 'record')} of kinds that are not known here "
            f"({in_one_line(found.unknown[0])}), and a log would be without them, so nothing was written{instead}; "
            f"`{command('continue', path)}` goes on without them"
        )


def tell_unknown(unknown: Sequence[str], screen: Screen) -> None:
    """Say what is gone on without."""
    if unknown:
        screen.labelled("without", f"{counted(len(unknown), 'record')} of unknown kinds: {in_one_line(unknown[0])}")


def tell_faults(faults: tuple[Fault, ...], kind: str, screen: Screen) -> None:
    """Each repair in a line."""
    for fault in faults[:SHOWN]:
        place = where(kind, fault.place.record, fault.place.part)
        screen.labelled("repaired", f"{place}: {fault.text}: {fault.remedy}")
    kinds = Counter(fault.kind.value for fault in faults[SHOWN:])
    if kinds:
        more = ", ".join(f"{count} {name}" for name, count in kinds.items())
        screen.labelled("and", f"{counted(len(faults) - SHOWN, 'other')}: {more}")
    if not faults:
        screen.labelled("repaired", "nothing: there was no fault")


def chosen(found: Conversations, wanted: str | None, path: Path) -> str:
    """The conversation that is meant. Raises Unusable where there is none."""
    name = found.main if wanted is None else wanted
    if name is None:
        raise Unusable(f"{path} holds no conversation that could be gone on with")
    if name not in found.messages:
        others = ", ".join(repr(each) for each in list(found.messages)[:20] if each)
        instead = f"choose one of {others}, or leave" if others else "it has the main one alone: leave"
        raise Unusable(f"{path} holds no conversation {name!r}; {instead} --conversation out")
    return name


def demand_new(out: Path, option: str = "--out") -> None:
    """Refuse to write over a file, which the option has named. Raises Unusable."""
    if out.exists() or out.is_symlink():
        raise Unusable(f"{out} exists already, and nothing is overwritten; name another file with {option}")
    if not out.parent.is_dir():
        raise Unusable(f"{out} cannot be written: there is no folder {out.parent}; make it, or name another file")


@contextmanager
def written_in_words(out: Path, option: str = "--out") -> Iterator[None]:
    """What keeps the file from being written, in words. Raises Unusable."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError):
            demand_new(out, option)
        raise Unusable(
            f"{out} cannot be written: {error.strerror or error}; nothing of it was left behind. "
            f"Make room, or name another file with {option}"
        ) from error


# --- `loopkernel continue FILE` --------------------------------------------------------------------------


def continue_recording(path: Path, conversation: str | None, options: Options, screen: Screen) -> ExitStatus:
    """Hold a chat that begins where the recording ends. Raises Unusable when that cannot be."""
    with read_in_words(path):
        if is_sound_log(path):
            raise Unusable(f"{path} is a log of loopkernel: go on with `{command('resume', path)}`")
        found = repaired_conversations(Source(path))
        name = chosen(found, conversation, path)
    shown = NoScreen() if options.json else screen
    tell_faults(found.faults, found.format, shown)
    messages = found.messages[name]
    tell_unknown(found.unknown, shown)
    shown.labelled("begins", f"from {counted(len(messages), 'message')} of {path}{f' ({name})' if name else ''}")
    others = [each for each in found.messages if each != name]
    if others and conversation is None:
        shown.labelled("others", f"{counted(len(others), 'conversation')}, such as --conversation {others[0]!r}")
    with ExitStack() as resources:
        bench = begun(options, Lifetime.SESSION, resources)
        bench = evolve(bench, created=evolve(bench.created, start=messages))
        return play_chat(bench, (), options, screen)
