"""A PostgreSQL server for all tests of this folder, and for each of them a schema of its own in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes.postgres.server import PostgresServer, postgres_server, server_binaries
from tests.homes.postgres.world import World


@pytest.fixture(scope="session")
def binaries() -> Path:
    """Where the server's programs lie; without any, all of this is skipped aloud."""
    found = server_binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL on this machine: install the system's package, or run make servers")
    return found


@pytest.fixture(scope="session")
def server(binaries: Path) -> Iterator[PostgresServer]:
    with postgres_server(binaries) as started:
        print(f"\nstarted {started.how}")
        yield started


@pytest.fixture
def world(server: PostgresServer, tmp_path: Path) -> World:
    return World(server.dsn, tmp_path)
