"""Who writes a run of a database: an exclusive lock on a small file of its own, held from opening to closing.

The kernel of the system lets go of it when the process dies, however it dies. The file is only something to lock: that
it can be deleted is why the database counts its writers too (`sqlite.py`).
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.durable_files import demand_no_link, make_folder
from loopkernel_adapters.stores.operating_systems import has_locked, open_file, open_folder, remove_open_file

POLL_SECONDS = 0.01
ATTEMPTS = 100  # a lock file vanishes while it is opened only when its holder closes at that instant


class RunLock:
    """The lock of one run. Raises StoreLocked at once where it is held, in whatever process; OSError."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._owner = os.getpid()
        self._descriptor: int | None = None
        for _ in range(ATTEMPTS):
            demand_no_link(path)
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT, follow=False, wait=False)
            try:
                if not has_locked(descriptor):
                    raise StoreLocked(f"run {run!r} is open for writing elsewhere; close the other session first")
                held = _is_at(descriptor, path)
            except BaseException:
                os.close(descriptor)
                raise
            if held:
                self._descriptor = descriptor
                return
            os.close(descriptor)  # its holder has just removed it
        raise StoreError(f"{path} does not stay where it is, so run {run!r} cannot be locked; see what removes it")

    def demand_held(self) -> None:
        """Raises StoreError where another writer could hold this lock too, since its file is not there any more."""
        if self._descriptor is None or not _is_at(self._descriptor, self._path):
            raise StoreError(
                f"the lock of run {self._run!r} was taken away: {self._path} was removed or replaced. "
                "Nothing more is written; open the run again to go on"
            )

    def release(self) -> None:
        """Let go of the lock, and remove the file if it is still this one. Twice is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._owner == os.getpid() and _is_at(descriptor, self._path):  # a fork must not take it from its parent
                remove_open_file(self._path)
        finally:
            os.close(descriptor)


def lock_folder(database: Path) -> Path:
    """Where the locks of a database lie."""
    return database.with_name(f"{database.name}-locks")


def make_lock_folder(folder: Path) -> None:
    """Have the folder, and not one that a link leads to. Raises StoreError, OSError."""
    demand_no_link(folder)
    make_folder(folder)


@contextmanager
def locked_folder(folder: Path, seconds: float) -> Iterator[None]:
    """Hold the whole folder, which is made where it is missing. Waits so long for others who hold it.

    Raises StoreLocked, OSError.
    """
    make_lock_folder(folder)
    deadline = time.monotonic() + seconds
    descriptor = open_folder(folder)
    try:
        while not has_locked(descriptor):
            if time.monotonic() > deadline:
                raise StoreLocked(f"another program holds {folder} and does not let go; try again, or end it")
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
