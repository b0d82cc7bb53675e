"""Patience: rest is counted, of work a fifth, of slowness nothing; all that was started is watched."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.conform.patience import OF_WORK, Activity, Patience, Wanted, family

RESTING, AT_WORK = Wanted(), Wanted(had_s=5.0)
SLOW, ON_DISK = Wanted(waited_s=4.0), Wanted(on_disk=True)
COUNTS = {RESTING: 5.0, AT_WORK: 5.0 * OF_WORK, SLOW: 0.0, ON_DISK: 0.0}
LINUX = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell of threads")


@given(seconds=st.integers(1, 20), ticks=st.lists(st.sampled_from([*COUNTS]), min_size=20, max_size=20))
def test_it_is_over_once_rest_and_a_fifth_of_work_amount_to_it_however_slow_all_is(
    seconds: int, ticks: list[Wanted]
) -> None:
    now, counted = 0.0, 0.0
    looks: Iterator[Wanted] = iter(ticks)
    patience = Patience(seconds, clock=lambda: now, wanted=lambda: next(looks))
    for tick in ticks:
        now += 5.0
        counted += COUNTS[tick]
        assert patience.is_over() is (counted >= seconds)


@given(st.integers(1, 20))
def test_what_works_for_ever_is_given_up(seconds: int) -> None:
    now = 0.0
    patience = Patience(seconds, clock=lambda: now, wanted=lambda: Wanted(had_s=1.0))
    while not patience.is_over():
        now += 1.0
    assert now == pytest.approx(seconds / OF_WORK, abs=1.0)


@LINUX
def test_a_grandchild_that_works_is_seen() -> None:
    spinning = "while True: pass"
    starting = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spinning!r}])"
    before = set(family())
    activity = Activity()
    process = subprocess.Popen([sys.executable, "-c", starting], start_new_session=True)
    try:
        while len(set(family()) - before) < 2:
            pass
        had_s = 0.0
        while had_s < 0.3:
            had_s += activity.wanted().had_s
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    while set(family()) - before:
        pass
