"""The kernel as an object to pull from, for a driver that has no room for a fold of its own.

It holds the state and the commands that wait to be fetched; every decision is `transition`'s. Neither
thread-safe nor durable: a driver stores the delta first, then delivers it (rule RESUME-2).
"""

from typing import final

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command
from loopkernel.data.events import Event
from loopkernel.data.states import State, demand_state
from loopkernel.data.steps import Context
from loopkernel.loop.transition import transition
from loopkernel.replaying import START
from loopkernel.views.deadlines import next_deadline


@final
class Machine:
    """A run that is driven by hand.

    Usage::

        machine = Machine()
        machine.deliver(Created(session_id="s1"), now_ms=0)
        machine.deliver(Acquired(), now_ms=0)
        for event in machine.deliver(Say("hello"), now_ms=5):
            show(event)
        for command in machine.commands():
            carry_out(command)  # its reports come back through deliver()

    specs/embedding.md has a whole driver, and says what each command expects back.
    """

    __slots__ = ("_commands", "_state")

    def __init__(self, state: State = START) -> None:
        demand_state(state)
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
        return next_deadline(self._state)
