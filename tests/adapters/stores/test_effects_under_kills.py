"""A session killed at every system call, of its log and of its tools: a dangerous tool starts once, and the run ends.

The driver is the real one, the kill a SIGKILL, and the tools write down each start before they do anything. Every life
goes on from the log that the one before it left; the last one is not killed.
"""

import os
from typing import Any

import pytest

from tests.adapters.stores.fault_world import ANY, KILL, PASS, TEAR, FaultChild

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") in ("fuzz", "deep")
STORES = ("jsonl", "sqlite")
LEAST_CALLS = {"jsonl": 45, "sqlite": 120}  # of the reference session


def killed(session_child: FaultChild, kind: str, *kills: tuple[int, int], job: str = "drive") -> dict[str, Any]:
    """Lives that are killed at these calls, each a number and a way, and one that is not."""
    faults = [{"kinds": ANY, "at": at, "action": action, "errno": 0} for at, action in kills]
    return session_child.point(kind, job=job, faults=faults)  # Any: the keys are those that effect_child.py reports


def demand_whole(report: dict[str, Any]) -> None:
    assert report["problems"] == []


@pytest.mark.rule("RESUME-2")
@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
@pytest.mark.parametrize("kind", STORES)
def test_a_session_killed_at_any_call_starts_no_dangerous_tool_twice(session_child: FaultChild, kind: str) -> None:
    reference = killed(session_child, kind, (0, PASS))
    demand_whole(reference)
    assert (reference["statuses"], reference["starts"], reference["repeated"]) == ([0], 3, 0)
    calls = reference["calls"]
    assert len(calls) >= LEAST_CALLS[kind]
    points = [(at, KILL) for at in range(1, len(calls) + 1, 1 if FUZZ or kind == "jsonl" else 3)]
    points += [(at, TEAR) for at, call in enumerate(calls, start=1) if FUZZ or call == "s"]
    repeated = unknown = 0
    for point in points:
        report = killed(session_child, kind, point)
        demand_whole(report)
        assert report["statuses"] == [-9]
        repeated += report["repeated"]
        unknown += report["starts"] < 3
    assert repeated > 0, "no kill has hit a run that is repeated: these tests prove too little"
    assert unknown > 0, "no kill has hit a dangerous run before it began: these tests prove too little"
    assert len(points) >= 60


@pytest.mark.rule("RESUME-4")
@pytest.mark.parametrize("kind", STORES)
def test_however_often_it_is_killed(session_child: FaultChild, kind: str) -> None:
    """The second life dies too, and the third, each somewhere else."""
    calls = len(killed(session_child, kind, (0, PASS))["calls"])
    step = 2 if FUZZ else 9 if kind == "jsonl" else 24
    deaths = 0
    for first in range(calls // 3, calls + 1, step):
        for second in range(1, calls - first, step * 2):
            report = killed(session_child, kind, (first, KILL), (second, TEAR), (second + 2, KILL))
            demand_whole(report)
            deaths += report["statuses"].count(-9)
    assert deaths >= (500 if FUZZ and kind == "sqlite" else 12)


def test_a_store_that_only_says_it_has_written_is_caught(session_child: FaultChild) -> None:
    calls = len(killed(session_child, "jsonl", (0, PASS), job="hold")["calls"])
    reports = [killed(session_child, "jsonl", (at, KILL), job="hold") for at in range(1, calls + 1)]
    problems = [problem for report in reports for problem in report["problems"]]
    assert any("started twice" in problem for problem in problems)
    assert any("records were acknowledged" in problem for problem in problems)
