"""A process whose forks write a log until a system call fails or kills them, and which then looks at what is left.

It runs with `faults.c` loaded, imports everything once, reads one order a line, as JSON, and answers each with a line.
"""

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from loopkernel.replaying import START, replay
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Sealing, StoreError
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns, SqliteStore

from tests.adapters.stores.log_lines import some_records
from tests.adapters.stores.together import append_together

FAULTS = ctypes.CDLL(None)
PASS, KILL, TEAR, FAIL, SHORTEN, STOP = range(6)
ANY = "wstruom"  # the kinds of calls, as faults.c has them
INTENDED = tuple(some_records(90))
# How many records an append adds, and whether they are to last; 0 stands for a snapshot of what is there.
PLAN = ((3, True), (2, False), (2, True), (0, True), (1, True), (30, True), (0, True), (2, False))
RUN = "a/run"
ROUNDS = 6  # of appends that share their syncs
NOT_OPENED, BROKEN, NO_SNAPSHOT, DONE, TAKEN, REFUSED, NOT_CLOSED = range(-1, -8, -1)  # marks of a run in trouble

Order = dict[str, Any]  # Any: parsed JSON, whose keys are those of `main`
Report = dict[str, Any]


def runs_in(kind: str, folder: Path) -> BlockingRuns:
    seals = Seals(folder / "seals")
    (folder / "seals").mkdir(exist_ok=True)
    (folder / "seals" / "marks").touch()  # no marks, which are not synced: what is acknowledged is told by calls alone
    return JsonlFolder(folder / "logs", seals) if kind == "jsonl" else SqliteRuns(folder / "runs.sqlite", seals)


def write(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Go on with the log by the plan, as a driver does, and acknowledge how many records are durable."""
    store = runs_in(kind, folder).open(RUN)
    assert isinstance(store, Sealing)
    store.vouch()
    written = len(store.load())
    for count, durable in PLAN:
        if count:
            store.append(INTENDED[written : written + count], durable)
            written += count
            if durable:
                acknowledge(written)
        else:
            store.save_snapshot(replay(INTENDED[:written]))
    store.close()
    acknowledge(written)


def write_in_trouble(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """As `write`, but what the store raises is noted as a mark, and that a broken one takes nothing more."""
    try:
        store = runs_in(kind, folder).open(RUN)
    except (StoreError, OSError):
        return acknowledge(NOT_OPENED)
    written = len(store.load())
    for count, durable in PLAN:
        try:
            if count:
                store.append(INTENDED[written : written + count], durable)
            else:
                store.save_snapshot(replay(INTENDED[:written]))
        except (StoreError, OSError):
            acknowledge(BROKEN if count else NO_SNAPSHOT)
            if count:
                try_again(store, written, acknowledge)
                break
        else:
            written += count
            if durable and count:
                acknowledge(written)
    else:
        acknowledge(DONE)
    try:
        store.close()
    except (StoreError, OSError):
        acknowledge(NOT_CLOSED)


def count_syncs(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Durable appends, then passing ones, then an empty one that makes them durable, one more, and the end.

    Only these calls are counted. Another run is open meanwhile, so closing has no reason of its own to sync.
    """
    runs = runs_in(kind, folder)
    other, store = runs.open("other"), runs.open(RUN)
    store.append(INTENDED[:1], durable=True)
    FAULTS.faults_arm(ANY.encode(), 0, PASS, 0, -1)
    for number in range(1, 31):
        store.append(INTENDED[number : number + 1], durable=number <= 10)
    store.append((), durable=True)
    store.append(INTENDED[31:32], durable=False)
    store.close()
    FAULTS.faults_disarm()
    other.close()


def fill(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Append one record after the other until there is no room."""
    store = runs_in(kind, folder).open(RUN)
    try:
        for number in range(len(INTENDED)):
            store.append(INTENDED[number : number + 1], durable=True)
            acknowledge(number + 1)
    except (StoreError, OSError):
        acknowledge(BROKEN)
        try_again(store, 0, acknowledge)
    store.close()


def try_again(store: BlockingStore, written: int, acknowledge: Callable[[int], None]) -> None:
    """Append to a store that has failed."""
    try:
        store.append(INTENDED[written : written + 1], durable=True)
        acknowledge(TAKEN)
    except StoreError:
        acknowledge(REFUSED)


def open_only(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Recover, and do nothing else."""
    store = runs_in(kind, folder).open(RUN)
    acknowledge(len(store.restore().records))
    store.close()


def share(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Rounds of appends that wait together, one of which need not last; each round is acknowledged at its end."""
    runs = runs_in(kind, folder)
    stores = [runs.open(name) for name in (RUN, "b", "c", "d")]
    for number in range(ROUNDS):
        records = INTENDED[number : number + 1]
        if not any(append_together(*((store, records, place != 2) for place, store in enumerate(stores)))):
            acknowledge(number + 1)
    for store in stores:
        store.close()


def share_without_sync(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """As `share`, but nobody syncs: a planted fault."""
    with patch.object(SqliteStore, "sync"):
        share(kind, folder, acknowledge)


def fail_sync(kind: str, folder: Path, acknowledge: Callable[[int], None], *, shared: bool) -> None:
    """A sync fails, of two runs or of one; a third was written without. Then each is tried again, and a new one opened.

    When all are closed, the disk is whole again, and the new one takes what it is given.
    """
    runs = runs_in(kind, folder)
    stores = a, b, c = runs.open(RUN), runs.open("b"), runs.open("c")
    first = INTENDED[:1]
    FAULTS.faults_arm(b"s", 1, FAIL, errno.EIO, -1)
    if shared:
        ends = append_together((a, first, True), (b, first, True), (c, first, False))
    else:
        ends = [*append_together((c, first, False)), *append_together((a, first, True))]
    marks = [BROKEN for end in ends if end is not None]  # told later: what is written meanwhile is looked at
    for store in stores:
        try_again(store, 1, marks.append)
    try:
        runs.open("d")
    except StoreError:
        marks.append(NOT_OPENED)
    for store in stores:
        store.close()
    FAULTS.faults_disarm()
    for mark in marks:
        acknowledge(mark)
    again = runs.open("d")
    try_again(again, 0, acknowledge)
    again.close()


def lie(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    """As `write`, but acknowledges what is not there yet: a planted fault."""
    store = runs_in(kind, folder).open(RUN)
    for number in range(1, 20):
        acknowledge(number)
        store.append(INTENDED[number - 1 : number], durable=True)
    store.close()


JOBS: dict[str, Callable[[str, Path, Callable[[int], None]], None]] = {
    "write": write,
    "trouble": write_in_trouble,
    "fill": fill,
    "syncs": count_syncs,
    "open": open_only,
    "lie": lie,
    "share": share,
    "share without sync": share_without_sync,
    "failed sync of many": partial(fail_sync, shared=True),
    "failed sync of one": partial(fail_sync, shared=False),
}


def in_fork(order: Order) -> Report:
    """Do the job in a fork that is armed; what it acknowledged, how it ended, and which calls it made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 7
        try:
            os.close(reading)

            def acknowledge(number: int) -> None:
                os.write(writing, b"%d\n" % number)

            fault = order["fault"]
            FAULTS.faults_arm(fault["kinds"].encode(), fault["at"], fault["action"], fault["errno"], writing)
            JOBS[order["job"]](order["kind"], Path(order["folder"]), acknowledge)
            FAULTS.faults_disarm()
            FAULTS.faults_seen.restype = ctypes.c_char_p
            os.write(writing, b"calls " + FAULTS.faults_seen() + b"\n")
            status = 0
        except (StoreError, OSError) as error:
            FAULTS.faults_disarm()
            os.write(writing, f"error {type(error).__name__} {error}\n".encode())
            status = 5
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading) as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    trace = "".join(line[6:] for line in said if line.startswith("calls "))
    numbers = [int(line) for line in said if line.lstrip("-").isdigit()]
    return {
        "acknowledged": max([number for number in numbers if number >= 0], default=0),
        "marks": [number for number in numbers if number < 0],
        "calls": trace.replace("!", ""),
        "trace": trace,
        "error": "".join(line[6:] for line in said if line.startswith("error ")),
        "status": os.waitstatus_to_exitcode(status),
    }


def look(kind: str, folder: Path) -> Report:
    """Recover twice, then go on to the end of what was intended."""
    counts, clean, same_state, reported, snapshot, doubt = [], True, True, [], False, None
    for _ in range(2):
        store = runs_in(kind, folder).open(RUN)
        records = store.load()
        restored = store.restore()
        clean = clean and records == INTENDED[: len(records)]
        same_state = same_state and replay(restored.records, restored.state or START) == replay(records)
        reported.append(getattr(store, "torn_tail", None) is not None)
        snapshot, doubt = restored.state is not None, restored.doubt
        store.close()
        counts.append(len(records))
    runs = runs_in(kind, folder)
    store = runs.open(RUN)
    store.append(INTENDED[counts[-1] :], durable=True)
    store.close()
    return {
        "loaded": counts,
        "clean": clean,
        "same_state": same_state,
        "torn": reported,
        "went_on": runs.read(RUN) == INTENDED,
        "snapshot": snapshot,
        "doubt": doubt,
    }


def point(order: Order) -> Report:
    """One fault in one job, on a copy of the prepared folder, and what is left after it."""
    folder = Path(order["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    if order["prepared"] is None:
        folder.mkdir()
    else:
        shutil.copytree(order["prepared"], folder)
    report = in_fork(order)
    return report | look(order["kind"], folder) if order["look"] else report


def main() -> None:
    for line in sys.stdin:
        order: Order = json.loads(line)
        try:
            report = point(order)
        except Exception as error:
            report = {"broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    assert errno.EIO == 5
    main()
