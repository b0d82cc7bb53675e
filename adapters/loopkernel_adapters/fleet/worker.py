"""A worker of a fleet: it takes the sessions that have work, holds each under its lease, and lets go of it at rest.

    await Worker(Agent(provider, tools, runs=PostgresRuns(dsn))).serve()

Nobody tells it which sessions: what comes in by `send`, timers that are due, and what a worker has left that died are
found in the store that all workers share. A session that waits for a person is let go of, and costs nothing here until
the answer comes.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

from attrs import define, field
from loopkernel.data.thread_deltas import ThreadDelta

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet_ports import Fleet
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.ports import NoSuchRun, RunFailed, StoreError, StoreLocked
from loopkernel_adapters.sessions.session import Session

MOST_SESSIONS = 200  # that one worker holds at a time
LOOK_SECONDS = 5.0  # how often it looks for work where nothing wakes it, as when another worker has died
GRACE_SECONDS = 10.0  # how long sessions may take to come to rest when the worker is to stop

# Told of what could not be gone on with, and what was raised: a run, or, for None, the search for work.
Complaint = Callable[[str | None, Exception], None]
T = TypeVar("T")


class DoubtedRun(StoreError):
    """The store does not vouch for the log of a run, so no worker goes on with it: that is for a person to do."""


class Worker:
    """Serves the sessions of the agent's runs, which are a `Fleet`; as many at once as `most_sessions`.

    Each worker has runs of its own, also where several are in one process: `PostgresRuns(dsn)` serves one.
    Where the agent has an approver, it answers for a person; else a call waits until its answer is sent to the run, or
    to the sub-agent that made it, from anywhere. A session that waits so is let go of with its sub-agents, unless a
    timer of it runs: who takes a run up sets its timers anew. `complain` is told what went wrong, which stops no other
    session; without it, the exception handler of the event loop is. Raises TypeError where the agent keeps its runs in
    a place that workers cannot share.
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
        """Take sessions and hold them until `stop` is called."""
        searching = [asyncio.create_task(work) for work in (self._search(), self._watch_leases())]
        try:
            await asyncio.wait(searching, return_when=asyncio.FIRST_COMPLETED)
            for task in searching:
                if task.done():  # the search ends when the worker is to stop; anything else is a fault of its own
                    task.result()
            if self._held:
                await asyncio.wait([held.task for held in self._held.values()], timeout=self._grace_seconds)
        finally:
            await ended(searching)
            await ended([held.task for held in self._held.values()])

    # --- what there is to do ---

    async def _search(self) -> None:
        """Take what has work, and hand on what comes in. Where the store cannot be asked, ask again later."""
        while not self._stopped.is_set():
            try:
                await self._look()
            except StoreError as error:
                self._complain(None, error)
                await asyncio.sleep(self._look_seconds)

    async def _look(self) -> None:
        """Until nothing has come for a while: then all that is held looks into its inbox, whatever was missed."""
        until = time.monotonic() + self._look_seconds
        waiting: asyncio.Future[tuple[str, ...]] | None = None
        try:
            while not self._stopped.is_set() and (left := until - time.monotonic()) > 0:
                self._changed.clear()
                await self._take()
                waiting = asyncio.ensure_future(self._fleet.wait_for_work(left)) if waiting is None else waiting
                await first_of(waiting, self._changed)
                if waiting.done():
                    self._tell(waiting.result())
                    waiting = None
        finally:
            if waiting is not None:
                await ended([waiting])
        self._tell(tuple(self._held))

    async def _take(self) -> None:
        """Take as many as there is room for. One that is held here was lost, or it could not be taken."""
        free = 0 if self._stopped.is_set() else self._most - len(self._held)
        for run in await self._fleet.claim(free) if free > 0 else ():
            if run in self._held:
                self._give_up(run)
                continue
            task = asyncio.create_task(self._hold(run), name=f"session {run}")
            self._held[run] = _Held(task)
            task.add_done_callback(partial(self._released, run))

    def _tell(self, runs: Iterable[str]) -> None:
        """Have those of them that are held here look into their inboxes."""
        for run in runs:
            if run in self._held:
                self._held[run].news.set()

    def _give_up(self, run: str) -> None:
        """Stop the session, if it is held here; once, so that it can end in order."""
        if run in self._held and not self._held[run].is_lost:
            self._held[run].is_lost = True
            self._held[run].task.cancel()

    def _released(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._held[run]
        self._changed.set()

    async def _watch_leases(self) -> None:
        """Stop each session whose lease is over, with all that it does: another worker may hold it by now."""
        while True:
            for run in await self._fleet.lost():
                session, _, _ = run.partition("/")
                self._give_up(session)

    # --- one session ---

    async def _hold(self, run: str) -> None:
        """Serve the session until it is at rest. What goes wrong with it stops no other."""
        try:
            await self._demand_vouched(run)
            async with self._agent.session(run, on_change="refresh") as session:
                try:
                    await self._attend(run, session, self._held[run].news)
                except BaseException:
                    with suppress(StoreError):  # then the end of its lease tells
                        await self._fleet.rest(run, None, unfinished=True)
                    raise
        except StoreLocked:  # another worker was quicker
            return
        except Exception as error:
            self._complain(run, error)
            with suppress(StoreError):
                await self._fleet.set_aside(run)

    async def _demand_vouched(self, run: str) -> None:
        """Raises DoubtedRun before the run is opened: what waits in its inbox was said to another log."""
        with suppress(NoSuchRun):
            doubt = await self._fleet.doubt(run)
            if doubt is not None:
                raise DoubtedRun(f"run {run} is not gone on with, since {doubt}. Look at it, and resume it by hand")

    async def _attend(self, run: str, session: Session, news: asyncio.Event) -> None:
        """Hand on what comes in, until nothing is under way and nothing has come; then say that nothing is left."""
        settling: asyncio.Future[None] | None = None
        is_settled = False
        try:
            while True:
                news.clear()
                await self._hand_on(run, session, is_settled)
                settling = asyncio.ensure_future(session.settled()) if settling is None else settling
                await first_of(settling, news)
                is_settled = settling.done()
                if settling.done():
                    with suppress(RunFailed):  # the log says so
                        settling.result()
                    settling = None
                    if not (news.is_set() or await self._fleet.inboxes_within(run)):
                        break
        finally:
            await ended([] if settling is None else [settling])
        await self._fleet.rest(run, None, unfinished=False)

    async def _hand_on(self, run: str, session: Session, is_settled: bool) -> None:
        """Hand on what waits for the session and for its sub-agents.

        Once all is settled it is known which sub-agents there are: what is for another one came too late, and is taken
        out of its inbox.
        """
        while waiting := await self._fleet.inbox(run):
            for number, delta in waiting:
                await session.send(delta, taken=number)
        for agent in await self._fleet.inboxes_within(run):
            try:
                await self._hand_down(agent, session)
            except NoSuchAgent as error:
                if is_settled:
                    await self._drop(agent)
                    self._complain(agent, error)

    async def _hand_down(self, agent: str, session: Session) -> None:
        """Hand on what waits for the sub-agent with that session. Raises NoSuchAgent where it does not run."""
        within = session.address_of(agent)
        if within is None:
            raise NoSuchAgent(f"the sub-agent {agent} has ended, so what was sent to it since is left out")
        await self._demand_vouched(agent)
        while waiting := await self._fleet.inbox(agent):
            for number, delta in waiting:
                if isinstance(delta, ThreadDelta):
                    raise StoreError(f"input {number} of {agent} is not one for a sub-agent. Remove that row to go on")
                await session.send(delta, within, taken=number)

    async def _drop(self, agent: str) -> None:
        """Take what waits for that sub-agent out of its inbox, as if it had been handed on."""
        store = await self._fleet.open(agent)
        try:
            while waiting := await self._fleet.inbox(agent):
                await store.append((), durable=True, taken=[number for number, _ in waiting])
        finally:
            await store.close()


@define(eq=False)
class _Held:
    """A session that is open here, and whether something may have come in for it."""

    task: asyncio.Task[None]
    news: asyncio.Event = field(factory=asyncio.Event)
    is_lost: bool = False


async def first_of(work: asyncio.Future[T], event: asyncio.Event) -> None:
    """Return when the work is done or the event is set. The work goes on."""
    waiting = asyncio.ensure_future(event.wait())
    both: tuple[asyncio.Future[T] | asyncio.Future[Literal[True]], ...] = (work, waiting)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def ended(tasks: Sequence[asyncio.Future[T]]) -> None:
    """Cancel them, and wait until all have come to their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def told_to_the_loop(run: str | None, error: Exception) -> None:
    """Have the exception handler of the event loop hear of it."""
    what = "the fleet cannot be asked for work; it is asked again" if run is None else f"session {run} cannot go on"
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})
