"""An update of a run in Temporal, asked for until there is an answer."""

import asyncio
import uuid
from math import inf
from time import monotonic
from typing import TypeVar

from temporalio.client import WorkflowHandle, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

# What a server says that cannot keep up, or is about to go on elsewhere: nothing was refused for good.
BUSY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.ABORTED, RPCStatusCode.RESOURCE_EXHAUSTED)
# What it says of a run whose steps fail again and again. Where the worker is only too busy to take them in time, a
# later attempt does better; where it has other code, none does.
FAILING = RPCStatusCode.FAILED_PRECONDITION
FAILING_SECONDS = 120.0  # so long one is asked for again
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


async def updated(
    handle: WorkflowHandle[object, object], update: str, result: type[T], *arguments: object, name: str | None = None
) -> T:
    """What comes of the update. Where no answer comes, or the server is too busy, the same one is asked for again.

    It is taken once, however often it is asked for: the server knows it by its `name`, which is drawn where none is
    given. Raises WorkflowUpdateFailedError where the run refuses it, RPCError for what the server says otherwise, and
    where the steps of the run have failed for `FAILING_SECONDS`.
    """
    identity, pause = uuid.uuid4().hex if name is None else name, FIRST_PAUSE_SECONDS
    give_up_at = inf
    while True:
        try:
            answer: T = await handle.execute_update(update, args=arguments, id=identity, result_type=result)
            return answer
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except RPCError as error:
            if error.status is FAILING:
                give_up_at = min(give_up_at, monotonic() + FAILING_SECONDS)
            elif error.status not in BUSY:
                raise
            if monotonic() >= give_up_at:
                raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
