"""What is still to happen in virtual time, in the order of the scenario format.

Of things due at one instant, reports come first, in the order in which their operations started; then timers;
then what the user does, in the order of the file.
"""

import enum
import heapq
from collections.abc import Iterable
from typing import final

from attrs import Factory, define, field, frozen

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.testing.scenarios.data.actions import TimedAction
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta


@final
@frozen
class Operation:
    """Something that was started outside, by kind and number. `kernel` tells who started it: 0, or a sub-agent."""

    kind: OperationKind
    number: int
    kernel: int = 0


class _Rank(enum.IntEnum):
    REPORT = 0
    TIMER = 1
    ACTION = 2


@final
@frozen(order=True)
class Appointment:
    """A thing to happen at `at_ms`. `order` and `place` settle who is first among those of one rank and instant."""

    at_ms: int
    rank: _Rank
    order: int
    place: int
    happening: Delta | TimedAction = field(order=False)
    operation: Operation | None = field(order=False, default=None)


@define
class Agenda:
    """All that is due. An operation that is dropped takes its reports with it."""

    _due: list[Appointment] = Factory(list)
    _orders: dict[Operation, int] = Factory(dict)
    _places: int = 0

    def start(self, operation: Operation, now_ms: int, reports: Iterable[DelayedDelta]) -> None:
        """The operation starts, or goes on: its reports come, each after its delay."""
        order = self._orders.setdefault(operation, len(self._orders))
        for report in reports:
            self._add(now_ms + report.delay_ms, _Rank.REPORT, order, report.delta, operation)

    def set_timer(self, operation: Operation, deadline_ms: int, fired: TimerFired) -> None:
        """The timer fires at its deadline."""
        order = self._orders.setdefault(operation, len(self._orders))
        self._add(deadline_ms, _Rank.TIMER, order, fired, operation)

    def plan(self, index: int, at_ms: int, action: TimedAction) -> None:
        """The action, which stands at `index` in the file, is due at this time."""
        self._add(at_ms, _Rank.ACTION, index, action, None)

    def drop(self, operation: Operation) -> None:
        """What the operation had still to say will not come."""
        self._due = [due for due in self._due if due.operation != operation]
        heapq.heapify(self._due)

    def drop_kernel(self, kernel: int) -> None:
        """Nothing that this sub-agent started reports any more."""
        self._due = [due for due in self._due if due.operation is None or due.operation.kernel != kernel]
        heapq.heapify(self._due)

    def drop_all(self) -> None:
        """Nothing that was started outside reports any more; what the user will do stays."""
        self._due = [due for due in self._due if due.operation is None]
        heapq.heapify(self._due)

    def next(self) -> Appointment | None:
        """The first thing due, taken out; None if nothing is."""
        return heapq.heappop(self._due) if self._due else None

    def _add(
        self,
        at_ms: int,
        rank: _Rank,
        order: int,
        happening: Delta | TimedAction,
        operation: Operation | None,
    ) -> None:
        self._places += 1
        heapq.heappush(self._due, Appointment(at_ms, rank, order, self._places, happening, operation))
