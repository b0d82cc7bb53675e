"""Where runs are kept, as `--store` and `--log` name it, and what is found there; each way to miss it in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from attrs import frozen
from loopkernel.data.records import LogRecord
from loopkernel.later_typing import override

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.options import FOLDER
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.optional_ports import StoreFactory
from loopkernel_adapters.ports import (
    NoSuchRun,
    Restored,
    RulesDiffer,
    RunEntry,
    RunPage,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    demand_same_rules,
)
from loopkernel_adapters.stores.durable_files import demand_no_link
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore, LogFile, NotALog, doubt_of, read_log
from loopkernel_adapters.stores.seals import Seals

if TYPE_CHECKING:  # an extra
    from loopkernel_adapters.stores.postgres import PostgresRuns

SQLITE, JSONL, POSTGRES, MEMORY = "sqlite:", "jsonl:", "postgres:", "memory"
DEFAULT = f"{SQLITE}{FOLDER / 'runs.sqlite'}"
LAST = "last"
SHORTEST_BEGINNING = 4  # characters of an id that stand for it
FORMS = f"{SQLITE}FILE, {JSONL}DIR, {POSTGRES}DSN or {MEMORY}"


class Place(Protocol):
    """Where the log of a run lies, and those of its sub-agents."""

    def open(self, run: str) -> BlockingStore:
        """The log for its one writer. Raises Unusable."""
        ...

    def read(self, run: str) -> tuple[LogRecord, ...]:
        """All records of that run. Raises Unusable."""
        ...

    def doubt(self, run: str) -> str | None:
        """Why the log of that run is not believed (see `Restored.doubt`). Raises Unusable."""
        ...

    def children(self, run: str) -> StoreFactory:
        """Where the logs of the run's sub-agents are opened."""
        ...

    def runs_of(self, run: str) -> tuple[str, ...]:
        """The sub-agents of that run which have a log."""
        ...

    def command(self, *arguments: str) -> str:
        """The command line with these arguments, and whatever leads here."""
        ...

    def described(self, run: str) -> str:
        """Where the log lies, for people."""
        ...

    def note_file(self, run: str) -> Path | None:
        """Where it is kept what the run was begun with; None where nothing outlasts the process."""
        ...

    def folder(self) -> Path | None:
        """The folder that all of it lies in; None where it lies in none."""
        ...


@frozen(kw_only=True)
class StoredRuns(Place):
    """A place of many runs. `name` is what `--store` has named."""

    runs: BlockingRuns
    name: str
    path: Path | None

    @override
    def open(self, run: str) -> BlockingStore:
        with told(f"run {run} cannot be opened"):
            if (note := self.note_file(run)) is not None:
                demand_no_link(note.parent, note)
            return self.runs.open(run)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        with told(f"run {run} cannot be read"):
            return self.runs.read(run)

    @override
    def doubt(self, run: str) -> str | None:
        with told(f"run {run} cannot be read"):
            return self.runs.doubt(run)

    def entries(self) -> tuple[RunEntry, ...]:
        """The runs, the latest last, without those of sub-agents. Raises Unusable."""
        with told("the runs cannot be listed"):
            return tuple(entry for entry in self.runs.entries() if "/" not in entry.run)

    def latest(self, most: int | None) -> RunPage:
        """At most so many of them, and how many there are. Raises Unusable."""
        with told("the runs cannot be listed"):
            return self.runs.latest(most)

    def _is_run(self, name: str) -> bool:
        """Whether there is such a run: one of a sub-agent is not listed, and one that is damaged may not be."""
        try:
            with told(f"run {name} cannot be read"):
                self.runs.read(name)
        except Unusable as error:
            if isinstance(error.__cause__, NoSuchRun):
                return False
            raise
        return True

    @override
    def children(self, run: str) -> StoreFactory:
        return self.runs.open

    @override
    def runs_of(self, run: str) -> tuple[str, ...]:
        with told("the runs cannot be listed"):
            return tuple(entry.run for entry in self.runs.entries() if entry.run.startswith(f"{run}/"))

    @override
    def command(self, *arguments: str) -> str:
        return command(*arguments, *(() if self.name == DEFAULT else ("--store", self.name)))

    @override
    def described(self, run: str) -> str:
        return f"run {run} in {self.name}"

    @override
    def note_file(self, run: str) -> Path | None:
        if self.path is None:
            return None
        whole, _, _ = run.partition("/")  # a sub-agent was begun with what its session was
        path = self.path if self.path.name else self.path.absolute()  # `.` has no name to put something behind
        return path.with_name(f"{path.name}.begun") / f"{quote(whole, safe='')}.json"

    @override
    def folder(self) -> Path | None:
        return kept_in(self.name, None)

    def found(self, name: str) -> str:
        """The run of that id, of that beginning of an id, or the latest for `last`. Raises Unusable."""
        ids = [entry.run for entry in self.entries()]
        if name in ids or self._is_run(name):
            return name
        if name == LAST and ids:
            return ids[-1]
        begun = [run for run in ids if run.startswith(name)] if len(name) >= SHORTEST_BEGINNING else []
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise Unusable(f"{name} begins the ids of {len(begun)} runs: {', '.join(begun[-3:])}; give more of the id")
        if self.path is None:
            raise Unusable(
                f"there is no run {name} in memory, where nothing outlasts its command; name another place with --store"
            )
        raise Unusable(f"there is no run {name} in {self.name}; `{self.command('runs')}` lists those that are there")


@frozen(kw_only=True)
class OneFile(Place):
    """The one log that `--log` names; the logs of its sub-agents lie in a folder beside it."""

    path: Path

    @override
    def open(self, run: str) -> BlockingStore:
        with told(f"the log {self.path} cannot be used"):
            demand_no_link(self._note, self._folder.path)
        return opened_log(self.path)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        with told(f"the log {self.path} cannot be read"):
            return read_log(self._path_of(run)).records

    @override
    def doubt(self, run: str) -> str | None:
        with told(f"the log {self.path} cannot be read"):
            return doubt_of(self._path_of(run), Seals.of_user())

    @override
    def children(self, run: str) -> StoreFactory:
        return self._folder

    @override
    def runs_of(self, run: str) -> tuple[str, ...]:
        return tuple(map(str, self._folder.files()))

    @override
    def command(self, *arguments: str) -> str:
        return command(*arguments)

    @override
    def described(self, run: str) -> str:
        return str(self._path_of(run).absolute())

    @override
    def note_file(self, run: str) -> Path | None:
        return self._note

    @override
    def folder(self) -> Path | None:
        return kept_in(None, self.path)

    @property
    def _note(self) -> Path:
        return self.path.with_name(f"{self.path.name}.begun.json")

    def _path_of(self, run: str) -> Path:
        """The log of this run, or of the sub-agent whose log is named so."""
        return Path(run) if run in self.runs_of("") else self.path

    @property
    def _folder(self) -> JsonlFolder:
        return JsonlFolder(self.path.with_name(f"{self.path.name}.agents"))


def opened_log(path: Path) -> BlockingStore:
    """The log at the path, new or not. Raises Unusable."""
    try:
        return JsonlStore(path)
    except NotALog as error:
        raise Unusable(
            f"{path} {error.what}, so no run is written to it. Nothing was changed. Name a new file with --log"
        ) from error
    except StoreLocked as error:
        raise Unusable(f"{error}; end the program that writes it, or wait for it") from error
    except StoreError as error:
        raise Unusable(f"the log cannot be used: {error}") from error
    except OSError as error:
        raise Unusable(
            f"the log {path} cannot be opened: {error.strerror}; name a file in a folder that can be written"
        ) from error


def run_or_file(place: Place, run: str) -> str:
    """How the run is named on the command line."""
    return place.described(run) if isinstance(place, OneFile) else run


def resumption(place: Place, run: str) -> str | None:
    """The command that goes on with the run; None where nothing of it outlasts the process."""
    return None if place.note_file(run) is None else place.command("resume", run_or_file(place, run))


def kept_in(store: str | None, log: Path | None) -> Path | None:
    """The folder that the runs lie in, as `--store` or `--log` name them; None where they lie in none."""
    if log is not None:
        return log.parent
    text = DEFAULT if store is None else store
    if text.startswith(SQLITE):
        return Path(text.removeprefix(SQLITE)).parent
    return Path(text.removeprefix(JSONL)) if text.startswith(JSONL) else None


@contextmanager
def opened_place(name: str | None, *, make: bool) -> Iterator[StoredRuns]:
    """The runs that `--store` names. `make`: where there are none, make room for them. Raises Unusable."""
    text = DEFAULT if name is None else name
    if text == MEMORY:
        from loopkernel_adapters.stores.memory import MemoryRuns

        runs: BlockingRuns = MemoryRuns()
        path = None
    elif text.startswith(SQLITE) and text != SQLITE:
        path = Path(text.removeprefix(SQLITE))
        _demand_place(path, text, is_folder=False, make=make)
        from loopkernel_adapters.stores.sqlite import SqliteRuns

        with told(f"the store {text} cannot be opened"):
            runs = SqliteRuns(path)
    elif text.startswith(JSONL) and text != JSONL:
        path = Path(text.removeprefix(JSONL))
        _demand_place(path, text, is_folder=True, make=make)
        runs = JsonlFolder(path)
    elif text.startswith(POSTGRES) and text != POSTGRES:
        from loopkernel_adapters.cli.awaited_runs import AwaitedRuns

        dsn = text.removeprefix(POSTGRES)
        runs = AwaitedRuns(partial(postgres_runs, dsn))
        path, text = None, f"{POSTGRES}DSN"  # which may hold a password
    else:
        raise Unusable(f"there is no store {text}; choose {FORMS}")
    try:
        yield StoredRuns(runs=runs, name=text, path=path)
    finally:
        runs.close()


def postgres_runs(dsn: str) -> "PostgresRuns":
    """The runs of that database. Raises Unusable where the extra is not installed."""
    try:
        from loopkernel_adapters.stores.postgres import PostgresRuns
    except ModuleNotFoundError as error:
        raise Unusable(
            f"{error.name} is needed for a PostgreSQL database: pip install 'loopkernel[postgres]'"
        ) from error
    return PostgresRuns(dsn)


def _demand_place(path: Path, name: str, *, is_folder: bool, make: bool) -> None:
    """Have the folder that the runs lie in, or say what is missing."""
    if FOLDER in (path, path.parent):  # nobody has named it: a folder that was cloned may have it lead anywhere
        with told(f"the store {name} cannot be used"):
            demand_no_link(FOLDER, path)
    if path.exists() and path.is_dir() != is_folder:
        what = "a file, and jsonl: needs a folder" if is_folder else "a folder, and sqlite: needs a file"
        raise Unusable(f"the store {name} cannot be used: {path} is {what}; name another with --store")
    if not make:
        if not path.exists():
            raise Unusable(
                f"there are no runs in {name}, since {path} does not exist; begin one with `{command('chat')}` or "
                f"`{command('run', 'TASK')}`, or name another place with --store"
            )
        return
    folder = path if is_folder else path.parent
    try:
        if folder == FOLDER or is_folder:
            folder.mkdir(mode=0o700, parents=False, exist_ok=True)
        if not folder.is_dir():
            raise FileNotFoundError(2, "there is no such folder")
    except OSError as error:
        raise Unusable(
            f"the folder for the runs, {folder.absolute()}, cannot be made or used: {error.strerror}; "
            "say where they may lie, with --store, or with --log FILE"
        ) from error


@contextmanager
def told(what: str) -> Iterator[None]:
    """What goes wrong with a store, in words that say what to do. Raises Unusable."""
    try:
        yield
    except NoSuchRun as error:
        raise Unusable(f"{what}: {error}; `{command('runs')}` lists those that are there") from error
    except StoreLocked as error:
        raise Unusable(
            f"{what}: it is open elsewhere ({error}). Go on there, or end that program and try again"
        ) from error
    except NotALog as error:
        raise Unusable(f"{what}: {error}") from error
    except StoreCorrupt as error:
        raise Unusable(f"{what}: it is damaged: {error}") from error
    except StoreError as error:
        raise Unusable(f"{what}: {error}") from error
    except OSError as error:
        raise Unusable(
            f"{what}: {error.strerror or error}; look after the disk and the rights there, or name another place"
        ) from error


# --- the run that a person names -------------------------------------------------------------------------

DATABASE = b"SQLite format 3\0"


@contextmanager
def located(name: str, store: str | None) -> Iterator[tuple[Place, str]]:
    """The place of the run, and its id there. A path that exists comes first. Raises Unusable."""
    if store is None and is_path(name):
        demand_no_database(Path(name))
        yield OneFile(path=Path(name)), name
        return
    with opened_place(store, make=False) as place:
        yield place, place.found(name)


def is_path(name: str) -> bool:
    """Whether the name is meant as a path: there is such a file, or no id looks like it."""
    path = Path(name)
    return path.exists() or path.is_absolute() or path.suffix == ".jsonl" or len(path.parts) == 2


def demand_no_database(path: Path) -> None:
    """Raises Unusable where the path is that of a whole store, in the place of one of its runs."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(DATABASE))
    except OSError:  # which is told by whoever reads it
        return
    if head == DATABASE:
        listing = command("runs", "--store", f"sqlite:{path}")
        raise Unusable(f"{path} is a database: `{listing}` lists its runs; name one of them, with the same --store")


def log_of(name: str, store: str | None) -> LogFile:
    """The log of that run, as it is, and what is torn of it. Raises Unusable."""
    if store is None and is_path(name):
        demand_no_database(Path(name))
        return log_at(Path(name))
    with located(name, store) as (place, run):
        if isinstance(place, StoredRuns) and isinstance(place.runs, JsonlFolder):
            return log_at(place.runs.file_of(run))
        records = place.read(run)
    _demand_rules(LogFile(records, None), run)
    return LogFile(records, None)


def log_at(path: Path) -> LogFile:
    """The log, read without changing it. Raises Unusable, with the position of what is damaged and advice."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe or a device might never end
            raise Unusable(f"{path} is not a regular file, so it cannot be a log; name the file of a run")
        found = read_log(path)
    except NotALog as error:
        raise Unusable(str(error)) from error
    except StoreCorrupt as error:
        raise Unusable(f"the log is damaged: {error}") from error
    except OSError as error:
        raise Unusable(f"the log {path} cannot be read: {error.strerror}; name the file of a run") from error
    _demand_rules(found, str(path))
    return found


def _demand_rules(found: LogFile, name: str) -> None:
    try:
        demand_same_rules(Restored(records=found.records))
    except RulesDiffer as error:
        raise Unusable(f"{name}: {error}") from error
