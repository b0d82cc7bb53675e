"""Many sessions that share their syncs, killed by a real SIGKILL: nothing acknowledged is lost, no pair is halved."""

import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.ports import NoSuchRun
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.stores import sharing_child
from tests.adapters.stores.sharing_child import PAIRS, RECORDS, SESSIONS

KILLED_AFTER = (1, 30, 77, 150, 301, 500)  # acknowledgements


def acknowledged_until_killed(path: Path, lines: int, program: list[str]) -> dict[int, int]:
    """How many records of each session were told to be durable by a process that is killed after so many lines."""
    told: dict[int, int] = {}
    with subprocess.Popen([*program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            number, records = process.stdout.readline().split()
            told[int(number)] = int(records)
        process.kill()
        for line in process.stdout:  # what it had told before it died
            if line.endswith("\n"):
                number, records = line.split()
                told[int(number)] = int(records)
    return told


def held(path: Path) -> list[int]:
    """How many records each session has, which are those that were written, and in whole pairs."""
    runs, found = SqliteRuns(path), []
    for number in range(SESSIONS):
        try:
            records = runs.read(f"r{number}")
        except NoSuchRun:
            records = ()
        assert records == RECORDS[: len(records)]
        assert len(records) % 2 == 0, "a run holds half of what was appended together"
        found.append(len(records))
    return found


LYING = """
import sys
from pathlib import Path
from loopkernel_adapters.stores import store_threads
from tests.adapters.stores import sharing_child

def lies(calls):
    "Tells all of them that they are written, and writes the first."
    for call in calls[:1]:
        call.make()

store_threads.make_with_one_sync = lies
sharing_child.asyncio.run(sharing_child.main(Path(sys.argv[1])))
"""


def test_one_that_acknowledges_what_it_has_not_written_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    told = acknowledged_until_killed(path, 150, [sys.executable, "-c", LYING])
    with pytest.raises(AssertionError):
        there = held(path)
        assert all(there[number] >= records for number, records in told.items())


@pytest.mark.rule("RESUME-2")
@pytest.mark.parametrize("lines", KILLED_AFTER)
def test_what_sessions_that_share_a_sync_are_told_is_there_after_a_kill(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "runs.sqlite"
    told = acknowledged_until_killed(path, lines, [sys.executable, "-m", sharing_child.__name__])
    there = held(path)
    assert all(there[number] >= records for number, records in told.items())
    assert sum(there) < SESSIONS * 2 * PAIRS or lines == KILLED_AFTER[-1]
