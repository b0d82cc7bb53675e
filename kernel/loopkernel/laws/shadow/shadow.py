"""The shadow of a run: what its deltas and effects tell so far, folded once, a step at a time, for every law."""

from collections.abc import Iterable, Iterator
from typing import final

from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.laws.reports import Judged
from loopkernel.laws.retakes import Retakes, TakesAgain
from loopkernel.laws.shadow.counts import CallCounts
from loopkernel.laws.shadow.memory import Memory
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.turn import TurnTold


@final
class Shadow:
    """What is known before the next step; `follow` each step of the run in order, once the one before it was judged."""

    def __init__(self, start: State, retakes: TakesAgain) -> None:
        self._turn, self._calls, self._memory, self._retakes = TurnTold.of(start), CallCounts(), Memory(), retakes
        self._judged: JudgedStep | None = None

    def follow(self, record: StepRecord, *, is_last: bool = False) -> JudgedStep:
        """The step, with what was known before it and is known after each of its effects."""
        if self._judged is not None:
            self._memory.note(self._judged.after, self._judged.requests)
            self._turn = self._judged.turns[-1]
        self._judged = JudgedStep(record, self._turn, self._calls, self._memory, self._retakes, is_last=is_last)
        return self._judged


def steps_of(records: Iterable[StepRecord], judged: Judged) -> Iterator[JudgedStep]:
    """The steps of a run, as laws read them."""
    shadow: Shadow | None = None
    waiting: StepRecord | None = None  # until it is known whether another one follows
    for record in records:
        shadow = Shadow(record.before, Retakes(judged)) if shadow is None else shadow
        if waiting is not None:
            yield shadow.follow(waiting)
        waiting = record
    if shadow is not None and waiting is not None:
        yield shadow.follow(waiting, is_last=True)
