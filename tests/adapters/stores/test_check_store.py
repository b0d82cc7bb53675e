"""The check of stores passes every store here, and catches for each duty one that breaks it."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.in_place import InPlaceRuns, InPlaceStore
from loopkernel_adapters.stores.memory import MemoryRuns, MemoryStore
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.stores.threaded import ThreadedRuns
from loopkernel_adapters.testing import store_check as checks
from loopkernel_adapters.testing.store_calls import demand_runs
from loopkernel_adapters.testing.store_check import check_store
from loopkernel_adapters.testing.store_trial import AnyFactory

from tests.adapters.stores.altered_stores import (
    AloneInItsProcess,
    AlteredRuns,
    Blind,
    Blunt,
    Clinging,
    Creating,
    Credulous,
    Doubling,
    Faults,
    Forgetful,
    Held,
    Ignorant,
    Impatient,
    Locking,
    Open,
    OpenFolder,
    Rash,
    Reversed,
    Sharing,
    Strict,
    Stubborn,
    Trusting,
    Unlocked,
    Unsorted,
)
from tests.adapters.stores.careless_stores import (
    ByTime,
    CountingChanges,
    Deduplicating,
    EndingAtNul,
    LeavingItsLock,
    Shortening,
    Trimming,
    Unruly,
    Waiting,
)
from tests.adapters.stores.fault_world import IN_MEMORY
from tests.adapters.stores.hasty_stores import (
    EarlyStore,
    GivingUpStore,
    HalvingStore,
    HastyRuns,
    HonestStore,
    ListingStore,
    OvertakingStore,
    TaillessStore,
)
from tests.adapters.stores.mistaken_stores import (
    HalfAwaitedRuns,
    HangingAtItsClose,
    LoadingLists,
    Losing,
    Narrowing,
    OpeningNothing,
    OverAwaitedRuns,
    Raising,
    RaisingAtSnapshots,
    ReadingLists,
    Refusing,
    RestoringNothing,
    RunsThatDoNotClose,
    TakingIdsForPaths,
)


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check asks nothing of a disk, so none shall slow it down."""
    if IN_MEMORY.is_dir():
        monkeypatch.setattr(tempfile, "tempdir", str(IN_MEMORY))


def test_every_store_here_keeps_its_duties() -> None:
    check_store(JsonlFolder)
    check_store(lambda folder: SqliteRuns(folder / "runs.sqlite"))
    in_memory: dict[Path, MemoryRuns] = {}
    check_store(lambda folder: in_memory.setdefault(folder, MemoryRuns()), lasting=False)


BROKEN: dict[Callable[[], Faults], str] = {
    Reversed: "store 1: after 3 records, load() gave the records [3, 2, 1]",
    Held: "store 1: a process that has died after 3 durable records leaves the first 0",
    Stubborn: "store 2: after an append had failed, it took another one",
    Unlocked: "store 3: a second writer opened the log",
    Blunt: "store 3: a second writer was refused with a StoreError",
    AloneInItsProcess: "store 3: another process opened the log while this one had it",
    Blind: "store 3: a log was taken away with 3 records and written further; then it holds the first 5",
    Trusting: "store 4: with a bit of",
    Forgetful: "store 4: with a bit of",
    Strict: "store 5: with a%2Frun%20of%20..%2Ftwo%20words.jsonl cut within the last append, it cannot be opened",
    Rash: "store 5: with a%2Frun%20of%20..%2Ftwo%20words.jsonl cut within the last append, behind five records",
    Impatient: "store 6: closed twice, it raised OSError",
    Clinging: "store 6: its lock was held after it was closed",
    Doubling: "store 7: after 6 records",
    Ignorant: "store 7: after 6 records",
    Credulous: "store 7: with a%2Frun%20of%20..%2Ftwo%20words.jsonl cut, and a snapshot of 7 records",
    Open: "store 9: a%2Frun%20of%20..%2Ftwo%20words.jsonl has mode 644, not 600",
    OpenFolder: "store 9: logs has mode 755, not 700",
    Sharing: "runs 1: open() raised StoreLocked",
    Locking: "runs 2: read while it was written",
    Creating: "runs 2: a run that is not there was read",
    Unsorted: "runs 3: with",
    ByTime: "store 1: behind a piece of an earlier time, it gave the same records in another order, from",
    Deduplicating: "store 1: behind the same piece once more, at the same time, it gave 4 records for 5",
    Shortening: "store 1: behind a text of 300000 characters, it gave something else as record 13",
    EndingAtNul: "store 1: behind a text with NUL, quotes and a line end, it gave something else as record 10",
    CountingChanges: "store 7: with a snapshot behind a text with NUL, quotes and a line end, `restore` (a snapshot",
    LeavingItsLock: "store 3: the writer has died, and the log is still locked: a%2Frun",
    Trimming: "runs 1: 'a' was never written, and holds the first 2",
    Unruly: "store 4: with a bit of",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_store_that_breaks_a_duty_is_caught(broken: Callable[[], Faults], monkeypatch: pytest.MonkeyPatch) -> None:
    faults = broken()
    with faults.around(monkeypatch), pytest.raises(AssertionError) as caught:
        check_store(lambda folder: AlteredRuns(folder / "logs", faults))
    monkeypatch.undo()
    assert str(caught.value).startswith(BROKEN[broken])
    assert "    Due is (" in str(caught.value)


HASTY: dict[type[InPlaceStore], str] = {
    EarlyStore: "store 6: it took an append after it was closed",
    OvertakingStore: "store 11: of 12 appends under way, the records",
    GivingUpStore: "store 11: the second of three appends was cancelled after",
    HalvingStore: "store 11: ",
    TaillessStore: "store 7: after 1 records",
    ListingStore: "store 4: load() gave a list, not a tuple",
}


@pytest.mark.parametrize("hasty", HASTY, ids=lambda hasty: hasty.__name__)
def test_an_asynchronous_store_that_breaks_a_duty_is_caught(hasty: type[InPlaceStore]) -> None:
    with pytest.raises(AssertionError) as caught:
        check_store(lambda folder: HastyRuns(folder, hasty))
    assert str(caught.value).startswith(HASTY[hasty])
    assert "    Due is (" in str(caught.value)


def test_an_asynchronous_store_is_held_to_the_same_duties() -> None:
    check_store(lambda folder: HastyRuns(folder, HonestStore))
    check_store(lambda folder: ThreadedRuns(SqliteRuns(folder / "runs.sqlite")))
    check_store(lambda folder: ThreadedRuns(JsonlFolder(folder)))
    in_memory: dict[Path, InPlaceRuns] = {}
    check_store(lambda folder: in_memory.setdefault(folder, InPlaceRuns(MemoryRuns())), lasting=False)


def test_an_unaltered_store_is_not_caught() -> None:
    check_store(lambda folder: AlteredRuns(folder / "logs", Faults()))


def test_a_store_that_waits_instead_of_refusing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a verdict of its own, since it never comes back: it is said where it stands."""
    monkeypatch.setattr(checks, "_CHECKS", ((checks._has_one_writer, "store 3"),))
    faults = Waiting()
    try:
        with pytest.raises(AssertionError) as caught:
            check_store(lambda folder: AlteredRuns(folder / "logs", faults), lasting=False, patience_seconds=0.5)
    finally:
        faults.free.set()
    told = r"store 3: after 0\.5 s it has not come back from careless_stores\.py:\d+, in open\n    Due is \(store 3"
    assert re.match(told, str(caught.value))


def test_a_snapshot_of_more_than_the_log_holds_is_looked_for_also_without_a_torn_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_CHECKS", ((checks._ignores_snapshots_of_more, "store 8"),))
    with pytest.raises(AssertionError, match="store 7: with a snapshot that covers more records than there are"):
        check_store(lambda folder: AlteredRuns(folder / "logs", Credulous()), lasting=False)


# --- the duty that is named is the one that is broken, whatever was being looked at ----------------------


MISTAKEN: dict[type[Faults], str] = {
    Losing: r"store 1: after 3 records, load\(\) gave the first 2\n    Due is \(store 1 ",
    LoadingLists: r"store 4: load\(\) gave a list, not a tuple\n    Due is \(store 4 ",
    ReadingLists: r"runs 2: read\(\) gave a list, not a tuple\n    Due is \(runs 2 ",
    RestoringNothing: r"store 7: restore\(\) gave None, not a Restored\n    Due is \(store 7 ",
    OpeningNothing: r"open\(\) gave None, not a BlockingStore: it has no `append`, `load`, `restore`, ",
    TakingIdsForPaths: r"runs 1: open\(\) raised FileNotFoundError: .* \(at mistaken_stores\.py:\d+, in open\)\n",
    Raising: r"store 1: append\(\) raised RuntimeError: boom \(at mistaken_stores\.py:\d+, in append\)\n    Due is",
    Refusing: r"store 1: append\(\) raised StoreError: not today \(at mistaken_stores\.py:\d+, in append\)\n    Due is",
    RaisingAtSnapshots: r"store 8: save_snapshot\(\) raised LookupError: no such table \(at mistaken_stores\.py:",
    Narrowing: r"store 1: append\(records, durable\) cannot be called \(it is written at mistaken_stores\.py:\d+\): ",
}


@pytest.mark.parametrize("mistaken", MISTAKEN, ids=lambda mistaken: mistaken.__name__)
def test_a_mistaken_store_is_told_of_by_the_call_that_is_wrong(mistaken: type[Faults]) -> None:
    with pytest.raises(AssertionError) as caught:
        check_store(lambda folder: AlteredRuns(folder / "logs", mistaken()))
    assert re.match(MISTAKEN[mistaken], str(caught.value))


def test_a_close_that_hangs_is_told_of_as_such_also_where_something_else_is_looked_at() -> None:
    faults = HangingAtItsClose()
    told = r"store 6: after 0\.2 s it has not come back from mistaken_stores\.py:\d+, in close\n    Due is \(store 6"
    try:
        with pytest.raises(AssertionError, match=told):
            check_store(lambda folder: AlteredRuns(folder / "logs", faults), patience_seconds=0.2)
    finally:
        faults.free.set()


def test_runs_that_do_not_close_are_told_of_as_such() -> None:
    kept: dict[Path, RunsThatDoNotClose] = {}
    with pytest.raises(AssertionError, match=r"^runs 4: close\(\) raised LookupError: no such place \(at mistaken"):
        check_store(lambda folder: kept.setdefault(folder, RunsThatDoNotClose()), lasting=False)


def test_runs_and_their_stores_are_of_one_kind() -> None:
    told = "of `open` and the `append` of what it gives, both or neither are an `async def`"
    with pytest.raises(AssertionError, match=rf"^open\(\) gave a MemoryStore, not a Store: {told}$"):
        check_store(lambda folder: HalfAwaitedRuns(MemoryRuns()), lasting=False)
    with pytest.raises(AssertionError, match=rf"^open\(\) gave a InPlaceStore, not a BlockingStore: {told}$"):
        check_store(lambda folder: OverAwaitedRuns(), lasting=False)


def test_a_method_that_does_not_say_what_it_takes_is_left_to_its_calls() -> None:
    class OfC(MemoryRuns):
        doubt = dict  # type: ignore[assignment]  # which has no signature, as what is written in C may have none

    demand_runs(OfC())


A_FACTORY = (
    r"Give `check_store` a function that takes a folder \(a Path\) and returns the runs that keep their logs there\."
)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (lambda folder: None, "the factory gave None, not Runs or BlockingRuns: it has no `open`, `read`, "),
        (lambda folder: MemoryStore(), "the factory gave a MemoryStore, not Runs or BlockingRuns: it has no `open`, `"),
        (
            lambda folder: {}[folder],
            r"the factory: it raised KeyError: .* \(at test_check_store\.py:\d+, in <lambda>\)",
        ),
        (MemoryRuns, r"the factory: it raised TypeError: MemoryRuns.* takes 1 positional argument but 2 were given"),
        (MemoryRuns(), "the factory: it raised TypeError: 'MemoryRuns' object is not callable"),
    ],
)
def test_what_is_no_factory_of_runs_is_told_before_any_duty(factory: AnyFactory, told: str) -> None:
    with pytest.raises(AssertionError, match=rf"^{told}.*\. {A_FACTORY}$"):
        check_store(factory)
