"""How a session settles when nothing new goes wrong: it comes to rest, helped where it needs a person, and answers."""

import asyncio
from collections.abc import Sequence

from attrs import frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import Event, MessageAdded
from loopkernel.data.messages import UserMessage
from loopkernel.data.states import Cancelled, Confirming, Done, Idle, Initial
from loopkernel.data.user_deltas import Say
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import (
    NoSuchAgent,
)
from loopkernel_adapters.ports import RunFailed

from tests.adapters.simulation.machine import World
from tests.adapters.simulation.people import Waiting, helpful_word, waiting_in

AT_REST = (Idle, Cancelled, Done, Initial, Confirming)
MOST_WORDS = 60  # of a helpful person, after which a session has to have come to rest
CALM_MS = 4 * 3_600_000  # in which a session has to come to rest, when nothing new goes wrong


@frozen
class Settling:
    """A driver in a world that has become calm; `shown` are the events that its observers see."""

    driver: Driver
    world: World
    shown: Sequence[Event]

    async def settle(self) -> None:
        """Nothing new goes wrong: the session comes to rest, and answers."""
        if not await self._come_to_rest():
            return
        if not isinstance(self.driver.state, Done):
            question = TextBlock(f"are you there at {self.world.elapsed_ms}?")
            await self.driver.send(Say(content=(question,)))
            if await self._come_to_rest() and isinstance(self.driver.state, Idle) and not self._was_heard(question):
                self.world.accuse("at rest, a question was not heard")
        self.world.seen["settled"] += 1

    def _was_heard(self, question: TextBlock) -> bool:
        """Whether the question came into the thread, where it may be summarised by now."""
        added = (event.message for event in self.shown if isinstance(event, MessageAdded))
        return any(isinstance(message, UserMessage) and question in message.content for message in added)

    async def _come_to_rest(self) -> bool:
        for turn in range(MOST_WORDS):
            resting = asyncio.ensure_future(self._rest())
            done, _ = await asyncio.wait({resting}, timeout=CALM_MS / 1000)
            if not done:
                resting.cancel()
                self.world.accuse(f"no rest within {CALM_MS} ms: {type(self.driver.state).__name__}")
                return False
            state = self.driver.state
            if not isinstance(state, AT_REST):
                self.world.accuse(f"it rests in {type(state).__name__}, and nothing is under way")
                return False
            waiting = list(waiting_in(state))
            if not isinstance(state, Confirming):
                return True
            if not waiting:
                self.world.accuse("it waits for a person, and for nobody's call")
                return False
            self.world.seen["a person was needed"] += 1
            for one in waiting:
                await self._help(one, turn)
        self.world.accuse(f"{MOST_WORDS} words of a person did not bring it to rest")
        return False

    async def _rest(self) -> None:
        try:
            await self.driver.rest()
        except RunFailed:
            self.world.seen["the run failed"] += 1

    async def _help(self, waiting: Waiting, turn: int) -> None:
        try:
            await self.driver.send(helpful_word(waiting, turn=turn), waiting.within)
        except NoSuchAgent:
            self.world.seen["no such agent"] += 1
