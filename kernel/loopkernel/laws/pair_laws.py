"""Pair laws: PURE, ADDRESS, FORK-EQ and MIRROR. Each compares the run with another that should agree with it.

Writing a state costs its size. PURE and FORK-EQ compare texts at a bounded number of steps, so that judging
stays about linear in the run; everything else is compared at every step.
"""

from collections.abc import Iterator, Sequence
from typing import final

from attrs import evolve

from loopkernel.codec import effects_to_text, state_from_text, state_to_text
from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.errors import CodecError
from loopkernel.data.events import ErrorCleared, ErrorShown, MessageAdded, ThreadRewritten, ToolEnded
from loopkernel.data.ids import CallId
from loopkernel.data.messages import Message
from loopkernel.data.sessions import ShownError
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.threads import Thread
from loopkernel.data.tool_deltas import ToolFailed, ToolSucceeded
from loopkernel.data.vector import Vector
from loopkernel.laws.log_laws import ALLOWANCE, FIRST_ALLOWANCE, size_of
from loopkernel.laws.reports import Breach, Judged
from loopkernel.laws.views import call_of_run, extends, taken_again
from loopkernel.replay import StepRecord, Transition

FORKS = 16  # at most so many steps of a run are restored from their text


# --- PURE ---------------------------------------------------------------------------------------------


def pure(records: Sequence[StepRecord], judged: Judged) -> Iterator[Breach]:
    """Each step, taken again, gives an equal state and equal effects, and the same bytes when written."""
    allowance = FIRST_ALLOWANCE
    for step, record in enumerate(records):
        again = taken_again(record.before, record.context, judged.transition)
        if again is None:
            continue  # it raises, which is for TOTAL to say
        met = f"{type(record.context.delta).__name__} in {type(record.before).__name__}"
        if again.effects != record.effects:
            yield Breach("PURE", step, f"{met} has other effects when it is taken again")
        elif again.next != record.after:
            yield Breach("PURE", step, f"{met} leads to another state when it is taken again")
        else:
            allowance += ALLOWANCE
            size = size_of(record.after)
            if allowance >= size or step == len(records) - 1:
                allowance -= size
                if _written(again.next, again.effects) != _written(record.after, record.effects):
                    yield Breach("PURE", step, f"{met} gives other bytes when it is taken again")


def _written(state: State, effects: tuple[Effect, ...]) -> tuple[str, str] | None:
    """The canonical texts; None where there are none, which WRITE-AHEAD judges."""
    try:
        return state_to_text(state), effects_to_text(effects)
    except CodecError:
        return None


# --- ADDRESS ------------------------------------------------------------------------------------------


def address(records: Sequence[StepRecord], judged: Judged) -> Iterator[Breach]:
    """Two ends of runs that came one after the other give each call the same answer in the other order."""
    for step in range(1, len(records)):
        first, second = records[step - 1], records[step]
        calls = _independent(first, second)
        if calls is None:
            continue
        swapped = _swapped(first, second, judged.transition)
        told = _answers((*first.effects, *second.effects))
        for call in calls:
            if swapped is not None and swapped.get(call) != told.get(call):
                yield Breach("ADDRESS", step, f"call {call} is answered otherwise when the reports come in other order")


def _independent(first: StepRecord, second: StepRecord) -> tuple[CallId, CallId] | None:
    """The calls that two neighbouring reports are about, where their order may not matter."""
    one, other = first.context.delta, second.context.delta
    if not isinstance(one, ToolSucceeded | ToolFailed) or not isinstance(other, ToolSucceeded | ToolFailed):
        return None
    session = first.before.session
    if session is None or session.settings.policy.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS:
        return None
    mine, theirs = call_of_run(first.before, one.operation), call_of_run(first.before, other.operation)
    if mine is None or theirs is None or mine.call.id == theirs.call.id:
        return None
    return (mine.call.id, theirs.call.id) if mine.is_open and theirs.is_open else None


def _swapped(first: StepRecord, second: StepRecord, transition: Transition) -> dict[CallId, ToolResult] | None:
    """The answers when the second report comes first."""
    one = taken_again(first.before, Context(second.context.delta, first.context.now_ms), transition)
    if one is None:
        return None
    two = taken_again(one.next, Context(first.context.delta, second.context.now_ms), transition)
    return None if two is None else _answers((*one.effects, *two.effects))


def _answers(effects: Sequence[Effect]) -> dict[CallId, ToolResult]:
    return {effect.result.call: effect.result for effect in effects if isinstance(effect, ToolEnded)}


# --- FORK-EQ ------------------------------------------------------------------------------------------


def fork_eq(records: Sequence[StepRecord], judged: Judged) -> Iterator[Breach]:
    """A state that is written, read back and gone on from gives the effects of the run that never stopped.

    The run is cut into at most FORKS pieces. Each begins from text; it ends where the next begins, and there
    the two runs must be in states of the same text, so that what holds of the pieces holds of the whole.
    """
    starts = range(0, len(records), max(1, -(-len(records) // FORKS)))
    for start in starts:
        piece = records[start : start + starts.step]
        try:
            state = state_from_text(state_to_text(piece[0].before))
        except CodecError:
            continue  # a state that cannot be written is for WRITE-AHEAD to say
        for step, record in enumerate(piece, start):
            went_on = taken_again(state, record.context, judged.transition)
            if went_on is None:
                break
            if _without_threads(went_on.effects) != _without_threads(record.effects):
                yield Breach("FORK-EQ", step, f"restored before step {start}, the run has other effects here")
                break
            state = went_on.next
        else:
            if _written(state, ()) != _written(piece[-1].after, ()):
                yield Breach(
                    "FORK-EQ", start + len(piece) - 1, f"restored before step {start}, the run ends in another state"
                )


def _without_threads(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The effects with the thread of a request cut down to its latest messages: the rest is compared at the end."""
    return tuple(
        evolve(effect, request=evolve(effect.request, thread=_latest(effect.request.thread)))
        if isinstance(effect, CallModel)
        else effect
        for effect in effects
    )


def _latest(thread: Thread) -> Thread:
    return Thread(Vector.of(thread.messages.tail), thread.generation, thread.opaque_models)


# --- MIRROR -------------------------------------------------------------------------------------------


@final
class Client:
    """What a client holds that knows the start and the events alone: the visible thread and the shown error."""

    def __init__(self, start: State) -> None:
        session = start.session
        self.messages: Vector[Message] = Vector() if session is None else session.thread.messages
        self.error: ShownError | None = None if session is None else session.error

    def take(self, effect: Effect) -> None:
        """Fold one event; what a client has no view of is passed over."""
        if isinstance(effect, MessageAdded):
            self.messages = self.messages.append(effect.message)
        elif isinstance(effect, ThreadRewritten):
            self.messages = Vector.of(effect.messages)
        elif isinstance(effect, ErrorShown):
            self.error = ShownError(effect.error, effect.message)
        elif isinstance(effect, ErrorCleared):
            self.error = None


def mirror(records: Sequence[StepRecord], _judged: Judged) -> Iterator[Breach]:
    """A client that folds the events holds the kernel's thread and shown error after every step."""
    if not records:
        return
    client = Client(records[0].before)
    for step, record in enumerate(records):
        for effect in record.effects:
            client.take(effect)
        session = record.after.session
        if session is None:
            continue
        held = session.thread.messages
        if client.messages is not held:
            if len(client.messages) != len(held) or not _same_news(client, record, held):
                yield Breach(
                    "MIRROR", step, f"the client holds {len(client.messages)} messages, not the kernel's {len(held)}"
                )
            client.messages = held  # go on from the truth, so that one fault is told once
        if client.error != session.error:
            yield Breach("MIRROR", step, f"the client shows {client.error}, and the kernel {session.error}")
            client.error = session.error


def _same_news(client: Client, record: StepRecord, held: Vector[Message]) -> bool:
    """Whether the threads are the same, given that they were before this step."""
    before = record.before.session
    if before is not None and extends(before.thread.messages, held):
        known = len(before.thread)
        return list(client.messages.since(known)) == list(held.since(known))
    return list(client.messages) == list(held)
