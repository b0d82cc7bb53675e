"""Whether the log of a run replays to the same bytes (rule RESUME-1), for a cost that is linear in the run.

A thread only grows within one generation. So each step is compared with just those messages that the step before did
not have, and the last state once in full.
"""

from collections.abc import Iterator

from attrs import evolve

from loopkernel.codec import effects_to_text, state_to_text
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.states import State
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.laws.likeness import alike
from loopkernel.replaying import Transition
from loopkernel.testing.scenarios.player.recording import Recording, refolded


def replay_difference(run: Recording, transition: Transition) -> Iterator[str]:
    """The first step that is another when the log is read back and folded."""
    try:
        again = refolded(run.log, transition)
    except Exception as error:  # a kernel under test may raise, and a log may not read back
        yield f"the log does not replay: {type(error).__name__}: {error}"
        return
    seen = Thread()
    for number, (step, repeated) in enumerate(zip(run.steps, again, strict=True)):
        session = step.after.session
        thread = Thread() if session is None else session.thread
        start = len(seen) if thread.generation == seen.generation and len(thread) >= len(seen) else 0
        one, other = _newer_state(step.after, start), _newer_state(repeated.after, start)
        if not alike(one, other) and state_to_text(one) != state_to_text(other):
            yield f"the log replays to another state at step {number}"
            return
        told, told_again = _newer_effects(step.effects, start), _newer_effects(repeated.effects, start)
        if not alike(told, told_again) and effects_to_text(told) != effects_to_text(told_again):
            yield f"the log replays to other effects at step {number}"
            return
        seen = thread
    if again and state_to_text(run.last_state) != state_to_text(again[-1].after):
        yield "the log replays to another state at the end"


def _newer_state(state: State, start: int) -> State:
    """The state without the messages before `start`."""
    if state.session is None:
        return state
    thread = _since(state.session.thread, start)
    newer: State = evolve(state, session=evolve(state.session, thread=thread))
    return newer


def _newer_effects(effects: tuple[Effect, ...], start: int) -> tuple[Effect, ...]:
    """The effects, each thread without the messages before `start`."""
    return tuple(_newer(effect, start) for effect in effects)


def _newer(effect: Effect, start: int) -> Effect:
    if isinstance(effect, CallModel):
        request = evolve(effect.request, thread=_since(effect.request.thread, start))
        return CallModel(effect.operation, request)
    return effect


def _since(thread: Thread, start: int) -> Thread:
    return evolve(thread, messages=Vector.of(thread.messages.since(start)))
