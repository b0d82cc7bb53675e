"""The runs that are open here: each opened when something is said to it, and kept until its place is needed.

What can be read needs no opening: the events of a run that nobody here writes are told from its log.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from weakref import WeakValueDictionary

from attrs import define, frozen
from loopkernel.data.events import Event, InputSettled, Refused
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import Remembered
from loopkernel.data.states import Cancelled, Done, Idle, State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Tool
from loopkernel.data.user_deltas import ChangeTools, EditMessage, Enqueue, Say, Steer, UserDelta
from loopkernel.data.words import InputFate, RefusalReason
from loopkernel.replaying import START, fork

from loopkernel_adapters.agent import Agent, new_run_id
from loopkernel_adapters.driver.asyncio_driver import AT_REST
from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.optional_ports import Address, NoSuchAgent
from loopkernel_adapters.ports import NoSuchRun, RunPage, Sealing, StoreError
from loopkernel_adapters.server.agent_logs import AgentLogs
from loopkernel_adapters.server.client_tools import ClientTools
from loopkernel_adapters.server.feed import Feed
from loopkernel_adapters.sessions.session import Session
from loopkernel_adapters.sessions.waiting_calls import Answer, WaitingCall, calls_waiting

ASKED_AGAIN_SECONDS = 5.0  # without an event: whoever has not asked by then does not
OVER = (Idle, Cancelled, Done)
MOST_OPEN = 1_000  # runs; beyond that, the one that has rested longest is closed

Message = Say | Steer | Enqueue | EditMessage


class Full(Exception):
    """As many runs are open as may be, and none of them rests."""


class AlreadyThere(Exception):
    """There is a run of that id already."""


class Changed(Exception):
    """The call does not wait, or not as it was asked about."""


@frozen(kw_only=True)
class Fate:
    """What became of something that was said: it was taken, or refused."""

    fate: InputFate | None = None
    refused: RefusalReason | None = None


@define(eq=False)
class OpenRun:
    """A run that is open here."""

    session: Session
    feed: Feed
    agents: AgentLogs
    tools: ClientTools
    resources: AsyncExitStack
    in_use: int = 0
    has_asked_again: bool = False

    async def ask_again(self, call: WaitingCall) -> None:
        """Wait for what asked before the run was opened here: a tool, or a sub-agent, that was taken up asks anew."""
        self.has_asked_again = True
        while call not in self.session.waiting and not isinstance(self.session.state, OVER):
            if not await self.feed.more_than(len(self.feed.told), ASKED_AGAIN_SECONDS):
                return


class OpenRuns:
    """The runs of an agent, for any number of clients.

    `lasting` are the tools that what a person allowed once and for all still means after a restart; None: all.
    `note` is told each run that begins here.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        most_open: int = MOST_OPEN,
        lasting: frozenset[str] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._note = note
        self._agent = agent
        self._most_open = most_open
        self._lasting = lasting
        self._open: dict[str, OpenRun] = {}  # the one that was used last is the last
        self._opening: set[str] = set()
        self._feeds: WeakValueDictionary[str, Feed] = WeakValueDictionary()  # also those of runs that are not open
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def end_streams(self) -> None:
        """Whoever follows events comes to an end."""
        for feed in list(self._feeds.values()):
            feed.end()
        for opened in self._open.values():
            opened.agents.end()

    async def close(self) -> None:
        """Let go of every run. For its log it is as if the process had ended here."""
        self.end_streams()
        runs, self._open = list(self._open.values()), {}
        await asyncio.gather(*(run.resources.aclose() for run in runs), return_exceptions=True)

    # --- what can be read ---

    async def latest(self, most: int) -> RunPage:
        """The latest runs."""
        return await self._agent.runs.latest(most)

    async def feed(self, run: str) -> Feed:
        """The events of the run. Raises NoSuchRun, and what reading a log raises."""
        if run in self._open:
            return self._open[run].feed
        async with self._lock(run):
            if run in self._open:
                return self._open[run].feed
            return await self._caught_up(run, await self._agent.runs.read(run))

    async def feed_within(self, run: str, within: Address) -> Feed:
        """The events of the sub-agent at the address. Raises NoSuchAgent, and as `feed`."""
        feed = await self.feed(run)
        for call in within:
            session_id = feed.agents.get(call)
            if session_id is None:
                raise NoSuchAgent(f"no sub-agent has begun for call {call}")
            opened = self._open.get(run)
            open_here = None if opened is None else await opened.agents.feed(session_id, self._before)
            feed = await self.feed(session_id) if open_here is None else open_here
        return feed

    async def waiting(self, run: str) -> tuple[State, tuple[WaitingCall, ...]]:
        """The state of the run, and the calls that wait for a person. Raises as `feed`."""
        feed = await self.feed(run)
        if run in self._open:
            session = self._open[run].session
            return session.state, session.waiting
        states = await self._states(feed.state)
        return feed.state, calls_waiting(states.get)

    async def _states(self, state: State, within: Address = ()) -> dict[Address, State]:
        """The state, and those of the sub-agents that have not ended, as their logs have them."""
        found = {within: state}
        for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
            if entry.child is not None and entry.is_open:
                with suppress(NoSuchRun):  # it has recorded nothing yet
                    child = await self.feed(entry.child.session_id)
                    found |= await self._states(child.state, (*within, entry.call.id))
        return found

    # --- what is said ---

    async def begin(self, run: str | None) -> str:
        """A new run. Raises AlreadyThere, Full, and what opening a log raises."""
        name = new_run_id() if run is None else run
        if run is not None and await self._has_begun(run):
            raise AlreadyThere
        await self._opened(name)
        self._noted(name)
        return name

    async def fork(self, run: str, at: int) -> str:
        """A new run that leaves that one after so many of its records. Raises ValueError where it cannot."""
        records, doubt = await self._agent.runs.read(run), await self._agent.runs.doubt(run)
        name = new_run_id()
        now_ms = max([int(time.time() * 1_000), *(record.now_ms for record in records[-1:])])
        forked = fork(records, at, name, now_ms)
        store = await self._agent.runs.open(name)
        try:
            if doubt is None and isinstance(store, Sealing):
                store.vouch()
            await store.append(forked, durable=True)
        finally:
            await store.close()
        self._noted(name)
        return name

    async def say(self, run: str, delta: Message) -> Fate:
        """Say it, and tell what became of it; `delta` has a key. Raises NoSuchRun, Full and StoreError."""
        async with self._in_use(run) as opened:
            listen = _Settlement(delta.key)
            opened.session.listen(listen)
            try:
                await self._sent(run, opened, delta)
            finally:
                opened.session.forget(listen)
            return listen.fate

    async def send(self, run: str, delta: UserDelta) -> None:
        """Have it taken. Raises as `say`."""
        async with self._in_use(run) as opened:
            await self._sent(run, opened, delta)

    async def bring(self, run: str, tools: Sequence[Tool]) -> None:
        """Tools of the client, beside those of the agent, from now on. Raises NotBrought, and as `say`."""
        async with self._in_use(run) as opened:
            if opened.tools.bring(tools):
                await self._sent(run, opened, ChangeTools(opened.tools.offered()))

    async def answer(self, run: str, call: WaitingCall, answer: Answer) -> None:
        """Answer exactly that call. Raises Changed where it does not wait as it is given here; else as `say`."""
        async with self._in_use(run) as opened:
            if not opened.has_asked_again:
                await opened.ask_again(call)
            if call not in opened.session.waiting:
                raise Changed
            try:
                await opened.session.answer(call, answer)
            except ValueError as error:
                raise Changed from error

    def open_session(self, run: str) -> Session | None:
        """The session of the run, where it is open here."""
        found = self._open.get(run)
        return None if found is None else found.session

    # --- opening ---

    def _noted(self, run: str) -> None:
        if self._note is not None:
            self._note(run)

    async def _sent(self, run: str, opened: OpenRun, delta: UserDelta) -> None:
        try:
            await opened.session.send(delta)
        except StoreError:
            if self._open.get(run) is opened:
                await self._let_go(run)  # the driver has stopped: whoever comes next opens the log anew
            raise

    @asynccontextmanager
    async def _in_use(self, run: str) -> AsyncIterator[OpenRun]:
        """The run, held open for the length of the block. Raises NoSuchRun and what opening a log raises."""
        if run not in self._open and not await self._has_begun(run):
            raise NoSuchRun(f"there is no run {run}")
        opened = await self._opened(run)
        opened.in_use += 1
        self._open[run] = self._open.pop(run, opened)
        try:
            yield opened
        finally:
            opened.in_use -= 1

    async def _opened(self, run: str) -> OpenRun:
        async with self._lock(run):
            if run in self._open:
                return self._open[run]
            self._opening.add(run)
            try:
                return await self._newly_opened(run)
            finally:
                self._opening.discard(run)

    async def _newly_opened(self, run: str) -> OpenRun:
        await self._make_room()
        early: list[LogRecord] = []
        feed: Feed | None = None

        def follow(records: Sequence[LogRecord]) -> None:
            if feed is None:
                early.extend(records)
            else:
                feed.take(records)

        agents = AgentLogs()

        def follow_child(session_id: str, records: Sequence[LogRecord]) -> None:
            stale = self._feeds.pop(session_id, None)
            if stale is not None:  # read before the run was opened here: whoever follows it comes again
                stale.end()
            agents.take(session_id, records)

        async with AsyncExitStack() as resources:
            believed = await self._believed(run)
            tools = ClientTools(self._agent.ports.tools, believed)
            opening = self._agent.session(
                run, remembered=self._remembered(believed), tools=tools, follow=follow, follow_children=follow_child
            )
            resources.callback(agents.end)
            session = await resources.enter_async_context(opening)
            known = await self._caught_up(run, await self._before(run, early[0]))
            known.take(early)
            feed = known
            opened = OpenRun(session=session, feed=feed, agents=agents, tools=tools, resources=resources.pop_all())
            self._open[run] = opened
            return opened

    async def _before(self, run: str, first: LogRecord) -> tuple[LogRecord, ...]:
        """What the log held when it was opened here, and `first` was added: that record is found only once."""
        if isinstance(first.delta, Created):
            return ()
        records = await self._agent.runs.read(run)
        at = next(at for at in range(len(records) - 1, -1, -1) if records[at] == first)
        return records[:at]

    async def _caught_up(self, run: str, records: Sequence[LogRecord]) -> Feed:
        """The feed that knows exactly these records; the one that is there, if its events are of this log."""
        feed = self._feeds.get(run)
        if feed is None or feed.over or not feed.begins(records):
            if feed is not None:
                feed.end()
            feed = self._feeds[run] = Feed()
        await feed.catch_up(records)
        return feed

    async def _make_room(self) -> None:
        while len(self._open) + len(self._opening) > self._most_open:
            run = next((run for run, each in self._open.items() if not each.in_use and _rests(each.session)), None)
            if run is None:
                raise Full
            await self._let_go(run, only_if_resting=True)

    async def _let_go(self, run: str, *, only_if_resting: bool = False) -> None:
        async with self._lock(run):
            found = self._open.get(run)
            if found is not None and not (only_if_resting and (found.in_use or not _rests(found.session))):
                del self._open[run]
                await found.resources.aclose()

    async def _believed(self, run: str) -> State:
        """The state of the run, where its log is believed; else as if it had not begun."""
        if not await self._has_begun(run) or await self._agent.runs.doubt(run) is not None:
            return START
        feed = await self._caught_up(run, await self._agent.runs.read(run))
        return feed.state

    def _remembered(self, believed: State) -> tuple[Remembered, ...] | None:
        """The approvals that hold on: none of a tool that may be another one by now. None: what the log says."""
        if self._lasting is None or believed.session is None:
            return None
        return tuple(each for each in believed.session.settings.remembered if each.tool in self._lasting)

    async def _has_begun(self, run: str) -> bool:
        try:
            return bool(await self._agent.runs.read(run))
        except NoSuchRun:
            return False

    def _lock(self, run: str) -> asyncio.Lock:
        lock = self._locks.get(run)
        if lock is None:
            lock = self._locks[run] = asyncio.Lock()
        return lock


class _Settlement:
    """Hears what becomes of the message with that key."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self.fate = Fate()

    def __call__(self, event: Event) -> None:
        if isinstance(event, InputSettled) and event.key == self._key:
            self.fate = Fate(fate=event.fate)
        elif isinstance(event, Refused) and event.key == self._key:
            self.fate = Fate(refused=event.reason)


def _rests(session: Session) -> bool:
    return isinstance(session.state, tuple(AT_REST))
