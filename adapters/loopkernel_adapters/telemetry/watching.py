"""Telemetry of runs as they happen: what is written to their logs is folded and exported in a thread of its own.

It looks on at the log and not at the events, for three reasons. A record has its time, and folded it gives the commands
and the usage; an event has none of these. What is told is then what a replay of the log tells, to the last record. And
the loop that runs the agent pays for a queue alone: an exporter that raises, or hangs, is nothing to it.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeAlias

from loopkernel.data.deltas import Delta
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.later_typing import override
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.fleet_ports import Fleet, Input
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Sealing, Store, is_of_these_rules
from loopkernel_adapters.stores.threaded import asynchronous_runs
from loopkernel_adapters.telemetry.conventions import OTHER
from loopkernel_adapters.telemetry.exporter import Exporter
from loopkernel_adapters.telemetry.facts import About, Fact, SpanKey
from loopkernel_adapters.telemetry.logs import FoldedLog, Starts

MOST_WAITING = (
    100_000  # records that an exporter may be behind, of all runs; one that gets further ahead is told no more
)
MOST_LEFT = 10_000  # spans that runs were left with, and that are not told again when these go on
CLOSE_SECONDS = 5.0
_logger = logging.getLogger(__name__)
TOO_FAR = "is told no more: the exporter is too far behind"
_Job = Callable[[], None]
Log: TypeAlias = tuple[LogRecord, ...]


class Telemetry:
    """Spans and metrics of all runs whose logs it watches.

        telemetry = Telemetry(tracer_provider, meter_provider, provider_name="anthropic")
        agent = Agent(provider, tools, runs=telemetry.watch(SqliteRuns(path)))
        ...
        telemetry.close()

    Without a meter provider there are no metrics, without a tracer provider no spans. `provider_name` is the provider
    as OpenTelemetry's conventions name it. With `content`, messages and the inputs and results of tools are told, as
    they stand in the log: without secrets.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        provider_name: str = OTHER,
        agent_name: str | None = None,
        content: bool = False,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        about = About(provider_name=provider_name, agent_name=agent_name, content=content)
        self._teller = Teller(Exporter(tracer_provider, meter_provider), about, most_waiting)

    def watch(self, runs: Runs | BlockingRuns) -> Runs:
        """The same runs, of which all that is written from now on is told, and that of their sub-agents.

        Those of a fleet stay a fleet.
        """
        watched = asynchronous_runs(runs)
        if isinstance(watched, Fleet):
            return WatchedFleet(watched, self._teller)
        return WatchedRuns(watched, self._teller)

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until all that was written is given to the tracer and the meter; whether that was done in time.

        Call `force_flush` of the providers after it, where they gather what they export.
        """
        return self._teller.catch_up(seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """As `flush`, and nothing that is written from now on is told. The providers stay open: they are yours."""
        return self._teller.stop(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Teller:
    """A thread that folds records and gives the exporter what they tell, behind a queue that has a limit."""

    def __init__(self, exporter: Exporter, about: About, most_waiting: int) -> None:
        self._exporter = exporter
        self._about = about
        self._starts: Starts = {}
        self._left: dict[SpanKey, None] = {}  # in the order in which they were left
        self._jobs = queue.SimpleQueue[_Job | None]()
        self._most_waiting = most_waiting
        self._waiting = 0
        self._guard = threading.Lock()
        self._complaints: set[str] = set()
        self._stopped = False
        self._all_done = threading.Event()
        threading.Thread(target=self._work, name="loopkernel telemetry", daemon=True).start()

    def catch_up(self, seconds: float) -> bool:
        """Wait until all that was posted is done; whether that was so in time. Once stopped, it does not wait."""
        done = threading.Event()
        with self._guard:
            if self._stopped:
                return self._all_done.is_set()
            self._jobs.put(done.set)
        return done.wait(seconds)

    def stop(self, seconds: float) -> bool:
        """As `catch_up`; what is posted from now on is dropped."""
        with self._guard:
            if self._stopped:
                return self._all_done.is_set()
            self._stopped = True
            self._jobs.put(self._all_done.set)
            self._jobs.put(None)
        return self._all_done.wait(seconds)

    # --- from the threads of the runs ---

    @property
    def stopped(self) -> bool:
        """Whether nothing is told any more."""
        return self._stopped

    @property
    def most_waiting(self) -> int:
        """How many records may wait."""
        return self._most_waiting

    def post(self, job: _Job, weight: int) -> bool:
        """Do it in the thread that tells, after all that was posted before; False where too much waits.

        What weighs more than may wait has to wait alone: so a long history is told, and no second one behind it.
        """

        def done() -> None:
            try:
                job()
            finally:
                with self._guard:
                    self._waiting -= weight

        with self._guard:
            if self._stopped:
                return True
            if weight and self._waiting and self._waiting + weight > self._most_waiting:
                return False
            self._waiting += weight
            self._jobs.put(done)
        return True

    # --- in the thread that tells ---

    def begin(self, run: str, history: Sequence[LogRecord]) -> FoldedLog | None:
        """A log is opened: what was under way in it is told again, as its end will be told here.

        None where it cannot be folded here.
        """
        if history and not is_of_these_rules(history):
            self.complain("is not told: its log was begun under other rules", run)
            return None
        folded = FoldedLog(run, self._about, self._starts)
        folded.tell(history)
        self.tell([begun for begun in folded.open if begun.key not in self._left])
        for begun in folded.open:
            self._left.pop(begun.key, None)
        return folded

    def leave(self, run: str, folded: FoldedLog) -> None:
        """A log is closed: what is under way in it ends there, and is not told again here when the run goes on."""
        self._left.update(dict.fromkeys(begun.key for begun in folded.open))
        while len(self._left) > MOST_LEFT:
            del self._left[next(iter(self._left))]
        self.tell(folded.leave())
        self._starts.pop(run, None)

    def tell(self, facts: Sequence[Fact]) -> None:
        """Give it to the tracer and the meter, each on its own: what one fact raises is not the end of the others."""
        for fact in facts:
            try:
                self._exporter.take((fact,))
            except Exception as error:
                self.complain("what happened in a run cannot be told", error=error)

    def complain(self, what: str, run: str | None = None, error: Exception | None = None) -> None:
        """Once for each kind of trouble: a collector that is down would fill the log of the program."""
        with self._guard:
            if what in self._complaints:
                return
            self._complaints.add(what)
        said = what if run is None else f"run {run} {what}"
        _logger.warning("%s; the run itself goes on, and this is said once", said, exc_info=error)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:
                self.complain("a run is not told any more", error=error)


class WatchedRuns(Runs):
    """Runs whose logs are watched as they are written."""

    def __init__(self, inner: Runs, teller: Teller) -> None:
        self._inner = inner
        self._teller = teller

    @override
    async def open(self, run: str) -> Store:
        return WatchedStore(run, await self._inner.open(run), self._teller, self._inner.read)

    @override
    async def read(self, run: str) -> tuple[LogRecord, ...]:
        return await self._inner.read(run)

    @override
    async def doubt(self, run: str) -> str | None:
        return await self._inner.doubt(run)

    @override
    async def entries(self) -> tuple[RunEntry, ...]:
        return await self._inner.entries()

    @override
    async def latest(self, most: int | None) -> RunPage:
        return await self._inner.latest(most)

    @override
    async def close(self) -> None:
        await self._inner.close()


class WatchedFleet(WatchedRuns, Fleet):
    """The same, where many workers share them."""

    def __init__(self, inner: Fleet, teller: Teller) -> None:
        super().__init__(inner, teller)
        self._fleet = inner

    @override
    async def send(self, run: str, delta: Delta) -> int:
        return await self._fleet.send(run, delta)

    @override
    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        return await self._fleet.inbox(run)

    @override
    async def inboxes_within(self, run: str) -> tuple[str, ...]:
        return await self._fleet.inboxes_within(run)

    @override
    async def claim(self, most: int) -> tuple[str, ...]:
        return await self._fleet.claim(most)

    @override
    async def rest(self, run: str, wake_seconds: float | None, unfinished: bool) -> None:
        await self._fleet.rest(run, wake_seconds, unfinished)

    @override
    def holds(self, run: str) -> bool:
        return self._fleet.holds(run)

    @override
    async def lost(self) -> tuple[str, ...]:
        return await self._fleet.lost()

    @override
    async def set_aside(self, run: str) -> None:
        await self._fleet.set_aside(run)

    @override
    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        return await self._fleet.wait_for_work(seconds)


class WatchedStore(Store):
    """A log that is watched: what was appended is told afterwards, so nothing is told that is not recorded.

    What came before a snapshot is read beside the run, by `read`: neither its length nor a fault in it keeps the run
    from going on. What is appended meanwhile waits for it.
    """

    def __init__(self, run: str, inner: Store, teller: Teller, read: Callable[[str], Awaitable[Log]]) -> None:
        self._run = run
        self._inner = inner
        self._teller = teller
        self._read = read
        self._folded: FoldedLog | None = None  # of the thread that tells; None: it is not told any more
        self._followed = True
        self._reading: asyncio.Task[None] | None = None
        self._first: LogRecord | None = None  # that was appended since the log was restored
        self._early: list[LogRecord] | None = None  # appended while the history is read; None: it is not

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        if self._first is None and records:
            self._first = records[0]
        await self._inner.append(records, durable, taken)
        if self._early is None:
            self._post(lambda: self._tell(records), len(records))
        elif len(self._early) + len(records) <= self._teller.most_waiting:
            self._early += records
        else:
            self._give_up(TOO_FAR)

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return await self._inner.load()

    @override
    async def restore(self) -> Restored:
        restored = await self._inner.restore()
        if restored.state is None:
            self._post(lambda: self._begin(restored.records), len(restored.records))
        elif not self._teller.stopped:
            self._early = []
            self._reading = asyncio.create_task(self._read_history())
        return restored

    def vouch(self) -> None:
        """As the store that it stands for."""
        if isinstance(self._inner, Sealing):
            self._inner.vouch()

    @override
    async def save_snapshot(self, state: State) -> None:
        await self._inner.save_snapshot(state)

    @override
    async def close(self) -> None:
        try:
            await self._inner.close()
            if self._reading is not None:
                await asyncio.wait((self._reading,), timeout=CLOSE_SECONDS)
        finally:
            if self._reading is not None and self._reading.cancel():
                self._give_up("is not told: its log was not read by the time that it was closed")
            self._teller.post(self._leave, 0)

    async def _read_history(self) -> None:
        """Tell what the log had before this writer, and then what was appended meanwhile."""
        try:
            log = await self._read(self._run)
        except Exception as error:
            self._give_up("is not told: its log cannot be read", error)
            return
        first, early, self._early = self._first, self._early or [], None
        self._post(lambda: self._begin(_before(first, log)), len(log))
        self._post(lambda: self._tell(early), len(early))

    def _post(self, job: _Job, weight: int) -> None:
        if self._followed and not self._teller.post(job, weight):
            self._give_up(TOO_FAR)

    def _give_up(self, why: str, error: Exception | None = None) -> None:
        self._followed, self._early = False, None
        self._teller.complain(why, self._run, error)

    # --- in the thread that tells ---

    def _begin(self, history: Sequence[LogRecord]) -> None:
        self._folded = self._teller.begin(self._run, history)

    def _tell(self, records: Sequence[LogRecord]) -> None:
        if self._folded is None:
            return
        try:
            for record in records:
                self._teller.tell(self._folded.tell((record,)))
        except Exception:
            self._leave()  # what cannot be folded now cannot be later
            raise

    def _leave(self) -> None:
        if self._folded is not None:
            folded, self._folded = self._folded, None
            self._teller.leave(self._run, folded)


def _before(first: LogRecord | None, log: Log) -> Log:
    """The log without what was appended since, if the reader has seen any of that already."""
    for place in reversed(range(len(log))):
        if log[place] == first:
            return log[:place]
    return log
