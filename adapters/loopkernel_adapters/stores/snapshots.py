"""Snapshots: a state beside the log that leads to it, so that opening a long log costs only what came after.

A snapshot is never needed and never trusted by itself. It says how many records it stands for and what their digest
is; a store uses it when both fit the log that it finds, and its own checksum fits too, and goes by the log otherwise.
A log that is sealed is not passed over for a snapshot that is not: whoever put it there could have put any state there.
"""

import gc
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.errors import CodecError
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import RULES_VERSION

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.durable_files import demand_no_link, write_all
from loopkernel_adapters.stores.operating_systems import open_file
from loopkernel_adapters.stores.seals import Seals

FORMAT = 1
# How long the text of a state may be: what unpacks to more was made to, and the log is read in its place. The text says
# little that the records do not say, and a short log may begin with long rules.
MOST_TEXT = 1 << 30
SPARE_TEXT = 1 << 24
TEXT_FOR_A_BYTE = 8  # of the log
_HEADER = {"loopkernel": "snapshot", "version": FORMAT}


@frozen(kw_only=True)
class Snapshot:
    """A state that was kept: how many records lead to it, their digest, and the rules that they were folded by.

    `size` is how many bytes those records take, where the log is a file; in a database, what they may take at most.
    `packed` is the state's text, compressed.
    """

    records: int
    digest: str
    rules_version: int
    size: int = 0
    packed: bytes

    def state(self) -> State | None:
        """The state; None where this release cannot read it."""
        try:
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(self.packed, most_text(self.size))
            if not unpacking.eof:
                return None
            with paused_collection():
                return state_from_text(text.decode("ascii"))
        except (zlib.error, ValueError, CodecError, RecursionError):
            return None

    def to_bytes(self) -> bytes:
        """A line of JSON that says what is covered, and the state; with a checksum over all of it."""
        covers = {"records": self.records, "digest": self.digest, "size": self.size, "rules": self.rules_version}
        line = json.dumps({**_HEADER, **covers}).encode("ascii") + b"\n"
        return _checksum(line + self.packed) + line + self.packed

    @staticmethod
    def from_bytes(content: bytes) -> "Snapshot | None":
        """The snapshot that was written so; None for anything else, whatever it is."""
        checksum, rest = content[:_CHECKSUM_SIZE], content[_CHECKSUM_SIZE:]
        if _checksum(rest) != checksum:
            return None
        line, _, packed = rest.partition(b"\n")
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(header, dict) or {key: header.get(key) for key in _HEADER} != _HEADER:
            return None
        digest, records, size, rules = (header.get(key) for key in ("digest", "records", "size", "rules"))
        if not (type(digest) is str and type(records) is int and type(size) is int and type(rules) is int):
            return None
        return Snapshot(records=records, digest=digest, rules_version=rules, size=size, packed=packed)


def most_text(size: int) -> int:
    """How many bytes the text of a state may have, to which records of so many bytes lead."""
    return min(MOST_TEXT, SPARE_TEXT + TEXT_FOR_A_BYTE * max(0, size))


def snapshot_of(state: State, *, records: int, digest: str, size: int = 0) -> Snapshot:
    """The snapshot of a state that so many records lead to. Raises StoreError where the state has no text."""
    try:
        text = state_to_text(state)
    except (CodecError, RecursionError) as error:
        raise StoreError(f"the state cannot be kept as a snapshot, and the log goes on without it: {error}") from error
    packed = zlib.compress(text.encode("ascii"), level=1)
    return Snapshot(records=records, digest=digest, rules_version=RULES_VERSION, size=size, packed=packed)


def sealed_content(snapshot: Snapshot, seals: Seals | None) -> bytes:
    """The bytes of the snapshot, behind a line with its seal where there is one to be had."""
    content = snapshot.to_bytes()
    seal = None if seals is None else seals.seal(_SEALED + content)
    return content if seal is None else _SEALED + seal.hex().encode("ascii") + b"\n" + content


def opened_content(content: bytes, seals: Seals, *, doubted: bool) -> Snapshot | None:
    """The snapshot that was written so; None for what is none, or what was put beside a log that is not `doubted`."""
    seal, found = b"", content
    if content.startswith(_SEALED):
        seal, _, found = content.removeprefix(_SEALED).partition(b"\n")
    snapshot = Snapshot.from_bytes(found)
    if snapshot is None or doubted:
        return snapshot
    expected = seals.seal(_SEALED + found)
    return snapshot if expected is not None and expected.hex().encode("ascii") == seal else None


@contextmanager
def paused_collection() -> Iterator[None]:
    """Build many lasting objects at once without the garbage collector, which would look at them time and again."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


_CHECKSUM_SIZE = 65
_SEALED = b"seal:"


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode("ascii") + b"\n"


# --- the file of a snapshot, beside the log --------------------------------------------------------------
# It is written under another name, synced, and only then put in its place.

SUFFIX = ".snapshot"
UNFINISHED = ".snapshot.new"


def read_snapshot(log: Path, seals: Seals, *, doubted: bool) -> Snapshot | None:
    """The snapshot beside a log; None where there is none that can be read and believed, whatever lies there."""
    try:
        descriptor = open_file(_beside(log, SUFFIX), os.O_RDONLY, follow=False, wait=False)  # it may be a pipe
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
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(descriptor, sealed_content(snapshot, seals))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.replace(_beside(log, SUFFIX))


def _beside(log: Path, suffix: str) -> Path:
    return log.with_name(log.name + suffix)
