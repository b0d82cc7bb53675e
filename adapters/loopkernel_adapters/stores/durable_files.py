"""Files and folders as a store needs them: written to the last byte, and their names durable."""

import os
from pathlib import Path

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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
