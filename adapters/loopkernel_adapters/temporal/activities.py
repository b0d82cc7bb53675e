"""What a worker does for a run: each command is carried out as the driver does it, by the same `Operations`.

An activity is at most one attempt. What it hears is without secrets before it leaves the process, increments of one
kind are one delta, and most of it leaves as the activity's result: only a question, a run that goes on in the
background, and a stream that lasts are reported meanwhile, in numbered batches. A watcher in this process sees each
delta as it comes.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortOther, AnswerTool, StartTool, TellHook
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.tool_deltas import ToolAsked, ToolSucceeded
from loopkernel.replaying import START
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from loopkernel_adapters.driver.failures import complain, words_of
from loopkernel_adapters.driver.operations import Operations
from loopkernel_adapters.driver.pacing import joined
from loopkernel_adapters.driver.summaries import ProviderSummariser
from loopkernel_adapters.optional_ports import Ports
from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.temporal.documents import (
    CARRY_OUT,
    WORKER_STOPPED,
    Batch,
    Order,
    answers,
    batches,
    orders,
)
from loopkernel_adapters.temporal.remote_operations import key_of
from loopkernel_adapters.temporal.updates import updated

# Called with the id of a run and each delta that an activity has for it, as it comes, without secrets. Quick; what it
# raises stops nothing.
Watcher = Callable[[str, Delta], None]
STOP_SECONDS = 5.0  # that a job has when its worker stops
TRY_AGAIN_SECONDS = 1.0  # after a report that did not get through


class AgentActivities:
    """The activities of one agent, whose ports these are."""

    def __init__(self, ports: Ports, client: Client, watch: Watcher | None, cancel_seconds: float) -> None:
        self._ports = ports
        self._client = client
        self._watch = watch
        self._cancel_seconds = cancel_seconds

    @activity.defn(name=CARRY_OUT)
    async def carry_out(self, text: str) -> str:
        """Do what the order says, and return all reports that were not sent before."""
        try:
            order = orders().decode_text(text)
            run = self._client.get_workflow_handle(activity.info().workflow_id or "")
            errand = RemoteErrand(order, self._ports_for(order), run, self._watch, self._cancel_seconds)
            return batches().encode_text(await errand.finished())
        except (asyncio.CancelledError, ApplicationError):
            raise
        except Exception as error:  # its words, and the stack of it, would stand in the history
            words = words_of(error, self._ports.secrets)
            raise ApplicationError(f"the order could not be carried out: {words}", non_retryable=True) from None

    def _ports_for(self, order: Order) -> Ports:
        optional = self._ports.optional
        summariser = optional.summariser or ProviderSummariser(self._ports.provider, order.model)
        return evolve(self._ports, optional=evolve(optional, summariser=summariser, agents=None))


class RemoteErrand:
    """One command, carried out here for a run that is elsewhere."""

    def __init__(
        self,
        order: Order,
        ports: Ports,
        run: WorkflowHandle[object, object],
        watch: Watcher | None,
        cancel_seconds: float,
    ) -> None:
        self._order = order
        self._ports = ports
        self._run = run
        self._watch = watch
        self._cancel_seconds = cancel_seconds
        command = order.command
        self._key = (OperationKind.HOOK, 0) if isinstance(command, TellHook) else key_of(command)
        self._filter = SecretFilter(ports.secrets)
        self._operations = Operations(ports, self._accept, self._caught_up, self._end, _nobody, _nobody)
        self._unsaid: list[Delta] = []
        self._unsent: Batch | None = None  # of which nobody knows whether it has come
        self._sent = 0  # how many batches were made
        self._questions = 0  # that its tool has put
        self._asking: asyncio.Task[None] | None = None  # for the answer to the last of them
        self._fresh = asyncio.Event()
        self._urgent = asyncio.Event()
        self._over = asyncio.Event()

    async def finished(self) -> tuple[Batch, ...]:
        """Carry the command out, and give what is left to report. Raises ApplicationError where the worker stops."""
        helpers = [asyncio.create_task(work) for work in (self._beat(), self._report())]
        try:
            immediate = self._operations.begin(self._order.command, START)
            if immediate is not None or not self._operations.jobs:
                self._end(immediate)
            await self._until_over()
        finally:
            helpers += () if self._asking is None else (self._asking,)
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        last = self._batch(self._unsaid)
        return (last,) if self._unsent is None else (self._unsent, last)

    async def _caught_up(self) -> None:
        """Give others their turn. What was accepted is reported in its interval, and nothing here waits for that."""
        await asyncio.sleep(0)

    async def _until_over(self) -> None:
        """Until the job has reported its end. A cancellation that the run asks for is an abort of the job."""
        while not self._over.is_set():
            try:
                await self._over.wait()
            except asyncio.CancelledError:
                details = activity.cancellation_details()
                if details is None or not details.cancel_requested:
                    await self._operations.close(STOP_SECONDS)
                    raise ApplicationError("the worker stops", type=WORKER_STOPPED, non_retryable=True) from None
                self._operations.begin(AbortOther(*self._key), START)

    # --- what comes in ---

    def _accept(self, *deltas: Delta) -> None:
        for delta in deltas:
            for shown in self._filter.incoming(delta):
                self._show(shown)
                self._unsaid.append(shown)
                self._fresh.set()
            self._questions += isinstance(delta, ToolAsked)
            if isinstance(delta, ToolAsked) or (isinstance(delta, ToolSucceeded) and delta.output.background):
                self._urgent.set()

    def _end(self, outcome: Delta | None) -> None:
        if outcome is not None:
            self._accept(outcome)
        self._over.set()

    def _show(self, delta: Delta) -> None:
        if self._watch is None:
            return
        try:
            self._watch(self._run.id, delta)
        except Exception as error:
            complain("the watcher of an activity failed; it goes on watching", error, self._ports.secrets)

    # --- what goes out ---

    async def _beat(self) -> None:
        """Say that this worker lives; the answer may be a cancellation."""
        while True:
            activity.heartbeat()
            await asyncio.sleep(self._cancel_seconds)

    async def _report(self) -> None:
        """Send what was said, when it is urgent, and now and then. Behind a question, ask for its answer."""
        answered = 0
        while True:
            await self._fresh.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._order.report_seconds):
                    await self._urgent.wait()
            self._fresh.clear()
            self._urgent.clear()
            while self._unsent is not None or self._unsaid:
                await self._send()
            if self._questions > answered and isinstance(self._order.command, StartTool):
                answered = self._questions  # a tool puts one after the other
                self._asking = asyncio.create_task(self._answered(self._order.command.operation, answered))

    async def _send(self) -> None:
        if self._unsent is None:
            self._unsent, self._unsaid = self._batch(self._unsaid), []
        try:
            await self._run.signal("report", batches().encode_text((self._unsent,)))
            self._unsent = None
        except RPCError as error:
            complain("a report did not get through; it is sent again", error, self._ports.secrets)
            await asyncio.sleep(TRY_AGAIN_SECONDS)

    async def _answered(self, run: RunOperation, question: int) -> None:
        name = f"the answer to question {question} of run {run}"
        text: str | None = None
        while text is None:
            try:
                text = await updated(self._run, "answer", str, run, name=name)
            except RPCError as error:
                complain("an answer could not be asked for; it is asked for again", error, self._ports.secrets)
                await asyncio.sleep(TRY_AGAIN_SECONDS)
        self._operations.begin(AnswerTool(operation=run, value=answers().decode_text(text)), START)

    def _batch(self, deltas: list[Delta]) -> Batch:
        self._sent += 1
        return Batch(number=self._sent, kind=self._key[0], operation=self._key[1], deltas=joined(deltas))


def _nobody(*_: object) -> None:
    """Sub-agents are runs of their own there: nothing of theirs is shown here."""
