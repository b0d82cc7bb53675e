"""`loopkernel replay FILE...`: recordings fed through the kernel, what they hold, and whether the laws hold on them."""

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.data.policy import Policy

from loopkernel_adapters.cli import what_if
from loopkernel_adapters.cli.json_lines import put
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain
from loopkernel_adapters.cli.places import demand_no_database, is_path, log_of
from loopkernel_adapters.cli.progress import Progress
from loopkernel_adapters.cli.recording_files import (
    LogSource,
    NamedFile,
    is_our_log,
    log_source,
    named_files,
    read_in_words,
    replayed_log,
    where,
)
from loopkernel_adapters.cli.rules import named_policy
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.what_if import WhatIf, asked_what_if, parted, show_what_if
from loopkernel_adapters.cli.words import counted, tokens_told
from loopkernel_adapters.transcripts.counting import Counts
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, HELD, Replayed, replayed
from loopkernel_adapters.transcripts.source import NoRecording, Source, Unreadable

SHOWN = 3  # findings of a file that are told, unless all are wanted


@frozen(kw_only=True)
class Showing:
    """What is to be shown. `policy` is the name of the one that is asked about, with what it says."""

    as_json: bool = False
    all_findings: bool = False
    policy: tuple[str, Policy] | None = None


def is_one_run(names: Sequence[str], store: str | None) -> bool:
    """Whether what is named is the log of one run. Raises Unusable where it is nothing that can be replayed."""
    if len(names) != 1:
        return False
    if store is not None or not is_path(names[0]):
        return not set(names[0]) & set("*?[") or store is not None
    path = Path(names[0])
    demand_no_database(path)
    if not path.is_file():
        return not path.exists() and not set(names[0]) & set("*?[")
    with read_in_words(path):
        if path.stat().st_size == 0 or is_our_log(path):
            return True
        try:
            reader_of(Source(path))
        except Unreadable as error:
            raise Unusable(
                f"{path} is not a log of loopkernel (line 1 is not a record). Nothing was changed. "
                f"Name the file of a run, or a recording: {error}"
            ) from error
    return False


def replay_recordings(
    names: Sequence[str], store: str | None, policy: str | None, screen: Screen, *, as_json: bool, all_findings: bool
) -> ExitStatus:
    """Replay them all, and say what came of it. Raises Unusable where there is nothing to replay."""
    asked = None if policy is None else (policy, named_policy(policy))
    showing = Showing(as_json=as_json, all_findings=all_findings, policy=asked)
    files = files_of(names, store)
    table: list[tuple[str, ...]] = []
    passed_over = failed = 0
    sound = True
    progress = Progress(len(files))
    for done, file in enumerate(files):
        progress.at(done, file.path.name)
        try:
            if not file.by_name and not is_recording(file.path):
                passed_over += 1
                continue
            with read_in_words(file.path):
                found, under = _replayed(file, showing)
        except Unusable as error:
            progress.clear()
            complain(str(error))
            failed += 1
            continue
        progress.clear()
        sound = sound and found.held and found.identical
        _show(file.path, found, under, showing, screen)
        place = () if under is None else (parted(found.format, under.comparison) or "nowhere",)
        table.append((*_row(file.path, found), *place))
    progress.clear()
    if not table and not failed:
        raise Unusable(f"there is no recording in {', '.join(names)}: no file there is in a format that is known here")
    if len(files) > 1 and not as_json:
        if table:
            _show_table(table, screen)
        screen.labelled("files", f"{len(table)} replayed, {failed} not readable, {passed_over} no recordings")
    if failed:
        return ExitStatus.UNUSABLE
    return ExitStatus.NATURAL_END if sound else ExitStatus.OTHER_END


def files_of(names: Sequence[str], store: str | None) -> list[NamedFile]:
    """What is named: files, or a run of a store. Raises Unusable where it is neither."""
    return [_of_a_store(names[0], store)] if _is_stored(names, store) else named_files(names)


def log_in(file: NamedFile) -> LogSource | None:
    """The log of ours that it is; None: it is a recording of another agent. Raises Unusable."""
    return log_source(file.path) if file.log is None and is_our_log(file.path) else file.log


def _is_stored(names: Sequence[str], store: str | None) -> bool:
    return is_one_run(names, store) and (store is not None or not Path(names[0]).is_file())


def _of_a_store(run: str, store: str | None) -> NamedFile:
    records = log_of(run, store).records
    if not records:
        raise Unusable(f"the log of {run} holds no complete record, so there is nothing to replay")
    return NamedFile(Path(run), by_name=True, log=LogSource(Path(run), records))


def is_recording(path: Path) -> bool:
    """Whether a file of a folder is a recording. Raises Unusable where it is one that is not readable."""
    with read_in_words(path):
        try:
            return bool(reader_of(Source(path)).name)
        except NoRecording:
            return False


def _replayed(file: NamedFile, showing: Showing) -> tuple[Replayed, WhatIf | None]:
    log = log_in(file)
    if showing.policy is not None:
        return asked_what_if(Source(file.path) if log is None else log, *showing.policy)
    return replayed(Source(file.path), AS_RECORDED) if log is None else replayed_log(log), None


# --- what is shown of a file ---


def _show(path: Path, found: Replayed, under: WhatIf | None, showing: Showing, screen: Screen) -> None:
    if showing.as_json:
        put(screen, as_json(path, found, under))
        return
    counts = found.counts
    screen.line(f"{path}: {found.format}")
    screen.labelled("said", _said(counts))
    screen.labelled("calls", _calls(counts))
    agents = sum("/" in conversation.name for conversation in found.conversations)
    others = {
        "sub-agent": agents,
        "compaction": counts.compactions,
        "model error": counts.model_errors,
        "image": counts.images,
        "retried request": found.retries,
    }
    told = [counted(number, what) for what, number in others.items() if number]
    if told:
        screen.labelled("also", ", ".join(told))
    usages = [conversation.usage for conversation in found.conversations]
    tokens = tokens_told(sum(usage.input for usage in usages), sum(usage.output for usage in usages))
    cached = sum(usage.cache_read for usage in usages)
    screen.labelled("usage", tokens + (f", {cached} from a cache" if cached else ""))
    shown = found.findings if showing.all_findings else found.findings[:SHOWN]
    for finding in shown:
        place = where(found.format, finding.place.record, finding.place.part)
        screen.labelled("finding", f"{place}: {in_one_line(finding.text)} [{finding.kind.value}]")
    if len(found.findings) > len(shown):
        screen.labelled("", f"{counted(len(found.findings) - len(shown), 'more finding')}; --findings shows all")
    broken = {law: verdict for law, verdict in found.laws.items() if verdict != HELD}
    screen.labelled("laws", f"{counted(len(found.laws), 'law')}: {'all held' if not broken else 'BROKEN'}")
    for verdict in broken.values():
        screen.labelled("", f"{verdict}. Please report this with the recording")
    identical = "identical, byte for byte" if found.identical else "NOT identical. Please report this"
    screen.labelled("replayed", f"{counted(found.deltas, 'delta')}: {identical}")
    if under is not None:
        show_what_if(found, under, screen, shows_all=showing.all_findings)
    screen.line()


def _said(counts: Counts) -> str:
    told = [counted(counts.user_messages, "message") + " of the user"]
    told.append(f"{counts.replies} {'reply' if counts.replies == 1 else 'replies'}")
    if counts.reasoning:
        told.append(counted(counts.reasoning, "piece") + " of reasoning")
    return ", ".join(told)


def _calls(counts: Counts) -> str:
    results = ", ".join(f"{number} {status}" for status, number in counts.results.items() if number)
    told = [str(counts.calls), f"results: {results or 'none'}"]
    odd = {
        "never answered": counts.unanswered,
        "results of no call": counts.orphan_results,
        "ids used again": counts.reused_ids,
        "results out of order": counts.out_of_order,
    }
    return "; ".join([*told, *(f"{number} {what}" for what, number in odd.items() if number)])


# --- as numbers ---


def as_json(path: Path, found: Replayed, under: WhatIf | None) -> dict[str, JsonValue]:
    """The numbers of a file, and its findings and laws."""
    counts = found.counts
    findings: list[JsonValue] = [
        {
            "place": f"{finding.place.record}{f' {finding.place.part}' if finding.place.part else ''}",
            "kind": finding.kind.value,
            "text": finding.text,
        }
        for finding in found.findings
    ]
    line: dict[str, JsonValue] = {
        "file": str(path),
        "format": found.format,
        "user_messages": counts.user_messages,
        "replies": counts.replies,
        "calls": counts.calls,
        "results": {status: number for status, number in counts.results.items() if number},
        "unanswered": counts.unanswered,
        "orphan_results": counts.orphan_results,
        "reused_ids": counts.reused_ids,
        "out_of_order": counts.out_of_order,
        "parallel_replies": counts.parallel_replies,
        "max_open": counts.max_open,
        "reasoning": counts.reasoning,
        "images": counts.images,
        "compactions": counts.compactions,
        "model_errors": counts.model_errors,
        "sidechain_records": counts.sidechain_records,
        "findings": findings,
        "laws": dict(found.laws),
        "deltas": found.deltas,
        "identical": found.identical,
    }
    if under is not None:
        line["what_if"] = what_if.as_json(found, under)
    return line


# --- the table ---

WIDEST_NAME = 60
HEADS = ("file", "format", "replies", "calls", "findings", "laws", "deltas", "replay")


def _row(path: Path, found: Replayed) -> tuple[str, ...]:
    broken = sum(verdict != HELD for verdict in found.laws.values())
    told = in_one_line(str(path), 10_000)
    return (
        told if len(told) <= WIDEST_NAME else f"...{told[-WIDEST_NAME:]}",
        found.format,
        str(found.counts.replies),
        str(found.counts.calls),
        str(len(found.findings)),
        f"{broken} broken" if broken else HELD,
        str(found.deltas),
        "identical" if found.identical else "DIFFERENT",
    )


def _show_table(rows: Sequence[tuple[str, ...]], screen: Screen) -> None:
    screen.table((*HEADS, "parts at")[: len(rows[0])], rows, numbers={2, 3, 4, 6})
