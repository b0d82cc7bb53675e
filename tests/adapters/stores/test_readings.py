"""A database that may not be written is read all the same, whole, or it is said what to do; nothing is left there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.sqlite import SqliteRuns, reading

NOBODY = 65_534
RECORDS = (LogRecord(Created(session_id="s"), 1), LogRecord(Acquired(), 2))


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Whoever runs the tests may write nothing in the folder, root neither."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.iterdir())}
    is_root = os.geteuid() == 0
    try:
        for path in modes:
            path.chmod(0o555 if path.is_dir() else 0o444)
        if is_root:
            os.seteuid(NOBODY)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With the database of a run in it. One that nobody may enter, as those of pytest are, would not do."""
    with TemporaryDirectory() as made:
        path = Path(made)
        store = SqliteRuns(path / "runs.sqlite").open("one")
        store.append(RECORDS, durable=True)
        store.close()
        yield path


def test_all_of_it_is_read(folder: Path) -> None:
    before = sorted(folder.iterdir())
    with unwritable(folder):
        runs = SqliteRuns(folder / "runs.sqlite")
        assert runs.read("one") == RECORDS
        assert [entry.run for entry in runs.entries()] == ["one"]
        with pytest.raises(StoreError, match=r"may not be written by you|Permission"):
            runs.open("two")
    assert sorted(folder.iterdir()) == before


def test_what_the_file_alone_does_not_hold_is_not_passed_over(folder: Path) -> None:
    """The records of a program that was killed lie in the log beside it: without them, less would be read than was."""
    store = SqliteRuns(folder / "runs.sqlite").open("two")
    store.append(RECORDS, durable=True)
    with TemporaryDirectory() as made:
        copied = Path(made)
        for name in ("runs.sqlite", "runs.sqlite-wal"):
            shutil.copy(folder / name, copied)
        store.close()
        with unwritable(copied), pytest.raises(StoreError, match=r"in runs\.sqlite-wal.*copy both files"):
            SqliteRuns(copied / "runs.sqlite")
        assert SqliteRuns(copied / "runs.sqlite").read("two") == RECORDS  # which is read by who may write


def test_what_is_written_meanwhile_is_told(folder: Path) -> None:
    path = folder / "runs.sqlite"
    with unwritable(folder), pytest.raises(StoreLocked, match="was written while it was read"), reading(path):
        if os.getuid() == 0:
            os.seteuid(0)
        path.chmod(0o644)
        with path.open("ab") as file:
            file.write(b"\0")
