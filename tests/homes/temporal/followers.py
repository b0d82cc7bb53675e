"""What the workflows of scenarios tell the players in the same process. The sandbox takes this module as it is."""

from typing import Protocol

from loopkernel.replaying import LogRecord


class Follower(Protocol):
    """The player of one run. It is called from the threads of workflows, in a replay again."""

    def time_of(self, number: int) -> int:
        """The time of the scenario at which that record is, or will be, made."""
        ...

    def recorded(self, number: int, record: LogRecord) -> None:
        """The workflow has applied a delta: its `number`-th, from 0."""
        ...


FOLLOWERS: dict[str, Follower] = {}  # by the ids of workflows
