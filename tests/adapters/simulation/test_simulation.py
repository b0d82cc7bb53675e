"""The real driver in 2,000 simulated worlds: nothing is wrong with it, everything has gone wrong around it."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.simulation.batch import Batch, command_for, is_lively, run_seed
from tests.adapters.simulation.drawing import plan_of
from tests.adapters.simulation.planted_drivers import PLANTED
from tests.adapters.simulation.running import run

SEEDS = 2_000
PARTS = 8  # of the seeds, so that two workers share them
LAWS_EVERY = 8  # all laws cost more than the world that they are judged over; the test below judges them on all of its
HOURS = 1_000  # that have to pass in all these worlds together

# What has to have gone wrong at least once over all worlds, or the simulation tests less than it says.
SOMETIMES = (
    *("model: slow", "model: silence", "model: ends early", "model: odd retry-after", "model: garbage"),
    *("model: wrong operation", "model: duplicate", "model: foreign", "model: timeout", "model: lost", "model: exit"),
    *("model: close raises", "model: odd text", "model: late report"),
    *(f"model: fails {name}" for name in ("overloaded", "rate_limited", "server", "network", "stalled", "auth")),
    *(f"model: fails {name}" for name in ("invalid_output", "prompt_too_long", "bad_request", "refused", "unknown")),
    *("tool: slow", "tool: fails", "tool: foreign", "tool: garbage", "tool: hangs", "tool: ignores its abort"),
    *("tool: raises after cancel", "tool: finishes while cancelled", "tool: asks", "tool: asks and goes"),
    *("tool: background", "tool: background twice", "tool: huge", "tool: odd text", "tool: exit"),
    *("tool: cancels itself", "tool: claims background", "check: foreign", "check: garbage"),
    *("hook: slow", "hook: hangs", "hook: foreign", "hook: garbage", "hook: exit", "summary: fails", "handoff: slow"),
    *("store fails", "store dies before", "store dies within", "store dies after", "store fails at the opening"),
    "store keeps a part of what it was given",
    *("crash", "unsynced records lost", "clock forward", "clock back", "late timer", "observer raises"),
    *("log in other hands", "words of a person forged"),
    "slow reader",
    "slow append",
    *("posted within a step", "sub-agent", "send fails", "the run failed", "settled", "a person was needed"),
)


@pytest.mark.rule("RESUME-2")
@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_driver_holds_in_every_world(part: int) -> None:
    batch = Batch(laws_every=LAWS_EVERY)
    size = SEEDS // PARTS
    for seed in range(part * size, (part + 1) * size):
        batch.add(seed, is_lively(seed))
    told = "\n".join(f"{failed.faults[0]}\n    {command_for(failed.plan)}" for failed in batch.failed[:5])
    assert not batch.failed, f"{batch.summary()}\n{told}"
    assert batch.elapsed_ms > HOURS // PARTS * 3_600_000


@given(seed=st.integers(min_value=SEEDS, max_value=10**9), lively=st.booleans())
def test_all_laws_hold_in_any_world(seed: int, lively: bool) -> None:
    outcome = run_seed(seed, lively, laws=True)
    assert not outcome.faults, f"{outcome.faults[0]}\n    {command_for(outcome.plan)}"


def test_all_goes_wrong_sometimes() -> None:
    """Each kind of fault is met within the first worlds, and so within all."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += run_seed(seed, is_lively(seed), laws=False).seen
        if seed % 100 == 99 and not set(SOMETIMES) - seen.keys():
            return
    assert sorted(set(SOMETIMES) - seen.keys()) == []


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    assert any(run_seed(seed, is_lively(seed), laws=False).faults for seed in range(SEEDS // 8))


IN_ANOTHER_PROCESS = """
import hashlib
from tests.adapters.simulation.batch import is_lively, run_seed
for seed in range(20):
    print(hashlib.sha256(run_seed(seed, is_lively(seed), laws=False).log).hexdigest())
"""


def digests(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    made = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS], env=environment, capture_output=True, text=True, check=True
    )
    return made.stdout


def test_a_seed_gives_the_same_log_in_every_process() -> None:
    first = digests("1")
    assert len(first.split()) == 20
    assert digests("2") == first


def test_a_world_is_run_again_as_it_was() -> None:
    for seed in range(40):
        plan = plan_of(seed, is_lively(seed))
        assert run(plan).log == run(plan).log
