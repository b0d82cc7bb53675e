"""A disk that fails: at every sync, at every write, and when it is full. Nothing is tried again on that store."""

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.stores.fault_world import (
    BROKEN,
    DONE,
    FAIL,
    NO_SNAPSHOT,
    NOT_CLOSED,
    NOT_OPENED,
    REFUSED,
    SHORTEN,
    TAKEN,
    FaultChild,
)

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") in ("fuzz", "deep")
STORES = ("jsonl", "sqlite")
WHOLE = 40  # records of the reference run
LEAST = {("jsonl", "s"): 8, ("jsonl", "w"): 7, ("sqlite", "s"): 18, ("sqlite", "w"): 50}
FAILURES = {"s": errno.EIO, "w": errno.ENOSPC}


def judged(report: dict[str, Any]) -> None:
    """What holds after every failure. Any: the keys are those that fault_child.py reports."""
    assert report["status"] == 0, report["error"]
    assert report["acknowledged"] <= report["loaded"][0]
    assert report["clean"]
    assert report["loaded"][0] == report["loaded"][1]
    assert report["same_state"]
    assert report["went_on"]
    marks = report["marks"]
    if BROKEN in marks:
        assert REFUSED in marks, "a store that had failed took another append"
        assert TAKEN not in marks
    elif NOT_OPENED not in marks:
        assert DONE in marks


@pytest.mark.parametrize("kinds", FAILURES)
@pytest.mark.parametrize("kind", STORES)
def test_after_a_failure_nothing_is_tried_again(child: FaultChild, kind: str, kinds: str) -> None:
    calls = child.point(kind, job="trouble")["calls"]
    count = calls.count(kinds)
    assert count >= LEAST[kind, kinds]
    met = set()
    for at in range(1, count + 1):
        report = child.point(kind, job="trouble", kinds=kinds, at=at, action=FAIL, errno=FAILURES[kinds])
        judged(report)
        met |= set(report["marks"])
        if BROKEN in report["marks"]:
            failed = [place for place, call in enumerate(report["calls"]) if call == kinds][at - 1]
            assert set(report["calls"][failed + 1 :]) <= {"o", "u"}, "something was written or synced after the failure"
    assert {BROKEN, REFUSED} <= met
    assert NOT_OPENED in met or (kind, kinds) == ("jsonl", "w")  # opening a new file writes nothing
    assert NO_SNAPSHOT in met or (kind, kinds) == ("sqlite", "s")  # nor does a snapshot there sync


@pytest.mark.parametrize("kind", STORES)
def test_a_durable_append_is_one_sync_and_a_passing_one_is_none(child: FaultChild, kind: str) -> None:
    calls = child.point(kind, job="syncs", look=False)["calls"]
    assert calls.count("s") == 12
    told = calls.split("s")
    assert all(told[:10])
    assert len(told[10]) >= 20  # twenty appends without a sync, and then one for all of them
    assert told[11]  # the last one, which closing has made durable


@pytest.mark.parametrize("kind", STORES)
def test_short_writes_are_completed(child: FaultChild, kind: str) -> None:
    for at in range(1, child.point(kind)["calls"].count("w") + 1, 1 if FUZZ or kind == "jsonl" else 3):
        report = child.point(kind, kinds="w", at=at, action=SHORTEN)
        assert (report["status"], report["acknowledged"], report["loaded"]) == (0, WHOLE, [WHOLE, WHOLE])
        assert report["clean"]


@pytest.mark.parametrize("call", ["t", "r", "o", "m"])
@pytest.mark.parametrize("kind", STORES)
def test_other_calls_that_fail_lose_nothing_either(child: FaultChild, kind: str, call: str) -> None:
    for at in range(1, child.point(kind, job="trouble")["calls"].count(call) + 1):
        judged(child.point(kind, job="trouble", kinds=call, at=at, action=FAIL, errno=errno.EACCES))


@pytest.mark.parametrize("kind", STORES)
def test_a_disk_that_is_really_full(child: FaultChild, kind: str, tmp_path: Path) -> None:
    """A file system of its own, of so many bytes, which the reference run fills; then there is room again."""
    size = 4_096 if kind == "jsonl" else 98_304
    mounted = child.folder / "small"
    mounted.mkdir(exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mounted], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"NOT TESTED: no small file system can be mounted here: {made.stderr.strip()}")
    try:
        report = child.point(kind, job="fill", name="small/point", look=False)
        marks = report["marks"]
        assert (BROKEN in marks, REFUSED in marks, TAKEN in marks) == (True, True, False)
        assert 0 < report["acknowledged"] < 90
        subprocess.run(["mount", "-o", "remount,size=16m", mounted], check=True)
        after = child.point(kind, job="open", name="again", prepared=mounted / "point")
        assert report["acknowledged"] <= after["loaded"][0]
        assert after["went_on"]
    finally:
        subprocess.run(["umount", mounted], check=True)
    assert os.listdir(mounted) == []
    assert NOT_CLOSED not in marks
