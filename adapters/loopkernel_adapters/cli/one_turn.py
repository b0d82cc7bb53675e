"""The conversation of `run`: one message, and the answers to what is asked until nothing goes on by itself."""

from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import Event
from loopkernel.data.states import Backoff, Confirming
from loopkernel.data.user_deltas import Say, UserDelta
from loopkernel.later_typing import override

from loopkernel_adapters.cli.countdown import Countdown
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.interrupts import Interrupts
from loopkernel_adapters.cli.session import Conversation
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import Address


def said(text: str) -> Say:
    """The message of that text."""
    return Say(content=(TextBlock(text),))


class OneTurn(Conversation):
    """Sends `first` and then answers what is asked."""

    def __init__(self, first: tuple[UserDelta, ...], dialogue: Dialogue, countdown: Countdown) -> None:
        self._first = first
        self._dialogue = dialogue
        self._countdown = countdown

    @override
    def see(self, event: Event) -> None:
        self._dialogue.see(event)
        self._countdown.see(event)

    @override
    def see_of_child(self, within: Address, event: Event) -> None:
        self._dialogue.see_of_child(within, event)

    @override
    async def hold(self, driver: Driver, interrupts: Interrupts) -> None:
        for delta in self._first:
            await driver.send(delta)
        await self._countdown.wait(driver)
        while isinstance(driver.state, Confirming | Backoff):
            if isinstance(driver.state, Confirming):
                await self._dialogue.attend(driver)
            else:
                await self._countdown.attend(driver)
            await self._countdown.wait(driver)
