"""Which statements each test reaches, and how long it takes: a plugin of pytest writes it down in one run of all.

The plugin is loaded by `-p mutation.recording` into each process of pytest-xdist; each writes a file of its own.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path

import pytest
from attrs import evolve, field, frozen

from mutation.probes import Place, places, probing_finder
from mutation.subject import ROOT, Subject

FOLDER = "MUTATION_RECORD"  # the variable that names where the files go; without it nothing is recorded
SUBJECT = "MUTATION_SUBJECT"  # and the one that describes what is mutated
SUFFIX = ".record"


@frozen(kw_only=True)
class Recorded:
    """One test that passed: how long it took and which places it reached, as a row of bytes."""

    test: str
    seconds: float
    row: bytes = field(repr=False)

    @property
    def reached(self) -> Iterator[int]:
        """The numbers of the places that it reached."""
        return compress(range(len(self.row)), self.row)

    @property
    def file(self) -> str:
        """The file that the test stands in."""
        return self.test.partition("::")[0]


@frozen(kw_only=True)
class Record:
    """What was written down of a whole run. `collected` tells of each file as if it were a test."""

    tests: tuple[Recorded, ...]
    collected: dict[str, Recorded]
    failed: tuple[str, ...]
    places: tuple[Place, ...]

    def of(self, beginnings: Iterable[str]) -> "Record":
        """What it holds of the tests whose names begin in one of these ways."""
        wanted = tuple(beginnings)
        return evolve(self, tests=tuple(test for test in self.tests if test.test.startswith(wanted)))


class Recorder:
    """The plugin: after each test, and each collected file, one line."""

    def __init__(self, subject: Subject, path: Path) -> None:
        self.row = bytearray(len(places(subject)))
        self.file = path.open("w", encoding="utf-8")
        probing_finder(subject, self.row).install()

    def _begin(self) -> float:
        self.row[:] = bytes(len(self.row))
        return time.perf_counter()

    def _write(self, kind: str, name: str, start: float) -> None:
        reached = base64.b64encode(zlib.compress(bytes(self.row))).decode()
        line = {"kind": kind, "name": name, "seconds": time.perf_counter() - start, "reached": reached}
        print(json.dumps(line), file=self.file, flush=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        start = self._begin()
        report = yield
        if isinstance(collector, pytest.Module):
            self._write("collected", collector.nodeid, start)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.outcome = "test"
        start = self._begin()
        found = yield
        self._write(self.outcome, item.nodeid, start)
        return found

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.outcome = "failed"
        elif report.skipped and self.outcome == "test":
            self.outcome = "skipped"


def pytest_configure(config: pytest.Config) -> None:
    """Start to record in a process that runs tests; the one that only hands them out to others runs none."""
    folder = os.environ.get(FOLDER)
    hands_out = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if folder and not hands_out:
        config.pluginmanager.register(
            Recorder(Subject.described(os.environ[SUBJECT]), Path(folder) / f"{os.getpid()}{SUFFIX}")
        )


def recorded(subject: Subject, cache: Path, workers: int) -> Record:
    """The record of the sources as they are: from the cache, or of a run of all tests. Raises RecordingFailed."""
    folder = cache / f"record-{_digest(subject)}"
    if not (folder / "complete").exists():
        shutil.rmtree(cache, ignore_errors=True)
        folder.mkdir(parents=True)
        _run_all(subject, folder, workers)
        (folder / "complete").touch()
    found = read_record(subject, folder)
    if found.failed:
        raise RecordingFailed(f"these tests fail on the sources as they are: {', '.join(found.failed[:10])}")
    return found


class RecordingFailed(Exception):
    """The tests do not pass without any mutant, so that nothing can be said of one."""


def _run_all(subject: Subject, folder: Path, workers: int) -> None:
    spread = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 else []
    marked = ["-m", subject.marked] if subject.marked else []
    options = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "mutation.recording", *spread, *marked]
    places_of_modules = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    variables = {
        FOLDER: str(folder),
        SUBJECT: subject.description,
        "PYTHONPATH": os.pathsep.join(place for place in places_of_modules if place),
    }
    command = [sys.executable, "-m", "pytest", *options, *subject.tests]
    ended = subprocess.run(command, cwd=subject.root, env=os.environ | variables, capture_output=True, text=True)
    if ended.returncode != 0:
        raise RecordingFailed(
            f"the tests do not pass without any mutant:\n{ended.stdout[-4000:]}{ended.stderr[-1000:]}"
        )


def _digest(subject: Subject) -> str:
    """A digest of all files that decide what a record holds."""
    found = hashlib.sha256(f"{sys.version}\0{subject.marked}".encode())
    for name in sorted({subject.sources, *subject.tests, *subject.also_read}):
        place = subject.root / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path}\0".encode())
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


def read_record(subject: Subject, folder: Path) -> Record:
    """All that the processes have written."""
    tests: list[Recorded] = []
    failed: list[str] = []
    collected: dict[str, Recorded] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            name, seconds = found["name"], found["seconds"]
            row = zlib.decompress(base64.b64decode(found["reached"]))
            match found["kind"]:
                case "test":
                    tests.append(Recorded(test=name, seconds=seconds, row=row))
                case "failed":
                    failed.append(name)
                case "collected":
                    before = collected.get(name)
                    if before is None or before.row.count(1) < row.count(1):
                        collected[name] = Recorded(test=name, seconds=seconds, row=row)
                case _:
                    pass
    order = sorted(tests, key=lambda recorded: recorded.test)
    return Record(tests=tuple(order), collected=collected, failed=tuple(failed), places=tuple(places(subject)))
