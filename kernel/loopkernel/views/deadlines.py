"""When the loop has to be told of the time next: the earliest of the timers that a state holds."""

from collections.abc import Iterator
from typing import assert_never

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
from loopkernel.data.timers import Timer


def next_deadline(state: State) -> int | None:
    """When the first of the timers that the state holds is due, in milliseconds; None when none is pending."""
    return min(_deadlines(state), default=None)


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
