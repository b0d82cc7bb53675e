"""A worker of a fleet: it takes the sessions that have work, holds each under its lease, and lets go of it at rest.

    await Worker(Agent(provider, tools, runs=PostgresRuns(dsn))).serve()

Nobody tells it which sessions: what comes in by `send`, timers that are due, and what a worker has left that died are
found in the store that all workers share. A session that waits for a person is let go of, and costs nothing here until
the answer comes.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

from attrs import define, field
from loopkernel.data.states import State
from loopkernel.views.deadlines import next_deadline

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet_ports import Fleet
from loopkernel_adapters.ports import RunFailed, StoreError, StoreLocked
from loopkernel_adapters.session import Session

MOST_SESSIONS = 200  # that one worker holds at a time
LOOK_SECONDS = 5.0  # how often it looks for work where nothing wakes it, as when another worker has died
GRACE_SECONDS = 10.0  # how long sessions may take to come to rest when the worker is to stop
HELD_SECONDS = 2.0  # a session whose timer is due so soon is not let go of
TICK_SECONDS = 0.01  # a timer fires when its time is over, not before
AGAIN_SECONDS = 30.0  # how long a session that could not be gone on with is left alone

# Told of each session that could not be gone on with: its run, and what was raised.
Complaint = Callable[[str, Exception], None]
T = TypeVar("T")


class Worker:
    """Serves the sessions of the agent's runs, which are a `Fleet`; as many at once as `most_sessions`.

    Where the agent has an approver, it answers for a person; else a call waits until its answer is sent to the run,
    from anywhere. `complain` is told what went wrong with a session, which stops no other; without it, the exception
    handler of the event loop is. Raises TypeError where the agent keeps its runs in a place that workers cannot share.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        most_sessions: int = MOST_SESSIONS,
        look_seconds: float = LOOK_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        complain: Complaint | None = None,
    ) -> None:
        if not isinstance(agent.runs, Fleet):
            raise TypeError(
                "the runs of this agent are in a place that workers cannot share; give it another, such as "
                "Agent(..., runs=PostgresRuns(dsn))"
            )
        self._agent = agent
        self._fleet: Fleet = agent.runs
        self._most = most_sessions
        self._look_seconds = look_seconds
        self._grace_seconds = grace_seconds
        self._complain = told_to_the_loop if complain is None else complain
        self._held: dict[str, _Held] = {}
        self._changed = asyncio.Event()  # there is room for another session, or the worker is to stop
        self._stopped = asyncio.Event()

    @property
    def held(self) -> tuple[str, ...]:
        """The runs whose sessions are open here."""
        return tuple(self._held)

    def stop(self) -> None:
        """Take nothing more; `serve` returns when what is held is at rest, or when the time of grace is over."""
        self._stopped.set()
        self._changed.set()

    async def serve(self) -> None:
        """Take sessions and hold them until `stop` is called. Raises what the store raises when it cannot be asked."""
        waiting: asyncio.Future[tuple[str, ...]] | None = None
        try:
            while not self._stopped.is_set():
                self._changed.clear()
                if waiting is None:
                    waiting = asyncio.ensure_future(self._fleet.wait_for_work(self._look_seconds))
                await self._take()
                await first_of(waiting, self._changed)
                if waiting.done():
                    self._tell(waiting.result())
                    waiting = None
            if self._held:
                await asyncio.wait([held.task for held in self._held.values()], timeout=self._grace_seconds)
        finally:
            if waiting is not None:
                await ended([waiting])
            await ended([held.task for held in self._held.values()])

    async def _take(self) -> None:
        """Take as many as there is room for. One that is held here already is told instead."""
        free = self._most - len(self._held)
        for run in await self._fleet.claim(free) if free > 0 else ():
            if run in self._held:
                self._tell((run,))
                continue
            task = asyncio.create_task(self._hold(run), name=f"session {run}")
            self._held[run] = _Held(task)
            task.add_done_callback(partial(self._released, run))

    def _tell(self, runs: tuple[str, ...]) -> None:
        """Have those that are held here look into their inboxes; all of them where nothing says which."""
        for run in runs or self._held:
            if run in self._held:
                self._held[run].news.set()

    def _released(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._held[run]
        self._changed.set()

    # --- one session ---

    async def _hold(self, run: str) -> None:
        """Serve the session until it is at rest. What goes wrong with it stops no other."""
        try:
            async with self._agent.session(run) as session:
                await self._attend(run, session, self._held[run].news)
        except StoreLocked:  # another worker was quicker
            return
        except Exception as error:
            self._complain(run, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), AGAIN_SECONDS)

    async def _attend(self, run: str, session: Session, news: asyncio.Event) -> None:
        """Hand on what comes in, until nothing is under way and nothing has come; then say what is left to do."""
        is_settled = False
        settling: asyncio.Future[None] | None = None
        try:
            while not is_settled:
                news.clear()
                for number, delta in await self._fleet.inbox(run):
                    await session.send(delta, taken=number)
                settling = asyncio.ensure_future(settled(session)) if settling is None else settling
                await first_of(settling, news)
                if settling.done():
                    with suppress(RunFailed):  # the log says so
                        settling.result()
                    settling, is_settled = None, not news.is_set()
        except asyncio.CancelledError:
            with suppress(StoreError):  # then the end of its lease tells
                await self._fleet.rest(run, None, unfinished=True)
            raise
        finally:
            await ended([] if settling is None else [settling])
        left = seconds_left(session.state)
        wake_ms = None if left is None else round((time.time() + left) * 1000)
        await self._fleet.rest(run, wake_ms, unfinished=False)


@define(eq=False)
class _Held:
    """A session that is open here, and whether something may have come in for it."""

    task: asyncio.Task[None]
    news: asyncio.Event = field(factory=asyncio.Event)


async def settled(session: Session) -> None:
    """Wait until nothing is under way, and no timer is about to fire. Raises as a turn does."""
    while True:
        await session.settled()
        left = seconds_left(session.state)
        if left is None or left > HELD_SECONDS:
            return
        await asyncio.sleep(left)


def seconds_left(state: State) -> float | None:
    """How long the first timer of the state still takes, at most; None: it has none.

    Timers count from the time of the log, which need not be the date.
    """
    deadline_ms = next_deadline(state)
    return None if deadline_ms is None else max(deadline_ms - state.stamp.now_ms, 0) / 1000 + TICK_SECONDS


async def first_of(work: asyncio.Future[T], event: asyncio.Event) -> None:
    """Return when the work is done or the event is set. The work goes on."""
    waiting = asyncio.ensure_future(event.wait())
    both: tuple[asyncio.Future[T] | asyncio.Future[Literal[True]], ...] = (work, waiting)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def ended(tasks: list[asyncio.Future[T]]) -> None:
    """Cancel them, and wait until all have come to their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def told_to_the_loop(run: str, error: Exception) -> None:
    """Have the exception handler of the event loop hear of it."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"session {run} cannot be gone on with; it is left alone for a while", "exception": error}
    )
