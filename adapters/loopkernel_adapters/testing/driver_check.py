"""Holds any driver against the duties of `specs/ports.md` (section "The driver"). Needs no test framework.

    check_driver(opened)                    # async opened(ports): a driver of asyncio
    check_driver(Synchronous(opened))       # opened(ports): a driver without an event loop (synchronous.py)
    check_driver(Trio(opened))              # async opened(ports, nursery): a driver of trio (trio_driver.py)
    check_driver(DriverProcess(command))    # a driver that is another program (driver_process.py)

where `opened` opens a driver over the ports that it is given: its log is `ports.store`, which returns at once, or
`ports.awaited_store`, the same log for a driver that awaits its store. Each duty is tried in an event loop of its own,
with a model, tools and a clock that take notes. Raises AssertionError, which names the duties that are broken, what
was seen, and what is due. Not tried are
duties 12 to 15, 18, 20 and 21, and what a driver does with ports that are optional.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial

from loopkernel_adapters.testing.driver_duties import (
    bears_late_reports,
    closes,
    closes_though_cancelled,
    goes_on_in_the_background,
    heeds_aborts,
    keeps_time,
    lets_others_in,
    passes_answers_on,
    raises_where_told,
    reports_whatever_happens,
    rests_for_people,
    shows_what_follows,
)
from loopkernel_adapters.testing.driver_log_duties import (
    durable_on_return,
    goes_on,
    goes_on_from_snapshots,
    in_order,
    keeps_countdowns,
    keeps_true_snapshots,
    log_first,
    once_each,
    records_progress,
    stops_with_its_log,
)
from loopkernel_adapters.testing.driver_trial import (
    AnyDriver,
    DriverFactory,
    DriverPorts,
)
from loopkernel_adapters.testing.synchronous import Synchronous
from loopkernel_adapters.testing.watched_checks import judged

__all__ = ["AnyDriver", "DriverFactory", "DriverPorts", "Synchronous", "check_driver"]


PATIENCE_SECONDS = 10.0  # of real time: how long a duty may take; nothing in it waits for anything real


LOOP_SECONDS = 5.0  # how long an event loop may take to say so, unless it stands still


Check = Callable[[DriverFactory], Awaitable[None]]


def check_driver(
    factory: DriverFactory, duties: Collection[int] | None = None, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Try every duty that such a driver has, or these. Raises AssertionError: each that is broken, what was seen."""
    wanted = getattr(factory, "duties", None) if duties is None else duties
    broken: list[str] = []
    for duty, check in DUTIES:
        if wanted is not None and duty not in wanted:
            continue
        tried = partial(_tried, f"driver {duty}", check, factory, patience_seconds)
        try:
            judged(f"driver {duty}", partial(_run, tried), patience_seconds + LOOP_SECONDS)
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))


def _run(tried: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(tried())


async def _tried(duty: str, check: Check, factory: DriverFactory, patience_seconds: float) -> None:
    try:
        async with asyncio.timeout(patience_seconds):
            await check(factory)
    except TimeoutError:
        raise AssertionError(f"{duty}: nothing more happened, and it was not at rest") from None
    except AssertionError as error:
        told = str(error)
        raise AssertionError(told if told.startswith("driver ") else f"{duty}: {told}") from error


DUTIES: Sequence[tuple[int, Check]] = (
    (1, in_order),
    (3, log_first),
    (4, durable_on_return),
    (2, shows_what_follows),
    (5, once_each),
    (5, reports_whatever_happens),
    (6, stops_with_its_log),
    (7, rests_for_people),
    (8, closes),
    (8, closes_though_cancelled),
    (9, goes_on),
    (9, goes_on_from_snapshots),
    (10, raises_where_told),
    (11, keeps_time),
    (11, keeps_countdowns),
    (16, heeds_aborts),
    (17, bears_late_reports),
    (19, lets_others_in),
    (22, keeps_true_snapshots),
    (23, records_progress),
    (23, passes_answers_on),
    (23, goes_on_in_the_background),
)
