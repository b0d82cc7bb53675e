"""Steps that are taken again, once each, for all laws that ask: TOTAL, WRITE-AHEAD, PURE and FORK-EQ.

A second run goes on beside the one that is judged. It is restored from what is written of the state, as often as that
is earned, and must have the effects of the run that never stopped, and be in an equal state wherever it is restored.
So one step, taken again, shows that it does not raise, that it is a function of its input, and that a restart changes
nothing. Only where it differs is it asked whose fault that is, by taking the step from the very state that it was.
"""

from typing import Protocol, final

from attrs import evolve, frozen

from loopkernel.codec import effects_to_text, state_from_text, state_to_text
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.errors import CodecError
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State, Streaming
from loopkernel.data.steps import Step
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.laws.likeness import alike
from loopkernel.laws.reports import Judged, Transition
from loopkernel.laws.views import calls_kept

# Writing and reading a state costs its size. So that judging a long run stays linear, each step earns the right
# to so many items, and a state is written when its size has been earned. Short runs have all their states written.
FIRST_ALLOWANCE = 2_000
ALLOWANCE = 4
SMALLEST = 20  # what the settings alone cost

# A kernel that knows its own objects can tell a restored state from one that it has made, and be pure for those alone.
# So the first steps of a run are also taken from the very state that each was, and then each of so many.
FIRST_SAME = 64
SAME = 8


@final
@frozen
class Retake:
    """What is wrong with a step that was taken again, for each law that says so."""

    raised: tuple[str, ...] = ()  # TOTAL: it raises, or gives what is not a step
    lost: tuple[str, ...] = ()  # WRITE-AHEAD: its state cannot be written and read back
    impure: tuple[str, ...] = ()  # PURE: it differs when it is taken again
    strayed: tuple[str, ...] = ()  # FORK-EQ: it differs where it is restored

    def __add__(self, other: "Retake") -> "Retake":
        """What is wrong by either."""
        return Retake(
            self.raised + other.raised,
            self.lost + other.lost,
            self.impure + other.impure,
            self.strayed + other.strayed,
        )


SOUND = Retake()


class TakesAgain(Protocol):
    """Tells what becomes of steps that are taken again."""

    def take(self, record: StepRecord, *, is_last: bool = False) -> Retake:
        """What is wrong with the step when it is taken again."""


@final
class Alone:
    """A step by itself: only whether it is a step is asked, of what the transition gives when it is taken again.

    Or of what it gave, where the step `was_taken` just now.
    """

    def __init__(self, judged: Judged, *, was_taken: bool = False) -> None:
        self._transition, self._was_taken = judged.transition, was_taken

    def take(self, record: StepRecord, *, is_last: bool = False) -> Retake:
        """What is wrong with the step as such."""
        given = (record.after, record.effects)
        again = _as_step(given) if self._was_taken else _step(self._transition, record.before, record)
        return Retake(raised=(f"{met(record)} {again}",)) if isinstance(again, str) else SOUND


@final
class Retakes:
    """The run beside the run; `take` each step in order."""

    def __init__(self, judged: Judged) -> None:
        self._transition = judged.transition
        self._judged_to: State | None = None  # where the judged run is
        self._gone_to: State | None = None  # where this run is, if it has been restored and not strayed since
        self._allowance, self._steps = FIRST_ALLOWANCE, 0

    def take(self, record: StepRecord, *, is_last: bool = False) -> Retake:
        """Take the step again, and restore the run behind it if that has been earned."""
        if record.before is not self._judged_to:
            self._gone_to = self._restored(record.before)
        self._judged_to = record.after
        found = self._from_the_same(record) if self._gone_to is None else self._gone_on(self._gone_to, record)
        if found is SOUND and (self._steps < FIRST_SAME or self._steps % SAME == 0):
            found = self._from_the_same(record)
        self._steps += 1
        if not found.raised:
            restored = self._restore(record, is_last=is_last)
            found = found if restored is SOUND else found + restored
        return found

    def _gone_on(self, state: State, record: StepRecord) -> Retake:
        """The step from the restored run."""
        again = _step(self._transition, state, record)
        if isinstance(again, Step) and _without_threads(again.effects) == _without_threads(record.effects):
            self._gone_to = again.next
            return SOUND
        self._gone_to = None
        how = "has other effects" if isinstance(again, Step) else again
        return self._strayed(f"{met(record)} {how} where the run is restored", record)

    def _strayed(self, wrong: str, record: StepRecord) -> Retake:
        """What is wrong, if the step is the same at least from the very state that it was: else that is wrong."""
        same = self._from_the_same(record)
        return Retake(strayed=(wrong,)) if same is SOUND else same

    def _from_the_same(self, record: StepRecord) -> Retake:
        """The step from the very state that it was."""
        again = _step(self._transition, record.before, record)
        if isinstance(again, str):
            return Retake(raised=(f"{met(record)} {again}",))
        if again.effects != record.effects:
            return Retake(impure=(f"{met(record)} has other effects when it is taken again",))
        if again.next != record.after:
            return Retake(impure=(f"{met(record)} leads to another state when it is taken again",))
        if not _same_bytes(again, Step(record.after, record.effects)):
            return Retake(impure=(f"{met(record)} gives other bytes when it is taken again",))
        return SOUND

    def _restore(self, record: StepRecord, *, is_last: bool) -> Retake:
        """Restore the run from the state behind the step, if that is earned."""
        is_new = record.after is not record.before
        self._allowance += ALLOWANCE if is_new else 0
        size = size_of(record.after)
        if not is_last and not (is_new and self._allowance >= size):
            return SOUND
        self._allowance -= size
        found = SOUND
        if self._gone_to is not None and not _same_state(self._gone_to, record.after, to_the_byte=is_last):
            found = self._strayed(f"the run that is restored is in another state after {met(record)}", record)
        if not is_new:
            return found
        name = type(record.after).__name__
        try:
            self._gone_to = state_from_text(state_to_text(record.after))
        except CodecError as error:
            self._gone_to = None
            return found + Retake(lost=(f"{name} cannot be written and read back: {error}",))
        if self._gone_to != record.after:
            return found + Retake(lost=(f"{name} is another state when it is written and read back",))
        return found

    def _restored(self, state: State) -> State | None:
        """The state that a run begins with; None if it cannot be written, which is for its own step to say."""
        try:
            return state_from_text(state_to_text(state))
        except CodecError:
            return None


def _step(transition: Transition, state: State, record: StepRecord) -> Step[State] | str:
    """The step, or what is wrong with what there is in its place."""
    try:
        return _as_step(transition(state, record.context))
    except Exception as error:  # whatever it is: raising is the breach
        return f"raises {type(error).__name__}: {error}"


def _as_step(given: object) -> Step[State] | str:
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], State)):
        return "gives no state"
    if not (isinstance(given[1], tuple) and all(isinstance(effect, Effect) for effect in given[1])):
        return "gives something that is not an effect"
    return Step(given[0], given[1])


def met(record: StepRecord) -> str:
    """The delta and the state that it met, for people."""
    return f"{type(record.context.delta).__name__} in {type(record.before).__name__}"


def size_of(state: State) -> int:
    """About how much there is to write: messages, waiting input, pieces and calls of the open reply."""
    size = SMALLEST
    if state.session is not None:
        size += len(state.session.thread) + len(state.session.inbox.queue) + len(state.session.held)
        size += sum(len(removal.messages) for removal in state.session.compactions.removals)
    if isinstance(state, Streaming):
        size += len(state.pieces)
    ledger = calls_kept(state)
    return size if ledger is None else size + len(ledger.entries)


def _same_state(one: State, other: State, *, to_the_byte: bool) -> bool:
    if not to_the_byte:
        return one == other
    return alike(one, other) or _written(Step(one, ())) == _written(Step(other, ()))


def _same_bytes(one: Step[State], other: Step[State]) -> bool:
    return alike(tuple(one), tuple(other)) or _written(one) == _written(other)


def _written(step: Step[State]) -> tuple[str, str] | None:
    """The canonical texts; None where there are none, which WRITE-AHEAD judges."""
    try:
        return state_to_text(step.next), effects_to_text(step.effects)
    except CodecError:
        return None


def _without_threads(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The effects with the thread of a request cut down to its latest messages: the rest is compared with the state."""
    if not any(isinstance(effect, CallModel) for effect in effects):
        return effects
    return tuple(
        evolve(effect, request=evolve(effect.request, thread=_latest(effect.request.thread)))
        if isinstance(effect, CallModel)
        else effect
        for effect in effects
    )


def _latest(thread: Thread) -> Thread:
    return Thread(Vector.of(thread.messages.tail), thread.generation, thread.opaque_models)
