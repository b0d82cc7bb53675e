"""A small world around the driver: tools that are plain functions, a store that takes notes, events in a list."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.events import Event, ToolEnded, TurnEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolOutput, ToolProfile, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import NO_PORTS, Address, ChildObserver, OptionalPorts
from loopkernel_adapters.ports import Observer, Provider, RunContext, Store, Tools
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.stores.memory import MemoryStore
from typing_extensions import override

Run = Callable[[StartTool, RunContext], Awaitable[ToolOutput]]
NO_INPUT = Json.of({})


def said(text: str) -> ToolOutput:
    return ToolOutput(content=(TextBlock(text),))


async def echo(command: StartTool, context: RunContext) -> ToolOutput:
    """A tool that answers at once with its input."""
    return said(command.input.text)


READS = ToolProfile(effect=EffectClass.READ_ONLY)
ASKS = ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ASK)


class FunctionTools(Tools):
    """Each tool is a function. They share a profile, and by default only read, but for those in `profiles`.

    `started` holds the runs, in order.
    """

    def __init__(self, profile: ToolProfile = READS, **runs: Run) -> None:
        self.profile = profile
        self.profiles: dict[str, ToolProfile] = {}
        self.runs = runs
        self.started: list[StartTool] = []

    @override
    def offered(self) -> tuple[Tool, ...]:
        return tuple(Tool(name=name, profile=self.profiles.get(name, self.profile)) for name in self.runs)

    @override
    def check(self, command: CheckCall) -> Verdict:
        return ValidCall() if command.tool in self.runs else UnknownTool()

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.started.append(command)
        return await self.runs[command.tool](command, context)


class FunctionProvider(Provider):
    """A provider that is one function."""

    def __init__(self, stream: Callable[[ModelOperation], AsyncIterator[ModelDelta]]) -> None:
        self._stream = stream

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return self._stream(operation)


class NotedStore(MemoryStore):
    """Notes the size of each append, and which records are durable; fails from append number `failing_from` on."""

    def __init__(self, failing_from: int | None = None) -> None:
        super().__init__()
        self.appends: list[tuple[int, bool]] = []
        self.durable: tuple[LogRecord, ...] = ()
        self.closed = False
        self.failing_from = failing_from

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.appends.append((len(records), durable))
        if self.failing_from is not None and len(self.appends) >= self.failing_from:
            raise OSError(28, "No space left on device")
        super().append(records, durable)
        if durable:
            self.durable = self.load()

    @override
    def close(self) -> None:
        super().close()
        self.closed = True


Around = Callable[[BlockingStore], Store | BlockingStore]
AROUND: list[Around] = []  # what a world puts around its store where it is told nothing: the last of these, if any


class World:
    """What a test needs around a driver.

    Every driver that it opens shows its events in `events`, and those of its sub-agents in `events_of_children`.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        provider: Provider | None = None,
        tools: FunctionTools | None = None,
        store: BlockingStore | None = None,
        around: Around | None = None,
        clock: ManualClock | None = None,
        policy: Policy | None = None,
        secrets: Secrets = NO_SECRETS,
        optional: OptionalPorts = NO_PORTS,
    ) -> None:
        self.scripted = ScriptedProvider(replies)
        self.provider = provider or self.scripted
        self.tools = tools or FunctionTools(echo=echo)
        self.noted = NotedStore()
        self.store = store or self.noted
        self.around = around or (AROUND[-1] if AROUND else None)
        self.clock = clock or ManualClock(1_000)
        self.policy = policy or Policy()
        self.secrets = secrets
        self.optional = optional
        self.events: list[Event] = []
        self.events_of_children: list[tuple[Address, Event]] = []
        self.see_of_child: ChildObserver = self._note_of_child
        self._arrived = asyncio.Event()

    async def open(self, *observers: Observer) -> Driver:
        return await Driver.open(
            store=self.store if self.around is None else self.around(self.store),
            created=Created(session_id="s", policy=self.policy, tools=self.tools.offered()),
            provider=self.provider,
            tools=self.tools,
            clock=self.clock,
            observers=(*observers, self._see),
            secrets=self.secrets,
            optional=self.optional,
            child_observers=(self.see_of_child,),
            nonce="",
        )

    def _see(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    def _note_of_child(self, within: Address, event: Event) -> None:
        self.events_of_children.append((within, event))
        self._arrived.set()

    async def until(self, kind: type[Event]) -> None:
        """Wait until an event of the kind has been seen."""
        while not self.seen(kind):
            self._arrived.clear()
            await self._arrived.wait()

    def seen(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def results(self) -> list[tuple[str, str]]:
        """Status and text of each call that was answered."""
        ended = [event.result for event in self.events if isinstance(event, ToolEnded)]
        return [(result.status.value, text_of(result.content)) for result in ended]

    def endings(self) -> list[TurnEndReason]:
        return [event.reason for event in self.events if isinstance(event, TurnEnded)]


def say(text: str) -> Say:
    return Say(content=(TextBlock(text),))


async def one_turn(world: World, text: str = "go") -> State:
    """Open, say, rest, close; the state at rest."""
    async with await world.open() as driver:
        await driver.send(say(text))
        await driver.rest()
        return driver.state


def complaints_of(loop: asyncio.AbstractEventLoop) -> list[str]:
    """What the loop's exception handler is told from now on."""
    complaints: list[str] = []

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # Any: asyncio's own signature
        complaints.append(f"{context['message']}: {context['exception']}")

    loop.set_exception_handler(handler)
    return complaints


def child_processes() -> set[str]:
    """The processes that this one has started and not waited for, by their numbers."""
    while True:
        try:
            threads = list(Path("/proc/self/task").iterdir())
            return {number for thread in threads for number in (thread / "children").read_text().split()}
        except OSError:  # a thread has ended meanwhile: its children are those of another one now
            continue


def descriptors() -> int:
    """How many file descriptors this process has open; those that an earlier test has left to the collector are not."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))
