"""Commands that are shown to the user: they run as they stand, and are quoted."""

import shlex
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.cli.invocation import command


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in an environment below the current folder, not on the PATH."""
    path = tmp_path / "env" / "bin" / "loopkernel"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return path


def test_the_program_that_runs_is_named_as_it_is_reached_from_here(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert command("replay", Path("my log")) == "env/bin/loopkernel replay 'my log'"
    monkeypatch.chdir(program.parent)
    assert command("replay") == "./loopkernel replay"
    monkeypatch.setenv("PATH", str(program.parent))
    assert command("replay") == "loopkernel replay"


def test_started_otherwise_it_names_the_program_beside_the_interpreter_or_the_module(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py"])
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    assert command("demo") == "env/bin/loopkernel demo"
    program.unlink()
    assert shlex.split(command("demo")) == [sys.executable, "-m", "loopkernel_adapters", "demo"]
