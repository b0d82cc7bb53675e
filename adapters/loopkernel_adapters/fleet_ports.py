"""The port of a fleet: what workers on many machines ask of the place where their runs lie. Nothing here acts.

for run in await runs.claim(10):                     # held, until it is opened or its lease ends
    store = await runs.open(run)
    ...                                              # apply what `inbox` gives, and append it with its numbers
    await runs.rest(run, wake_ms, unfinished=False)  # before the log is closed
    await store.close()
"""

from typing import Protocol, runtime_checkable

from loopkernel.data.deltas import Delta
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.user_deltas import UserDelta

from loopkernel_adapters.ports import Runs

# What is said to a run from outside.
Input = UserDelta | ThreadDelta


@runtime_checkable
class Fleet(Runs, Protocol):
    """Many logs in one place that many workers write, each log by one of them at a time."""

    async def send(self, run: str, delta: Delta) -> int:
        """Keep an input for the run, from anywhere: durable before this returns. Gives its number, and wakes a worker.

        The run is entered where it is new. Numbers count up from 1, in the order in which the inputs are applied.
        To a sub-agent it is sent by the id of its session, and whoever takes the run that it works for hands it on.
        Raises StoreError for what is not an input (of a user, or of a thread; of a user alone for a sub-agent) and for
        what cannot be kept, NoSuchRun for a sub-agent that has no log. Where the connection is lost before the answer,
        it says that nobody knows whether it was kept.
        """
        ...

    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        """The inputs that wait for the run, in order, each with its number.

        One goes away with the append that names its number in `taken`, in the same transaction. Raises StoreCorrupt
        for one that this user's programs have not sent.
        """
        ...

    async def inboxes_within(self, run: str) -> tuple[str, ...]:
        """The sub-agents of the run, and those of sub-agents, that have inputs: the ids of their sessions."""
        ...

    async def claim(self, most: int) -> tuple[str, ...]:
        """At most so many runs that nobody holds and that have work; they are held here from now on.

        Work is an input, for it or for a sub-agent of it, a timer that is due, or what a holder has left: it said so,
        or its lease ended without a word. What is claimed is opened, or said to `rest`; otherwise it is free again when
        its lease ends. Runs of sub-agents (with a slash in the name) are never claimed: who opens the run that they
        work for opens them.
        """
        ...

    async def rest(self, run: str, wake_seconds: float | None, unfinished: bool) -> None:
        """What the holder knows as it lets go: in how many seconds, counted from now where the runs lie, the next timer
        is due (None: never), and whether work is left.

        Said before the log is closed; what is appended after it takes it back, so that the run is looked at again. A
        log that is closed without it leaves the run as it was found. Raises StoreError where it is not held here.
        """
        ...

    def holds(self, run: str) -> bool:
        """Whether the run is held here, by all that is known here: nothing is asked.

        It was taken or renewed less than a lease ago, counted from before that was asked for, and no renewal has said
        otherwise. Ask it before what must not be done twice.
        """
        ...

    async def lost(self) -> tuple[str, ...]:
        """Wait until runs that are open here are held no more, as far as `holds` knows: these, each of them once.

        What goes on for them is to stop. One task waits at a time; raises RuntimeError for another.
        """
        ...

    async def set_aside(self, run: str) -> None:
        """Leave a run that could not be gone on with alone for as long as a lease lasts; then it has work again.

        It is held by nobody meanwhile, and so is one that is open here: its log takes nothing more. Nothing happens
        where another one holds it, and where there is no such run.
        """
        ...

    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        """Return when an input has come, a run was let go of with work left, a time has come, or the seconds are over.

        Gives the runs that were named to it, also such as are held here. Nothing is promised by it: look with `claim`
        and `inbox`. It may return for nothing, and the first time it does, at once. One task waits at a time.
        """
        ...
