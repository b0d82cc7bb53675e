"""`loopkernel fork LOG --at N`: a new run from any step of a log, or of a recording, in its own lineage."""

import time
from pathlib import Path

from loopkernel.data.policy import Policy, Retry
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import ChangePolicy
from loopkernel.replaying import fork

from loopkernel_adapters.agent import new_run_id
from loopkernel_adapters.cli.beginnings import begun_with, note
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.options import DEFAULT_MAX_TURNS, DEFAULT_RETRIES, Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import OneFile, demand_no_database, is_path, located, log_of, opened_place, told
from loopkernel_adapters.cli.recording_files import is_our_log, read_in_words
from loopkernel_adapters.cli.repair import demand_new, tell_unknown, written_in_words
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.ports import Sealing
from loopkernel_adapters.stores.durable_files import write_new_file
from loopkernel_adapters.stores.jsonl import lines_of
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.transcripts.entries import Bookkeeping, Finding, FindingKind, Said, Undone
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.reenacting import Reenactment
from loopkernel_adapters.transcripts.replaying import AS_RECORDED
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.transcripts.understanding import understood

# What a fork of a recording goes by: the policy that it was played under limits nothing and asks nobody.
AFTERWARDS = Policy(max_turns=DEFAULT_MAX_TURNS, retry=Retry(retries=DEFAULT_RETRIES))


def fork_run(name: str, at: int, store: str | None, out: Path | None, screen: Screen) -> ExitStatus:
    """Make the new run, in the store or as the file `out`. Raises Unusable where that cannot be."""
    if out is not None:
        demand_new(out)
    path = Path(name)
    if store is None and is_path(name) and path.is_file() and not _is_log(path):
        records, unknown = _of_recording(path, at)
        tell_unknown(unknown, screen)
        what = f"record {at} of {path}"
        begun, options, doubt = len(records), None, None  # what is played here allows nothing
    else:
        records, what, begun = log_of(name, store).records, f"step {at} of {name}", at
        path = Path()
        with located(name, store) as (source, old):
            options, doubt = begun_with(source, old), source.doubt(old)
    run, where = new_run_id(), () if store is None else ("--store", store)
    now_ms = max([int(time.time() * 1_000), *(record.now_ms for record in records[-1:])])
    try:
        forked = fork(records, begun, run, now_ms)
    except ValueError as error:
        steps = command("log", name, "--steps", *where)
        raise Unusable(f"{error}; `{steps}` shows the numbers of its steps") from error
    if path.name:
        forked = (*forked, LogRecord(ChangePolicy(AFTERWARDS), now_ms))
    screen.labelled("forked", f"{what}: {counted(len(forked), 'record')}")
    if out is not None:
        with written_in_words(out):
            write_new_file(out, lines_of(forked, Seals.of_user() if doubt is None else None))
        if options is not None:
            note(OneFile(path=out), run, options)
        screen.labelled("written", str(out))
        screen.labelled("go on", command("resume", out))
        return ExitStatus.NATURAL_END
    with opened_place(store, make=True) as place:
        new = place.open(run)
        try:
            with told(f"run {run} cannot be written"):
                if doubt is None and isinstance(new, Sealing):
                    new.vouch()
                new.append(forked, durable=True)
        finally:
            new.close()
        note(place, run, options or Options())
        screen.labelled("written", place.described(run))
        screen.labelled("go on", place.command("resume", run))
    return ExitStatus.NATURAL_END


def _is_log(path: Path) -> bool:
    demand_no_database(path)
    with read_in_words(path):
        return is_our_log(path)


def _of_recording(path: Path, at: int) -> tuple[tuple[LogRecord, ...], list[str]]:
    """The log of the recording's first conversation, played up to that record, and what is not known of the file.

    That of a sub-agent counts where the file holds no other, as the files of sub-agents do. What the user had undone by
    then is left out. Raises Unusable.
    """
    with read_in_words(path):
        source = Source(path)
        said: dict[str, list[Said]] = {}
        unknown: list[str] = []
        last = 0
        for entry in understood(reader_of(source), source):
            last = max(last, entry.place.record)
            if isinstance(entry, Finding):
                unknown += [entry.text] if entry.kind is FindingKind.UNKNOWN_RECORD else []
            elif not isinstance(entry, Bookkeeping):
                conversation = said.setdefault(entry.conversation, [])
                if entry.place.record <= at:
                    conversation.append(entry)
        name = next((name for name in said if "/" not in name), next(iter(said), ""))
        if at > last:
            raise Unusable(f"{path} has no record {at}; the last one is {last}")
        if not said.get(name):
            raise Unusable(f"{path} says nothing up to record {at}; give a later one with --at")
        undone = next((entry.records for entry in reversed(said[name]) if isinstance(entry, Undone)), frozenset())
        played = Reenactment(path.stem, AS_RECORDED)
        for told in said[name]:
            if told.place.record not in undone:
                played.take(told)
        played.finish()
    return tuple(played.records), unknown
