"""How many Python functions are entered for a turn, and for a parallel call: a count that no other work can move.

Most of what an agent costs is the calling of small functions, so the count goes with the time, and tells a change of a
hundredth, which no clock on a busy machine does. What is compiled is not counted: a compiled kernel has no such calls.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType

Job = Callable[[int], Coroutine[object, object, object]]

COUNTED_ON = (3, 11)  # the Python whose counts are recorded: a later one enters no function for a comprehension
FEW, MANY = 20, 120  # their difference leaves out what is called once, as when the agent is made


def calls_of(job: Job) -> float:
    """The functions entered for each of so many; `job` does as many as it is given."""
    return (entered(job, MANY) - entered(job, FEW)) / (MANY - FEW)


def entered(job: Job, count: int) -> int:
    """How often a Python function was entered, or a coroutine gone on with, until the job was done."""
    seen = 0

    def notice(frame: FrameType, event: str, argument: object) -> None:
        nonlocal seen
        seen += event == "call"

    async def noticed() -> None:
        sys.setprofile(notice)
        try:
            await job(count)
        finally:
            sys.setprofile(None)

    asyncio.run(job(count))  # what is cached is there
    asyncio.run(noticed())
    return seen
