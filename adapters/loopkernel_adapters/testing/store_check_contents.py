"""Checks of stores that look at what is kept: records as odd as production makes them, odd ids, and who wrote them."""

from contextlib import suppress
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.user_deltas import Say
from loopkernel.replaying import LogRecord, replay

from loopkernel_adapters.ports import NoSuchRun, StoreError, StoreLocked
from loopkernel_adapters.testing.store_trial import (
    RECORDS,
    RUN,
    Factory,
    another_process,
    demand,
    demand_same_state,
    described,
)

# Ids that file systems, databases or careless keys take for one another, or for something else.
ODD_IDS = ("A", "a ", "a", " a", "a.", "%61", "", "\u00e9", "e\u0301", "a\n", "a\0b", "con", "0", "00")
LONG = 300_000  # characters: more than a database's short texts hold


def _odd() -> dict[str, LogRecord]:
    """Behind the beginning of a session, what is unlike any other record, by what it is called."""
    operation = ModelOperation(1)
    more: dict[str, tuple[int, Delta]] = {
        "a piece of text": (2_000, ModelText(operation, "no ")),
        "the same piece once more, at the same time": (2_000, ModelText(operation, "no ")),
        "a piece of the same time": (2_000, ModelText(operation, "Again")),
        "a piece of an earlier time": (1_500, ModelText(operation, "?")),
        "a report that changes nothing": (2_001, ModelText(ModelOperation(999), "stale")),
        "another that changes nothing": (2_001, ModelText(ModelOperation(998), "stale")),
        "a text with NUL, quotes and a line end": (2_002, ModelText(operation, "a\0b'\"\\\r\n--")),
        "a text beyond the basic plane": (2_003, ModelText(operation, "\N{GRINNING FACE}e\u0301\u00e9\ufeff")),
        "a text of white space": (2_004, ModelText(operation, "  \t ")),
        f"a text of {LONG} characters": (2_005, ModelText(operation, "x" * LONG + "end")),
        "a time in the far future": (1 << 52, Say(content=(TextBlock("later"),))),
    }
    return {what: LogRecord(delta, now_ms) for what, (now_ms, delta) in more.items()}


def keeps_records_as_they_are(factory: Factory, folder: Path) -> None:
    """Equal records, times that stand still or go back, texts that are long or odd; with a snapshot behind each."""
    runs = factory(folder)
    store = runs.open(RUN)
    written = RECORDS[:3]
    store.append(written, durable=True)
    for what, record in _odd().items():
        store.append([record], durable=True)
        written = (*written, record)
        _demand_the_same(store.load(), written, f"behind {what}")
        with suppress(StoreError, OSError):
            store.save_snapshot(replay(written))
        demand_same_state(store.restore(), written, f"with a snapshot behind {what}")
    store.close()
    again = runs.open(RUN)
    _demand_the_same(again.load(), written, "opened again")
    demand_same_state(again.restore(), written, "opened again behind odd records")
    again.close()
    runs.close()


def _demand_the_same(found: tuple[LogRecord, ...], written: tuple[LogRecord, ...], when: str) -> None:
    if found != written:
        raise AssertionError(f"store 1: {when}, it gave {_compared(found, written)}")


def _compared(found: tuple[LogRecord, ...], written: tuple[LogRecord, ...]) -> str:
    if len(found) != len(written):
        return f"{len(found)} records for {len(written)} that were appended"
    place = next(number for number, pair in enumerate(zip(found, written, strict=True)) if pair[0] != pair[1])
    names = ("the beginning of a session",) * 3 + tuple(_odd())
    if sorted(map(repr, found)) == sorted(map(repr, written)):
        return f"the same records in another order, from number {place + 1} on"
    return f"something else as record {place + 1} ({names[place]}): {str(found[place].delta)[:120]}"


def keeps_many_runs(factory: Factory, folder: Path) -> None:
    """Several runs, written at once, are read while they are, and listed."""
    runs = factory(folder)
    try:
        runs.read(RUN)
    except NoSuchRun:
        pass
    else:
        demand("runs 2", False, "a run that is not there was read")
    names = (RUN, "..", "a", "a/b", "a%2Fb", "\N{SNOWMAN}", "x" * 60)
    stores = {name: runs.open(name) for name in names}
    for place, (name, store) in enumerate(stores.items()):
        store.append(RECORDS[: place + 2], durable=True)
        found = runs.read(name)
        demand("runs 2", found == RECORDS[: place + 2], f"read while it was written, {name!r} gave {described(found)}")
    for store in stores.values():
        store.close()
    listed = [(entry.run, entry.records, entry.first_ms, entry.last_ms) for entry in runs.entries()]
    expected = [(name, place + 2, RECORDS[0].now_ms, RECORDS[place + 1].now_ms) for place, name in enumerate(names)]
    demand("runs 3", listed == expected, f"with {expected} written, the list is {listed}")
    for place, name in enumerate(names):
        found = runs.read(name)
        demand("runs 1", found == RECORDS[: place + 2], f"{name!r} holds {described(found)}")
    runs.close()


def keeps_odd_ids_apart(factory: Factory, folder: Path) -> None:
    """Each id has its own log, however alike two of them look to something that folds, trims or ends a text."""
    runs = factory(folder)
    for place, name in enumerate(ODD_IDS):
        store = runs.open(name)
        found = store.load()
        demand("runs 1", found == (), f"{name!r} was never written, and holds {described(found)}")
        store.append(RECORDS[: place + 1], durable=True)
        store.close()
    for place, name in enumerate(ODD_IDS):
        found = runs.read(name)
        demand("runs 1", found == RECORDS[: place + 1], f"{name!r} holds {described(found)}")
    listed = {entry.run for entry in runs.entries()}
    demand("runs 3", listed == set(ODD_IDS), f"of the ids {ODD_IDS} these are listed: {sorted(listed)}")
    runs.close()


def outlives_its_writer(factory: Factory, folder: Path) -> None:
    """A process dies with the log open, as a killed one does; the next one goes on at once."""

    def writes_and_dies() -> bool:
        factory(folder).open(RUN).append(RECORDS[:3], durable=True)
        return True

    with another_process(writes_and_dies) as written:
        demand("store 1", written(), "another process could not open and write the log")
    runs = factory(folder)
    try:
        store = runs.open(RUN)
    except StoreLocked as error:
        raise AssertionError(f"store 3: the writer has died, and the log is still locked: {error}") from error
    found = store.load()
    demand(
        "store 1", found == RECORDS[:3], f"a process that has died after 3 durable records leaves {described(found)}"
    )
    store.close()
    runs.close()
