"""The log as a file: one JSON object a line, each with its number and a checksum, synced before it counts.

A line is `{"n":1,"crc":"0a1b2c3d","r":RECORD}` and a newline. `n` counts from 1 without gaps; `crc` is the CRC-32
of the number and the record's text, as eight hexadecimal digits; RECORD is what `loopkernel.codec` writes,
in ASCII. So no change of a single bit, no lost, repeated or moved line passes. Behind RECORD may stand
`"seal":"0123456789abcdef01234567"`, made of all lines before and of this one (see `seals`), which `crc` covers too.

What stands after the last newline is a torn tail: an append that never ended, so nothing followed from it. It
is cut off when the file is opened. Everything else that does not fit is refused, and the file left as it is.

A snapshot lies beside it, in `NAME.snapshot`. It is used only where it fits: then the bytes that it covers are hashed,
and only the lines behind them are parsed.
"""

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import frozen
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.errors import CodecError
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Restored, StoreCorrupt, StoreError, StoreLocked, is_of_these_rules
from loopkernel_adapters.stores.durable_files import write_all
from loopkernel_adapters.stores.operating_systems import has_locked, open_file, sync_folder
from loopkernel_adapters.stores.seals import FOREIGN, OLDER, Mark, Seals
from loopkernel_adapters.stores.snapshots import (
    Snapshot,
    demand_no_links,
    paused_collection,
    read_snapshot,
    snapshot_of,
    write_snapshot,
)

NEWLINE = b"\n"
_LINE = re.compile(
    rb'\{"n":([1-9][0-9]{0,18}),"crc":"([0-9a-f]{8})","r":(\{[\x20-\x7f]*\})(?:,"seal":"([0-9a-f]{24})")?\}'
)


class NotALog(StoreCorrupt):
    """The file does not even begin as a log does: most likely it is some other file. Nothing was changed."""

    what = "is not a log of loopkernel (line 1 is not a record)"
    advice = "Name the file of a run"

    @override
    def __str__(self) -> str:
        return f"{self.source} {self.what}. Nothing was changed. {self.advice}."


class BareRecords(NotALog):
    """The file holds the texts of records alone, as `codec.record_to_text` gives them. Nothing was changed."""

    what = "holds bare records, without the number and the checksum of a store"
    advice = "Write them to a new file with `JsonlStore(path).append`, and name that"


@frozen(kw_only=True)
class TornTail:
    """An append that was never finished: the line that it would have been, where it begins, its size in bytes."""

    line: int
    position: int
    size: int


@frozen
class LogFile:
    """What a log file holds: its records, and the torn tail behind them, if there is one."""

    records: tuple[LogRecord, ...]
    torn_tail: TornTail | None


def read_log(path: Path | str) -> LogFile:
    """Read a log without a lock and without changing anything, also while it is being written.

    Raises OSError when the file cannot be read, StoreError when it is not a regular one, StoreCorrupt when a line of it
    cannot be trusted.
    """
    path = Path(path)
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, and a device never ends
        raise StoreError(f"{path} is not a regular file, so it cannot be a log; name another path")
    return parse_log(path.read_bytes(), str(path))


def parse_log(content: bytes, source: str, lines_before: int = 0, bytes_before: int = 0) -> LogFile:
    """The records in the bytes of a log, or in those behind its first lines.

    Raises StoreCorrupt, which names the source, at the first bad line.
    """
    records: list[LogRecord] = []
    position = 0
    with paused_collection():
        while (end := content.find(NEWLINE, position)) >= 0:
            line = lines_before + len(records) + 1
            records.append(_parse_line(content[position:end], source, line, bytes_before + position))
            position = end + 1
    if position == len(content):
        return LogFile(tuple(records), None)
    line = lines_before + len(records) + 1
    tail = TornTail(line=line, position=bytes_before + position, size=len(content) - position)
    _demand_torn(content[position:], source, tail)
    return LogFile(tuple(records), tail)


def line_of(number: int, record: LogRecord) -> bytes:
    """The line of a record, with its newline, and without a seal."""
    return _line(number, record_to_text(record).encode("ascii"), b"")


def _line(number: int, text: bytes, seal: bytes) -> bytes:
    """The line with this text; `seal` is in hexadecimal, or empty where there is none."""
    sealed = b',"seal":"%b"' % seal if seal else b""
    return b'{"n":%d,"crc":"%08x","r":%b%b}\n' % (number, _checksum(number, text, seal), text, sealed)


def _checksum(number: int, text: bytes, seal: bytes) -> int:
    return zlib.crc32(seal, zlib.crc32(text, zlib.crc32(b"%d:" % number)))


def _sealed_content(before: bytes, number: int, text: bytes) -> bytes:
    """What the seal of a line is made of; `before` is the SHA-256 of all lines before it."""
    return b"jsonl\0%b%d:%b" % (before, number, text)


def lines_of(
    records: Iterable[LogRecord], seals: Seals | None, before: "hashlib._Hash | None" = None, written: int = 0
) -> Iterator[bytes]:
    """The lines of the records, sealed where there are seals, behind so many `written` ones.

    `before` is the SHA-256 of these, and covers the new ones too in the end.
    """
    digest = hashlib.sha256() if before is None else before
    for number, record in enumerate(records, start=written + 1):
        text = record_to_text(record).encode("ascii")
        seal = None if seals is None else seals.seal(_sealed_content(digest.digest(), number, text))
        line = _line(number, text, b"" if seal is None else seal.hex().encode("ascii"))
        digest.update(line)
        yield line


def doubt_about(content: bytes, seals: Seals, mark: Mark) -> str | None:
    """Why a log that ends with the last whole line of the content is not believed; None: it is sealed."""
    end = content.rfind(NEWLINE)
    begin = content.rfind(NEWLINE, 0, end) + 1 if end > 0 else 0
    found = _LINE.fullmatch(content[begin:end]) if end > 0 else None
    if found is None:
        return None if end < 0 else FOREIGN  # an empty log allows nothing
    before = hashlib.sha256(memoryview(content)[:begin]).digest()
    number, seal = int(found[1]), None if found[4] is None else bytes.fromhex(found[4].decode("ascii"))
    doubt = seals.doubt(seal, _sealed_content(before, number, found[3]))
    return doubt or (OLDER if mark.read() > number else None)


def doubt_of(path: Path, seals: Seals) -> str | None:
    """The same of the log at the path. Raises OSError."""
    content = path.read_bytes()
    return doubt_about(content, seals, mark_of(path, content, seals))


def mark_of(path: Path, content: bytes, seals: Seals) -> Mark:
    """The mark of the log, by its name and its first line."""
    first, _, _ = content.partition(NEWLINE)
    return seals.mark(os.fsencode(path.name) + b"\0" + first)


def _parse_line(line: bytes, source: str, number: int, position: int) -> LogRecord:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _no_line(source, number, position, line)
    if int(found[1]) != number:
        problem = f"this is record {int(found[1])}, and record {number} belongs here"
        raise StoreCorrupt(source, number, position, problem)
    if int(found[2], 16) != _checksum(number, found[3], found[4] or b""):
        raise StoreCorrupt(source, number, position, "the checksum does not fit the record")
    try:
        return record_from_text(found[3].decode("ascii"))
    except CodecError as error:
        problem = f"the record is whole, but this version cannot read it: {error}"
        raise StoreCorrupt(source, number, position, problem) from error


def _demand_torn(tail: bytes, source: str, torn: TornTail) -> None:
    """Refuse to cut off what no append of ours has begun: most likely it is not a log at all."""
    head = b'{"n":%d,"crc":"' % torn.line
    written = tail.rstrip(b"\0")  # a file system may have made the file longer before it wrote the bytes
    # Without a record, and without a byte of ours, nothing says that the file is a log: cutting would empty it.
    foreign = not written and torn.position == 0
    if foreign or written[: len(head)] != head[: len(written)]:
        raise _no_line(source, torn.line, torn.position, written)


def _no_line(source: str, number: int, position: int, line: bytes) -> StoreCorrupt:
    kind = StoreCorrupt
    if number == 1:
        kind = BareRecords if _is_bare_record(line) else NotALog
    return kind(source, number, position, "this is not a line of a log")


def _is_bare_record(line: bytes) -> bool:
    try:
        record_from_text(line.decode("ascii"))
    except (UnicodeDecodeError, CodecError):
        return False
    return True


class JsonlStore(BlockingStore):
    """A log file with one writer, who holds a lock on it from opening to closing.

    Opening creates a missing file (for its owner only, in a folder that exists), checks every line, or, of those that a
    snapshot covers, that they are still the bytes that were written; and cuts off a torn tail, which `torn_tail` then
    describes. Raises StoreLocked when the log is open elsewhere, StoreCorrupt when a line cannot be trusted,
    StoreError when the path is not a regular file, OSError when it cannot be opened. `seals` are those of the
    user who runs this, if no others are given.
    """

    def __init__(self, path: Path | str, seals: Seals | None = None) -> None:
        path = Path(path)
        demand_no_links(path)
        self._path = path
        self._seals = Seals.of_user() if seals is None else seals
        self._vouched = False
        self._owner = os.getpid()
        self._descriptor: int | None = _open(path)
        self._broken = False
        self._unsynced = False
        self._first_line = b""  # of a log that has one
        self._mark: Mark | None = None
        self._doubt: str | None = None
        self._snapshot: Snapshot | None = None
        self._digest = hashlib.sha256()  # of all bytes of the log
        self._size = 0
        try:
            _lock(self._descriptor, path)
            tail = self._read_behind_snapshot(self._descriptor)
            self._behind: tuple[LogRecord, ...] | None = tail.records  # until something is appended
            self._written = self._covered() + len(tail.records)
            self.torn_tail = tail.torn_tail
            if tail.torn_tail is not None:
                os.ftruncate(self._descriptor, tail.torn_tail.position)
                os.fsync(self._descriptor)
        except BaseException:
            self._broken = True
            self.close()
            raise

    @override
    def load(self) -> tuple[LogRecord, ...]:
        descriptor = self._demand_open()
        if self._snapshot is None and self._behind is not None:
            return self._behind
        return parse_log(_content(descriptor), str(self._path)).records

    @override
    def restore(self) -> Restored:
        self._demand_open()
        snapshot = self._snapshot
        state = None if snapshot is None else snapshot.state()
        if snapshot is None or state is None:
            return Restored(records=self.load(), doubt=self._doubt)
        if self._doubt is not None and is_of_these_rules(records := self.load()):
            return Restored(records=records, doubt=self._doubt)  # the state may be any
        behind = self._behind
        if behind is None:
            rest = _content(self._demand_open(), snapshot.size)
            behind = parse_log(rest, str(self._path), snapshot.records, snapshot.size).records
        return Restored(state=state, rules_version=snapshot.rules_version, records=behind, doubt=self._doubt)

    def vouch(self) -> None:
        """See `Sealing`."""
        self._vouched = True

    @override
    def save_snapshot(self, state: State) -> None:
        descriptor = self._demand_writable()
        digest = self._digest.hexdigest()
        snapshot = snapshot_of(state, records=self._written, digest=digest, size=self._size)
        _demand_same_file(descriptor, self._path)
        if self._unsynced:
            self._broken = True
            os.fsync(descriptor)  # a snapshot of what a loss of power takes away would be of no use
            self._broken = self._unsynced = False
            self._note_mark()
        write_snapshot(self._path, snapshot, self._seals if self._vouched else None)
        self._snapshot = snapshot
        self._behind = ()

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        descriptor = self._demand_writable()
        digest = self._digest.copy()
        seals = self._seals if self._vouched else None
        lines = b"".join(lines_of(records, seals, digest, self._written))
        self._broken = True  # until all of it is done: after a failure nobody knows what the file holds
        _demand_same_file(descriptor, self._path)
        write_all(descriptor, lines)
        if durable:
            os.fsync(descriptor)
        self._broken = False
        self._unsynced = not durable
        self._written += len(records)
        self._size += len(lines)
        self._digest = digest
        self._behind = None
        self._first_line = self._first_line or lines[: lines.find(NEWLINE) + 1]
        if durable:
            self._note_mark()

    def _note_mark(self) -> None:
        """How many records are durable is noted beside the secret, if the log is sealed.

        Others may be lost, and what is left of the log is then not an older copy of it.
        """
        if not (self._vouched and self._first_line):
            return
        if self._mark is None:
            self._mark = mark_of(self._path, self._first_line, self._seals)
        self._mark.note(self._written)

    @override
    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._unsynced and not self._broken:
                os.fsync(descriptor)
                if self._owner == os.getpid():
                    self._note_mark()
        finally:
            if self._mark is not None:
                self._mark.close()
            os.close(descriptor)  # and with it the lock goes

    def _read_behind_snapshot(self, descriptor: int) -> LogFile:
        """What the locked file holds behind a snapshot that fits it; all of it, where there is none."""
        source = str(self._path)
        content = _content(descriptor)
        if NEWLINE in content:
            self._first_line = content[: content.index(NEWLINE) + 1]
            self._mark = mark_of(self._path, content, self._seals)
            self._doubt = doubt_about(content, self._seals, self._mark)
        snapshot = read_snapshot(self._path, self._seals, doubted=self._doubt is not None)
        if snapshot is not None and 0 < snapshot.size <= len(content):
            covered = hashlib.sha256(memoryview(content)[: snapshot.size])
            lines = content.count(NEWLINE, 0, snapshot.size)
            if covered.hexdigest() == snapshot.digest and lines == snapshot.records:
                self._snapshot, self._digest, self._size = snapshot, covered, snapshot.size
        rest = content[self._size :]
        found = parse_log(rest, source, self._covered(), self._size)
        kept = len(rest) if found.torn_tail is None else len(rest) - found.torn_tail.size
        self._digest.update(memoryview(rest)[:kept])
        self._size += kept
        return found

    def _covered(self) -> int:
        """How many records the snapshot stands for."""
        return 0 if self._snapshot is None else self._snapshot.records

    def _demand_open(self) -> int:
        if self._descriptor is None:
            raise StoreError(f"{self._path} is closed; open the log again to go on")
        return self._descriptor

    def _demand_writable(self) -> int:
        descriptor = self._demand_open()
        if self._broken:
            raise StoreError(
                f"an earlier write to {self._path} failed, so what it holds is not known; "
                "open the log again, which checks it"
            )
        if self._owner != os.getpid():
            raise StoreError(f"{self._path} was opened by the process that this one was forked from, which writes it")
        return descriptor


def _content(descriptor: int, begun: int = 0) -> bytes:
    """What the locked file holds from there on, whatever its name leads to by now."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(begun)
        return file.read()


def _open(path: Path) -> int:
    """A descriptor for reading and appending; a new file is made durable in its folder too."""
    flags = os.O_RDWR | os.O_APPEND
    try:
        descriptor = open_file(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        descriptor = open_file(path, flags, wait=False)  # a pipe in the place of a file must not hang
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise StoreError(f"{path} is not a regular file, so it cannot be a log; name another path") from None
    try:
        sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, path: Path) -> None:
    if not has_locked(descriptor):
        raise StoreLocked(f"{path} is open for writing elsewhere; close the other session, or use another log")
    _demand_same_file(descriptor, path)


def _demand_same_file(descriptor: int, path: Path) -> None:
    """The lock is on the file, not on its name: refuse to write where no one would find it."""
    if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
        raise StoreError(f"{path} was replaced by another file while it was open; open the log again")
