"""The sub-agents of a run: each a workflow of its own, named by the id of its session, as a child of the run's.

What it says before its end comes as a signal, what its parent tells it goes as one; both in their order. When the
parent takes up its work again after a worker was lost, the sub-agent is still there, and is only given its new number.
One that the parent does not go on with then, or has left behind with a fork, is told to stop, and nobody hears of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import Factory, define, evolve
from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from loopkernel.data.deltas import Delta
    from loopkernel.data.effects import StartChild
    from loopkernel.data.ids import RunOperation
    from loopkernel.data.outside_deltas import ChildEnded
    from loopkernel.data.tool_deltas import ToolStopped
    from loopkernel.data.usage import NO_USAGE
    from loopkernel.data.user_deltas import CancelAll

    from loopkernel_adapters.driver.failures import child_failure
    from loopkernel_adapters.temporal.documents import RUN, Carried, ChildSays, ChildWords, Input, Pace, endings, inputs
    from loopkernel_adapters.temporal.documents import carried as carried_codec


@define(eq=False)
class Child:
    """One sub-agent under way, for the call that was given this operation last. `disowned`: nobody hears of it."""

    operation: RunOperation
    handle: workflow.ChildWorkflowHandle[Any, str] | None = None  # Any: it is started by its name
    running: asyncio.Task[None] | None = None
    to_tell: deque[Input] = Factory(deque)
    telling: asyncio.Task[None] | None = None
    cancelled: bool = False
    disowned: bool = False
    said: dict[type, ChildSays] = Factory(dict)  # of each kind the last


class RemoteChildren:
    """The sub-agents under way. `take` gets their reports."""

    def __init__(self, pace: Pace, take: Callable[[Delta], object]) -> None:
        self._pace = pace
        self._take = take
        self._children: dict[str, Child] = {}  # by their sessions

    def __len__(self) -> int:
        return len(self._children)

    def begin(self, command: StartChild) -> None:
        """Begin the sub-agent; one that is under way goes on, and says again whom it waits for."""
        session = command.created.session_id
        known = self._children.get(session)
        if known is None:
            self._children[session] = child = Child(command.operation)
            child.running = asyncio.create_task(self._run(child, command))
            return
        known.operation, known.disowned = command.operation, False
        for report in known.said.values():
            self._take(evolve(report, operation=command.operation))

    def cancel(self, operation: RunOperation) -> bool:
        """Have the sub-agent stop; whether there is one."""
        child = self._of(operation)
        if child is not None:
            self._stop(child)
        return child is not None

    def let_go(self) -> None:
        """Hear of none of them any more, but of those that are begun again."""
        for child in self._children.values():
            child.disowned = True

    def stop_disowned(self) -> None:
        """Have those stop that were let go of, and were not begun again."""
        for child in self._children.values():
            if child.disowned:
                self._stop(child)

    def _stop(self, child: Child) -> None:
        if not child.cancelled:
            child.cancelled = True
            self._tell(child, CancelAll())

    def tell(self, operation: RunOperation, delta: Input) -> None:
        """Pass a change of settings on."""
        child = self._of(operation)
        if child is not None:
            self._tell(child, delta)

    def hear(self, words: ChildWords) -> None:
        """A sub-agent says something."""
        child = self._children.get(words.session_id)
        if child is not None and not (child.cancelled or child.disowned):
            report = evolve(words.report, operation=child.operation)
            child.said[type(report)] = report
            self._take(report)

    def _of(self, operation: RunOperation) -> Child | None:
        return next((child for child in self._children.values() if child.operation == operation), None)

    async def _run(self, child: Child, command: StartChild) -> None:
        session = command.created.session_id
        begun = Carried(pace=self._pace, created=command.created, task=command.task)
        try:
            child.handle = await workflow.start_child_workflow(
                RUN, carried_codec().encode_text(begun), id=session, result_type=str
            )
            self._send(child)
            ended = endings().decode_text(await child.handle)
        except FailureError as error:
            ended = child_failure(command, error.cause or error)
        del self._children[session]
        if not child.disowned:
            self._take(_end(child, evolve(ended, operation=child.operation)))

    def _tell(self, child: Child, delta: Input) -> None:
        child.to_tell.append(delta)
        self._send(child)

    def _send(self, child: Child) -> None:
        if child.handle is not None and child.telling is None:
            child.telling = asyncio.create_task(self._deliver(child, child.handle))

    async def _deliver(self, child: Child, handle: workflow.ChildWorkflowHandle[Any, str]) -> None:
        try:
            while child.to_tell:
                await handle.signal("tell", inputs().encode_text(child.to_tell.popleft()))
        except FailureError:  # it has ended meanwhile
            child.to_tell.clear()
        finally:
            child.telling = None


def _end(child: Child, ended: ChildEnded) -> Delta:
    if child.cancelled and ended.usage == NO_USAGE and ended.tool_calls == 0:
        return ToolStopped(child.operation)
    return ended
