"""What the tests of the command line share: an empty folder to be in, and the command line itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.cli.sessions import CommandLine, Gate


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loopkernel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line, called in this process."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """A tool that runs for as long as the test wants."""
    found = Gate()
    yield found
    found.close()
