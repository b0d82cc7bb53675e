"""A current folder with a workspace and a script in it, and the command line called in it."""

import json
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.cli.main import main

READ_NOTES = {"tool": "read_file", "input": {"path": "notes.txt"}}
SCRIPT: list[object] = [{"text": "Let me look.", "calls": [READ_NOTES]}, {"text": "It says: buy milk."}]
FILES = ("--tools", "files")
COMMAND = [sys.executable, "-m", "loopkernel_adapters"]


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the workspace and the script, and make the folder the current one."""
    (folder / "workspace").mkdir()
    (folder / "workspace" / "notes.txt").write_text("buy milk\n")
    write_script(folder, SCRIPT)
    monkeypatch.chdir(folder)
    return folder


def write_script(folder: Path, script: object) -> None:
    (folder / "script.json").write_text(json.dumps(script))


def run(*more: str, task: str = "Read notes.txt.", log: str = "log.jsonl") -> int:
    return main(
        ["run", task, "--workspace", "workspace", "--provider", "scripted:script.json", *FILES, "--log", log, *more]
    )


def labelled(output: str, label: str) -> list[str]:
    """What the lines with this label say."""
    return [line[len(label) :].strip() for line in output.splitlines() if line.startswith(f"{label} ")]
