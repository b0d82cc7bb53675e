"""Jitter: within its limit, evenly spread, anew for whatever differs, and the same on every machine."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.loop.algorithms.retry import Dice, _fnv_1a, _split_mix, jitter_ms

from tests.kernel.loop.algorithms.dice import DICE, dices


@pytest.mark.rule("RETRY-2")
@given(dices, st.integers(), st.integers(0, 10**12))
def test_jitter_stays_within_its_limit(dice: Dice, request: int, limit: int) -> None:
    assert 0 <= jitter_ms(dice, request, limit) <= limit
    assert jitter_ms(dice, request, 0) == 0


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize("limit", [1, 2, 9, 99])
def test_jitter_is_spread_evenly_over_requests_sessions_lineages_and_seeds(limit: int) -> None:
    drawn = [
        [jitter_ms(DICE, request, limit) for request in range(10_000)],
        [jitter_ms(evolve(DICE, session_id=f"session-{number}"), 1, limit) for number in range(10_000)],
        [jitter_ms(evolve(DICE, lineage=number), 1, limit) for number in range(10_000)],
        [jitter_ms(evolve(DICE, seed=number), 1, limit) for number in range(10_000)],
    ]
    for found in drawn:
        counts = Counter(found)
        expected = 10_000 / (limit + 1)
        distance = sum((counts[value] - expected) ** 2 / expected for value in range(limit + 1))
        assert distance < limit + 5 * (2 * limit) ** 0.5 + 5  # chi squared: mean `limit`, variance twice that


@pytest.mark.rule("RETRY-2")
@given(dices, st.integers(1, 10**6))
def test_whatever_differs_draws_anew(dice: Dice, request: int) -> None:
    """Of 2**64 values two are hardly ever the same."""
    limit = 2**64 - 1
    others = {
        jitter_ms(dice, request, limit),
        jitter_ms(dice, request + 1, limit),
        jitter_ms(evolve(dice, seed=dice.seed + 1), request, limit),
        jitter_ms(evolve(dice, lineage=dice.lineage + 1), request, limit),
        jitter_ms(evolve(dice, session_id=dice.session_id + "x"), request, limit),
        jitter_ms(evolve(dice, seed=dice.lineage, lineage=dice.seed), request, limit),
    }
    assert len(others) == 6 - (dice.seed == dice.lineage)


@pytest.mark.rule("RETRY-2")
def test_the_mixing_functions_are_those_that_were_published() -> None:
    """FNV-1a of "a" is af63dc4c8601ec8c; SplitMix64 seeded with 1234567 draws 6457827717110365317, ..."""
    assert [_fnv_1a(data) for data in (b"", b"a", b"foobar")] == [
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    ]
    golden = 0x9E3779B97F4A7C15
    assert [_split_mix(1234567 + step * golden & (2**64 - 1)) for step in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.rule("RETRY-2")
def test_every_process_draws_the_same() -> None:
    program = (
        "from loopkernel.loop.algorithms.retry import Dice, jitter_ms\n"
        "print([jitter_ms(Dice(seed=7, session_id='s\\u00e9\\ud800', lineage=2), n, 1000) for n in range(50)])\n"
    )
    dice = Dice(seed=7, session_id="s\u00e9\ud800", lineage=2)
    here = str([jitter_ms(dice, number, 1000) for number in range(50)])
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == here
