"""The trace law about turns that come to rest: PROGRESS.

STATE-8 (run-started first; one turn-ended event for each turn, on every path) is judged here too: that every turn ends,
once, is what "the run comes to rest" means, seen from outside.
"""

from collections.abc import Iterator
from typing import final

from loopkernel.data.effects import Effect
from loopkernel.data.events import LoopStopped, Refused, RunStarted, TurnEnded
from loopkernel.data.states import Finishing, State, Thinking
from loopkernel.data.words import TurnEndReason
from loopkernel.laws.recoveries import Recoveries
from loopkernel.laws.repetition import Repetition
from loopkernel.laws.reply_ends import ended_as_due
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.turn import TurnTold
from loopkernel.laws.turn_hooks import TurnHooks
from loopkernel.laws.views import Answering
from loopkernel.laws.works_told import Corrections, WorksTold

# How a turn ends that is cut short while hooks are asked at its end.
_CUTS = (TurnEndReason.USER_ABORT, TurnEndReason.INTERRUPTED, TurnEndReason.EDITED, TurnEndReason.DISPOSED)


@final
class Progress:
    """Recoveries in a row are bounded, a state that can be seen waits for something, and every turn ends once."""

    def __init__(self, start: State) -> None:
        self._recoveries, self._corrections = Recoveries(), Corrections(start)
        self._hooks, self._works = TurnHooks(start), WorksTold(start)
        self._repetition = Repetition(start)
        self._started = start.session is not None

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        for effect, told in zip(step.effects, step.turns, strict=False):
            yield from _turn_ends(effect, told, self._started, step.after)
            yield from self._recoveries.take(effect, told, step.after)
            yield from self._corrections.take(effect, told, step)
            self._started = self._started or isinstance(effect, RunStarted)
        yield from _rests(step)
        yield from _repeats(step)
        yield from ended_as_due(step)
        yield from self._repetition.take(step)
        yield from self._hooks.take(step)
        yield from self._works.take(step)


def _turn_ends(effect: Effect, told: TurnTold, started: bool, after: State) -> Iterator[str]:
    """STATE-8: the run starts once and first; a turn ends once, with the usage of the run."""
    if isinstance(effect, RunStarted):
        if started:
            yield "the run is said to start a second time"
    elif not started and not isinstance(effect, Refused):  # what comes before the creation is refused
        yield f"{type(effect).__name__} comes before the run is said to start"
    elif isinstance(effect, TurnEnded):
        if not told.open:
            yield f"a turn ends as {effect.reason.value}, and none is open"
        if after.session is not None and effect.usage != after.session.usage:
            yield f"the turn ends with usage {effect.usage}, and the run has used {after.session.usage}"


def _rests(step: JudgedStep) -> Iterator[str]:
    """No state is left that nothing can move; at rest no turn is open, and nowhere else is none."""
    state, told = step.after, step.turns[-1]
    if step.turn is None:
        if told.open:
            yield f"the state is {type(state).__name__}, and the turn has not ended"
    elif not told.open:
        yield f"the state is {type(state).__name__}, and its turn has ended"
    stuck = False
    if isinstance(state, Answering):
        under_way = (step.counts[name] for name in ("running", "waiting", "in their check", "hooked"))
        stuck = not (state.session.held or any(under_way))
    elif isinstance(state, Thinking | Finishing):
        stuck = state.gate is None
    if stuck:
        yield f"the state is {type(state).__name__}, and nothing that it waits for is under way"


def _repeats(step: JudgedStep) -> Iterator[str]:
    """LIMIT-3: a turn that is stopped for repetition ends for it."""
    stopped, ends = step.told(LoopStopped), [ended.reason for ended in step.told(TurnEnded)]
    ending = _ends_for_repetition(step.after) or TurnEndReason.LOOP_DETECTED in ends
    if stopped and not ending:
        yield "a turn is stopped for repetition, and does not end so"
    if ending and not stopped and not _ends_for_repetition(step.before):
        yield "a turn ends for no repetition"
    if _ends_for_repetition(step.before) and not {TurnEndReason.LOOP_DETECTED, *_CUTS}.issuperset(ends):
        yield f"a turn that was stopped for repetition ends as {ends[0].value}"


def _ends_for_repetition(state: State) -> bool:
    """Whether hooks are asked behind a turn that repetition has ended."""
    return isinstance(state, Finishing) and state.ending.reason is TurnEndReason.LOOP_DETECTED
