"""Whoever looks on: observers of the session, of its sub-agents, and of each step; and whoever waits for its rest."""

import asyncio
from collections.abc import Callable, Sequence

from loopkernel.data.events import Event
from loopkernel.data.records import LogRecord

from loopkernel_adapters.driver.failures import complain
from loopkernel_adapters.optional_ports import Address, ChildFollower, ChildObserver
from loopkernel_adapters.ports import Observer
from loopkernel_adapters.secrets import Secrets

# A cancellation that an observer raises is its own; an exit of the program is let through.
FAULTS = (Exception, asyncio.CancelledError)

# Is given the records of each step, in the order of the log: all that was recorded, and increments that will be soon.
RecordFollower = Callable[[Sequence[LogRecord]], None]


class Audience:
    """Shows them what happens. What they raise goes to the exception handler of the event loop."""

    def __init__(
        self,
        observers: Sequence[Observer],
        child_observers: Sequence[ChildObserver],
        watch: Callable[[], None] | None,
        secrets: Secrets,
        follow: RecordFollower | None = None,
        follow_children: ChildFollower | None = None,
    ) -> None:
        self._follow = follow
        self._follow_children = follow_children
        self._observers = tuple(observers)
        self._subscribed: tuple[Observer, ...] = ()
        self._shown = self._observers  # all of them
        self._child_observers = tuple(child_observers)
        self._watch = watch
        self._secrets = secrets

    def subscribe(self, observer: Observer) -> None:
        """From now on, this one too."""
        self._subscribed = (*self._subscribed, observer)
        self._shown = self._observers + self._subscribed

    def unsubscribe(self, observer: Observer) -> None:
        """No longer this one, if it was subscribed."""
        self._subscribed = tuple(other for other in self._subscribed if other != observer)
        self._shown = self._observers + self._subscribed

    def show(self, events: Sequence[Event], records: Sequence[LogRecord]) -> None:
        """Show the events of a step of the session, each to all before the next; then tell that it is over."""
        if self._follow is not None:
            try:
                self._follow(records)
            except FAULTS as error:
                self._complain("whoever follows the records failed; it goes on following", error)
        for event in events:
            for observer in self._shown:
                try:
                    observer(event)
                except FAULTS as error:
                    self._complain(f"an observer failed at {type(event).__name__}; it stays subscribed", error)
        if self._watch is not None:
            self._look(self._watch)

    def show_of_child(self, within: Address, event: Event) -> None:
        """Show an event of the sub-agent at the address."""
        for observer in self._child_observers:
            try:
                observer(within, event)
            except FAULTS as error:
                what = f"an observer failed at {type(event).__name__} of a sub-agent; it stays subscribed"
                self._complain(what, error)

    def follow_child(self, session_id: str, records: Sequence[LogRecord]) -> None:
        """Give the records of a sub-agent to whoever follows them."""
        if self._follow_children is not None:
            try:
                self._follow_children(session_id, records)
            except FAULTS as error:
                self._complain("whoever follows the records of sub-agents failed; it goes on following", error)

    def _look(self, watch: Callable[[], None]) -> None:
        try:
            watch()
        except FAULTS as error:
            self._complain("whoever watches the steps failed; it goes on watching", error)

    def _complain(self, what: str, error: BaseException) -> None:
        complain(what, error, self._secrets)


# --- those who wait for rest and the like ----------------------------------------------------------------


class Waiters:
    """Each looks again when there is something to see, and is forgotten when it gives up."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def wait(self, ready: Callable[[], bool]) -> None:
        """Until `wake` finds it ready, or is to wake all."""
        waiter = asyncio.get_running_loop().create_future()
        self.waiting.append((ready, waiter))
        try:
            await waiter
        finally:
            self.waiting = [waits for waits in self.waiting if waits[1] is not waiter]

    def wake(self, *, everyone: bool) -> None:
        """Let those who are ready go on; where all is over, everyone."""
        for ready, waiter in self.waiting:
            if not waiter.done() and (everyone or ready()):
                waiter.set_result(None)
