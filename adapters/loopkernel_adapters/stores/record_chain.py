"""The records of a run as rows of a database: their digests, each of which covers all before it, and their checks.

The digest of a record is the BLAKE2b of the digest before it, its number, a colon and its text; that before the first
is made of the name of the run. It finds damage, not forgery. No database is asked here: whoever has rows brings them.
"""

import hashlib
from collections.abc import Iterable, Sequence

from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.errors import CodecError
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import StoreCorrupt
from loopkernel_adapters.stores.snapshots import paused_collection

DIGEST_SIZE = 16  # bytes
HIGHEST_TIME = 2**63 - 1  # what a row can hold


class DatabaseCorrupt(StoreCorrupt):
    """A record of a run in a database cannot be trusted, or the database itself (`line` 0). Nothing was changed."""

    @override
    def __str__(self) -> str:
        where = f", record {self.line}" if self.line else ""
        return f"{self.source}{where}: {self.problem}. Nothing was changed. Restore the database from a copy."


def origin(name: bytes) -> bytes:
    """The digest before the first record of the run of that name."""
    return digest_behind(b"", 0, name)


def digest_behind(before: bytes, number: int, text: bytes) -> bytes:
    """The digest of the record of that number and text, behind a record of the digest `before`."""
    return hashlib.blake2b(b"%b%d:%b" % (before, number, text), digest_size=DIGEST_SIZE).digest()


def chained(records: Sequence[LogRecord], behind: int, digest: bytes) -> list[tuple[int, bytes, str]]:
    """Number, digest and text of each of the records, which follow record `behind` of that digest."""
    rows: list[tuple[int, bytes, str]] = []
    for number, record in enumerate(records, start=behind + 1):
        text = record_to_text(record)
        digest = digest_behind(digest, number, text.encode("ascii"))
        rows.append((number, digest, text))
    return rows


def checked_records(
    rows: Iterable[tuple[object, object, object]], source: str, *, behind: int, digest: bytes, count: int
) -> tuple[LogRecord, ...]:
    """The records that follow record `behind`, up to record `count`, of numbers, digests and texts as they are found.

    Nothing vouches for their types. Raises DatabaseCorrupt at the first that cannot be trusted.
    """
    records: list[LogRecord] = []
    number = behind
    with paused_collection():
        for found_number, found_digest, text in rows:
            number += 1
            if found_number != number:
                problem = f"this is record {found_number}, and record {number} belongs here"
                raise DatabaseCorrupt(source, number, 0, problem)
            if not isinstance(text, bytes) or (digest := digest_behind(digest, number, text)) != found_digest:
                problem = "the digest does not fit the record and those before it"
                raise DatabaseCorrupt(source, number, 0, problem)
            records.append(_parsed(source, number, text))
    if number != count:
        problem = f"{count} records were written, and {number} are there"
        raise DatabaseCorrupt(source, min(number, count) + 1, 0, problem)
    return tuple(records)


def demand_count(source: str, count: int, highest: int) -> None:
    """Raises DatabaseCorrupt where the number of the last record that is there is not how many were written."""
    if highest != count:
        problem = f"{count} records were written, and the last is {highest}"
        raise DatabaseCorrupt(source, min(highest, count) + 1, 0, problem)


def checked_digest(digest: object, source: str, number: int) -> bytes:
    """The digest that a row gives for that record. Raises DatabaseCorrupt."""
    if not isinstance(digest, bytes) or len(digest) != DIGEST_SIZE:
        raise DatabaseCorrupt(source, number, 0, "the record is missing, or its digest is damaged")
    return digest


def sealed_ending(database: bytes, records: int, digest: bytes) -> bytes:
    """What the seal of a run is made of: the last digest covers all records and the name of the run."""
    return b"%b\0%d:%b" % (database, records, digest)


def row_time(record: LogRecord) -> int:
    """The time for a list of runs: the record itself keeps any number."""
    return max(-HIGHEST_TIME, min(record.now_ms, HIGHEST_TIME))


def _parsed(source: str, number: int, text: bytes) -> LogRecord:
    try:
        return record_from_text(text.decode("ascii"))
    except (CodecError, UnicodeDecodeError) as error:
        problem = f"the record is whole, but this version cannot read it: {error}"
        raise DatabaseCorrupt(source, number, 0, problem) from error
