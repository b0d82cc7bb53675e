"""A server of Temporal for the tests of this folder that do not kill theirs."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer


@pytest.fixture(scope="session")
def server() -> Iterator[TemporalServer]:
    if not PROGRAM.exists():
        pytest.skip(MISSING)
    started = TemporalServer()
    asyncio.run(started.start())
    print(f"\n{started.how}")
    try:
        yield started
    finally:
        started.kill()
