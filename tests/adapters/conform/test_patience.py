"""Patience: rest is counted, of work a fifth, of slowness nothing, without a jump; all that was started is watched."""

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

TICK_S = 5.0


def looks() -> st.SearchStrategy[Wanted]:
    """What may be seen at a look: up to four processors' work, and as much of waiting."""
    share = (st.integers(0, 40) | st.integers(0, 8)).map(lambda tenths: tenths / 10 * TICK_S)
    return st.builds(Wanted, had_s=share, waited_s=share, on_disk=st.booleans())


def counted(look: Wanted) -> float:
    """What a look counts, told in another way: the part of the time that nobody wants, and a fifth of the work."""
    wanted = 1.0 if look.on_disk else min(1.0, (look.had_s + look.waited_s) / TICK_S)
    return TICK_S * (1.0 - wanted) + OF_WORK * look.had_s


def lasts(seconds: float, look: Wanted) -> float:
    """How long a patience lasts by the clock where each look is as this one."""
    now = 0.0
    patience = Patience(seconds, clock=lambda: now, wanted=lambda: look)
    while not patience.is_over():
        now += TICK_S
        assert now < 100 * seconds, "it never ends"
    return now


LINUX = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell of threads")


@given(seconds=st.integers(1, 20), ticks=st.lists(looks(), min_size=20, max_size=20))
def test_it_is_over_once_rest_and_a_fifth_of_work_amount_to_it_however_slow_all_is(
    seconds: int, ticks: list[Wanted]
) -> None:
    now, so_far = 0.0, 0.0
    seen: Iterator[Wanted] = iter(ticks)
    patience = Patience(seconds, clock=lambda: now, wanted=lambda: next(seen))
    for tick in ticks:
        now += TICK_S
        so_far += counted(tick)
        if abs(so_far - seconds) > 1e-6:  # where they are equal, rounding decides
            assert patience.is_over() is (so_far >= seconds)
        else:
            patience.is_over()


@given(work=st.integers(0, 90), more=st.integers(0, 10))
def test_a_little_more_of_work_makes_a_wait_a_little_longer(work: int, more: int) -> None:
    """A tenth of a processor more, up to a whole one, stretches no wait to more than one and a half."""
    less, greater = (lasts(200.0, Wanted(had_s=TICK_S * each / 100)) for each in (work, work + more))
    assert less <= greater <= 1.5 * less + TICK_S


@given(st.integers(5, 200))
def test_what_works_for_ever_is_given_up(seconds: int) -> None:
    assert lasts(seconds, Wanted(had_s=TICK_S)) == pytest.approx(seconds / OF_WORK, abs=TICK_S)


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
