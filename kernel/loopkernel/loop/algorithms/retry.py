"""What follows a failed request of the model (rules RETRY-1 to RETRY-3, RETRY-6): wait, take the next model, give up.

Plain data in, plain data out, usable alone. All of it is integer arithmetic, so that every machine computes the same
schedule, to the millisecond.
"""

from collections.abc import Sequence
from typing import assert_never, final

from loopkernel.data.choices import OnError
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import ErrorClass

GROWING_RETRIES = 1_000  # a delay that has not reached the cap by then grows no more, so that any attempt is computed
NEVER_FALLS_BACK = (ErrorClass.AUTH, ErrorClass.BAD_REQUEST)  # another model would answer the same


@final
@frozen(kw_only=True)
class Dice:
    """What jitter is drawn from (rule RETRY-2): the policy's seed, and the session that draws."""

    seed: int
    session_id: str
    lineage: int


@final
@frozen
class WaitForRetry:
    """Ask the same model again after the delay, as its `attempt`-th retry, from 1."""

    delay_ms: int
    attempt: int


@final
@frozen
class NextModel:
    """Ask `models(policy)[index]` at once, with no retry made yet (rule RETRY-6)."""

    index: int


@final
@frozen
class GiveUp:
    """The failure is not recovered by asking again."""


Recovery = WaitForRetry | NextModel | GiveUp


def models(policy: Policy) -> tuple[str, ...]:
    """The models in the order in which they are asked: the first, then those to fall back to."""
    return (policy.model, *policy.fallback_models)


def model_at(policy: Policy, index: int) -> str:
    """The model of that index, or the last one where there are no more so many."""
    if index == 0:
        return policy.model
    found = models(policy)
    return found[min(index, len(found) - 1)]


def recover(
    policy: Policy,
    error: ErrorClass,
    *,
    retry_after_ms: int | None,
    attempt: int,
    model: int,
    dice: Dice,
    request: int,
) -> Recovery:
    """What follows the failure of request number `request` (rules RETRY-2 and RETRY-6).

    `attempt` retries of the model with index `model` have been made. A prompt that is too long is never recovered
    here. Other requests than the failed one change nothing.
    """
    if error is ErrorClass.PROMPT_TOO_LONG:
        return GiveUp()
    retry = policy.retry
    if retry is not None and error in retry.classes:
        asked = retry_after_ms or 0
        if attempt < retry.retries and asked <= policy.retry_after_cap_ms:
            delay = delay_ms(retry, attempt + 1) + jitter_ms(dice, request, retry.jitter_ms)
            return WaitForRetry(max(delay, asked), attempt + 1)
    elif error in NEVER_FALLS_BACK:
        return GiveUp()
    return NextModel(model + 1) if model < len(policy.fallback_models) else GiveUp()


def delay_ms(retry: Retry, attempt: int) -> int:
    """The delay before the `attempt`-th retry, from 1, without jitter (rule RETRY-1).

    It is min(base * factor**(attempt - 1), cap), exact, then rounded down.
    """
    numerator, denominator = _ratio(retry.factor)
    grown, scale = retry.base_ms, 1
    for _ in range(min(attempt - 1, GROWING_RETRIES)):
        if grown == 0 or numerator == denominator or grown >= retry.cap_ms * scale:
            break
        grown *= numerator
        scale *= denominator
    return min(grown // scale, retry.cap_ms)


def _ratio(factor: float) -> tuple[int, int]:
    """The factor, of at least 1, as the fraction that its shortest decimal says: 1.15 is 115/100."""
    digits, _, exponent = repr(float(factor)).partition("e")
    whole, _, places = digits.partition(".")
    return int(whole + places) * 10 ** int(exponent or 0), 10 ** len(places)


_WORD = (1 << 64) - 1  # what fits into 64 bits
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_GOLDEN = 0x9E3779B97F4A7C15


def jitter_ms(dice: Dice, request: int, limit: int) -> int:
    """A delay from 0 to `limit`, each about as likely (rule RETRY-2): the same for the same dice and request.

    The session id is hashed with 64-bit FNV-1a (Fowler, Noll, Vo; RFC 9923), and each number is mixed in with
    SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    """
    mixed = _fnv_1a(dice.session_id.encode("utf-8", "surrogatepass"))
    for number in (dice.seed, dice.lineage, request):
        mixed = _split_mix(mixed ^ (number & _WORD))
    return mixed * (limit + 1) >> 64


def _fnv_1a(data: bytes) -> int:
    found = _FNV_OFFSET
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & _WORD
    return found


def _split_mix(state: int) -> int:
    """The output of SplitMix64 in that state."""
    mixed = state + _GOLDEN & _WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _WORD
    return mixed ^ mixed >> 31


def schedule(policy: Policy, *, attempt: int, model: int, dice: Dice, request: int) -> tuple[Recovery, ...]:
    """All that is still to come (rule RETRY-2), from the failure of `request` on to giving up.

    It holds if each request fails with an error that is retried, and no server asks for a wait.
    """
    error = _retried(policy)
    coming: list[Recovery] = []
    while not coming or not isinstance(coming[-1], GiveUp):
        found = recover(
            policy, error, retry_after_ms=None, attempt=attempt, model=model, dice=dice, request=request + len(coming)
        )
        coming.append(found)
        if isinstance(found, NextModel):
            attempt, model = 0, found.index
        else:
            attempt += 1
    return tuple(coming)


def _retried(policy: Policy) -> ErrorClass:
    """A class that is retried, or, where none is, one that falls back all the same."""
    listed = () if policy.retry is None else policy.retry.classes
    return next((error for error in listed if error is not ErrorClass.PROMPT_TOO_LONG), ErrorClass.OVERLOADED)


def schedule_text(coming: Sequence[Recovery], policy: Policy) -> str:
    """The schedule in words: "5 s, 10 s, then model small: 5 s, 10 s, then the error is shown"."""
    phrases: list[str] = []
    waits: list[str] = []
    start = ""
    for recovery in coming:
        match recovery:
            case WaitForRetry():
                waits.append(_seconds(recovery.delay_ms))
            case NextModel():
                phrases.append(_phrase(start, waits))
                start, waits = f"model {model_at(policy, recovery.index)}", []
            case GiveUp():
                shown = "fed back" if policy.on_error is OnError.FEED_BACK else "shown"
                phrases += [_phrase(start, waits), f"the error is {shown}"]
            case _:
                assert_never(recovery)
    return ", then ".join(phrase for phrase in phrases if phrase)


def _phrase(start: str, waits: Sequence[str]) -> str:
    """The waits of one model, behind its name."""
    return ": ".join(part for part in (start, ", ".join(waits)) if part)


def _seconds(milliseconds: int) -> str:
    whole, part = divmod(milliseconds, 1000)
    return f"{whole}.{part:03}".rstrip("0").rstrip(".") + " s"


def longest_total_ms(policy: Policy) -> int:
    """What all delays of a schedule together never pass, whatever servers ask for (law RETRY-LAW)."""
    retry = policy.retry
    if retry is None:
        return 0
    longest = max(retry.cap_ms + retry.jitter_ms, policy.retry_after_cap_ms)
    return len(models(policy)) * retry.retries * longest
