"""What the workflows of scenarios tell the players in the same process. The sandbox takes this module as it is."""

from typing import Protocol

from loopkernel.data.ids import TimerOperation
from loopkernel.replaying import LogRecord

TICK_S = 400  # of the server's time is a millisecond of a scenario: what calls take in real time is lost in rounding


class Follower(Protocol):
    """The player of one run. It is called from the threads of workflows."""

    origin_s: float  # of the scenario's time, on the server

    def recorded(self, record: LogRecord) -> None:
        """The workflow has applied a delta."""
        ...

    def timer_set(self, timer: TimerOperation, at_s: float) -> None:
        """A timer of Temporal fires then."""
        ...


FOLLOWERS: dict[str, Follower] = {}  # by the ids of workflows
