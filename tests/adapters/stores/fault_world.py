"""Faults at system calls: builds the library that makes them, and gives orders to the process that suffers them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("faults.c")
IN_MEMORY = Path("/dev/shm")  # killing a process asks nothing of a disk, so the files need not lie on one
PASS, KILL, TEAR, FAIL, SHORTEN, STOP = range(6)  # as faults.c has them
ANY = "wstruom"
NOT_OPENED, BROKEN, NO_SNAPSHOT, DONE, TAKEN, REFUSED, NOT_CLOSED = range(-1, -8, -1)  # as fault_child.py has them


def built_library(folder: Path) -> Path:
    """The library, built by the C compiler of this machine. Without one the tests that need it are skipped, loudly."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("NOT TESTED: no C compiler (or no Linux) here, so no system call can be made to fail")
    library = folder / "faults.so"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class FaultChild:
    """The process of `fault_child.py`. Use it as a context manager; `point` does one thing in it."""

    def __init__(self, library: Path, folder: Path, module: str) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        assert self._process.returncode == 0

    def point(
        self,
        kind: str,
        *,
        job: str = "write",
        kinds: str = ANY,
        at: int = 0,
        action: int = PASS,
        errno: int = 0,
        prepared: Path | None = None,
        look: bool = True,
        name: str = "point",
        **more: object,
    ) -> dict[str, Any]:  # Any: parsed JSON; the keys are those that fault_child.py reports
        """Do the job with a fault at call number `at`, counted from 1, and report what was left."""
        order = {
            "kind": kind,
            "job": job,
            "folder": str(self.folder / name),
            "prepared": None if prepared is None else str(prepared),
            "look": look,
            "fault": {"kinds": kinds, "at": at, "action": action, "errno": errno},
            **more,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        report: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "broken" not in report, (order, report["broken"])
        return report


def fault_child(library: Path, module: str) -> Iterator[FaultChild]:
    """A process for faults, with files of its own, as long as a fixture lives."""
    with (
        TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as place,
        FaultChild(library, Path(place), module) as child,
    ):
        yield child
