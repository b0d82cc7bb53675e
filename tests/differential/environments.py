"""Environments of their own for the loops of others, made on demand from the registry, and a process in each."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]


class NotHad(Exception):
    """It cannot be had here; the message says why."""


@frozen(kw_only=True)
class Environment:
    """A package of the registry in an environment of its own, and the module that plays scripts in it."""

    name: str
    package: str
    version: str
    player: str
    own: bool = False  # it is played by this interpreter, and nothing need be installed

    @property
    def directory(self) -> Path:
        """Where it lies."""
        return ROOT / f".venv-{self.name}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return Path(sys.executable) if self.own else self.directory / "bin" / "python"

    def ensure(self) -> None:
        """Make it, unless it is there. Raises NotHad."""
        if self.own:
            return
        stamp = self.directory / f"{self.name}.stamp"
        if stamp.exists() and stamp.read_text() == self.version:
            return
        try:
            venv.create(self.directory, clear=True, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotHad(f"no environment could be made in {self.directory.name}: {error}") from error
        command = [str(self.python), "-m", "pip", "install", "--quiet", f"{self.package}=={self.version}"]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode:
            last = (installed.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise NotHad(f"{self.package} {self.version} cannot be installed from the registry: {last}")
        stamp.write_text(self.version)


class Playing:
    """The player of an environment, a line of JSON a script, in its own `with` block."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Self:
        self._environment.ensure()
        command = [str(self._environment.python), "-m", self._environment.player]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def play(self, script: object) -> Any:  # Any: what the player of this environment says of it
        """What the real loop makes of the script."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(script) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(
                f"{self._environment.package} ended while it played {json.dumps(script)}; what it said stands above"
            )
        return json.loads(line)
