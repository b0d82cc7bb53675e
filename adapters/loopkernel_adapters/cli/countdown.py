"""While a retry counts down, the person at the terminal need not wait: a message, a retry at once, or giving it up."""

import asyncio

from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import Event
from loopkernel.data.states import Backoff
from loopkernel.data.user_deltas import CompactNow, DismissError, RetryNow, Say

from loopkernel_adapters.cli.dialogue import COMPACT
from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.driver.asyncio_driver import Driver

PROMPT = f"wait, or type `retry`, `dismiss`, `{COMPACT}` or another message:"

Wish = Say | RetryNow | DismissError | CompactNow


class Countdown:
    """Listens to the person behind `answers`. `see` observes the driver.

    Only at a terminal: what a pipe or a file holds is meant for questions that are still to come.
    """

    def __init__(self, answers: LineInput, screen: Screen) -> None:
        self._answers = answers
        self._screen = screen
        self._moved = asyncio.Event()
        self._listens = answers.is_terminal
        self._has_asked = False

    def see(self, event: Event) -> None:
        """Note that something has happened."""
        self._moved.set()

    async def wait(self, driver: Driver) -> None:
        """Until the loop rests, or a retry counts down while somebody may speak. Raises as the driver's `rest`."""
        resting = asyncio.ensure_future(driver.rest())
        try:
            while not (self._listens and isinstance(driver.state, Backoff)):
                self._moved.clear()
                moved = asyncio.ensure_future(self._moved.wait())
                await asyncio.wait({resting, moved}, return_when=asyncio.FIRST_COMPLETED)
                moved.cancel()
                if resting.done():
                    return resting.result()
        finally:
            resting.cancel()

    async def attend(self, driver: Driver) -> None:
        """Do what the person says; or return as soon as the countdown is over."""
        state = driver.state
        if not isinstance(state, Backoff):
            return
        if not self._has_asked:
            self._answers.forget_typing()
        self._has_asked = True  # what is typed from now on is meant for this countdown, or for the next one
        asking = asyncio.ensure_future(self._ask())
        over = asyncio.ensure_future(self._over(driver, state))
        try:
            await asyncio.wait({asking, over}, return_when=asyncio.FIRST_COMPLETED)
            answer = None if over.done() else asking.result()
        finally:
            asking.cancel()
            over.cancel()
            await asyncio.wait({asking, over})
        if answer is None:
            self._screen.end_stream()
        else:
            await driver.send(answer)

    async def _over(self, driver: Driver, counting: Backoff) -> None:
        """Wait until another state has come."""
        while isinstance(driver.state, Backoff) and driver.state.timer == counting.timer:
            self._moved.clear()
            await self._moved.wait()

    async def _ask(self) -> Wish | None:
        """What the person wants; None when nothing more can be typed."""
        while True:
            self._screen.ask("meanwhile", PROMPT)
            line = await self._answers.line()
            self._screen.answered(line, echoed=True)
            if line is None:
                self._listens = False
                return None
            match line.strip():
                case "":
                    continue
                case "retry":
                    return RetryNow()
                case "dismiss":
                    return DismissError()
                case command if command == COMPACT:
                    return CompactNow()
                case text:
                    return Say(content=(TextBlock(text),))
