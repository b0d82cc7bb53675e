"""Ctrl-C, and the signals that end a process: the first Ctrl-C cancels the turn, a second one leaves."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from loopkernel.data.states import Cancelled, Done, Idle, Initial
from loopkernel.data.user_deltas import CancelAll

from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.ports import StoreError

NOTHING_TO_CANCEL = (Idle, Cancelled, Done, Initial)
ENDING = tuple(
    found for name in ("SIGTERM", "SIGHUP") if (found := getattr(signal, name, None)) is not None
)  # Windows has no SIGHUP


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Within it, a signal that ends the process interrupts it, so that what is open, as servers, ends first."""
    replaced: list[signal.Signals] = []
    try:
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # else as nohup has it, or whoever called us
                signal.signal(number, _as_ctrl_c)
                replaced.append(number)
    except ValueError:  # not in the main thread: then signals are not ours to handle
        pass
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _as_ctrl_c(_number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does now: in an event loop, it cancels the task and lets it end, rather than strike anywhere."""
    if callable(signal.getsignal(signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)
    else:  # Ctrl-C is ignored, as in the background of a script
        signal.default_int_handler(signal.SIGINT, frame)


class Interrupts:
    """Turns signals into what they mean now. `ended_by` is the signal that has ended the process, if one has."""

    def __init__(self, driver: Driver, screen: Screen) -> None:
        self.ended_by: signal.Signals | None = None
        self.cut_short = False  # something was under way when the person left
        self._driver = driver
        self._screen = screen
        self._pressed = False
        self._cancel_task: Callable[[], object] | None = None

    def forget(self) -> None:
        """The person has gone on: the next Ctrl-C is a first one again."""
        self._pressed = False

    def over(self) -> None:
        """All is being let go of: there is nothing left that could be cut short."""
        self._cancel_task = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Within it, signals do what they mean; leaving cancels the task that is in it."""
        loop = asyncio.get_running_loop()
        running = asyncio.current_task()
        if running is not None:
            self._cancel_task = running.cancel
        added: list[signal.Signals] = []
        try:
            for number in (signal.SIGINT, *ENDING):
                if number is not signal.SIGINT and signal.getsignal(number) is not signal.SIG_DFL:
                    continue  # as nohup has it, or whoever called us
                loop.add_signal_handler(number, self._heed, number)
                added.append(number)
        except (RuntimeError, ValueError):  # not in the main thread: then signals are not ours to handle
            pass
        try:
            yield
        finally:
            for number in added:
                loop.remove_signal_handler(number)

    def _heed(self, number: signal.Signals) -> None:
        if number is not signal.SIGINT and self.ended_by is None:
            self.ended_by = number
            self._screen.labelled("interrupt", f"ended by {number.name}")
            self._leave()
        elif number is not signal.SIGINT:
            return  # a terminal that goes away sends several
        elif self._pressed:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            self._leave()
        elif isinstance(self._driver.state, NOTHING_TO_CANCEL):
            self._pressed = True
            self._screen.labelled("interrupt", "nothing is under way; press Ctrl-C again to leave")
        else:
            self._pressed = True
            self._screen.labelled("interrupt", "cancelling; press Ctrl-C again to quit at once")
            self._cancel()

    def _leave(self) -> None:
        """Cancel the task, and only once: a second time would cut short what it lets go of."""
        self.cut_short = not isinstance(self._driver.state, NOTHING_TO_CANCEL)
        cancel_task, self._cancel_task = self._cancel_task, None
        if cancel_task is not None:
            cancel_task()

    def _cancel(self) -> None:
        try:
            self._driver.post(CancelAll())
        except (StoreError, RuntimeError):  # the log cannot be written, or it is closed: there is nothing to cancel
            self._leave()
