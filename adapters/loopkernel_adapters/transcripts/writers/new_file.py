"""A new file, written whole or not at all: under another name first, durable before it gets its own."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from loopkernel_adapters.stores.durable_files import sync_folder, write_all

OWNER_ONLY = 0o600


def write_new_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write it, for its owner only. Raises FileExistsError where there is one of that name already, and OSError.

    Whatever is raised, nothing of it is left behind.
    """
    if os.path.lexists(path):
        raise FileExistsError(17, "there is a file of that name already", str(path))
    unfinished = path.with_name(f".{path.name[:100]}.{os.getpid()}.unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
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
