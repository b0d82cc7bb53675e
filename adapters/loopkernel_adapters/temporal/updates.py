"""Updates and queries of a run in Temporal, asked for until there is an answer."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import TypeVar

from attrs import define
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

# What a server says that cannot keep up, or is about to go on elsewhere: nothing was refused for good.
BUSY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.ABORTED, RPCStatusCode.RESOURCE_EXHAUSTED)
# What it says of a run whose steps fail again and again. Where the worker is only too busy to take them in time, a
# later attempt does better; where it has other code, none does.
FAILING = RPCStatusCode.FAILED_PRECONDITION
FAILING_SECONDS = 120.0  # so long one is asked for again
UNANSWERED = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)  # by the server, and by this side's own clock
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


@define
class Patience:
    """The pauses between attempts, each longer than the last; where what failed may fail for ever, they end."""

    pause: float = FIRST_PAUSE_SECONDS
    give_up_at: float = inf

    async def after(self, error: Exception, *, may_last: bool) -> None:
        """Wait until the next attempt. Raises the error where there is to be none.

        `may_last`: this one is of those that may; any other says that they are over, so their time counts anew.
        """
        self.give_up_at = min(self.give_up_at, monotonic() + FAILING_SECONDS) if may_last else inf
        if monotonic() >= self.give_up_at:
            raise error
        await asyncio.sleep(self.pause)
        self.pause = min(2 * self.pause, LONGEST_PAUSE_SECONDS)


async def updated(
    handle: WorkflowHandle[object, object], update: str, result: type[T], *arguments: object, name: str | None = None
) -> T:
    """What comes of the update. Where no answer comes, or the server is too busy, the same one is asked for again.

    It is taken once, however often it is asked for: the server knows it by its `name`, which is drawn where none is
    given. Raises WorkflowUpdateFailedError where the run refuses it, RPCError for what the server says otherwise, and
    where the steps of the run have failed for `FAILING_SECONDS`.
    """
    identity, patience = uuid.uuid4().hex if name is None else name, Patience()
    while True:
        try:
            answer: T = await handle.execute_update(update, args=arguments, id=identity, result_type=result)
            return answer
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except RPCError as error:
            if error.status not in (*BUSY, FAILING):
                raise
            await patience.after(error, may_last=error.status is FAILING)


async def asked(call: Callable[[], Awaitable[T]]) -> T:
    """What comes of a call that may as well be made twice: where no answer comes, it is made again.

    On a worker that is too busy a run that does not answer a query within 2 s is taken to hang. So long as
    `FAILING_SECONDS`; then, and for what the server says otherwise, raises what the call does.
    """
    patience = Patience()
    while True:
        try:
            return await call()
        except WorkflowQueryFailedError as error:
            await patience.after(error, may_last=True)
        except RPCError as error:
            if error.status not in (*BUSY, FAILING, *UNANSWERED):
                raise
            await patience.after(error, may_last=True)


async def queried(handle: WorkflowHandle[object, object], query: str, result: type[T]) -> T:
    """The answer to a query, which changes nothing; see `asked`."""
    answer: T = await asked(lambda: handle.query(query, result_type=result))
    return answer
