"""One mutant against its tests, in a forked process that imports the kernel with the mutant in it."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import NoReturn

import pytest
from attrs import frozen
from hypothesis import Phase, settings

from mutation.importing import TreeFinder
from mutation.mutants import Mutant, mutated
from mutation.plans import Batch
from mutation.subject import Subject

TIMES_LONGER = 10  # than it took before: a test that takes more, and more than patience, is in a loop without end
CLOCK_FACTOR = 6  # the same by the clock: a test that waits for what never comes uses no processor
COLLECTING_SECONDS = 60.0
MEMORY = 6 << 30  # bytes of addresses; a mutant that wants more is dead
OUT_OF_TIME = (signal.SIGPROF, signal.SIGALRM)
PROFILE = "mutation"


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    SURVIVED = "survived"
    UNREACHED = "unreached"

    @property
    def is_dead(self) -> bool:
        """Whether the tests noticed it."""
        return self not in (Verdict.SURVIVED, Verdict.UNREACHED)


@frozen(kw_only=True)
class Outcome:
    """The verdict on a mutant, and the tests that gave it: the first, unless every one was asked for."""

    mutant: Mutant
    verdict: Verdict
    tests: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def test(self) -> str:
        """The first test that noticed the mutant, or how its process died."""
        return self.tests[0] if self.tests else ""


class Chosen:
    """The plugin that runs the tests of a batch in its order, under limits, and remembers those that fail."""

    def __init__(self, batch: Batch, patience: float) -> None:
        self.batch = batch
        self.patience = patience
        self.failed: list[str] = []

    @pytest.hookimpl
    def pytest_configure(self) -> None:
        """Generate examples as the suite does, but shrink none: that a test fails is enough."""
        settings.register_profile(
            PROFILE, settings.default, phases=(Phase.explicit, Phase.generate), database=None, print_blob=False
        )
        settings.load_profile(PROFILE)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the batch, in its order."""
        order = {test: position for position, test in enumerate(self.batch.tests)}
        kept = [item for item in items if item.nodeid in order]
        items[:] = sorted(kept, key=lambda item: order[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        limit(self.patience + TIMES_LONGER * self.batch.tests[item.nodeid])
        return (yield)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (while it was collected)")


def limit(seconds: float) -> None:
    """End this process by a signal when what follows takes longer than that, or far longer by the clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, CLOCK_FACTOR * seconds)


def mutant_finder(subject: Subject, mutant: Mutant) -> TreeFinder:
    """Imports the module of the mutant with its change made."""
    return TreeFinder({subject.module(mutant.path): lambda text: mutated(text, mutant.number, subject.enums)})


@frozen(kw_only=True)
class Way:
    """How the tests of a mutant are run: until the first that fails, or every one; their output hidden, or shown."""

    is_exhaustive: bool = False
    is_shown: bool = False

    @property
    def options(self) -> list[str]:
        """What pytest is told."""
        told = ["--tb=short"] if self.is_shown else ["--tb=no", "--no-header"]
        return told if self.is_exhaustive else ["-x", *told]


def failures(subject: Subject, batches: list[Batch], folder: Path, way: Way) -> list[str]:
    """Run the batches, until a test fails unless every one is wanted, and name those that fail."""
    os.chdir(subject.root)
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of Hypothesis, which is there before pytest starts
    found: list[str] = []
    for number, batch in enumerate(batches):
        limit(COLLECTING_SECONDS)
        chosen = Chosen(batch, subject.patience)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/{number}", *quiet]
        status = pytest.main([*options, *way.options, *batch.files], plugins=[chosen])
        if status != pytest.ExitCode.OK:
            found += dict.fromkeys(chosen.failed or [f"pytest ended with {status!r}"])
        if found and not way.is_exhaustive:
            break
    return found


def run_forked(work: Callable[[Path], list[str]], *, is_shown: bool = False) -> tuple[int, Path]:
    """Do the work in a forked process, which writes the names that it gives into the file `result` of the folder."""
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _work_and_leave(work, folder, is_shown)
    return process, folder


def _work_and_leave(work: Callable[[Path], list[str]], folder: Path, is_shown: bool) -> NoReturn:
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if not is_shown:
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
        told: dict[str, object] = {"failed": work(folder)}
    except BaseException:
        told = {"fault": traceback.format_exc()}
    finally:
        limit(0)
    (folder / "result").write_text(json.dumps(told), encoding="utf-8")
    os._exit(0)


def verdict_of(status: int, folder: Path) -> tuple[Verdict, tuple[str, ...]]:
    """What the forked process said, or how it died. Raises TrialFault when the tool itself failed there."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        how = signal.Signals(number).name
        return (Verdict.TIMED_OUT if number in OUT_OF_TIME else Verdict.CRASHED), (how,)
    result = folder / "result"
    if not result.exists():
        return Verdict.CRASHED, ("the process ended early",)
    told = json.loads(result.read_text(encoding="utf-8"))
    if "fault" in told:
        raise TrialFault(told["fault"])
    return (Verdict.KILLED if told["failed"] else Verdict.SURVIVED), tuple(told["failed"])


class TrialFault(Exception):
    """Not the mutant failed but what tries it."""


@frozen(kw_only=True)
class Trial:
    """A forked process that is under way."""

    mutant: Mutant
    folder: Path
    started: float

    def outcome(self, status: int) -> Outcome:
        """What came of it, now that it has ended with that status."""
        verdict, tests = verdict_of(status, self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return Outcome(mutant=self.mutant, verdict=verdict, tests=tests, seconds=time.monotonic() - self.started)


def try_all(
    subject: Subject, planned: Iterator[tuple[Mutant, list[Batch]]], workers: int, way: Way
) -> Iterator[Outcome]:
    """Try the mutants, so many at a time, each outcome as it comes."""
    running: dict[int, Trial] = {}
    try:
        for mutant, batches in planned:
            if not batches:
                yield Outcome(mutant=mutant, verdict=Verdict.UNREACHED)
                continue
            while len(running) >= workers:
                yield _ended(running)
            started = time.monotonic()
            process, folder = run_forked(_against(subject, mutant, batches, way), is_shown=way.is_shown)
            running[process] = Trial(mutant=mutant, folder=folder, started=started)
        while running:
            yield _ended(running)
    finally:
        for process in running:
            _end_group(process)


def _against(subject: Subject, mutant: Mutant, batches: list[Batch], way: Way) -> Callable[[Path], list[str]]:
    def work(folder: Path) -> list[str]:
        mutant_finder(subject, mutant).install()
        return failures(subject, batches, folder, way)

    return work


def _ended(running: dict[int, Trial]) -> Outcome:
    process, status = os.wait()
    _end_group(process)
    return running.pop(process).outcome(status)


def _end_group(process: int) -> None:
    """End what the tests of a forked process have started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def failure_without_mutant(subject: Subject, tests: dict[str, float]) -> str:
    """The first of the tests that fails on the sources as they are; "" when all pass, as they must."""
    process, folder = run_forked(lambda place: failures(subject, [Batch(tests=tests)], place, Way()))
    _, status = os.waitpid(process, 0)
    _end_group(process)
    verdict, failed = verdict_of(status, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return "" if verdict is Verdict.SURVIVED else f"{verdict.value}: {failed[0]}"
