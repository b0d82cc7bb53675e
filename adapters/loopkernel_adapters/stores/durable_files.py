"""Files and folders as a store needs them: written to the last byte, and their names durable."""

import os
from pathlib import Path

from loopkernel_adapters.ports import StoreError

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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
