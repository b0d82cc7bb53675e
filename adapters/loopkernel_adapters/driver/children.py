"""Sub-agents in the same process: each a driver of its own, with a kernel and a log of its own.

What happens in a sub-agent is in its log before its parent hears of it. A cancel of its call is a cancel of everything
in it, recorded there as such. When the parent's process ends, nothing is recorded: the sub-agent is resumed from its
log when its parent is.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildCall
from loopkernel.data.effects import StartChild
from loopkernel.data.events import Event, MessageAdded
from loopkernel.data.ledgers import ChildWait, LedgerEntry
from loopkernel.data.messages import AssistantMessage, Message, ReplyState
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
from loopkernel.data.states import Confirming, Dispatching, Done, Executing, State, Streaming
from loopkernel.data.user_deltas import CancelAll, Say, SettingsChange, UserDelta
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel.later_typing import override

from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.failures import complain, words_of
from loopkernel_adapters.driver.taking_up import ResumeSettings
from loopkernel_adapters.optional_ports import (
    Address,
    Agent,
    Agents,
    NoSuchAgent,
    OptionalPorts,
    ParentSession,
    StoreFactory,
)
from loopkernel_adapters.ports import Store, StoreError
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.stores.threaded import asynchronous

CHILD_STOP_SECONDS = 4.0  # less than its parent waits for it
WITH_CALLS = (Streaming, Executing, Confirming, Dispatching)


class InProcessAgents(Agents):
    """Runs each sub-agent in this process, with the ports of its parent.

    `stores` gives the log of a sub-agent, by the id of its session: an empty one, or the one that it has written
    before, where its parent goes on after a restart. Its driver closes it.
    """

    def __init__(self, stores: StoreFactory) -> None:
        self._stores = stores

    @override
    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        return InProcessAgent(command, parent, self._stores)


class InProcessAgent(Agent):
    """One sub-agent, and the driver that runs it."""

    def __init__(self, command: StartChild, parent: ParentSession, stores: StoreFactory) -> None:
        self._command = command
        self._parent = parent
        self._stores = stores
        self._driver: Driver | None = None  # while it runs
        self._has_begun = asyncio.Event()  # or ended before that
        self._told: list[SettingsChange] = []  # before it ran
        self._cancelled = False
        self._asked: tuple[ChildCall, ...] = ()

    @override
    async def run(self) -> ChildEnded:
        try:
            driver = await self._opened()
        except BaseException:
            self._has_begun.set()
            raise
        self._driver = driver
        try:
            await self._driven(driver)
            return self._ended(driver.state)
        except Exception as error:
            return self._failed(driver.state, error)
        finally:
            self._driver = None
            self._has_begun.set()
            await _close(driver, self._parent.ports.secrets)

    @override
    def cancel(self) -> None:
        self._cancelled = True
        self._post(CancelAll())

    @override
    def tell(self, delta: SettingsChange) -> None:
        if self._driver is None:
            self._told.append(delta)
        self._post(delta)

    @override
    async def send(self, delta: UserDelta, within: Address, taken: int | None = None) -> None:
        await self._has_begun.wait()
        if self._driver is None:
            raise NoSuchAgent(f"the sub-agent of call {self._command.call} does not run any more")
        await self._driver.send(delta, within, taken)

    @property
    @override
    def waits(self) -> bool:
        return self._has_begun.is_set() and self._driver is not None and self._driver.waits

    @override
    async def until_waits(self) -> None:
        await self._has_begun.wait()
        if self._driver is not None:
            with suppress(RuntimeError, StoreError):  # it has come to its end meanwhile
                await self._driver.until_waits()
                return
        await asyncio.Future[None]()

    @override
    def state_of(self, within: Address) -> State | None:
        return None if self._driver is None else self._driver.state_of(within)

    def _post(self, delta: UserDelta) -> None:
        """Say it to the sub-agent, if it runs; one whose log cannot be written is about to end."""
        if self._driver is not None:
            with suppress(StoreError):
                self._driver.post(delta)

    async def _opened(self) -> Driver:
        command, ports = self._command, self._parent.ports
        optional = ports.optional
        return await Driver.open(
            store=await self._store(),
            created=command.created,
            provider=ports.provider,
            tools=ports.tools,
            clock=ports.clock,
            secrets=ports.secrets,
            optional=OptionalPorts(hooks=optional.hooks, summariser=optional.summariser, agents=optional.agents),
            observers=(self._see,),
            child_observers=(self._parent.show,),
            watch=self._look,
            follow=partial(self._parent.follow, command.created.session_id),
            follow_children=self._parent.follow,
            resume_with=ResumeSettings(policy=command.created.policy),  # that of its parent of now
            nonce=None if command.created.nonce else "",
        )

    async def _store(self) -> Store:
        opened = self._stores(self._command.created.session_id)
        store = await opened if inspect.isawaitable(opened) else asynchronous(opened)
        try:
            if not self._command.resumed and await store.load():
                raise StoreError(
                    f"the log for the new session {self._command.created.session_id} holds another run already"
                )
        except BaseException:
            await store.close()
            raise
        return store

    async def _driven(self, driver: Driver) -> None:
        """From its beginning, or wherever its log has ended, to the end of its run."""
        await driver.__aenter__()
        for delta in self._told:
            driver.post(delta)
        session = driver.state.session
        if session is not None and session.counters.receipts == 0:  # its log does not hold its task yet
            driver.post(Say(content=(TextBlock(self._command.task),)))
        if self._cancelled:  # before there was anybody to tell
            driver.post(CancelAll())
        self._has_begun.set()
        if self._command.resumed:  # the parent's log may not hold what was reported last
            self._report_again(driver.state)
        await driver.over()
        if self._cancelled:
            await driver.stopped()

    # --- what its parent hears ---

    def _see(self, event: Event) -> None:
        self._parent.show((), event)
        if isinstance(event, MessageAdded):
            self._tell_said(event.message)

    def _tell_said(self, message: Message) -> None:
        """A completed reply with text."""
        text = said_in(message)
        if text and not self._cancelled:
            self._parent.report(ChildProgress(self._command.operation, text))

    def _look(self) -> None:
        """Report the calls that wait for a person, whenever they change."""
        if self._driver is None or self._cancelled:
            return
        asked = waiting_calls(self._driver.state)
        if asked != self._asked:
            self._asked = asked
            self._parent.report(ChildAsks(self._command.operation, asked))

    def _report_again(self, state: State) -> None:
        text = last_said(state)
        if text:
            self._parent.report(ChildProgress(self._command.operation, text))
        self._parent.report(ChildAsks(self._command.operation, self._asked))

    def _ended(self, state: State) -> ChildEnded:
        reason = state.reason if isinstance(state, Done) else TurnEndReason.ERROR
        return self._end(state, reason, last_said(state))

    def _failed(self, state: State, error: Exception) -> ChildEnded:
        """Its log cannot be written, most likely. What it has used was billed."""
        return self._end(state, TurnEndReason.ERROR, words_of(error))

    def _end(self, state: State, reason: TurnEndReason, text: str) -> ChildEnded:
        operation, session = self._command.operation, state.session
        if session is None:
            return ChildEnded(operation=operation, reason=reason, text=text)
        return ChildEnded(
            operation=operation, reason=reason, text=text, usage=session.usage, tool_calls=session.started
        )


async def _close(driver: Driver, secrets: Secrets) -> None:
    """Let go of everything, however often the task is cancelled meanwhile."""
    closing = asyncio.ensure_future(driver.close(CHILD_STOP_SECONDS))
    cancelled = False
    while not closing.done():
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            cancelled = True
        except Exception as error:  # the last increments cannot be recorded: as if it had ended before them
            complain("the log of a sub-agent lacks the last of what it said", error, secrets)
    if cancelled:
        raise asyncio.CancelledError


def waiting_calls(state: State) -> tuple[ChildCall, ...]:
    """The calls of a session, and of its sub-agents, that wait for a person."""
    if not isinstance(state, WITH_CALLS) or state.ledger.waiting == 0:
        return ()
    return tuple(
        call
        for entry in state.ledger.entries
        if entry.status is CallStatus.BLOCKED_ON_USER
        for call in _waiting_in(entry)
    )


def _waiting_in(entry: LedgerEntry) -> Iterator[ChildCall]:
    """The call itself, or where a sub-agent runs for it, the calls of that one."""
    wait = entry.person.wait
    if isinstance(wait, ChildWait):
        for asked in wait.asked:
            yield ChildCall((entry.call.id, *asked.path))
    else:
        yield ChildCall((entry.call.id,))


def agent_address(state_of: Callable[[Address], State | None], session_id: str) -> Address | None:
    """Where the sub-agent is whose session that is, by the states of the session and of its sub-agents; None: nowhere.

    The session of a sub-agent has the id of the one that it works for, and more.
    """
    address: Address = ()
    while isinstance(state := state_of(address), WITH_CALLS):
        for entry in state.ledger.entries:
            above = entry.child.session_id if entry.child is not None and entry.is_open else None
            if above is not None and f"{session_id}/".startswith(f"{above}/"):
                address = (*address, entry.call.id)
                break
        else:
            return None
        if above == session_id:
            return address
    return None


def last_said(state: State) -> str:
    """The text of the last reply that has any."""
    if state.session is None:
        return ""
    messages = state.session.thread.messages
    for index in range(len(messages) - 1, -1, -1):
        if text := said_in(messages[index]):
            return text
    return ""


def said_in(message: Message) -> str:
    """The text of a completed reply; nothing of any other message."""
    if not isinstance(message, AssistantMessage) or message.state is not ReplyState.COMPLETE:
        return ""
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock)).strip()
