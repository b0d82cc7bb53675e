"""What the check of stores writes, and how it looks at what a store gives back."""

import os
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelText
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.replaying import START, LogRecord, replay

from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.ports import Restored, Runs

Factory = Callable[[Path], BlockingRuns]
AnyFactory = Callable[[Path], Runs | BlockingRuns]  # of either kind, as it is given

RUN = "a/run of ../two words"
GENEROUS = 4_096  # bytes that the disk still has when it is full


def _session() -> tuple[LogRecord, ...]:
    """A short session, each of whose states is another."""
    deltas: list[Delta] = [Created(session_id="checked"), Acquired()]
    for number in range(1, 9):
        operation = ModelOperation(number)
        deltas += [Say(content=(TextBlock(f"Question {number}?"),)), ModelText(operation, f"Answer {number}\u2028\n")]
        deltas.append(ModelCompleted(operation, StopReason.END_TURN))
    return tuple(LogRecord(delta, 1_000 + number) for number, delta in enumerate(deltas))


RECORDS = _session()


def demand(duty: str, kept: bool, seen: str) -> None:
    """Raises AssertionError, with the duty and what was seen, unless it is kept."""
    if not kept:
        raise AssertionError(f"{duty}: {seen}")


def demand_same_state(restored: Restored, records: tuple[LogRecord, ...], when: str) -> None:
    """Raises AssertionError unless what was restored leads to the state that the records lead to."""
    start: State = START if restored.state is None else restored.state
    same = replay(restored.records, start) == replay(records)
    how = (
        "without a snapshot" if restored.state is None else f"a snapshot and {len(restored.records)} records behind it"
    )
    demand("store 7", same, f"{when}, `restore` ({how}) leads to another state than the log")


def described(records: tuple[LogRecord, ...]) -> str:
    """The records, in words."""
    if records == RECORDS[: len(records)]:
        return f"the first {len(records)}"
    known = [RECORDS.index(record) + 1 if record in RECORDS else 0 for record in records]
    return f"the records {known} (0: never written)"


def loaded(factory: Factory, folder: Path) -> tuple[LogRecord, ...]:
    """The records of the run in that folder, opened and closed again."""
    runs = factory(folder)
    store = runs.open(RUN)
    found = store.load()
    store.close()
    runs.close()
    return found


def live_folder(folder: Path) -> Path:
    """The folder of the store itself; copies of it go beside it."""
    live = folder / "live"
    live.mkdir(exist_ok=True)
    return live


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder: what a process leaves that dies at this instant."""
    return Path(shutil.copytree(folder, to))


def sizes(folder: Path) -> dict[Path, int]:
    """How long each file in the folder is."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@contextmanager
def another_process(act: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """What another process finds that does the act when it is told to. It has nothing that is opened within."""
    waits, begins = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: it only opens, and is gone
        child = os.fork()
    if child == 0:
        found = 2  # raised something
        try:
            os.close(begins)
            os.read(waits, 1)
            found = int(act())
        finally:
            os._exit(found)
    os.close(waits)
    left = [begins]

    def acted() -> bool:
        os.close(left.pop())
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    try:
        yield acted
    finally:
        if left:
            acted()


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/dev/fd"))


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """No file of this process gets longer than the longest in the folder, and some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes(folder).values()) + GENEROUS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
