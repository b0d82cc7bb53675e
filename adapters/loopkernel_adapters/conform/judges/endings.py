"""Judges of cancels and of what a killed agent remembers."""

from collections.abc import Iterator, Sequence

from loopkernel_adapters.conform.judges.judgement import Judge, Judgement, check
from loopkernel_adapters.conform.record import Effect, Record
from loopkernel_adapters.conform.scenario import End
from loopkernel_adapters.conform.scorecard import Weight


def cancels(record: Record) -> Iterator[Judgement]:
    """CANCEL-STOP: after a cancel nothing is asked and nothing starts, what runs is stopped, and the agent ends."""
    for number, (life, seen) in enumerate(zip(record.scenario.lives, record.lives, strict=True)):
        if life.end is not End.CANCELLED or not seen.signalled:
            continue
        asked = [each.number for each in record.of_life(number) if each.number > seen.exchanges]
        detail = f"request {asked[0] if asked else 0} was made after the cancel"
        yield check("CANCEL-STOP", bool(asked), Weight.MUST, detail)
        made = {call.label for exchange, _, call in record.delivered if exchange.life == number}
        later = [each for each in record.effects[seen.effects :] if each.label in made]
        begun = [each.label for each in later if each.word == "part"]
        detail = f"command {begun[0] if begun else ''} began after the cancel"
        yield check("CANCEL-STOP", bool(begun), Weight.MUST, detail)
        ended = Effect("end", life.within or "") in _before_it_runs_again(later, life.within or "")
        detail = f"command {life.within} was not stopped by the cancel, and ran to its end"
        yield check("CANCEL-STOP", ended, Weight.SHOULD, detail)
        yield check("CANCEL-STOP", seen.status is None, Weight.SHOULD, "the agent had not ended 40 s after the cancel")


def _before_it_runs_again(effects: Sequence[Effect], label: str) -> Sequence[Effect]:
    """Those before the command of that label begins anew, whose end is not that of the command which was cancelled."""
    anew = Effect("part", label)
    return effects[: effects.index(anew)] if anew in effects else effects


def memory(record: Record) -> Iterator[Judgement]:
    """WRITE-AHEAD: an agent that was killed knows afterwards of each command that it had begun."""
    for number, life in enumerate(record.scenario.lives):
        if life.end is not End.KILLED or not record.lives[number].signalled:
            continue
        for exchange, _, call in record.delivered:
            if exchange.life != number or not record.count("begin", call.label):
                continue
            for later in record.of_life(number + 1)[:1]:
                there = any(each.label == call.label for each in later.asked.calls)
                before = record.effects[: record.lives[number].effects]
                how = "had run to its end" if Effect("end", call.label) in before else "had begun"
                detail = f"command {call.label} {how} before the kill, and request {later.number} has nothing of it"
                yield check("WRITE-AHEAD", not there, Weight.MUST, detail)


ENDING_JUDGES: tuple[Judge, ...] = (cancels, memory)
