"""A folder of logs: one file for each session, found by the id of the session."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from attrs import field, frozen
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.ports import NoSuchRun, RunEntry, RunPage, StoreError
from loopkernel_adapters.stores.durable_files import make_folder
from loopkernel_adapters.stores.jsonl import NEWLINE, JsonlStore, doubt_of, parse_log, read_log
from loopkernel_adapters.stores.operating_systems import open_file, read_at
from loopkernel_adapters.stores.seals import Seals

SUFFIX = ".jsonl"
BLOCK = 1 << 14  # bytes that are read at first from the end of a file; then twice as many each time
MOST_DIGITS = 19  # of the number of a record
LONGEST_FILE_NAME = 255  # bytes
LONGEST_NAME = LONGEST_FILE_NAME - len(".snapshot.new")  # of a log, as the name of its snapshot is longer


@frozen
class JsonlFolder(BlockingRuns):
    """Opens a session's log by the id of the session. The folder is made when the first one is opened.

    `seals` are those of the user who runs this, if no others are given.
    """

    path: Path = field(converter=Path)
    seals: Seals = field(factory=Seals.of_user)

    def __call__(self, session_id: str) -> JsonlStore:
        """The log of the session, new or gone on with. Raises as `JsonlStore` does."""
        return self.open(session_id)

    @override
    def open(self, run: str) -> JsonlStore:
        make_folder(self.path)
        path = self.file_of(run)
        if len(path.name) > LONGEST_NAME:
            raise StoreError(
                f"the id of this run is too long for the name of a file: {len(path.name)} bytes, and at most "
                f"{LONGEST_NAME} are there; give it a shorter one, or keep it in a database"
            )
        return JsonlStore(path, self.seals)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        path = self.file_of(run)
        if len(path.name) > LONGEST_FILE_NAME:
            raise NoSuchRun(f"there is no run of {len(run)} characters in {self.path}; list those that are there")
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise StoreError(f"{path} is not a regular file, so it cannot be a log")
            return read_log(path).records
        except FileNotFoundError:
            raise NoSuchRun(f"there is no run {run!r} in {self.path}; list those that are there") from None

    @override
    def doubt(self, run: str) -> str | None:
        self.read(run)
        return doubt_of(self.file_of(run), self.seals)

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        found = [entry for path in self.files() if (entry := _entry(path)) is not None]
        return tuple(sorted(found, key=_when))

    @override
    def latest(self, most: int | None) -> RunPage:
        """Which those are is told by when the files were written: else each of them had to be read."""
        names = self._names_by_time()
        total = len(names)
        found: list[RunEntry] = []
        while names and (most is None or len(found) < most):
            entry = _entry(self.path / names.pop())
            if entry is None:
                total -= 1
            else:
                found.append(entry)
        return RunPage(entries=tuple(sorted(found, key=_when)), total=total)

    @override
    def close(self) -> None:
        """There is nothing to let go of."""

    def file_of(self, session_id: str) -> Path:
        """Where that log lies: no two ids share a file, and none leads out of the folder."""
        return self.path / f"{quote(session_id, safe='', errors='surrogatepass')}{SUFFIX}"

    def files(self) -> tuple[Path, ...]:
        """The logs that are there, by name."""
        return tuple(sorted(self.path.glob(f"*{SUFFIX}")))

    def _names_by_time(self) -> list[str]:
        """The files of the runs that are nobody's sub-agents, the one that was written last at the end."""
        times: list[tuple[int, str]] = []
        try:
            with os.scandir(self.path) as files:
                for file in files:
                    if file.name.endswith(SUFFIX) and "/" not in unquote(file.name):
                        with suppress(OSError):  # it has just gone, or its link leads nowhere
                            times.append((file.stat().st_mtime_ns, file.name))
        except FileNotFoundError:
            return []
        return [name for _, name in sorted(times)]


def _when(entry: RunEntry) -> tuple[int, str]:
    return entry.last_ms, entry.run


def _entry(path: Path) -> RunEntry | None:
    """What the first and the last whole line of a log say; None where they say nothing that can be trusted."""
    try:
        descriptor = open_file(path, os.O_RDONLY, wait=False)  # it may be a pipe
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            first = file.readline()
            last, number = _last_line(descriptor, len(first))
    except OSError:
        return None
    try:
        opening = parse_log(first, str(path)).records
        ending = parse_log(last, str(path), number - 1).records if last else opening
    except StoreError:
        return None
    if not opening or not ending:
        return None
    run = unquote(path.name.removesuffix(SUFFIX), errors="surrogatepass")
    return RunEntry(run=run, records=number if last else 1, first_ms=opening[0].now_ms, last_ms=ending[0].now_ms)


def _last_line(descriptor: int, begun: int) -> tuple[bytes, int]:
    """The last whole line behind the first, with its newline, and the number that it gives itself; b"" and 0."""
    position, content, block = os.fstat(descriptor).st_size, b"", BLOCK
    while position > begun:
        size = min(block, position - begun)
        position -= size
        block *= 2  # a line may be long, and is copied and looked through with each block
        content = read_at(descriptor, size, position) + content
        end = content.rfind(NEWLINE)
        start = content.rfind(NEWLINE, 0, end) + 1 if end >= 0 else 0
        if end >= 0 and (start or position == begun):
            line = content[start : end + 1]
            digits = line[len(b'{"n":') :].split(b",", 1)[0]
            return line, int(digits) if digits.isdigit() and len(digits) <= MOST_DIGITS else 0
    return b"", 0
