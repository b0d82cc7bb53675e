"""The kernel as an object to pull from, for a driver that has no room for a fold of its own.

It holds the state and the commands that wait to be fetched; every decision is `transition`'s. Neither
thread-safe nor durable: a driver stores the delta first, then delivers it (rule RESUME-2).
"""

from collections.abc import Iterator
from typing import assert_never, final

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command
from loopkernel.data.events import Event
from loopkernel.data.ledgers import Ledger
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context
from loopkernel.data.timers import Timer
from loopkernel.loop.transition import transition
from loopkernel.replay import START


@final
class Machine:
    """A run that is driven by hand.

    Usage::

        machine = Machine()
        machine.deliver(Created(session_id="s1"), now_ms=0)
        machine.deliver(Acquired(), now_ms=0)
        for event in machine.deliver(Say(content=(TextBlock("hello"),)), now_ms=5):
            show(event)
        for command in machine.commands():
            carry_out(command)  # its reports come back through deliver()

    specs/embedding.md has a whole driver, and says what each command expects back.
    """

    __slots__ = ("_commands", "_state")

    def __init__(self, state: State = START) -> None:
        self._state = state
        self._commands: list[Command] = []

    @property
    def state(self) -> State:
        """The state that the deltas so far have led to."""
        return self._state

    def deliver(self, delta: Delta, now_ms: int) -> tuple[Event, ...]:
        """Apply one delta that came at `now_ms`; its events, in order. Its commands wait in `commands()`."""
        self._state, effects = transition(self._state, Context(delta, now_ms))
        events: list[Event] = []
        for effect in effects:
            if isinstance(effect, Command):
                self._commands.append(effect)
            else:
                events.append(effect)
        return tuple(events)

    def commands(self) -> tuple[Command, ...]:
        """The commands that were not fetched yet, oldest first. Each is handed out once."""
        fetched = tuple(self._commands)
        self._commands.clear()
        return fetched

    def next_deadline(self) -> int | None:
        """When the first of the timers that the state holds is due, in milliseconds; None when none is pending."""
        return min(_deadlines(self._state), default=None)


def _of_calls(ledger: Ledger) -> Iterator[int]:
    for entry in ledger.entries:
        gate = entry.hooks.open
        for timer in (entry.timer, None if gate is None else gate.timer):
            if timer is not None:
                yield timer.deadline_ms


def _deadlines(state: State) -> Iterator[int]:
    """When each pending timer is due: of the calls of the reply, of runs that are to stop, of hooks, and of a retry."""
    match state:
        case Backoff():
            yield state.timer.deadline_ms
        case Streaming():
            yield from _of_calls(state.ledger)
            gate_timer = None if state.after is None else state.after.gate.timer
            yield from _of(state.silence, state.time_limit, gate_timer)
        case Executing() | Confirming() | Dispatching():
            yield from _of_calls(state.ledger)
        case Thinking() | Finishing():
            yield from _of(None if state.gate is None else state.gate.timer)
        case Idle() | Compacting() | HandingOff() | Cancelled() | Done() | Initial():
            pass
        case _:
            assert_never(state)
    held = () if state.session is None else state.session.held
    yield from _of(*(run.grace for run in held))


def _of(*timers: Timer | None) -> Iterator[int]:
    return (timer.deadline_ms for timer in timers if timer is not None)
