"""The run that a person names: by its id in a store, or by the path of its log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import OneFile, Place, StoredRuns, opened_place
from loopkernel_adapters.ports import Restored, RulesDiffer, StoreCorrupt, demand_same_rules
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import LogFile, NotALog, read_log

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
