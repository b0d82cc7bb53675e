"""A session as a program uses it: say something, see what happens, answer for a person, and have the result.

Nothing here decides what happens next: it is the driver of the session, with events that can be awaited.
"""

import asyncio
import enum
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Generic

from loopkernel.data.blocks import TextBlock, ToolCall, ToolResult, UserBlock, text_of
from loopkernel.data.events import (
    Dequeued,
    Event,
    InputSettled,
    MessageAdded,
    Queued,
    Refused,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.ids import CallId, QueueNumber
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session as KernelSession
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll, Say, UserDelta
from loopkernel.data.words import CallStatus, InputFate, RefusalReason, TurnEndReason, UserAction
from loopkernel.loop.algorithms.references import resolved
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import agent_address, said_in
from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.ports import Observer, StoreError
from loopkernel_adapters.sessions.event_buffer import AgentEvent, EventBuffer
from loopkernel_adapters.sessions.result import Output_co, Result
from loopkernel_adapters.sessions.standing_approvals import StandingApproval, standing_approvals
from loopkernel_adapters.sessions.waiting_calls import Answer, Approver, WaitingCall, answer_in_full, calls_waiting_in

MOST_EVENTS = 1_000  # that wait for a reader
MOST_ASKED = 3  # times that a call is put to the approver, whose answers were refused

Words = str | tuple[UserBlock, ...]


class Session(Generic[Output_co]):
    """A run that is open. `Agent.session` makes it, and closes it at the end of its block."""

    def __init__(
        self,
        run: str,
        driver: Driver,
        approve: Approver | None,
        read_output: Callable[[Json], Output_co],
        most_events: int = MOST_EVENTS,
    ) -> None:
        self.run = run
        self._driver = driver
        self._approve = approve
        self._read_output = read_output
        self._most_events = most_events
        self._readers: list[EventBuffer] = []
        self._saying = asyncio.Lock()
        self._asking = asyncio.Lock()  # the approver, one call at a time

    @property
    def state(self) -> State:
        """The state of the kernel, after all that has happened."""
        return self._driver.state

    @property
    def doubt(self) -> str | None:
        """Why the run was not believed when it was gone on with (rule RESUME-8), in words; None: it was."""
        return self._driver.doubt

    @property
    def policy(self) -> Policy:
        """What it goes by now; `send(ChangePolicy(...))` and `send(ChangeMode(...))` change it, also in mid-turn."""
        session = self._driver.state.session
        assert session is not None  # a log begins with its policy
        return session.settings.policy

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that wait for a person, those of sub-agents included."""
        return calls_waiting_in(self._driver)

    @property
    def approvals(self) -> tuple[StandingApproval, ...]:
        """What runs unasked, since a person has said so; `send(Forget(...))` takes it back."""
        return standing_approvals(self._driver.state_of)

    def say(self, words: Words) -> "Turn[Output_co]":
        """Say something to the model: await the turn for its result, or iterate over it for its events.

        It is said when that begins. What is said while a turn is under way is treated as the policy says (`on_busy`).
        """
        return Turn(self._here, said(words))

    def go_on(self) -> "Turn[Output_co]":
        """As `say`, without a word: what goes on by itself after a restart, or after an answer to a waiting call."""
        return Turn(self._here, None)

    async def answer(self, call: WaitingCall, answer: Answer) -> None:
        """Answer a call that waits for a person; see `Answer`. `go_on` then waits for what comes of it.

        Raises TypeError where the answer does not fit, NoSuchAgent when the sub-agent that asked has ended, and
        ValueError when another input, or another question, waits there by now than `call` says (rule ASK-4).
        """
        if any(other.path == call.path and other != call for other in self.waiting):
            raise ValueError(f"the call {'/'.join(map(str, call.path))} has changed since; look at what is waiting now")
        await self._driver.send(answer_in_full(call, answer), call.within)

    async def cancel(self) -> None:
        """Stop everything that is under way, and have it recorded so. Who waits for the turn gets its result."""
        await self._driver.send(CancelAll())

    async def send(self, delta: UserDelta | ThreadDelta, within: Address = (), taken: int | None = None) -> None:
        """Say anything that the kernel understands (`loopkernel.data.user_deltas`); see `Driver.send`."""
        await self._driver.send(delta, within, taken)

    async def settled(self) -> None:
        """Wait until nothing goes on by itself, also in the background; meanwhile the approver, if any, answers.

        What waits for a person stays so, also in sub-agents, and questions included; a timer that runs is waited for.
        Raises as a turn does.
        """
        await self._attended(self._approve is not None)
        await self._driver.until_waits()

    def address_of(self, session_id: str) -> Address | None:
        """Where the sub-agent is whose session that is; None where it does not run, or is not known here."""
        return agent_address(self._driver.state_of, session_id)

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """All events from now on, until the session is closed."""
        buffer = EventBuffer(self._most_events)
        self._readers.append(buffer)
        self._driver.subscribe(buffer.put)
        try:
            while (event := await buffer.next()) is not None:
                yield event
        finally:
            self._driver.unsubscribe(buffer.put)
            self._readers.remove(buffer)

    def end_events(self) -> None:
        """Let those who iterate over `events` come to their end."""
        for buffer in self._readers:
            buffer.end()

    @asynccontextmanager
    async def _here(self) -> AsyncIterator["Session[Output_co]"]:
        yield self

    # --- for a turn ---

    async def conduct(self, delta: UserDelta | None, seen: "TurnRecord") -> None:
        """Say it, and wait until nothing goes on by itself; meanwhile the approver answers what waits."""
        if delta is not None:
            async with self._saying:  # one message at a time, so that each turn knows what becomes of its own
                seen.being_said = True
                await self._driver.send(delta)
                seen.being_said = False
        await self._attended(answering=True)

    async def _attended(self, answering: bool) -> None:
        """Wait until nothing goes on by itself; if `answering`, answer what waits for a person and can be answered."""
        asked: dict[tuple[object, ...], int] = {}
        while True:
            await self._driver.rest()
            to_ask = [call for call in self.waiting if asked.get(call.path, 0) < MOST_ASKED and self._can_answer(call)]
            if not (answering and to_ask):
                return
            for call in to_ask:
                async with self._asking:
                    if call in self.waiting:  # and was not answered for another turn meanwhile
                        asked[call.path] = asked.get(call.path, 0) + 1
                        answer = await self._asked(call)
                        if call in self.waiting:  # still, and as it was asked about
                            await self.answer(call, answer)

    def _can_answer(self, call: WaitingCall) -> bool:
        """An approval can wait for a person who comes later. A question cannot: it ends with the run that asks."""
        return self._approve is not None or call.question is not None

    async def _asked(self, call: WaitingCall) -> Answer:
        if self._approve is None:
            return None
        answer = self._approve(call)
        if inspect.isawaitable(answer):
            return await answer
        return answer

    async def give_up(self, conducting: "asyncio.Task[None]") -> None:
        """Cancel the turn, since nobody wants it any more."""
        conducting.cancel()
        with suppress(StoreError):  # nothing is under way then, and whoever opens the log next is told
            await self.cancel()
        await asyncio.wait({conducting})

    def listen(self, observer: Observer) -> None:
        """Show the events to this one too."""
        self._driver.subscribe(observer)

    def forget(self, observer: Observer) -> None:
        """Show them to it no more."""
        self._driver.unsubscribe(observer)

    def new_buffer(self) -> EventBuffer:
        """A buffer of the size that was asked for."""
        return EventBuffer(self._most_events)

    def result(self, seen: "TurnRecord") -> Result[Output_co]:
        """What has come of a turn, by what was seen of it."""
        waiting, session = self.waiting, self.state.session
        ended = session.last_end if session is not None else None
        reason = seen.reason if seen.stage in (Stage.QUEUED, Stage.OVER) else None if waiting else seen.reason or ended
        given = output_in(session, seen.messages) if session is not None and reason is TurnEndReason.OUTPUT else None
        return Result(
            run=self.run,
            reason=reason,
            text=seen.text,
            usage=NO_USAGE if session is None else session.usage,
            calls=tuple(seen.calls),
            output=None if given is None else self._read_output(given),
            waiting=waiting,
            refused=seen.refused,
            error=None if session is None else session.error,
            state=self.state,
        )


def output_in(session: KernelSession, messages: Sequence[Message]) -> Json | None:
    """The input of the output call that was answered last; of several in one reply, the first.

    `messages` are those of the turn, as far as they were seen; else the thread tells.
    """
    tool = session.settings.policy.output_tool
    calls: dict[CallId, Json] = {}
    results: tuple[ToolResult, ...] = ()
    for message in messages or session.thread:
        if isinstance(message, AssistantMessage):
            blocks = [block for block in message.content if isinstance(block, ToolCall)]
            calls = {block.id: block.input for block in blocks if isinstance(block.input, Json)}
        elif isinstance(message, ResultMessage):
            results = message.results
    said = {result.provider_id: text_of(result.content) for result in results}
    taken = [each.call for each in results if each.tool == tool and each.status is CallStatus.DONE]
    return next((resolved(calls[call], said) for call in taken if call in calls), None)


class Stage(enum.Enum):
    """How far the turn is that a message begins."""

    UNSAID = "the message has no answer yet"
    QUEUED = "it waits behind the turn that is under way"
    UNDER_WAY = "what happens now belongs to it"
    OVER = "what happens now belongs to others"


class TurnRecord:
    """What a result needs of the events of a turn: of that which a message begins, or of all that goes on by itself."""

    def __init__(self, of_message: bool) -> None:
        self.stage = Stage.UNSAID if of_message else Stage.UNDER_WAY
        self.text = ""
        self.calls: list[ToolResult] = []
        self.messages: list[Message] = []
        self.reason: TurnEndReason | None = None
        self.being_said = False  # what the turn begins with, just now
        self.refused: RefusalReason | None = None
        self._of_message = of_message
        self._queued: QueueNumber | None = None

    def note(self, event: Event) -> None:
        """Keep what counts."""
        if self.stage is Stage.UNDER_WAY:
            if isinstance(event, MessageAdded):
                self.messages.append(event.message)
                if isinstance(event.message, AssistantMessage):
                    self.text = said_in(event.message) or self.text
            elif isinstance(event, ToolEnded):
                self.calls.append(event.result)
            elif isinstance(event, TurnEnded):
                self.reason = event.reason
                if self._of_message:
                    self.stage = Stage.OVER
        elif self.stage is Stage.QUEUED:
            if isinstance(event, Queued) and self._queued is None:
                self._queued = event.number
            elif isinstance(event, Dequeued) and event.number == self._queued:
                self.stage = Stage.UNDER_WAY
        elif self.stage is Stage.UNSAID and self.being_said:
            if isinstance(event, InputSettled):
                self.stage = Stage.QUEUED if event.fate is InputFate.QUEUED else Stage.UNDER_WAY
            elif isinstance(event, Refused) and event.action is UserAction.SAY:
                self.refused = event.reason


class Turn(Generic[Output_co]):
    """A turn that begins when it is awaited (for its `Result`) or iterated over (for its events), once.

    Whoever leaves the iteration early, or is cancelled, cancels the turn. A loop that is left with `break` is tidied up
    by Python soon after; use the turn as a context manager, and that is done at the end of the block.
    """

    def __init__(
        self, opened: Callable[[], AbstractAsyncContextManager[Session[Output_co]]], delta: UserDelta | None
    ) -> None:
        self._opened = opened
        self._delta = delta
        self._begun = False
        self._in_block = False
        self._iterating: AsyncGenerator[AgentEvent, None] | None = None  # for the end of the block
        self._result: Result[Output_co] | None = None

    @property
    def result(self) -> Result[Output_co]:
        """What has come of it, also of a turn that was cancelled. Raises RuntimeError while it is not over."""
        if self._result is None:
            raise RuntimeError("the turn is not over; await it, or iterate over its events to their end, first")
        return self._result

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        events = self._events(shown=True)
        self._iterating = events if self._in_block else None
        return events

    def __await__(self) -> Generator[object, None, Result[Output_co]]:
        return self._finished().__await__()

    async def __aenter__(self) -> "Turn[Output_co]":
        self._in_block = True
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._iterating is not None:
            await self._iterating.aclose()

    async def _finished(self) -> Result[Output_co]:
        async for _ in self._events(shown=False):  # shows none, and ends with the turn
            pass
        return self.result

    async def _events(self, shown: bool) -> AsyncGenerator[AgentEvent, None]:
        if self._begun:
            raise RuntimeError("this turn has begun already; say it again for another one")
        self._begun = True
        seen = TurnRecord(of_message=self._delta is not None)
        async with self._opened() as session:
            buffer = session.new_buffer()
            session.listen(seen.note)
            if shown:
                session.listen(buffer.put)
            conducting = asyncio.ensure_future(session.conduct(self._delta, seen))
            conducting.add_done_callback(lambda _: buffer.end())
            try:
                while (event := await buffer.next()) is not None:
                    yield event
            finally:
                if not conducting.done():
                    await session.give_up(conducting)
                session.forget(seen.note)
                session.forget(buffer.put)
                self._result = session.result(seen)
            conducting.result()


def said(words: Words) -> Say:
    """A user message of these words."""
    return Say(content=(TextBlock(words),) if isinstance(words, str) else words)
