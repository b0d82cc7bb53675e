"""The ports that a session can do without, as protocols: hooks, summaries, corrections, handoffs, sub-agents.

As for the others (`ports.py`), an adapter decides nothing about what happens next, what it raises becomes a report, and
a cancellation of its task means: stop, and let go of everything. A command whose port is absent is answered at once
with a report that says so; only summaries are then made by the session's own model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from attrs import frozen
from loopkernel.data.effects import CheckCorrection, HandOff, StartChild, Summarise
from loopkernel.data.events import Event
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import CallId
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress, HookAnswer
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import SettingsChange, UserDelta

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Clock, Provider, Store, Tools
from loopkernel_adapters.secrets import NO_SECRETS, Secrets

# Where a sub-agent is: the calls that are answered by sub-agents, from the session's own downwards. The session is ().
Address = tuple[CallId, ...]

# Called with each event of a sub-agent, and its address, as an observer is with those of the session.
ChildObserver = Callable[[Address, Event], None]

# Is given the records of a sub-agent with the id of its session: all that was recorded, and increments that will be.
ChildFollower = Callable[[str, Sequence[LogRecord]], None]

# What a sub-agent says before its end.
ChildReport = ChildProgress | ChildAsks

# The log of the sub-agent whose session has that id: an empty one, or the one that it has written before.
# A blocking one is opened in place; what opens for longer than that may take is awaited.
StoreFactory = Callable[[str], BlockingStore | Awaitable[Store]]


class Hooks(Protocol):
    """The hooks that a policy names."""

    async def ask(self, context: HookContext) -> HookAnswer:
        """The answer of a gated hook. What is raised is reported as a `HookFault`, which the policy judges.

        The policy's time limit cancels it. `context.thread` is a handle: look at it, and keep no copy.
        """
        ...

    def tell(self, context: HookContext) -> None:
        """Tell a hook that only observes. Synchronous and quick; what it raises stops nothing."""
        ...


class Summariser(Protocol):
    """Whoever writes the summary that takes the place of an old part of a thread."""

    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        """The summary of the messages that `command.cut` leaves out, and what it has used.

        Raises SummaryError, or anything, when there is none.
        """
        ...


class SummaryError(Exception):
    """There is no summary. `usage` was billed all the same."""

    def __init__(self, message: str, usage: Usage = NO_USAGE) -> None:
        super().__init__(message)
        self.usage = usage


class Corrector(Protocol):
    """Whoever looks at the course of the work before a turn ends."""

    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        """What the model shall be told, None for nothing, and what it has used. What is raised counts as nothing."""
        ...


class Handoffs(Protocol):
    """Whoever can carry the work over to a new thread."""

    async def hand_off(self, command: HandOff) -> str:
        """Make the new thread, from the goal, the old thread and the queue; the id of its session.

        Raises anything when there is none; the old session then goes on. It is cancelled when the user cancels: then
        there shall be no new thread.
        """
        ...


class NoSuchAgent(LookupError):
    """There is no sub-agent at this address: it has ended, or there never was one."""


class Agent(Protocol):
    """One sub-agent, from its command to its end."""

    async def run(self) -> ChildEnded:
        """Run the sub-agent until it is over, and tell how it ended.

        What is raised is reported as an end by error. A cancellation of the task means that the parent's process ends:
        nothing is recorded as ended, and the sub-agent can be resumed. `cancel` is something else.
        """
        ...

    def cancel(self) -> None:
        """Stop for good: `run` then returns, as soon as every tool of the sub-agent has stopped."""
        ...

    def tell(self, delta: SettingsChange) -> None:
        """Pass a change of settings on. It may come before `run` has begun."""
        ...

    async def send(self, delta: UserDelta, within: Address, taken: int | None = None) -> None:
        """Pass on what a person says to this sub-agent, or to the one at the address within it. Raises NoSuchAgent.

        One that is about to run is waited for. `taken` is as for `Driver.send`.
        """
        ...

    @property
    def waits(self) -> bool:
        """Whether nothing of it goes on by itself, since it waits for a person; see `Driver.waits`."""
        return False

    async def until_waits(self) -> None:
        """Return when it waits. One that never says so need not return."""
        await asyncio.Future[None]()

    def state_of(self, within: Address) -> State | None:
        """The state of this sub-agent, or of the one at the address within it; None where it is not known here."""
        ...


class ParentSession(Protocol):
    """What a sub-agent can reach of the session that it works for."""

    @property
    def ports(self) -> "Ports":
        """The ports of the session, for a sub-agent that is to use the same."""
        ...

    def report(self, report: ChildReport) -> None:
        """Say what a completed reply said, or which calls wait for a person now (all of them, whenever that changes).

        Say it when the sub-agent's own log holds it.
        """
        ...

    def show(self, within: Address, event: Event) -> None:
        """Show an event of the sub-agent; of one within it, with the address there."""
        ...

    def follow(self, session_id: str, records: Sequence[LogRecord]) -> None:
        """Give the records of the sub-agent, or of one within it, to whoever follows its log."""
        ...


class Agents(Protocol):
    """Whoever runs sub-agents."""

    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        """The sub-agent for a call. Quick: whatever waits or opens something is done by its `run`."""
        ...


@frozen(kw_only=True)
class OptionalPorts:
    """The ports that a session can do without."""

    hooks: Hooks | None = None
    summariser: Summariser | None = None
    corrector: Corrector | None = None
    handoffs: Handoffs | None = None
    agents: Agents | None = None


NO_PORTS = OptionalPorts()


@frozen(kw_only=True)
class Ports:
    """All ports of a session but its store."""

    provider: Provider
    tools: Tools
    clock: Clock
    secrets: Secrets = NO_SECRETS
    optional: OptionalPorts = NO_PORTS
