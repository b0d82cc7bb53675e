"""What a run has under way outside its workflow: activities, timers and sub-agents, each begun by a command.

It is the twin of the driver's `Operations`, whose place the activities take: there a job is a task of this process,
here it is an activity, which some worker carries out with `Operations` of its own. Nothing here decides. A command that
comes when the history is to end is held, for the next one to begin.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, assert_never

from attrs import define
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError

from loopkernel_adapters.temporal.remote_children import RemoteChildren

with workflow.unsafe.imports_passed_through():
    from loopkernel.data.deltas import Delta
    from loopkernel.data.effects import (
        AbortModel,
        AbortOther,
        AbortTool,
        AnswerTool,
        AskHook,
        CallModel,
        CancelTimer,
        CheckCall,
        CheckCorrection,
        Command,
        HandOff,
        StartChild,
        StartTimer,
        StartTool,
        Summarise,
        TellChild,
        TellHook,
    )
    from loopkernel.data.ids import OperationKind, RunOperation, TimerOperation
    from loopkernel.data.json_text import Json
    from loopkernel.data.outside_deltas import TimerFired
    from loopkernel.data.states import State
    from loopkernel.data.tool_deltas import ToolStopped, ToolSucceeded

    from loopkernel_adapters.driver.failures import Errand, failure_of
    from loopkernel_adapters.driver.summaries import model_of
    from loopkernel_adapters.temporal.documents import (
        CARRY_OUT,
        WORKER_STOPPED,
        Batch,
        ChildWords,
        JobKey,
        Order,
        Pace,
        batches,
        orders,
    )

# Time limits are the kernel's; that a worker has died is seen by its heartbeat.
NO_LIMIT = timedelta(days=3_650)
SHARE_OF_SILENCE = 3  # a stream that goes on reports so often before the kernel would take it for dead
SHORTEST_TIMER = 0.001  # seconds


@define(eq=False)
class Activity:
    """One activity under way. `disowned`: nobody hears of it any more. `detached`: nobody waits for its end."""

    command: Errand
    handle: workflow.ActivityHandle[str]
    task: "asyncio.Task[None] | None" = None
    heard: int = 0  # of its batches
    aborted: bool = False
    disowned: bool = False
    detached: bool = False


class Clock(Protocol):
    """The time of a run: Temporal's own."""

    def now_ms(self) -> int:
        """The time of the workflow's task, in milliseconds."""
        ...

    def seconds_until(self, timer: StartTimer) -> float:
        """How long a timer of Temporal takes until the deadline."""
        ...


class RemoteOperations:
    """Begins what commands ask for. `take` gets the reports; `lost` is called when a worker has died with its work."""

    def __init__(self, clock: Clock, pace: Pace, take: Callable[..., object], lost: Callable[[], None]) -> None:
        self._clock = clock
        self._pace = pace
        self._take = take
        self._lost = lost
        self._children = RemoteChildren(pace, take)
        self._activities: dict[JobKey, Activity] = {}
        self._untold = 0  # of hooks that only observe
        self._timers: dict[TimerOperation, tuple[StartTimer, asyncio.TimerHandle]] = {}
        self._answers: dict[RunOperation, Json | None] = {}
        self._held: list[Errand | StartChild] = []

    # --- what is under way ---

    @property
    def jobs(self) -> int:
        """How many activities and sub-agents are under way, aborted ones included."""
        return len(self._activities) + len(self._children)

    @property
    def busy(self) -> bool:
        """Whether something will report, or a timer will fire."""
        live = any(not activity.aborted for activity in self._activities.values())
        return live or len(self._children) > 0 or bool(self._timers) or bool(self._held)

    @property
    def timers(self) -> tuple[StartTimer, ...]:
        """Those that have not fired."""
        return tuple(command for command, _ in self._timers.values())

    @property
    def held(self) -> tuple[Errand | StartChild, ...]:
        """What the next history has to begin."""
        return tuple(self._held)

    def is_full(self) -> bool:
        """Whether this history is to end as soon as nothing is under way."""
        history = workflow.info()
        return history.get_current_history_length() >= self._pace.most_events or history.is_continue_as_new_suggested()

    # --- commands ---

    def begin(self, command: Command, state: State) -> None:
        """Begin what the command asks for; `state` is the one that it led to."""
        match command:
            case StartTimer():
                self._set(command)
            case CancelTimer():
                self._forget(command.operation)
            case (
                CallModel()
                | CheckCall()
                | StartTool()
                | AskHook()
                | TellHook()
                | CheckCorrection()
                | Summarise()
                | HandOff()
                | StartChild()
            ):
                if self.is_full() and not any(activity.detached for activity in self._activities.values()):
                    self._held.append(command)
                else:
                    self._start(command, state)
            case AbortModel():
                self._abort((OperationKind.MODEL, command.operation))
            case AbortTool():
                if not self._children.cancel(command.operation):
                    self._abort((OperationKind.RUN, command.operation))
            case AbortOther():
                self._abort((command.kind, command.operation))
            case AnswerTool():
                self._answers[command.operation] = command.value
            case TellChild():
                self._children.tell(command.operation, command.delta)
            case _:
                assert_never(command)

    def let_go(self) -> None:
        """Stop every activity and timer, and hear of none of them any more.

        A sub-agent goes on if the next step begins it again; what is left of them is for `stop_disowned`.
        """
        for activity in self._activities.values():
            activity.disowned = activity.aborted = True
            activity.handle.cancel()
        self._activities = {}
        self._held.clear()
        for operation in tuple(self._timers):
            self._forget(operation)
        self._children.let_go()

    def stop_disowned(self) -> None:
        """The step is over that followed `let_go`: sub-agents that it has not begun again are to stop."""
        self._children.stop_disowned()

    # --- timers ---

    def _set(self, command: StartTimer) -> None:
        seconds = max(self._clock.seconds_until(command), SHORTEST_TIMER)
        handle = asyncio.get_running_loop().call_later(seconds, self._ring, command)
        self._timers[command.operation] = (command, handle)

    def _forget(self, operation: TimerOperation) -> None:
        found = self._timers.pop(operation, None)
        if found is not None:
            found[1].cancel()

    def _ring(self, command: StartTimer) -> None:
        if self._clock.now_ms() < command.deadline_ms:  # a timer is no more exact than its server
            self._set(command)
            return
        del self._timers[command.operation]
        self._take(TimerFired(command.operation))

    # --- activities ---

    def _start(self, command: Errand | StartChild, state: State) -> None:
        if isinstance(command, StartChild):
            self._children.begin(command)
            return
        key = self._key_of(command)
        order = Order(command=command, model=model_of(state), report_seconds=self._report_seconds(state))
        handle = workflow.start_activity(
            CARRY_OUT,
            orders().encode_text(order),
            result_type=str,
            start_to_close_timeout=NO_LIMIT,
            heartbeat_timeout=timedelta(seconds=self._pace.heartbeat_seconds),
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=_summary(command),
        )
        self._activities[key] = activity = Activity(command, handle)
        activity.task = asyncio.create_task(self._outcome(key, activity))

    def _key_of(self, command: Errand) -> JobKey:
        if not isinstance(command, TellHook):
            return key_of(command)
        self._untold += 1
        return (OperationKind.HOOK, -self._untold)

    def _report_seconds(self, state: State) -> float:
        """Often enough that the kernel does not take a stream that goes on for one that has fallen silent."""
        silence_ms = None if state.session is None else state.session.settings.policy.silence_ms
        longest = self._pace.report_seconds
        return longest if silence_ms is None else min(longest, silence_ms / 1000 / SHARE_OF_SILENCE)

    async def _outcome(self, key: JobKey, activity: Activity) -> None:
        try:
            reports = self._new(activity, batches().decode_text(await activity.handle))
        except ActivityError as error:
            if _tells_loss(error.cause):
                if not activity.disowned:
                    self._lost()
                return
            reports = self._failure(activity, error.cause or error)
        if activity.disowned:
            return
        del self._activities[key]
        self._take(*reports)

    def _failure(self, activity: Activity, cause: BaseException) -> tuple[Delta, ...]:
        """What an activity that gave no result is reported as."""
        command = activity.command
        if isinstance(cause, CancelledError):  # before it began, or with its worker
            return (ToolStopped(command.operation),) if isinstance(command, StartTool) else ()
        failed = failure_of(command, cause)
        return () if failed is None else (failed,)

    def hear(self, said: tuple[Batch, ...]) -> None:
        """What an activity under way has said."""
        for batch in said:
            activity = self._activities.get(batch.key)
            if activity is not None:
                self._take(*self._new(activity, (batch,)))

    def _new(self, activity: Activity, said: tuple[Batch, ...]) -> tuple[Delta, ...]:
        """The reports that were not heard before: a signal of which nobody knows whether it has come is sent again.

        Of what was aborted only the end of a tool's run is owed; a stream, a hook and the like are not heard any more.
        """
        if activity.aborted and not isinstance(activity.command, StartTool | CheckCall):
            return ()
        found: list[Delta] = []
        for batch in said:
            if batch.number > activity.heard:
                activity.heard = batch.number
                found += batch.deltas
        if any(isinstance(delta, ToolSucceeded) and delta.output.background for delta in found):
            activity.detached = True
        return tuple(found)

    def _abort(self, key: JobKey) -> None:
        for command in self._held:
            if not isinstance(command, TellHook) and key_of(command) == key:
                self._held.remove(command)
                if isinstance(command, StartTool | StartChild):
                    self._take(ToolStopped(command.operation))
                return
        activity = self._activities.get(key)
        if activity is not None and not activity.aborted:
            activity.aborted = True
            activity.handle.cancel()

    # --- questions, and sub-agents ---

    def is_answered(self, run: RunOperation) -> bool:
        """Whether the question of the run has its answer, or will never have one."""
        activity = self._activities.get((OperationKind.RUN, run))
        return run in self._answers or activity is None or activity.aborted or activity.detached

    def answer_to(self, run: RunOperation) -> Json | None:
        """The answer, once."""
        return self._answers.pop(run, None)

    def hear_child(self, words: ChildWords) -> None:
        """What a sub-agent says."""
        self._children.hear(words)


Reporting = CallModel | CheckCall | StartTool | StartChild | AskHook | CheckCorrection | Summarise | HandOff


def key_of(command: Reporting) -> JobKey:
    """The operation that the reports name."""
    match command:
        case CallModel():
            return (OperationKind.MODEL, command.operation)
        case CheckCall():
            return (OperationKind.CHECK, command.operation)
        case StartTool() | StartChild():
            return (OperationKind.RUN, command.operation)
        case AskHook():
            return (OperationKind.HOOK, command.operation)
        case CheckCorrection():
            return (OperationKind.CORRECTION, command.operation)
        case Summarise():
            return (OperationKind.SUMMARY, command.operation)
        case HandOff():
            return (OperationKind.HANDOFF, command.operation)
        case _:
            assert_never(command)


def _tells_loss(cause: BaseException | None) -> bool:
    """Whether the worker is gone, and nobody knows how far the work has come."""
    return isinstance(cause, TimeoutError) or (isinstance(cause, ApplicationError) and cause.type == WORKER_STOPPED)


def _summary(command: Errand) -> str:
    """For people who look at a history. It names no input."""
    match command:
        case CallModel():
            return f"request {command.operation} to {command.request.model or 'the model'}"
        case CheckCall() | StartTool():
            return f"{'check' if isinstance(command, CheckCall) else 'run'} {command.tool} for call {command.call}"
        case AskHook() | TellHook():
            return f"hook {command.context.name}"
        case CheckCorrection():
            return "course correction"
        case Summarise():
            return "summary"
        case HandOff():
            return "handoff"
        case _:
            assert_never(command)
