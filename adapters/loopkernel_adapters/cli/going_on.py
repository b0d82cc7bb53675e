"""A run that goes on behind a page: opened as `loopkernel resume` does, with the first answer that is given there.

It runs in a thread of its own, and is let go of when the page is. A run that another program has open is not touched:
its questions are answered where it goes on.
"""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from loopkernel.data.effects import CheckCall
from loopkernel.data.ids import CheckOperation
from loopkernel.data.states import Done
from loopkernel.data.tools import InvalidCall
from loopkernel.data.user_deltas import CallAnswer, Correct

from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import located
from loopkernel_adapters.cli.resume import found_in, workbench_of
from loopkernel_adapters.cli.session import Workbench
from loopkernel_adapters.cli.verification import WitnessStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.optional_ports import NoSuchAgent, OptionalPorts
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.sessions.waiting_calls import WaitingCall, calls_waiting_in
from loopkernel_adapters.viewing.live import NotAnswered

CHANGED = "it does not wait as it was asked about; look at what is asked now"


class GoingOn:
    """The run of that name. Nothing of it is opened before something is answered."""

    def __init__(self, name: str, store: str | None) -> None:
        self._name, self._store = name, store
        self._opening = threading.Lock()
        self._held: _Held | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held is not None:
            self._held.let_go()

    def answer(self, call: WaitingCall, answer: CallAnswer) -> None:
        """Have exactly that call answered. Raises NotAnswered."""
        with self._opening:
            if self._held is None or self._held.is_over:
                self._held = _Held(self._name, self._store)
            self._held.answer(call, answer)


class _Held:
    """The run, open in a thread until it is let go of. Raises NotAnswered where it cannot be opened."""

    def __init__(self, name: str, store: str | None) -> None:
        self._name, self._store = name, store
        self._opened: Future[tuple[asyncio.AbstractEventLoop, Driver]] = Future()
        self._leaving: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._hold, name="a run behind a page")
        self._thread.start()
        try:
            self._loop, self._driver = self._opened.result()
        except (Unusable, StoreError, OSError) as error:
            self._thread.join()
            raise NotAnswered(f"the run cannot go on here: {error}") from error

    @property
    def is_over(self) -> bool:
        """Whether it is not open any more."""
        return not self._thread.is_alive()

    def answer(self, call: WaitingCall, answer: CallAnswer) -> None:
        """As that of the whole."""
        asyncio.run_coroutine_threadsafe(self._answer(call, answer), self._loop).result()

    def let_go(self) -> None:
        """What is under way is left as after a crash."""
        if self._thread.is_alive() and self._leaving is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()

    async def _answer(self, call: WaitingCall, answer: CallAnswer) -> None:
        if call not in calls_waiting_in(self._driver):
            await self._driver.rest()  # a sub-agent that was just taken up asks again first
        if call not in calls_waiting_in(self._driver):
            raise NotAnswered(CHANGED)
        if isinstance(answer, Correct):
            self._demand_fitting(call, answer)
        try:
            await self._driver.send(answer, call.within)
        except NoSuchAgent as error:
            raise NotAnswered(CHANGED) from error

    def _demand_fitting(self, call: WaitingCall, answer: Correct) -> None:
        """The kernel leaves a call waiting whose new input does not fit; here it is said why."""
        check = CheckCall(operation=CheckOperation(0), call=answer.call, tool=call.tool, input=answer.input)
        verdict = self._tools.check(check)
        if isinstance(verdict, InvalidCall):
            raise NotAnswered(f"the tool does not take this input: {verdict.why}")

    def _hold(self) -> None:
        try:
            with ExitStack() as resources:
                bench = self._bench(resources)
                with bench.running as running:
                    running.run(self._hold_open(bench))
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    def _bench(self, resources: ExitStack) -> Workbench:
        place, run = resources.enter_context(located(self._name, self._store))
        before = place.read(run)
        store = place.open(run)
        resources.callback(store.close)
        state, doubt = found_in(store, run)
        if state.session is None or isinstance(state, Done):
            raise Unusable(f"the run {run} is over, or has not begun")
        witnessed = WitnessStore(store, before)
        return workbench_of(place, run, witnessed, state.session.settings, Options(), doubt, resources)

    async def _hold_open(self, bench: Workbench) -> None:
        self._leaving = asyncio.Event()
        driver = await Driver.open(
            store=bench.store,
            created=bench.created,
            provider=bench.provider,
            tools=bench.tools,
            clock=WallClock(),
            secrets=bench.secrets,
            optional=OptionalPorts(agents=InProcessAgents(bench.place.children(bench.run))),
            resume_with=bench.resume_with,
        )
        self._tools = bench.tools
        async with driver:
            self._opened.set_result((asyncio.get_running_loop(), driver))
            await self._leaving.wait()
