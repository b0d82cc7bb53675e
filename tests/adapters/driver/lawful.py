"""The laws over the logs that tests of the driver leave: of one session, or of every session that a test opens."""

from collections.abc import Iterator, Sequence

import pytest
from loopkernel.judging import check_pairs, check_trace
from loopkernel.replaying import LogRecord, fold

from tests.adapters.driver import driver_world


def breaches(records: Sequence[LogRecord]) -> list[str]:
    """What the laws object to in the run that a log tells."""
    steps = fold(records)
    return [str(breach) for report in (check_trace(steps), check_pairs(steps)) for breach in report.breaches]


@pytest.fixture
def judged_sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After the test, the log of each session in memory that it has opened is held against the laws."""
    stores: list[driver_world.NotedStore] = []
    initial = driver_world.NotedStore.__init__

    def noting(store: driver_world.NotedStore, failing_from: int | None = None) -> None:
        initial(store, failing_from)
        stores.append(store)

    monkeypatch.setattr(driver_world.NotedStore, "__init__", noting)
    yield
    assert stores
    assert [breach for store in stores for breach in breaches(store.load())] == []
