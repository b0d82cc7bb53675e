"""Checks that a store keeps the duties of the page on ports, for whoever writes one. Works without pytest.

    from loopkernel_adapters.testing.store_check import check_store

    check_store(lambda folder: MyRuns(folder / "runs.db"))      # raises AssertionError("store 3: ...")

The verdict says which duty is broken, what was seen, where the store raised or stands still, and what is due.

The factory is given an empty folder, or one that an earlier call was given (or a copy of one), and returns the `Runs`,
or the `BlockingRuns`, that keep their logs there. Give `lasting=False` for a store that keeps nothing beyond its
process; the same folder then has to give the same logs. What a loss of power would leave
cannot be seen from outside, and is not checked.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path

from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.replaying import LogRecord, replay

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import NoSuchRun, Runs, StoreCorrupt, StoreError, StoreLocked
from loopkernel_adapters.stores.threaded import runs_block
from loopkernel_adapters.testing.store_calls import THE_FACTORY, TriedRuns, demand_runs, told_of_store
from loopkernel_adapters.testing.store_check_contents import (
    keeps_many_runs,
    keeps_odd_ids_apart,
    keeps_records_as_they_are,
    outlives_its_writer,
)
from loopkernel_adapters.testing.store_check_under_way import (
    keeps_the_order_of_what_is_under_way,
    loses_nothing_behind_a_cancelled_append,
)
from loopkernel_adapters.testing.store_trial import (
    RECORDS,
    RUN,
    AnyFactory,
    Factory,
    another_process,
    copied,
    demand,
    demand_same_state,
    described,
    descriptors,
    full_disk,
    live_folder,
    loaded,
    sizes,
)
from loopkernel_adapters.testing.store_waiting import WaitedRuns, WaitingLoop
from loopkernel_adapters.testing.watched_checks import judged, raising

FLIPS = 96  # bits that are flipped, one at a time, spread over all files
CUTS = 12  # lengths to which what was appended last is cut
PATIENCE_SECONDS = 20.0  # for one check, most of which take less than one

Check = Callable[[Factory, Path], None]


def check_store(factory: AnyFactory, *, lasting: bool = True, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Raises AssertionError, with the duty that is broken, what was seen, and what is due.

    None of the checks may take longer than `patience_seconds`: it is broken where a store waits instead of refusing.
    """
    for check, duty in (*_CHECKS, *(_CHECKS_OF_LASTING if lasting else ())):
        judged(duty, partial(_in_a_folder, check, factory), patience_seconds, told_of_store)
    for awaited_check in (keeps_the_order_of_what_is_under_way, loses_nothing_behind_a_cancelled_append):
        judged("store 11", partial(_under_way, awaited_check, factory), patience_seconds)


def _in_a_folder(check: Check, factory: AnyFactory) -> None:
    with tempfile.TemporaryDirectory(prefix="check-store-") as folder, WaitingLoop() as loop:
        check(partial(_tried, factory, loop), Path(folder))


def _tried(factory: AnyFactory, loop: WaitingLoop, folder: Path) -> BlockingRuns:
    runs = factory(folder)
    demand_runs(runs)
    return TriedRuns(runs if runs_block(runs) else WaitedRuns(runs, loop))


def _under_way(check: Callable[[Runs], Coroutine[object, object, None]], factory: AnyFactory) -> None:
    """Of a blocking store there is never more than one call under way."""
    with tempfile.TemporaryDirectory(prefix="check-store-") as folder:
        runs = factory(Path(folder))
        if not runs_block(runs):
            asyncio.run(check(runs))


# --- every store ---


def _is_a_factory(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    with suppress(Exception):  # how it closes is not asked here, nor in the next two
        runs.close()


def _opens(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    store = runs.open(RUN)
    with suppress(Exception):
        store.close()
        runs.close()


def _adds_in_order(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    store = runs.open(RUN)
    _append_in_order(store, 0)
    with suppress(Exception):
        store.close()
        runs.close()


def _append_in_order(store: BlockingStore, written: int) -> int:
    """Appends some records behind those that are written, looking at each append; how many are written then."""
    for size, durable in ((3, True), (0, True), (5, False), (1, False), (0, True), (2, True)):
        store.append(RECORDS[written : written + size], durable)
        written += size
        found = store.load()
        demand("store 1", found == RECORDS[:written], f"after {written} records, load() gave {described(found)}")
    return written


def _keeps_the_order(factory: Factory, folder: Path) -> None:
    runs, written = factory(folder), 0
    for opening in range(3):
        store = runs.open(RUN)
        written = _append_in_order(store, written)
        store.close()
        again = runs.open(RUN)
        found = again.load()
        again.close()
        what = f"opened again ({opening + 1}), with {written} records written, it gave {described(found)}"
        demand("store 4", found == RECORDS[:written], what)
    runs.close()
    runs.close()


def _has_one_writer(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    store = runs.open(RUN)
    store.append(RECORDS[:2], durable=True)
    for opener in (runs, factory(folder)):
        try:
            opener.open(RUN).close()
        except StoreLocked:
            continue
        except Exception as error:
            kind = type(error).__name__
            demand("store 3", False, f"a second writer was refused with a {kind}, not StoreLocked: {error}")
        demand("store 3", False, "a second writer opened the log while the first one had it")
    with suppress(StoreError):
        other = runs.open("another run")
        other.append(RECORDS[:1], durable=True)
        other.close()
    store.append(RECORDS[2:4], durable=True)
    store.close()
    found = runs.read(RUN)
    demand("store 3", found == RECORDS[:4], f"after a second writer was refused, the log held {described(found)}")
    runs.close()


def _lets_go(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    store = runs.open(RUN)
    for place in range(3):
        store.append(RECORDS[place : place + 1], durable=False)
    for time in ("once", "twice"):
        try:
            store.close()
        except Exception as error:
            demand("store 6", False, f"closed {time}, it raised {type(error).__name__}: {error}")
    try:
        again = runs.open(RUN)
    except StoreLocked:
        raise AssertionError("store 6: its lock was held after it was closed") from None
    try:
        store.append(RECORDS[3:4], durable=True)
    except StoreError:
        pass
    except Exception as error:
        demand("store 6", False, f"closed, it raised {type(error).__name__} at an append, not StoreError: {error}")
    else:
        demand("store 6", False, "it took an append after it was closed")
    found = again.load()
    demand("store 6", found == RECORDS[:3], f"closed after three records, it holds {described(found)}")
    again.close()
    before = descriptors()
    for _ in range(3):
        runs.open(RUN).close()
        runs.read(RUN)
    demand("store 6", descriptors() == before, f"{descriptors() - before} descriptors were left open")
    runs.close()


def _restores(factory: Factory, folder: Path) -> None:
    runs = factory(folder)
    store = runs.open(RUN)
    for written in range(1, len(RECORDS) + 1):
        store.append(RECORDS[written - 1 : written], durable=written % 4 == 0)
        if written % 6 == 0:
            with suppress(StoreError, OSError):
                store.save_snapshot(replay(RECORDS[:written]))
        demand_same_state(store.restore(), RECORDS[:written], f"after {written} records")
    store.close()
    again = runs.open(RUN)
    demand_same_state(again.restore(), RECORDS, "opened again")
    found = again.load()
    demand("store 8", found == RECORDS, f"after snapshots, the log holds {described(found)}")
    again.close()
    runs.close()


# --- those that outlast their process ---


def _has_one_writer_among_processes(factory: Factory, folder: Path) -> None:
    def opens() -> bool:
        try:
            factory(folder).open(RUN)
        except StoreLocked:
            return False
        return True

    with another_process(opens) as other_opens:
        runs = factory(folder)
        store = runs.open(RUN)
        store.append(RECORDS[:2], durable=True)
        demand("store 3", not other_opens(), "another process opened the log while this one had it")
    store.append(RECORDS[2:4], durable=True)
    store.close()
    runs.close()


def _writes_nothing_that_was_taken_away(factory: Factory, folder: Path) -> None:
    """A copy is put in the place of the folder while it is written, as when somebody brings one back."""
    live, gone = live_folder(folder), folder / "gone"
    runs = factory(live)
    store = runs.open(RUN)
    store.append(RECORDS[:3], durable=True)
    live.rename(gone)
    copied(gone, live)
    with suppress(StoreError, OSError):
        store.append(RECORDS[3:5], durable=True)
    with suppress(StoreError, OSError):
        store.close()
    for place, what in ((live, "the one in its place"), (gone, "it")):
        found = loaded(factory, place)
        seen = f"a log was taken away with 3 records and written further; then {what} holds {described(found)}"
        demand("store 3", found == RECORDS[:3], seen)
    runs.close()


def _hands_durable_records_over(factory: Factory, folder: Path) -> None:
    """A copy of the files is what a process leaves that dies at that instant."""
    runs = factory(live_folder(folder))
    store = runs.open(RUN)
    written = 0
    for number, (size, durable) in enumerate(((2, True), (3, False), (0, True), (2, True))):
        store.append(RECORDS[written : written + size], durable)
        written += size
        if durable:
            found = loaded(factory, copied(live_folder(folder), folder / f"left{number}"))
            what = f"a process that dies after {written} durable records leaves {described(found)}"
            demand("store 1", found == RECORDS[:written], what)
    store.close()
    runs.close()


def _tries_nothing_again(factory: Factory, folder: Path) -> None:
    runs = factory(live_folder(folder))
    store = runs.open(RUN)
    store.append(RECORDS[:3], durable=True)
    large = LogRecord(ModelText(ModelOperation(1), "x" * 40_000), 9_000)
    with full_disk(live_folder(folder)):
        try:
            for _ in range(8):
                store.append([large], durable=True)
        except (StoreError, OSError):
            pass
        else:
            demand("store 2", False, "it took more than the disk held")
    try:
        store.append(RECORDS[3:4], durable=True)
    except (StoreError, OSError):
        pass
    else:
        demand("store 2", False, "after an append had failed, it took another one")
    with suppress(StoreError, OSError):
        store.close()
    found = loaded(factory, live_folder(folder))
    whole = (*RECORDS[:3], *[large] * 8)
    fits = len(found) >= 3 and found == whole[: len(found)]
    demand("store 2", fits, f"after a full disk, with three durable records, the log holds {described(found)}")
    runs.close()


def _cuts_torn_tails(factory: Factory, folder: Path) -> None:
    live = live_folder(folder)
    runs = factory(live)
    store = runs.open(RUN)
    store.append(RECORDS[:5], durable=True)
    before = sizes(live)
    store.append(RECORDS[5:7], durable=True)
    with suppress(StoreError, OSError):
        store.save_snapshot(replay(RECORDS[:7]))
    grown = [(path, before.get(path, 0), size) for path, size in sizes(live).items() if size > before.get(path, 0)]
    number = 0
    for path, old, new in grown:
        for cut in range(old, new, max(1, (new - old) // CUTS)):
            number += 1
            left = copied(live, folder / f"left{number}")
            os.truncate(left / path.relative_to(live), cut)
            try:
                found = loaded(factory, left)
            except StoreError as error:
                demand("store 5", False, f"with {path.name} cut within the last append, it cannot be opened: {error}")
                return
            fits = len(found) >= 5 and found == RECORDS[: len(found)]
            what = f"with {path.name} cut within the last append, behind five records, it holds {described(found)}"
            demand("store 5", fits, what)
            again = factory(left).open(RUN)
            demand_same_state(again.restore(), found, f"with {path.name} cut, and a snapshot of 7 records")
            again.append(RECORDS[len(found) : 9], durable=True)
            again.close()
            gone_on = loaded(factory, left)
            demand("store 5", gone_on == RECORDS[:9], f"gone on with after that, it holds {described(gone_on)}")
    store.close()
    runs.close()


def _trusts_nothing_damaged(factory: Factory, folder: Path) -> None:
    """One bit at a time, in every file: the log and the snapshot give the truth, a beginning of it, or a refusal."""
    live = live_folder(folder)
    runs = factory(live)
    store = runs.open(RUN)
    store.append(RECORDS[:9], durable=True)
    with suppress(StoreError, OSError):
        store.save_snapshot(replay(RECORDS[:9]))
    store.append(RECORDS[9:], durable=True)
    store.close()
    runs.close()
    files = {path: path.read_bytes() for path in sorted(live.rglob("*")) if path.is_file()}
    places = [(path, place) for path, content in files.items() for place, byte in enumerate(content) if byte]
    for number, (path, place) in enumerate(places[:: max(1, len(places) // FLIPS)]):
        left = copied(live, folder / f"left{number}")
        damaged = bytearray(files[path])
        damaged[place] ^= 1 << number % 8
        (left / path.relative_to(live)).write_bytes(damaged)
        where = f"with a bit of {path.name} changed at byte {place}"
        try:
            opened = factory(left).open(RUN)
        except NoSuchRun:
            demand("store 4", False, f"{where}, the run is gone without a word")
        except (StoreError, OSError):
            continue
        except Exception as error:
            demand("store 4", False, f"{where}, opening it did not end in StoreCorrupt: {raising(error)}")
        else:
            _demand_truth(opened, where)
            opened.close()
        shutil.rmtree(left)


def _demand_truth(store: BlockingStore, where: str) -> None:
    records: tuple[LogRecord, ...] | None = None
    try:
        records = store.load()
    except StoreCorrupt:
        pass
    except Exception as error:
        demand("store 4", False, f"{where}, loading it did not end in StoreCorrupt: {raising(error)}")
    if records is not None:
        fits = records == RECORDS[: len(records)] and len(records) >= len(RECORDS) - 1
        demand("store 4", fits, f"{where}, it gave {described(records)} and no StoreCorrupt")
    with suppress(StoreCorrupt):
        restored = store.restore()
        whole = RECORDS if records is None else records
        demand_same_state(restored, whole, where)


def _ignores_snapshots_of_more(factory: Factory, folder: Path) -> None:
    """Files of a log that is shorter again than the snapshot says, wherever the snapshot is a file of its own."""
    live = live_folder(folder)
    runs = factory(live)
    store = runs.open(RUN)
    store.append(RECORDS[:5], durable=True)
    store.close()
    early = {path: path.read_bytes() for path in live.rglob("*") if path.is_file()}
    store = runs.open(RUN)
    store.append(RECORDS[5:], durable=True)
    with suppress(StoreError, OSError):
        store.save_snapshot(replay(RECORDS))
    store.close()
    runs.close()
    for path, content in early.items():
        path.write_bytes(content)
    again = factory(live).open(RUN)
    found = again.load()
    demand_same_state(again.restore(), found, "with a snapshot that covers more records than there are")
    again.append(RECORDS[len(found) :], durable=True)
    demand_same_state(again.restore(), RECORDS, "gone on with behind a snapshot that did not fit")
    again.close()


def _belongs_to_its_owner(factory: Factory, folder: Path) -> None:
    before = os.umask(0)
    try:
        runs = factory(folder)
        store = runs.open(RUN)
        store.append(RECORDS, durable=True)
        with suppress(StoreError, OSError):
            store.save_snapshot(replay(RECORDS))
        for path in sorted(folder.rglob("*")):
            mode, wanted = path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600
            demand("store 9", mode == wanted, f"{path.name} has mode {mode:o}, not {wanted:o}")
        store.close()
        runs.close()
    finally:
        os.umask(before)


# Each presumes what those before it have shown, else it would tell one fault as that of another: that there are runs,
# that they open, that what is appended is loaded, and that a log which was closed can be opened again.
_CHECKS = (
    (_is_a_factory, THE_FACTORY),
    (_opens, "runs 1"),
    (_adds_in_order, "store 1"),
    (_lets_go, "store 6"),
    (_keeps_the_order, "store 1"),
    (_has_one_writer, "store 3"),
    (_restores, "store 7"),
    (keeps_records_as_they_are, "store 1"),
    (keeps_many_runs, "runs 1"),
    (keeps_odd_ids_apart, "runs 1"),
)
_CHECKS_OF_LASTING = (
    (outlives_its_writer, "store 3"),
    (_hands_durable_records_over, "store 1"),
    (_cuts_torn_tails, "store 5"),
    (_tries_nothing_again, "store 2"),
    (_trusts_nothing_damaged, "store 4"),
    (_ignores_snapshots_of_more, "store 8"),
    (_belongs_to_its_owner, "store 9"),
    (_has_one_writer_among_processes, "store 3"),
    (_writes_nothing_that_was_taken_away, "store 3"),
)
