"""What differs between operating systems where files are opened, locked and made durable: the one door to it.

Behind it the stores are the same everywhere. Linux and macOS have `fcntl`. Without it, as on Windows, `msvcrt` locks,
links are not refused at the opening (`durable_files.demand_no_link` looks before), names are not synced, and a file is
kept from others by the rights of its folder. That part was tried in a simulation alone: no Windows was at hand.

A lock is one on an open file, so the system lets go of it when the process dies, however it dies.
"""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

try:
    import fcntl
except ImportError:
    _HAS_FCNTL = False
else:
    _HAS_FCNTL = True

OWNER_ONLY = 0o600
OF_OTHERS = 0o077  # what a mode grants to others
FOLDER_LOCK = "folder.lock"  # what is locked for a folder where a folder cannot be opened
# Where `msvcrt` locks a byte, nobody else can read it: so one that no log reaches. Its positions are of 31 bits.
_LOCKED_BYTE = 0x7FFF_FFF0


class _LocksBytes(Protocol):
    """What is needed of `msvcrt`, which type checkers know on Windows alone."""

    LK_NBLCK: int

    def locking(self, descriptor: int, mode: int, count: int, /) -> None: ...


def open_file(path: Path, flags: int, *, follow: bool = True, wait: bool = True) -> int:
    """A descriptor of the file, for bytes; a new file is its owner's alone. Raises OSError.

    Without `follow` a link is refused, and without `wait` a pipe does not hang, where the system can do so.
    """
    flags |= getattr(os, "O_BINARY", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    if not wait:
        flags |= getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, OWNER_ONLY)


def open_folder(folder: Path) -> int:
    """A descriptor to lock the folder by. Raises OSError, also where a link is in its place."""
    if _HAS_FCNTL:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    return open_file(folder / FOLDER_LOCK, os.O_RDWR | os.O_CREAT)


def has_locked(descriptor: int) -> bool:
    """Lock the file for this opening of it alone, at once; False: another one holds it. Raises OSError."""
    if _HAS_FCNTL:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    locks = cast(_LocksBytes, import_module("msvcrt"))
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        locks.locking(descriptor, locks.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system leaves that to programs."""
    if not _HAS_FCNTL:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_open_file(path: Path) -> None:
    """Remove a file that is open here. Where an open file cannot be removed it stays, and is used again."""
    with suppress(FileNotFoundError) if _HAS_FCNTL else suppress(FileNotFoundError, PermissionError):
        path.unlink()


def is_for_owner_only(found: os.stat_result) -> bool:
    """Whether nobody else may read or write what was found; where modes say nothing, its folder sees to that."""
    return not _HAS_FCNTL or (found.st_uid == os.geteuid() and not found.st_mode & OF_OTHERS)


def read_at(descriptor: int, size: int, position: int) -> bytes:
    """At most so many bytes from there on. It may move the place from which is read and written next."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, size)


def write_at(descriptor: int, content: bytes, position: int) -> None:
    """Write there. It may move the place from which is read and written next."""
    os.lseek(descriptor, position, os.SEEK_SET)
    os.write(descriptor, content)
