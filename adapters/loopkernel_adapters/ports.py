"""The ports: what the driver needs from outside, as protocols. Nothing here acts.

An adapter fulfils one of them and decides nothing about what happens next. A failure of the world is a
delta (`ModelFailed`, `ToolFailed`) and never an exception that ends the run; the driver turns what an
adapter raises into such a delta. Only a store may stop the driver: what cannot be recorded must not go on.
The ports that a session can do without are in `optional_ports.py`, stores that block in `blocking_ports.py`.
`specs/ports.md` states the same as numbered duties. All of them belong to asyncio: what is awaited is awaited in its
event loop, and a program of trio has a thread wait (`trio.to_thread.run_sync(agent.run_sync, words)`).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, runtime_checkable

from attrs import frozen
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.events import Event
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.policy import ResultLimit
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import RULES_VERSION, Created
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord


class Provider(Protocol):
    """A model, or a service that offers models."""

    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        """The reply to the request, delta by delta; each delta names `operation`.

        The last delta is `ModelCompleted` or `ModelFailed`; nothing is read after it. A stream that ends
        without either is reported by the driver as `ModelFailed(network)`. The adapter classifies its own
        errors, in one function, and yields `ModelFailed`, with what the server asked to wait in `retry_after_ms`
        (a server that says nothing: None); what it raises all the same is reported as `unknown` (`network` for
        a lost connection, `stalled` for a timeout). It never retries by itself.

        A stream that gives no delta for the policy's `silence_ms` is aborted. One that is slow to begin shows
        that it lives with `ModelStarted` or `ModelUsage`.

        Called, it returns at once (an async generator does). A stream is read only as fast as its deltas
        are applied, is closed when it is done or aborted, and must let go of everything when it is
        cancelled.
        """
        ...


class RunContext(Protocol):
    """What a run can say and ask while it is under way. Belongs to the event loop: await it there, not in a thread."""

    @property
    def key(self) -> str:
        """What the run is known by outside, as `StartTool.key`; empty where whoever runs the tool does not say."""
        return ""

    @property
    def spill(self) -> ResultLimit | None:
        """The limit beyond which a shell puts its output into a file, as `StartTool.spill`; None: it does not."""
        return None

    async def report_progress(self, text: str) -> None:
        """Say how far the run is. Returns when the text is applied, so a tool cannot run ahead of the session."""
        ...

    async def ask(self, question: str) -> Json | None:
        """Put a question to the user, and wait for the answer; None means that nobody will answer it.

        That is so when the user declines, and at once when the run has been aborted, has ended, or goes on in the
        background. One question is open at a time: a second one waits for the answer to the first.
        """
        ...

    async def go_on_in_background(self, handle: str) -> None:
        """Have the call answered now with the text `handle`, and go on; what `run` returns later is the run's end.

        Raises RuntimeError the second time.
        """
        ...


class Tools(Protocol):
    """The tools that a session may offer, and their execution."""

    def offered(self) -> tuple[Tool, ...]:
        """What a new session offers to the model. Names are unique."""
        ...

    def check(self, command: CheckCall) -> Verdict:
        """Judge a call: is the tool known, does the input fit its schema, which resources does it touch.

        Synchronous, because it is called between two deltas: it looks at the input, and at most a few
        names in a file system; it changes nothing. What it raises becomes an `InvalidCall`.
        """
        ...

    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        """Run the tool once and return what the model shall see.

        Raises ToolError when the tool fails; its text is shown to the model as it is. Any other exception
        is a failure too, shown with its type. `context` is for what the tool has to say or to ask before that.

        An abort cancels the run (asyncio.CancelledError), also while it waits for an answer. A tool that has to clean
        up does so and lets the cancellation pass on: that the run has ended is what "stopped" means. Blocking work
        belongs into a thread or a process that the tool owns and ends.
        """
        ...


class ProviderUnavailable(Exception):
    """No provider can be had so. The message says why, and what to do."""


class ToolError(Exception):
    """A tool failed. The message is for the model: what happened, with what, and what to try instead.

    A failure may be the last word of a turn as well: `final` and `stops_loop` are those of a ToolOutput (rule TOOL-13).
    """

    def __init__(self, message: str, *, final: bool = False, stops_loop: bool = False) -> None:
        super().__init__(message)
        self.final = final
        self.stops_loop = stops_loop


class Store(Protocol):
    """The log of one session: an append-only sequence of records with exactly one writer.

    A store that blocks instead of being awaited is a `BlockingStore` (`blocking_ports.py`); whoever takes a store takes
    either kind.
    """

    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        """Add the records at the end, in order.

        With `durable` true it returns only when these and all earlier records survive a loss of power;
        else they are at least handed over, to become durable with a later append. Raises OSError (or
        StoreError) when that is not possible; from then on every append is refused, since nobody knows
        what a second attempt would really write.

        Appends take effect in the order of their calls, also where one begins before the other has returned. One that
        is cancelled is written whole or not at all, and those behind it are written all the same. `taken` are the
        numbers of inputs that came through the store's own inbox and are in these records: the same write takes them
        out of it. A store without an inbox is never given any.
        """
        ...

    async def load(self) -> tuple[LogRecord, ...]:
        """All records, in order. Raises StoreCorrupt when one of them cannot be trusted."""
        ...

    async def restore(self) -> "Restored":
        """What a driver goes on from: the newest snapshot that can be trusted, and the records behind it.

        A store without snapshots gives all records. Raises as `load` does.
        """
        ...

    async def save_snapshot(self, state: State) -> None:
        """Keep `state`, which all records that were appended lead to, so that the next `restore` costs only the tail.

        A snapshot is no more than a shorter way to the same state: it may be dropped, and failing to write one
        (OSError, StoreError) loses nothing and breaks nothing. To encode a long one takes time: do it in a thread.
        """
        ...

    async def close(self) -> None:
        """Make what was appended durable and let go of everything. Closing twice is harmless."""
        ...


@runtime_checkable
class Sealing(Protocol):
    """A store that knows its own logs again. One without this vouches for whatever it holds."""

    def vouch(self) -> None:
        """From now on what is appended is sealed: whoever appends has not gone by what the log itself allows.

        The driver says so when it begins a log, or has told what holds from now on (`Restored.doubt`). What is appended
        before is not sealed, nor is then the log: so a copy of foreign records gains no authority.
        """
        ...


@frozen(kw_only=True)
class Restored:
    """Where a log goes on: the state of a snapshot (None: there is none), and the records behind it, all without one.

    `rules_version` is that of the rules under which the snapshot was made. `doubt` is why the store does not vouch for
    the log, in words; None: it does, as this user's program has written all of it. A log that is doubted gives no
    authority (rule RESUME-8).
    """

    state: State | None = None
    rules_version: int = RULES_VERSION
    records: tuple[LogRecord, ...]
    doubt: str | None = None


@frozen(kw_only=True)
class RunEntry:
    """A run in a list of runs: its id, how many records it has, and the times of the first and the last (ms)."""

    run: str
    records: int
    first_ms: int
    last_ms: int


@frozen(kw_only=True)
class RunPage:
    """The latest of the runs in a list, the latest last, and how many there are in all."""

    entries: tuple[RunEntry, ...]
    total: int


class Runs(Protocol):
    """Many logs in one place, each found by the id of its session. Those that block are `BlockingRuns`."""

    async def open(self, run: str) -> Store:
        """The log of that session for its one writer: an empty one, or the one that it has written before.

        Raises StoreLocked when it is open elsewhere, StoreCorrupt, StoreError, OSError.
        """
        ...

    async def read(self, run: str) -> tuple[LogRecord, ...]:
        """All complete records, without a lock, also while they are being written. Raises NoSuchRun, else as `open`."""
        ...

    async def doubt(self, run: str) -> str | None:
        """Why the place does not vouch for that log (see `Restored.doubt`), without a lock. Raises as `read` does."""
        return None

    async def entries(self) -> tuple[RunEntry, ...]:
        """The runs that are there, the latest last; those that cannot be read are left to `read` to complain about."""
        ...

    async def latest(self, most: int | None) -> RunPage:
        """At most so many of the runs that are nobody's sub-agents, all of them for None.

        A store that can find the latest without reading the others does so.
        """
        return latest_of(await self.entries(), most)

    async def close(self) -> None:
        """Let go of everything; the logs that it has opened are closed by who uses them. Closing twice is harmless."""
        ...


def latest_of(entries: Sequence[RunEntry], most: int | None) -> RunPage:
    """The page of a whole list of runs, without those of sub-agents, whose ids hold a slash."""
    found = tuple(entry for entry in entries if "/" not in entry.run)
    return RunPage(entries=found if most is None else found[max(0, len(found) - most) :], total=len(found))


class StoreError(Exception):
    """What went wrong with a log."""


class NoSuchRun(StoreError):
    """There is no log of that id."""


class StoreLocked(StoreError):
    """Another process, or another store of this process, writes this log."""


class StoreCorrupt(StoreError):
    """A record of the log cannot be trusted. Nothing was changed. `line` counts from 1, `position` is in bytes."""

    def __init__(self, source: str, line: int, position: int, problem: str) -> None:
        super().__init__(source, line, position, problem)
        self.source = source
        self.line = line
        self.position = position
        self.problem = problem

    @override
    def __str__(self) -> str:
        return (
            f"{self.source}, line {self.line} (byte {self.position}): {self.problem}. Nothing was changed. "
            f"Restore the log from a copy, or cut it at byte {self.position} to go on without this record "
            "and all that follow it."
        )


class StoreFailed(StoreError):
    """The log could not be written, so the driver has stopped. The cause is chained."""


class RunFailed(Exception):
    """A run is over since a model call failed and nothing recovered it, under the policy `on_error: raise`.

    `error` is the class of the failure, `message` its words. The log and the state say the same.
    """

    def __init__(self, error: ErrorClass, message: str) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message

    @override
    def __str__(self) -> str:
        return f"the run ended with an error of the model: {self.error.value}: {self.message}"


class RulesDiffer(StoreError):
    """The log was written under another version of the rules, so folding it would tell another run (RESUME-1)."""


def is_of_these_rules(records: Sequence[LogRecord]) -> bool:
    """Whether the log, whose records these are from the first on, can be folded here."""
    created = records[0].delta if records else None
    return isinstance(created, Created) and created.rules_version == RULES_VERSION


def demand_same_rules(restored: Restored) -> None:
    """Raises RulesDiffer where what is to be folded was written under other rules than those of this loopkernel.

    A snapshot of other rules with nothing behind it is not such a case: from it the run goes on under these.
    """
    created = restored.records[0].delta if restored.records else None
    if restored.state is not None and restored.records:
        version = restored.rules_version
    elif restored.state is None and isinstance(created, Created):
        version = created.rules_version
    else:
        return
    if version != RULES_VERSION:
        raise RulesDiffer(
            f"the log was written under version {version} of the rules, and this loopkernel folds logs "
            f"of version {RULES_VERSION}. Nothing was changed: go on with the one that wrote it, or begin another"
        )


class Clock(Protocol):
    """Time, for the stamps of records and for timers."""

    def now_ms(self) -> int:
        """The time in milliseconds, of any origin that lasts as long as the log; it should not go back."""
        ...

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, in the event loop, when `now_ms()` has reached the deadline.

        Never before it has returned: a deadline that has passed is called soon. Calling what it returns
        forgets the timer; after the callback that does nothing.
        """
        ...


# Called with each event, in order, after the delta that caused it is recorded. Synchronous and quick: it shows,
# counts or queues. What it raises goes to the exception handler of the event loop, and stops nothing.
Observer = Callable[[Event], None]
