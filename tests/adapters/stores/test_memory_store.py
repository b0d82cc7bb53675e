"""The log in memory behaves as a log: in order, append-only, read back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.memory import MemoryStore

RECORDS = st.lists(st.builds(LogRecord, st.builds(ModelText, st.just(ModelOperation(1)), st.text()), st.integers(0)))


@given(start=RECORDS, batches=st.lists(st.tuples(RECORDS, st.booleans())))
def test_every_record_is_there_in_order(start: list[LogRecord], batches: list[tuple[list[LogRecord], bool]]) -> None:
    store = MemoryStore(start)
    expected = tuple(start)
    for records, durable in batches:
        before = store.load()
        store.append(records, durable)
        assert before == expected  # what was loaded does not grow
        expected += tuple(records)
    assert store.load() == expected


def test_closed_it_can_be_read_but_not_written() -> None:
    record = LogRecord(ModelText(ModelOperation(1), "a"), 0)
    store = MemoryStore([record])
    store.close()
    store.close()
    assert store.load() == (record,)
    with pytest.raises(StoreError, match="closed"):
        store.append([record], durable=False)
    assert store.load() == (record,)
