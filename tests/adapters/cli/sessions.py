"""A folder with a script in it, and the command line called in it, with lines in a pipe for whoever is asked."""

import json
import os
import select
from pathlib import Path

import pytest
from attrs import frozen
from loopkernel_adapters.cli import chat as chat_module
from loopkernel_adapters.cli import run as run_module
from loopkernel_adapters.cli.main import main

from tests.adapters.cli.answering import Answering

STORE = Path(".loopkernel", "runs.sqlite")
MODEL = ("--model", "scripted:script.json")
PATIENCE_SECONDS = 60  # after which a program that does nothing is taken to be stuck
CHAT = ("chat", *MODEL)


def script(*replies: object, name: str = "script.json") -> None:
    """What the model will say."""
    Path(name).write_text(json.dumps(replies))


def says(text: str) -> dict[str, object]:
    return {"text": text}


def calls(tool: str, **given: object) -> dict[str, object]:
    return {"calls": [{"tool": tool, "input": given}]}


def writes(path: str, text: str = "x") -> dict[str, object]:
    return calls("write_file", path=path, text=text)


def shell(command: str) -> dict[str, object]:
    return calls("shell", command=command)


class Gate:
    """A shell command that says when it runs, and goes on until it is let: no time is waited for."""

    def __init__(self) -> None:
        os.mkfifo("started")
        os.mkfifo("gate")
        self._started = os.open("started", os.O_RDONLY | os.O_NONBLOCK)

    def call(self, first: str = "true") -> dict[str, object]:
        """A call of it, which does this first."""
        return shell(f"{first}; echo here > started; cat gate")

    def wait(self) -> None:
        """Wait until the command runs."""
        ready, _, _ = select.select([self._started], [], [], PATIENCE_SECONDS)
        assert ready, "the command has not been started"
        os.read(self._started, 100)

    def open(self) -> None:
        """Let the command end. It has to run."""
        Path("gate").write_text("open\n")

    def close(self) -> None:
        """Let go of it."""
        os.close(self._started)


@frozen
class Ended:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    def labelled(self, label: str) -> list[str]:
        """What the lines with this label say."""
        return [line[len(label) :].strip() for line in self.out.splitlines() if line.startswith(f"{label} ")]

    def objects(self) -> list[dict[str, object]]:
        """The lines as JSON objects."""
        found = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(line, dict) for line in found)
        return found

    def objects_of(self, kind: str) -> list[dict[str, object]]:
        """Those of this type."""
        return [line for line in self.objects() if line["type"] == kind]


@frozen
class CommandLine:
    """Calls the command line in this process; it is given a line by a pipe whenever it wants one."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, lines: tuple[str, ...] = ()) -> Ended:
        answers = Answering(*lines)
        try:
            for module in (chat_module, run_module):
                self.monkeypatch.setattr(module, "standard_input", lambda: answers)
            status = main(arguments)
        finally:
            answers.close()
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return Ended(status, out, err)
