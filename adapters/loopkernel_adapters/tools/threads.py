"""A thread for one call of a blocking function: owned by that call, and never waited for without end.

Python cannot stop a thread. What an abort can do is to say so (`Aborted`, which a function may look at), to take away
what the function waits for (`on_abort`), and to wait a little for its end. A function that heeds none of this goes on
by itself: what it returns is dropped, the exception handler of the event loop is told its name, and the end of the
process does not wait for it.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

STOP_SECONDS = 4.5  # after an abort; the driver's own patience is 5 s

Result = TypeVar("Result")


class Aborted:
    """Whether the run of a blocking function was aborted. Safe to look at from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the abort, for a function that would otherwise sleep; whether it came."""
        return self._event.wait(seconds)

    def set(self) -> None:
        """The run is aborted."""
        self._event.set()


async def run_in_thread(
    function: Callable[[Aborted], Result],
    name: str,
    *,
    on_abort: Callable[[], None] | None = None,
    stop_seconds: float = STOP_SECONDS,
) -> Result:
    """What the function returns or raises, from a thread of its own.

    Cancelled, it sets the `Aborted` of the function, calls `on_abort` (which must not raise or wait), and waits
    for the end of the function, at most `stop_seconds`.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()
    aborted = Aborted()
    context = contextvars.copy_context()

    def serve() -> None:
        try:
            value = context.run(function, aborted)
        except BaseException as error:  # whatever it is, it belongs to who awaits, and not to this thread
            failure = RuntimeError("the function raised StopIteration") if isinstance(error, StopIteration) else error
            _hand_over(loop, outcome, lambda: outcome.set_exception(failure))
        else:
            _hand_over(loop, outcome, lambda: outcome.set_result(value))

    threading.Thread(target=serve, name=f"loopkernel {name}", daemon=True).start()
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        aborted.set()
        if on_abort is not None:
            on_abort()
        await _wait_for_end(outcome, name, stop_seconds)
        raise


def _hand_over(loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[Result]", settle: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if outcome.done() else settle())
    except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
        return


async def _wait_for_end(outcome: "asyncio.Future[Result]", name: str, stop_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + stop_seconds
    while not outcome.done() and loop.time() < deadline:
        try:
            await asyncio.wait({outcome}, timeout=deadline - loop.time())
        except asyncio.CancelledError:
            continue  # told again; the wait has an end of its own
    if outcome.done():
        _look_at(outcome)
        return
    outcome.add_done_callback(_look_at)
    loop.call_exception_handler(
        {"message": f"the thread of {name} goes on after its abort; what it does is no longer waited for"}
    )


def _look_at(outcome: "asyncio.Future[Result]") -> None:
    """So that nobody is told that an exception was never looked at."""
    if not outcome.cancelled():
        outcome.exception()
