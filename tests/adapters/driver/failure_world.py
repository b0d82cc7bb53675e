"""Sessions whose model calls fail, and the lines that tell of it. Time is virtual: nothing sleeps."""

import asyncio

from loopkernel.data.events import ErrorShown, Event, ReplyFailed, ReplyRetracted, RetryScheduled, TurnEnded
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.providers.scripted import ANY, Reply

from tests.adapters.driver.driver_world import World

ONE_RETRY = Policy(retry=Retry(base_ms=5_000, retries=1))


def fails(error: ErrorClass = ErrorClass.OVERLOADED, retry_after_ms: int | None = None) -> Reply:
    """A model call that fails."""
    return (ModelFailed(operation=ANY, error=error, message="not now", retry_after_ms=retry_after_ms),)


def told(events: list[Event]) -> list[str]:
    """What the events say of failures and of ends, a line each."""
    lines: list[str] = []
    for event in events:
        match event:
            case ReplyFailed():
                lines.append(f"reply {event.reply} failed {event.error.value}")
            case ReplyRetracted():
                lines.append(f"reply {event.reply} retracted")
            case RetryScheduled():
                lines.append(f"retry in {event.delay_ms}")
            case ErrorShown():
                lines.append(f"error shown {event.error.value}")
            case TurnEnded():
                lines.append(f"turn ended {event.reason.value}")
            case _:
                pass
    return lines


async def rested(driver: Driver, world: World, *steps_ms: int) -> None:
    """Let the loop come to rest; whenever it waits for its clock, the next of these times passes."""
    resting = asyncio.ensure_future(driver.rest())
    for step in steps_ms:
        await settled(driver)
        assert not resting.done(), "it has come to rest before its time"
        world.clock.advance(step)
    await resting


async def settled(driver: Driver) -> None:
    """Let everything happen that needs no time of the clock; the disk has all that it needs."""
    quiet = 0
    while quiet < 20:
        await asyncio.sleep(0)
        quiet = 0 if driver._writing is not None else quiet + 1
