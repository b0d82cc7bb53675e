"""Telemetry of runs as they happen: what is written to their logs is folded and exported in a thread of its own.

It looks on at the log and not at the events, for three reasons. A record has its time, and folded it gives the commands
and the usage; an event has none of these. What is told is then what a replay of the log tells, to the last record. And
the loop that runs the agent pays for a queue alone: an exporter that raises, or hangs, is nothing to it.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Self

from loopkernel.data.deltas import Delta
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.later_typing import override
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.fleet_ports import Fleet, Input
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Sealing, Store
from loopkernel_adapters.stores.threaded import asynchronous_runs
from loopkernel_adapters.telemetry.conventions import OTHER
from loopkernel_adapters.telemetry.exporter import Exporter
from loopkernel_adapters.telemetry.facts import About, Fact, SpanKey
from loopkernel_adapters.telemetry.logs import FoldedLog, Starts

MOST_WAITING = 100_000  # records that an exporter may be behind; a run that gets further ahead is told no more
CLOSE_SECONDS = 5.0
_logger = logging.getLogger(__name__)
_Job = Callable[[], None]


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
        """As `flush`; then nothing is told any more. The providers stay open: they are yours."""
        flushed = self._teller.catch_up(seconds)
        self._teller.stop()
        return flushed

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
        self._left: set[SpanKey] = set()
        self._jobs = queue.SimpleQueue[_Job | None]()
        self._most_waiting = most_waiting
        self._waiting = 0
        self._guard = threading.Lock()
        self._complained = threading.Event()
        threading.Thread(target=self._work, name="loopkernel telemetry", daemon=True).start()

    def catch_up(self, seconds: float) -> bool:
        """Wait until all that was posted is done; whether that was so in time."""
        done = threading.Event()
        self._jobs.put(done.set)
        return done.wait(seconds)

    def stop(self) -> None:
        """Do nothing that is posted after this."""
        self._jobs.put(None)

    # --- from the threads of the runs ---

    def post(self, job: _Job, weight: int) -> bool:
        """Do it in the thread that tells, after all that was posted before; False where too much waits."""
        with self._guard:
            if self._waiting + weight > self._most_waiting:
                return False
            self._waiting += weight

        def done() -> None:
            try:
                job()
            finally:
                with self._guard:
                    self._waiting -= weight

        self._jobs.put(done)
        return True

    # --- in the thread that tells ---

    def begin(self, run: str, history: Sequence[LogRecord]) -> FoldedLog:
        """A log is opened: what was under way in it is told again, as its end will be told here."""
        folded = FoldedLog(run, self._about, self._starts)
        folded.tell(history)
        self.tell([begun for begun in folded.open if begun.key not in self._left])
        self._left.difference_update(begun.key for begun in folded.open)
        return folded

    def leave(self, run: str, folded: FoldedLog) -> None:
        """A log is closed: what is under way in it ends there, and is not told again here when the run goes on."""
        self._left.update(begun.key for begun in folded.open)
        self.tell(folded.leave())
        self._starts.pop(run, None)

    def tell(self, facts: Sequence[Fact]) -> None:
        """Give it to the tracer and the meter, each on its own: what one fact raises is not the end of the others."""
        for fact in facts:
            try:
                self._exporter.take((fact,))
            except Exception as error:
                self.complain("what happened in a run cannot be told", error)

    def complain(self, what: str, error: Exception | None = None) -> None:
        """Once for all: a collector that is down would fill the log of the program."""
        if not self._complained.is_set():
            self._complained.set()
            _logger.warning("%s; the run itself goes on, and this is said once", what, exc_info=error)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:
                self.complain("a run is not told any more", error)


class WatchedRuns(Runs):
    """Runs whose logs are watched as they are written."""

    def __init__(self, inner: Runs, teller: Teller) -> None:
        self._inner = inner
        self._teller = teller

    @override
    async def open(self, run: str) -> Store:
        return WatchedStore(run, await self._inner.open(run), self._teller)

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
    async def claim(self, most: int) -> tuple[str, ...]:
        return await self._fleet.claim(most)

    @override
    async def rest(self, run: str, wake_seconds: float | None, unfinished: bool) -> None:
        await self._fleet.rest(run, wake_seconds, unfinished)

    @override
    def holds(self, run: str) -> bool:
        return self._fleet.holds(run)

    @override
    async def set_aside(self, run: str) -> None:
        await self._fleet.set_aside(run)

    @override
    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        return await self._fleet.wait_for_work(seconds)


class WatchedStore(Store):
    """A log that is watched: what was appended is told afterwards, so nothing is told that is not recorded."""

    def __init__(self, run: str, inner: Store, teller: Teller) -> None:
        self._run = run
        self._inner = inner
        self._teller = teller
        self._folded: FoldedLog | None = None  # of the thread that tells; None: it is not told any more
        self._followed = True

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        await self._inner.append(records, durable, taken)
        self._post(lambda: self._tell(records), len(records))

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return await self._inner.load()

    @override
    async def restore(self) -> Restored:
        restored = await self._inner.restore()
        history = restored.records if restored.state is None else await self._inner.load()
        self._post(lambda: self._begin(history), 1)
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
        await self._inner.close()
        self._post(self._leave, 1)

    def _post(self, job: _Job, weight: int) -> None:
        if self._followed and not self._teller.post(job, weight):
            self._followed = False
            self._teller.complain(f"run {self._run} is told no more: the exporter is too far behind")

    # --- in the thread that tells ---

    def _begin(self, history: Sequence[LogRecord]) -> None:
        self._folded = self._teller.begin(self._run, history)

    def _tell(self, records: Sequence[LogRecord]) -> None:
        if self._folded is not None:
            folded, self._folded = self._folded, None  # what cannot be folded now cannot be later
            self._teller.tell(folded.tell(records))
            self._folded = folded

    def _leave(self) -> None:
        if self._folded is not None:
            self._teller.leave(self._run, self._folded)
            self._folded = None
