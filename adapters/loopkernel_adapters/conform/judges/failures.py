"""Judges of what follows when something fails: waits, tries without end, and inputs that fit nothing."""

from collections.abc import Iterator

from loopkernel_adapters.conform.asked import Asked
from loopkernel_adapters.conform.judges.judgement import Judge, Judgement, check
from loopkernel_adapters.conform.record import Record
from loopkernel_adapters.conform.scenario import End
from loopkernel_adapters.conform.scorecard import Weight
from loopkernel_adapters.conform.script import Cut, Problem, Reply

_EARLY_S = 0.1  # a clock may be so much off
_MOST_TRIES = 25


def waits(record: Record) -> Iterator[Judgement]:
    """RETRY-LAW: who asks again waits as long as the server said; what no second try mends is not tried on and on."""
    for before, after in zip(record.exchanges, record.exchanges[1:], strict=False):
        if isinstance(before.answer, Problem) and before.answer.retry_after_s is not None:
            waited, asked = after.at_s - before.answered_s, before.answer.retry_after_s
            detail = f"the server asked to wait {asked} s, and request {after.number} came after {waited:.1f} s"
            yield check("RETRY-LAW", waited < asked - _EARLY_S, Weight.SHOULD, detail)
    refused = [each for each in record.exchanges if isinstance(each.answer, Problem) and each.answer.status == 401]
    if refused:
        detail = f"a refused key was tried {len(refused)} times"
        yield check("RETRY-LAW", len(refused) > 1, Weight.NOTED, detail)


def rest(record: Record) -> Iterator[Judgement]:
    """PROGRESS: a turn comes to its end by itself, in so many requests."""
    for number, (life, seen) in enumerate(zip(record.scenario.lives, record.lives, strict=True)):
        asked = len(record.of_life(number))
        if life.end is End.BY_ITSELF and asked:
            detail = f"process {number + 1} had not ended after {seen.patience_s} s and {asked} requests"
            # How long a silent stream may be waited for is a setting: no more than noted.
            weight = Weight.NOTED if _falls_silent(record) else Weight.SHOULD
            yield check("PROGRESS", seen.status is None, weight, detail)
    most = len(record.scenario.answers) + _MOST_TRIES
    detail = f"{len(record.exchanges)} requests were made"
    yield check("PROGRESS", len(record.exchanges) > most, Weight.MUST, detail)


def _falls_silent(record: Record) -> bool:
    return any(isinstance(each, Reply) and each.cut is Cut.SILENCE for each in record.scenario.answers)


def totality(record: Record) -> Iterator[Judgement]:
    """TOTAL: a call that fits nothing is answered with words, and the run goes on."""
    for exchange, reply, call in record.delivered:
        if call.raw is None or not reply.ended:
            continue
        behind = [each for each in record.exchanges if each.number == exchange.number + 1]
        status = record.lives[exchange.life].status
        detail = f"call {call.label} fits no tool, and nothing was asked after it; the agent ended with status {status}"
        yield check("TOTAL", not behind, Weight.SHOULD, detail)


def too_long(record: Record) -> Iterator[Judgement]:
    """CUT-SAFE: what was too long is not sent again as it was, and what is sent in its place is whole."""
    for before, after in zip(record.exchanges, record.exchanges[1:], strict=False):
        if isinstance(before.answer, Problem) and "too long" in before.answer.message:
            detail = f"request {after.number} is the one that was too long, again"
            yield check("CUT-SAFE", _same(before.asked, after.asked), Weight.SHOULD, detail)


def _same(before: Asked, after: Asked) -> bool:
    return before.items == after.items


FAILURE_JUDGES: tuple[Judge, ...] = (waits, rest, totality, too_long)
