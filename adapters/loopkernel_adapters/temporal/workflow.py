"""A run as a workflow: its body is the kernel's `transition`, and what Temporal replays is the log of the run.

Deltas come in as updates (of people), results and signals of activities, timers and signals of sub-agents; each is
applied at the time of its workflow task. Commands go to `RemoteOperations`. Nothing here decides, and nothing is kept
beside the state but the records of this history, for who asks.

When the history has grown long, what commands ask for waits until nothing is under way; then a new history begins with
the text of the state, the timers under way, and what was held.
"""

import asyncio
from collections import deque

from temporalio import workflow
from temporalio.exceptions import FailureError

from loopkernel_adapters.temporal.remote_operations import RemoteOperations

with workflow.unsafe.imports_passed_through():
    from loopkernel.codec import record_to_text, state_from_text, state_to_text
    from loopkernel.data.blocks import TextBlock
    from loopkernel.data.children import ChildCall
    from loopkernel.data.deltas import Delta
    from loopkernel.data.effects import Command, StartTimer
    from loopkernel.data.errors import CodecError
    from loopkernel.data.events import Event, LineageForked, MessageAdded, Refused
    from loopkernel.data.ids import RunOperation
    from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
    from loopkernel.data.states import Done, State
    from loopkernel.data.steps import Context
    from loopkernel.data.thread_deltas import Acquired, Resumed
    from loopkernel.data.usage import NO_USAGE
    from loopkernel.data.user_deltas import CancelAll, Say
    from loopkernel.data.words import TurnEndReason
    from loopkernel.loop.transition import transition
    from loopkernel.replaying import START, LogRecord

    from loopkernel_adapters.driver.asyncio_driver import AT_REST, is_event
    from loopkernel_adapters.driver.children import last_said, said_in, waiting_calls
    from loopkernel_adapters.temporal.documents import (
        RUN,
        Answered,
        Carried,
        ChildSays,
        ChildWords,
        answers,
        batches,
        child_words,
        endings,
        inputs,
        refusals,
    )
    from loopkernel_adapters.temporal.documents import carried as carried_codec

MOST_ANSWERED = 200  # inputs that the next history knows of: nobody asks again for one that lies further back
NO_OPERATION = RunOperation(0)  # in what a sub-agent says: its parent knows which it is


@workflow.defn(name=RUN)
class RunWorkflow:
    """One run, from its beginning or from the end of its last history."""

    @workflow.init
    def __init__(self, carried: str) -> None:
        """See `Carried`."""
        begun = carried_codec().decode_text(carried)
        self._pace = begun.pace
        self._carried: Carried | None = begun  # until it has begun
        self._state: State = START if begun.state is None else state_from_text(begun.state)
        self._records: list[LogRecord] = []
        self._queue: deque[Delta] = deque()
        self._draining = False
        self._operations = RemoteOperations(self, begun.pace, self._take, self._lose)
        self._answered = {each.update: each.refused for each in begun.answered}
        self._asked: tuple[ChildCall, ...] = waiting_calls(self._state)  # of which its parent knows
        self._to_tell: deque[ChildSays] = deque()  # the parent
        self._telling: asyncio.Task[None] | None = None

    @workflow.run
    async def run(self, carried: str) -> str:
        """Until the run is over: how it has ended, as a sub-agent tells it."""
        self._begin()
        while True:
            try:
                await workflow.wait_condition(self._can_leave)
                break
            except asyncio.CancelledError:  # of the workflow: what an operator says is what a user says
                self._take(CancelAll())
        if not self._is_over():
            workflow.continue_as_new(carried_codec().encode_text(self._to_carry()))
        return endings().encode_text(self._ended())

    # --- the time, and the beginning ---

    def now_ms(self) -> int:
        """The time of the workflow task, which is the same in every replay."""
        return workflow.time_ns() // 1_000_000

    def seconds_until(self, timer: StartTimer) -> float:
        """How long a timer of Temporal takes until the deadline."""
        return (timer.deadline_ms - self.now_ms()) / 1000

    def _begin(self) -> None:
        """Whatever comes first: the run, or an update that is in its first task."""
        carried, self._carried = self._carried, None
        if carried is None:
            return
        if carried.created is not None:
            self._take(carried.created, Acquired())
        if carried.task is not None:
            self._take(Say(content=(TextBlock(carried.task),)))
        for command in (*carried.timers, *carried.held):
            self._operations.begin(command, self._state)

    # --- steps ---

    def _take(self, *deltas: Delta) -> tuple[Event, ...]:
        """Apply them, each with what follows at once; the events of it. Within a step, they wait for its end."""
        self._queue += deltas
        if self._draining:
            return ()
        self._draining = True
        events: list[Event] = []
        try:
            while self._queue:
                events += self._advance(self._queue.popleft())
        finally:
            self._draining = False
        self._tell_parent(events)
        return tuple(events)

    def _advance(self, delta: Delta) -> list[Event]:
        now_ms = self.now_ms()
        self._state, effects = transition(self._state, Context(delta, now_ms))
        self._record(LogRecord(delta, now_ms))
        commands: list[Command] = []
        events: list[Event] = []
        for effect in effects:
            if is_event(effect):
                events.append(effect)
                if isinstance(effect, LineageForked):  # what is under way is of the lineage that it left
                    commands.clear()
                    self._operations.let_go()
            else:
                commands.append(effect)
        for command in commands:
            self._operations.begin(command, self._state)
        self._operations.stop_disowned()
        return events

    def _record(self, record: LogRecord) -> None:
        self._records.append(record)

    def _lose(self) -> None:
        """A worker has died: for the run it is as if its process had (rule RESUME-3)."""
        self._operations.let_go()
        self._take(Resumed(nonce=workflow.uuid4().hex[:16]))

    # --- what people say ---

    @workflow.update
    async def send(self, text: str) -> str:
        """Apply an input, and tell why it was refused, if it was. Of a sub-agent, its parent has heard by then."""
        self._begin()
        update = workflow.current_update_info()
        assert update is not None  # this is one
        if update.id not in self._answered:
            events = self._take(inputs().decode_text(text))
            self._answered[update.id] = next((event for event in events if isinstance(event, Refused)), None)
        await self._told()
        return refusals().encode_text(self._answered[update.id])

    @send.validator
    def demand_input(self, text: str) -> None:
        """What is no input gets into no history. Raises ValueError."""
        try:
            inputs().decode_text(text)
        except CodecError as error:
            faults = "; ".join(map(str, error.faults))
            raise ValueError(f"this is not an input of a run: {faults}. Send what `TemporalRun` makes") from error

    @workflow.update
    async def rest(self) -> bool:
        """Wait until nothing goes on by itself; False: the history ends before that, so ask the next one."""
        self._begin()
        await workflow.wait_condition(lambda: self._rests() or self._can_continue())
        return self._rests()

    @workflow.update
    async def told(self) -> bool:
        """Wait until the parent of this sub-agent has heard all that there is to tell."""
        await self._told()
        return True

    @workflow.query
    def state(self) -> str:
        """The state, as a document."""
        return state_to_text(self._state)

    @workflow.query
    def records(self) -> list[str]:
        """The log since this history began, as lines."""
        return [record_to_text(record) for record in self._records]

    # --- what activities and sub-agents say ---

    @workflow.signal
    def report(self, text: str) -> None:
        """Reports of an activity under way."""
        self._begin()
        self._operations.hear(batches().decode_text(text))

    @workflow.update
    async def answer(self, operation: int) -> str:
        """Wait for the answer to the question of a tool run; None: there will be none."""
        run = RunOperation(operation)
        await workflow.wait_condition(lambda: self._operations.is_answered(run))
        return answers().encode_text(self._operations.answer_to(run))

    @workflow.signal
    def child(self, text: str) -> None:
        """A sub-agent says something."""
        self._operations.hear_child(child_words().decode_text(text))

    @workflow.signal
    def tell(self, text: str) -> None:
        """The parent of this sub-agent says something."""
        self._begin()
        self._take(inputs().decode_text(text))

    # --- what a sub-agent tells its parent ---

    def _tell_parent(self, events: list[Event]) -> None:
        if workflow.info().parent is None:
            return
        for event in events:
            if isinstance(event, MessageAdded) and (text := said_in(event.message)):
                self._to_tell.append(ChildProgress(NO_OPERATION, text))
        asked = waiting_calls(self._state)
        if asked != self._asked:
            self._asked = asked
            self._to_tell.append(ChildAsks(NO_OPERATION, asked))
        if self._to_tell and self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _told(self) -> None:
        if self._telling is not None:
            await workflow.wait_condition(lambda: self._telling is None)

    async def _tell(self) -> None:
        own = workflow.info()
        assert own.parent is not None  # nothing is to be told otherwise
        parent = workflow.get_external_workflow_handle(own.parent.workflow_id)
        try:
            while self._to_tell:
                words = ChildWords(own.workflow_id, self._to_tell.popleft())
                await parent.signal("child", child_words().encode_text(words))
        except FailureError:  # there is no parent any more
            self._to_tell.clear()
        finally:
            self._telling = None

    # --- rest, and the end ---

    def _rests(self) -> bool:
        return type(self._state) in AT_REST or not self._operations.busy

    def _is_over(self) -> bool:
        return isinstance(self._state, Done) and self._operations.jobs == 0

    def _can_continue(self) -> bool:
        return self._operations.is_full() and self._operations.jobs == 0

    def _can_leave(self) -> bool:
        """Whether nothing is left that this history has to end: it ends then and there, so nothing comes between."""
        done = self._is_over() or self._can_continue()
        return done and self._telling is None and workflow.all_handlers_finished()

    def _to_carry(self) -> Carried:
        return Carried(
            pace=self._pace,
            state=state_to_text(self._state),
            timers=self._operations.timers,
            held=self._operations.held,
            answered=tuple(Answered(*each) for each in [*self._answered.items()][-MOST_ANSWERED:]),
        )

    def _ended(self) -> ChildEnded:
        session = self._state.session
        return ChildEnded(
            operation=NO_OPERATION,
            reason=self._state.reason if isinstance(self._state, Done) else TurnEndReason.ERROR,
            text=last_said(self._state),
            usage=NO_USAGE if session is None else session.usage,
            tool_calls=0 if session is None else session.started,
        )
