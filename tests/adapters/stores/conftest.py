"""Folders in memory for the tests of stores; the library of faults, and the processes that suffer them."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.adapters.stores.fault_world import IN_MEMORY, FaultChild, built_library, fault_child


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, in the place of pytest's own: what these tests ask of a disk, they ask of it by faults."""
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared_folder() -> Iterator[Path]:
    """One such folder for tests that draw many examples, each of which makes one of its own in it."""
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail."""
    return built_library(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def child(library: Path) -> Iterator[FaultChild]:
    """A process that writes logs under faults."""
    yield from fault_child(library, "tests.adapters.stores.fault_child")


@pytest.fixture(scope="session")
def session_child(library: Path) -> Iterator[FaultChild]:
    """A process that runs sessions under faults."""
    yield from fault_child(library, "tests.adapters.stores.effect_child")
