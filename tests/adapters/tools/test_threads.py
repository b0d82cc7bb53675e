"""A thread of its own for a blocking function: told of an abort, waited for a little, and never without end."""

import asyncio
import contextvars
import threading

import pytest
from loopkernel_adapters.tools.threads import Aborted, run_in_thread

from tests.adapters.tools.tools_world import soon, soon_here

WORD = contextvars.ContextVar("WORD", default="none")


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_value_or_an_exception_comes_back() -> None:
    def fails(_: Aborted) -> str:
        raise LookupError("not there")

    def stops(_: Aborted) -> str:
        raise StopIteration

    async def run() -> None:
        WORD.set("said")
        assert await run_in_thread(lambda _: WORD.get(), "x") == "said"
        with pytest.raises(LookupError, match="not there"):
            await run_in_thread(fails, "x")
        with pytest.raises(RuntimeError, match="StopIteration"):
            await run_in_thread(stops, "x")

    asyncio.run(run())
    assert soon(lambda: "loopkernel x" not in names())


def test_a_function_that_looks_is_told_of_the_abort() -> None:
    ended = threading.Event()

    def looks(aborted: Aborted) -> None:
        assert aborted.wait(60)
        assert aborted
        ended.set()

    async def run() -> None:
        running = asyncio.create_task(run_in_thread(looks, "x"))
        assert await soon_here(lambda: "loopkernel x" in names())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended.is_set()

    asyncio.run(run())


def test_what_the_function_waits_for_can_be_taken_away() -> None:
    gate = threading.Event()

    async def run() -> None:
        running = asyncio.create_task(run_in_thread(lambda _: gate.wait(60), "x", on_abort=gate.set))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert gate.is_set()


@pytest.mark.rule("TOOL-17")
def test_a_deaf_function_is_not_waited_for_without_end_and_is_named() -> None:
    gate = threading.Event()
    told: list[str] = []

    def deaf(_: Aborted) -> None:
        gate.wait(60)
        raise LookupError("this comes too late for anyone")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["message"])))
        running = asyncio.create_task(run_in_thread(deaf, "the tool x", stop_seconds=0.02))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.sleep(0)
        assert not running.done()  # it is given its time, whoever cancels again
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert told == ["the thread of the tool x goes on after its abort; what it does is no longer waited for"]
    gate.set()  # its end finds a closed loop, and complains to nobody
    assert soon(lambda: "loopkernel the tool x" not in names())


def test_a_late_end_while_the_loop_goes_on_is_dropped() -> None:
    gate = threading.Event()
    told: list[object] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context.get("exception")))
        running = asyncio.create_task(run_in_thread(lambda _: gate.wait(60) and 1 // 0, "x", stop_seconds=0.0))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gate.set()
        assert await soon_here(lambda: "loopkernel x" not in names())
        await asyncio.sleep(0)

    asyncio.run(run())
    assert told == [None]
