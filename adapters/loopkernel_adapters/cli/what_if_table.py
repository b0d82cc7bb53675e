"""`loopkernel whatif PATH... --policy NAME`: what policies would have made of recordings, as a table of figures."""

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen
from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import JsonValue
from loopkernel.data.policy import Policy

from loopkernel_adapters.cli.json_lines import put
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain
from loopkernel_adapters.cli.progress import Progress
from loopkernel_adapters.cli.recording_files import LogSource, NamedFile, read_in_words
from loopkernel_adapters.cli.recordings import files_of, is_recording, log_in
from loopkernel_adapters.cli.repair import demand_new, written_in_words
from loopkernel_adapters.cli.rules import named_policy
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.what_if import as_recorded, in_words, parted
from loopkernel_adapters.stores.durable_files import write_new_file
from loopkernel_adapters.transcripts.figures import Figures, figures_of
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.page import page_of

WIDEST_NAME = 44
MOST_CHARTED = 30
COLUMNS = (
    *("recording", "policy", "calls", "several", "took", "would take", "saved", "at least"),
    *("asks", "compacts", "loops", "limits", "retries", "parts at"),
)
TEXTS = frozenset({0, 1, len(COLUMNS) - 1})  # the columns that are not numbers
ABOUT = (
    "Times are those of the calls alone, with their recorded durations, as the policy would run them together; "
    "`at least`: all at once, but for calls that depend on others. `several`: replies with more than one call. "
    "The other figures count what the policy does and was not recorded. `parts at`: where it first does something else "
    "than ask, since whoever is asked does as recorded."
)
ENDS_ALONE = (
    "Recordings of other agents tell when a call ended. It is taken to have begun when the one before it in the reply "
    "ended, so `saved` is the most that it can be; what their tools may do is not known, so a policy that runs unknown "
    "tools alone saves nothing."
)


@frozen(kw_only=True)
class Line:
    """A recording under a policy. `place` is where the two part, in words; None: nowhere."""

    file: str
    policy: str
    is_ours: bool
    figures: Figures
    place: str | None
    what: str


def whatif(
    names: Sequence[str],
    store: str | None,
    policies: Sequence[str],
    html: Path | None,
    screen: Screen,
    *,
    as_json: bool,
) -> ExitStatus:
    """Work it out for each recording under each policy. Raises Unusable where there is nothing to work out."""
    if not policies:
        raise Unusable("whatif asks about a policy; name one with --policy, or several")
    asked = [(name, evolve(named_policy(name), lifetime=Lifetime.SESSION)) for name in policies]
    if html is not None:
        demand_new(html, "--html")
    lines, failed, passed_over = _lines_of(files_of(names, store), asked)
    if not lines and not failed:
        raise Unusable(f"there is no recording in {', '.join(names)}: no file there is in a format that is known here")
    if as_json:
        for line in lines:
            put(screen, line_as_json(line))
    elif lines:
        _show(lines, screen)
        read = len({line.file for line in lines})
        screen.labelled("files", f"{read} read, {failed} not readable, {passed_over} no recordings")
    if html is not None and lines:
        page = page_of(document_of(f"What if: {' and '.join(policies)}", [], figures=page_figures(lines))).encode()
        with written_in_words(html, "--html"):
            write_new_file(html, [page])
        if not as_json:
            screen.labelled("page", f"{html}; open it in a browser, it needs nothing else")
    return ExitStatus.UNUSABLE if failed else ExitStatus.NATURAL_END


def _lines_of(files: Sequence[NamedFile], asked: Sequence[tuple[str, Policy]]) -> tuple[list[Line], int, int]:
    """The lines of all files, how many of these could not be read, and how many are not recordings."""
    lines: list[Line] = []
    failed = passed_over = 0
    progress = Progress(len(files))
    for done, file in enumerate(files):
        progress.at(done, file.path.name)
        try:
            if not file.by_name and not is_recording(file.path):
                passed_over += 1
                continue
            with read_in_words(file.path):
                lines += _lines(file, asked)
        except Unusable as error:
            progress.clear()
            complain(str(error))
            failed += 1
    progress.clear()
    return lines, failed, passed_over


def _lines(file: NamedFile, asked: Sequence[tuple[str, Policy]]) -> list[Line]:
    log = log_in(file)
    source: Source = Source(file.path) if log is None else log
    kind = reader_of(source).name
    recorded = as_recorded(source)
    policies = [policy if policy != evolve(recorded, lifetime=policy.lifetime) else recorded for _, policy in asked]
    found = figures_of(source, policies, recorded, log.records if isinstance(log, LogSource) else None)
    lines: list[Line] = []
    for (name, _), figures in zip(asked, found, strict=True):
        others = figures.comparison.others
        lines.append(
            Line(
                file=str(file.path),
                policy=name,
                is_ours=log is not None,
                figures=figures,
                place=parted(kind, figures.comparison),
                what=in_words(others[0]) if others else "",
            )
        )
    return lines


# --- as a table ---


def told(ms: int) -> str:
    """Milliseconds as seconds."""
    return f"{ms / 1000:.1f} s"


def row(line: Line) -> tuple[str, ...]:
    """The cells of the line."""
    one = line.figures
    name = in_one_line(line.file, 10_000)
    return (
        name if len(name) <= WIDEST_NAME else f"...{name[-WIDEST_NAME:]}",
        in_one_line(line.policy, WIDEST_NAME),
        str(one.calls),
        str(one.replies),
        *map(told, (one.took_ms, one.under_ms, one.saved_ms, one.least_ms)),
        *map(str, (one.asks, one.compactions, one.loops, one.limits, one.retries)),
        line.place or "nowhere",
    )


def totals(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """A row for each policy over all recordings."""
    found: list[tuple[str, ...]] = []
    for policy in dict.fromkeys(line.policy for line in lines):
        ones = [line.figures for line in lines if line.policy == policy]
        parted = sum(line.place is not None for line in lines if line.policy == policy)
        times = [(one.took_ms, one.under_ms, one.saved_ms, one.least_ms) for one in ones]
        counts = [(one.asks, one.compactions, one.loops, one.limits, one.retries) for one in ones]
        found.append(
            (
                f"all {len(ones)}",
                in_one_line(policy, WIDEST_NAME),
                str(sum(one.calls for one in ones)),
                str(sum(one.replies for one in ones)),
                *(told(sum(column)) for column in zip(*times, strict=True)),
                *(str(sum(column)) for column in zip(*counts, strict=True)),
                f"{parted} of {len(ones)}",
            )
        )
    return found


def _show(lines: Sequence[Line], screen: Screen) -> None:
    rows = [*map(row, lines), *(totals(lines) if len({line.file for line in lines}) > 1 else [])]
    screen.table(COLUMNS, rows, numbers=frozenset(range(len(COLUMNS))) - frozenset(TEXTS))
    screen.line()
    screen.labelled("figures", ABOUT)
    if any(not line.is_ours for line in lines):
        screen.labelled("", ENDS_ALONE)


def line_as_json(line: Line) -> dict[str, JsonValue]:
    """The line as numbers."""
    one = line.figures
    return {
        "file": line.file,
        "policy": line.policy,
        "calls": one.calls,
        "replies_with_several_calls": one.replies,
        "took_ms": one.took_ms,
        "would_take_ms": one.under_ms,
        "saved_ms": one.saved_ms,
        "at_least_ms": one.least_ms,
        "asks": one.asks,
        "compactions": one.compactions,
        "loops": one.loops,
        "limits": one.limits,
        "retries": one.retries,
        "parts_at": line.place,
        "there": line.what,
        "nothing": one.is_nothing,
    }


def _in_words(one: Figures) -> str:
    return f"{told(one.under_ms)} of {told(one.took_ms)}, at least {told(one.least_ms)}"


def page_figures(lines: Sequence[Line]) -> JsonValue:
    """The table, and a chart for each policy of what its calls would take, beside what they took."""
    charts: list[JsonValue] = []
    for policy in dict.fromkeys(line.policy for line in lines):
        ones = [line for line in lines if line.policy == policy and line.figures.took_ms]
        slowest = sorted(ones, key=lambda line: -line.figures.took_ms)[:MOST_CHARTED]
        bars: list[JsonValue] = [
            [
                row(line)[0],
                line.figures.least_ms,
                line.figures.under_ms,
                line.figures.took_ms,
                _in_words(line.figures),
            ]
            for line in slowest
        ]
        few = f" (the {MOST_CHARTED} longest)" if len(ones) > MOST_CHARTED else ""
        named = in_one_line(policy, WIDEST_NAME)
        charts.append([f"What the calls took (grey), would take under {named} (blue), at least (green){few}", bars])
    rows: list[JsonValue] = [list(cells) for cells in (*map(row, lines), *totals(lines))]
    about: list[JsonValue] = [ABOUT, ENDS_ALONE]
    return {"title": "Figures", "about": about, "charts": charts, "columns": list(COLUMNS), "rows": rows}
