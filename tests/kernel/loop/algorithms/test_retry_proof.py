"""The arithmetic of retries, proved over all integers by a solver; and the proof's model, checked against the code.

The model says in the solver's terms what `delay_ms` computes: a fraction grown/scale that starts as base/1, and that
each further retry multiplies by the factor numerator/denominator, of at least 1. All numbers are integers without
bound. Each lemma is proved by showing that its negation has no solution. Together they are an induction over the
retries of a model:

- `start` is a good state, and `grow` leads from good states to good states (so each state of a schedule is one; that
  from some retry on the state is kept, as `delay_ms` does after many, is no growth, and no fall);
- in each good state the delay is between 0 and the cap, and the next delay is no shorter;
- the loop of `delay_ms` stops early only where growing on would change no delay;
- each wait is at least what the server asked, and at most `longest`;
- the sum of no waits is at most 0 times `longest`; if that of n waits is at most n times `longest`, so it is for n + 1.

`recover` makes at most `retries` waits of each model (test_retry.py), so all waits together are at most
models * retries * longest, which is what `longest_total_ms` computes.
"""

import itertools
from typing import TypeAlias

import pytest
import z3
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.words import ErrorClass
from loopkernel.loop.algorithms.retry import (
    Dice,
    WaitForRetry,
    _ratio,
    delay_ms,
    jitter_ms,
    longest_total_ms,
    models,
    recover,
)

Number: TypeAlias = z3.ArithRef
State: TypeAlias = tuple[Number, Number]  # grown, scale; or numerator, denominator

base, numerator, denominator, cap = z3.Ints("base numerator denominator cap")
grown, scale = z3.Ints("grown scale")
jitter, jitter_limit, asked, asked_cap = z3.Ints("jitter jitter_limit asked asked_cap")

VALID_FACTOR = z3.And(denominator >= 1, numerator >= denominator)
VALID_CAP = cap >= 0


# --- the model of the code -------------------------------------------------------------------------------


def smaller(one: Number, other: Number) -> Number:
    """min."""
    return z3.If(one <= other, one, other)


def larger(one: Number, other: Number) -> Number:
    """max."""
    return z3.If(one >= other, one, other)


def start(of_base: Number) -> State:
    """The state before the first retry."""
    return of_base, z3.IntVal(1)


def stays(state: State, factor: State, of_cap: Number) -> z3.BoolRef:
    """Whether the loop of `delay_ms` stops here."""
    return z3.Or(state[0] == 0, factor[0] == factor[1], state[0] >= of_cap * state[1])


def multiplied(state: State, factor: State) -> State:
    """The state times the factor."""
    return state[0] * factor[0], state[1] * factor[1]


def grow(state: State, factor: State, of_cap: Number) -> State:
    """The state before the next retry: as the loop of `delay_ms` leaves it."""
    there = stays(state, factor, of_cap)
    further = multiplied(state, factor)
    return z3.If(there, state[0], further[0]), z3.If(there, state[1], further[1])


def delay(state: State, of_cap: Number) -> Number:
    """What `delay_ms` gives; the solver's division of integers rounds down too, as the scale is positive."""
    return smaller(state[0] / state[1], of_cap)


def wait(of_delay: Number, of_jitter: Number, of_asked: Number) -> Number:
    """The wait of `recover`."""
    return larger(of_delay + of_jitter, of_asked)


def longest(of_cap: Number, of_jitter_limit: Number, of_asked_cap: Number) -> Number:
    """The most that `longest_total_ms` counts for one retry."""
    return larger(of_cap + of_jitter_limit, of_asked_cap)


def jitter_of(word: Number, limit: Number) -> Number:
    """What `jitter_ms` makes of 64 mixed bits."""
    return word * (limit + 1) / 2**64


def good(state: State) -> z3.BoolRef:
    """What holds of each state of a schedule."""
    return z3.And(state[0] >= 0, state[1] >= 1)


# --- the proof -------------------------------------------------------------------------------------------

STATE = (grown, scale)
FACTOR = (numerator, denominator)
NEXT = grow(STATE, FACTOR, cap)
GIVEN = z3.And(good(STATE), VALID_FACTOR, VALID_CAP)
DRAWN = z3.And(jitter >= 0, jitter <= jitter_limit, asked >= 0, asked <= asked_cap)
some_delay, total, waits, some_wait, word = z3.Ints("some_delay total waits some_wait word")


def refuted(*claims: z3.BoolRef) -> bool:
    """Whether the solver shows that the claims cannot all hold."""
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*claims)
    found = solver.check()
    assert found != z3.unknown, solver.reason_unknown()
    return bool(found == z3.unsat)


def proved(given: z3.BoolRef, then: z3.BoolRef) -> bool:
    """Whether `then` follows from `given`, whatever the integers."""
    return refuted(given, z3.Not(then))


def test_the_first_state_is_good() -> None:
    assert proved(base >= 0, good(start(base)))


def test_a_good_state_grows_to_a_good_state() -> None:
    assert proved(GIVEN, good(NEXT))


@pytest.mark.rule("RETRY-1")
def test_a_delay_is_never_longer_than_the_cap_nor_less_than_nothing() -> None:
    found = delay(STATE, cap)
    assert proved(GIVEN, z3.And(found >= 0, found <= cap))


@pytest.mark.rule("RETRY-1")
def test_the_first_delay_is_the_base_or_the_cap() -> None:
    assert proved(z3.And(base >= 0, VALID_CAP), delay(start(base), cap) == smaller(base, cap))


@pytest.mark.rule("RETRY-1")
def test_delays_never_fall() -> None:
    assert proved(GIVEN, delay(NEXT, cap) >= delay(STATE, cap))


@pytest.mark.rule("RETRY-1")
def test_the_loop_stops_early_only_where_growing_changes_nothing() -> None:
    """Nor would any growing after that: where it stops, it stops in the next state as well."""
    further = multiplied(STATE, FACTOR)
    given = z3.And(GIVEN, stays(STATE, FACTOR, cap))
    assert proved(given, delay(further, cap) == delay(STATE, cap))
    assert proved(given, stays(further, FACTOR, cap))


@pytest.mark.rule("RETRY-2")
def test_jitter_stays_within_its_limit_whatever_is_mixed() -> None:
    given = z3.And(word >= 0, word < 2**64, jitter_limit >= 0)
    found = jitter_of(word, jitter_limit)
    assert proved(given, z3.And(found >= 0, found <= jitter_limit))


@pytest.mark.rule("RETRY-2")
def test_a_wait_is_at_least_what_the_server_asked_and_at_most_the_longest() -> None:
    given = z3.And(some_delay >= 0, some_delay <= cap, DRAWN)
    found = wait(some_delay, jitter, asked)
    most = longest(cap, jitter_limit, asked_cap)
    assert proved(given, z3.And(asked <= found, some_delay <= found, found <= most))
    assert proved(z3.And(given, VALID_CAP), most <= larger(cap, asked_cap) + jitter_limit)


@pytest.mark.rule("RETRY-2")
def test_one_wait_more_adds_at_most_the_longest() -> None:
    """The step of the induction over the waits of one model; that over the models is the same."""
    most = z3.Int("most")
    before = z3.And(some_wait >= 0, some_wait <= most, waits >= 0, total <= waits * most)
    assert proved(before, total + some_wait <= (waits + 1) * most)
    allowed = z3.Int("allowed")
    assert proved(z3.And(waits >= 0, waits <= allowed, most >= 0, total <= waits * most), total <= allowed * most)


@pytest.mark.parametrize(
    ("given", "then"),
    [
        (GIVEN, grown / scale <= cap),  # a delay without its cap
        (z3.And(good(STATE), VALID_CAP, denominator >= 1, numerator >= 0), delay(NEXT, cap) >= delay(STATE, cap)),
        (GIVEN, delay(multiplied(STATE, FACTOR), cap) == delay(STATE, cap)),  # to stop early anywhere
        (z3.And(some_delay >= 0, some_delay <= cap, DRAWN), wait(some_delay, jitter, asked) <= larger(cap, asked_cap)),
        (z3.And(word >= 0, word <= 2**64, jitter_limit >= 0), jitter_of(word, jitter_limit) <= jitter_limit),
    ],
)
def test_what_does_not_follow_is_not_proved(given: z3.BoolRef, then: z3.BoolRef) -> None:
    assert not proved(given, then)


# --- the model is that of the code -----------------------------------------------------------------------

RETRIES = [
    Retry(base_ms=base_ms, factor=factor, cap_ms=cap_ms, jitter_ms=jitter_ms)
    for base_ms, factor, cap_ms, jitter_ms in itertools.product(
        (0, 1, 999, 5_000), (1, 1.15, 1.5, 2, 1e16), (0, 1, 60_000), (0, 7)
    )
]
DICE = Dice(seed=3, session_id="s1", lineage=1)


def number(value: Number) -> int:
    """The integer that a term without variables comes to."""
    return int(z3.simplify(value).as_long())


def terms(*values: int) -> tuple[Number, ...]:
    """The integers as terms of the solver."""
    return tuple(z3.IntVal(value) for value in values)


@pytest.mark.parametrize("retry", RETRIES)
def test_the_model_computes_the_delays_of_the_code(retry: Retry) -> None:
    of_cap, of_base, *factor = terms(retry.cap_ms, retry.base_ms, *_ratio(retry.factor))
    state = start(of_base)
    for attempt in range(1, 9):
        assert number(delay(state, of_cap)) == delay_ms(retry, attempt)
        state = grow(state, (factor[0], factor[1]), of_cap)
        state = z3.simplify(state[0]), z3.simplify(state[1])


@pytest.mark.parametrize("retry", RETRIES[::7])
def test_the_model_computes_the_waits_and_the_bound_of_the_code(retry: Retry) -> None:
    policy = Policy(retry=retry, retry_after_cap_ms=50_000, fallback_models=("small",))
    of_cap, of_jitter, of_asked_cap = terms(retry.cap_ms, retry.jitter_ms, policy.retry_after_cap_ms)
    bound = len(models(policy)) * retry.retries * number(longest(of_cap, of_jitter, of_asked_cap))
    assert longest_total_ms(policy) == bound
    for attempt, said in itertools.product(range(retry.retries), (0, 3_000, 50_000)):
        found = recover(
            policy, ErrorClass.SERVER, retry_after_ms=said, attempt=attempt, model=0, dice=DICE, request=attempt
        )
        drawn = jitter_ms(DICE, attempt, retry.jitter_ms)
        expected = number(wait(*terms(delay_ms(retry, attempt + 1), drawn, said)))
        assert found == WaitForRetry(expected, attempt + 1)


@pytest.mark.parametrize("limit", [0, 1, 999, 2**70])
def test_the_model_computes_the_jitter_of_the_code(limit: int) -> None:
    for request in range(20):
        mixed = jitter_ms(DICE, request, 2**64 - 1)  # the 64 bits themselves
        assert number(jitter_of(*terms(mixed, limit))) == jitter_ms(DICE, request, limit)
