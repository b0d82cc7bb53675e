"""Files and folders as a store needs them: written to the last byte, under durable names, whole or not at all."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.operating_systems import open_file, sync_folder

FOLDER_OWNER_ONLY = 0o700


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte, in as many pieces as the system makes of it."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def make_folder(folder: Path) -> None:
    """Have the folder, for its owner only where it is new. The folder that it lies in has to be there."""
    try:
        folder.mkdir(mode=FOLDER_OWNER_ONLY)
    except FileExistsError:
        return
    sync_folder(folder.parent)


def demand_no_link(*paths: Path) -> None:
    """Raises StoreError where one of them is a link, which others may have put there to lead elsewhere."""
    for path in paths:
        if path.is_symlink():
            raise StoreError(
                f"{path} is a link to {str(path.readlink())!r}, and nothing is read or written through a link there. "
                "Nothing was changed: look where it leads, and remove it, or name another place"
            )


# --- a new file, whole or not at all ---------------------------------------------------------------------
# It is written under another name first, and durable before it gets its own.


def write_new_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write it, for its owner only. Raises FileExistsError where there is one of that name already, and OSError.

    Whatever is raised, nothing of it is left behind.
    """
    if os.path.lexists(path):
        raise FileExistsError(17, "there is a file of that name already", str(path))
    unfinished = path.with_name(f".{path.name[:100]}.{os.getpid()}.unfinished")
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            for piece in pieces:
                write_all(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(unfinished, path)  # which, other than a renaming, never replaces a file
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    sync_folder(path.parent)
