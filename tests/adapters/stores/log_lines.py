"""The bytes of a log, for the tests of the store that writes them."""

from collections.abc import Sequence

from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.thread_deltas import Created
from loopkernel.replaying import LogRecord
from loopkernel_adapters.stores.jsonl import line_of


def some_records(count: int) -> list[LogRecord]:
    """Short records, no two alike."""
    first = LogRecord(Created(session_id="s"), 0)
    return [first, *(LogRecord(ModelText(ModelOperation(1), f"t{n}"), n) for n in range(1, count))]


def lines_of(records: Sequence[LogRecord]) -> list[bytes]:
    return [line_of(number, record) for number, record in enumerate(records, start=1)]


def log_of(records: Sequence[LogRecord]) -> bytes:
    return b"".join(lines_of(records))
