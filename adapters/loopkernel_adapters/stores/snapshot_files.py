"""The file of a snapshot, beside the log: written under another name, synced, and only then put in its place."""

import os
import stat
from pathlib import Path

from loopkernel_adapters.stores.durable_files import demand_no_link, write_all
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.stores.snapshots import Snapshot, most_text, opened_content, sealed_content

OWNER_ONLY = 0o600
SUFFIX = ".snapshot"
UNFINISHED = ".snapshot.new"


def read_snapshot(log: Path, seals: Seals, *, doubted: bool) -> Snapshot | None:
    """The snapshot beside a log; None where there is none that can be read and believed, whatever lies there."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW  # it may be a pipe
        descriptor = os.open(_beside(log, SUFFIX), flags)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_size <= most_text(log.stat().st_size):
                return opened_content(file.read(), seals, doubted=doubted)
    except OSError:
        pass
    return None


def demand_no_links(log: Path) -> None:
    """Raises StoreError where a link lies in the place of the snapshot, or of one that is being written."""
    demand_no_link(_beside(log, SUFFIX), _beside(log, UNFINISHED))


def write_snapshot(log: Path, snapshot: Snapshot, seals: Seals | None) -> None:
    """Put the snapshot beside the log, in the place of an older one. Called only by the log's one writer.

    `seals`: None where the log is not sealed either.

    Raises OSError. Whenever the process dies, a whole snapshot lies there, the older or the newer.
    """
    unfinished = _beside(log, UNFINISHED)
    unfinished.unlink(missing_ok=True)  # what a process left that died here
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        write_all(descriptor, sealed_content(snapshot, seals))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.replace(_beside(log, SUFFIX))


def _beside(log: Path, suffix: str) -> Path:
    return log.with_name(log.name + suffix)
