"""What is under way outside: each command begun, by its operation, and everything let go of at the end.

Nothing here waits, and nothing here decides: a command says what to do, and what comes back is a report.
"""

from collections.abc import Callable, Coroutine, Sequence, Sized
from functools import partial
from typing import assert_never

from attrs import frozen
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
from loopkernel.data.events import Event
from loopkernel.data.ids import CallId, OperationKind, RunOperation, TimerOperation
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.usage import NO_USAGE
from loopkernel.later_typing import override

from loopkernel_adapters.bounded_text import in_force, secrets_in_force
from loopkernel_adapters.driver.failures import (
    child_failure,
    complain,
    correction_failure,
    handoff_failure,
    hook_failure,
    model_failure,
    summary_failure,
    tool_failure,
)
from loopkernel_adapters.driver.pacing import Accept
from loopkernel_adapters.driver.summaries import ProviderSummariser, model_of
from loopkernel_adapters.driver.supervision import Job, Supervisor
from loopkernel_adapters.driver.work import (
    CaughtUp,
    ToolRun,
    answer_without_port,
    ask_hook,
    check_call,
    correct,
    hand_off,
    read_reply,
    summarise,
)
from loopkernel_adapters.optional_ports import (
    Address,
    Agent,
    ChildFollower,
    ChildObserver,
    ChildReport,
    NoSuchAgent,
    ParentSession,
    Ports,
)


class Operations:
    """Begins what commands ask for. `accept` takes what adapters say meanwhile, `report` the outcomes of jobs.

    `caught_up` returns when all is applied that was accepted before.
    """

    def __init__(
        self,
        ports: Ports,
        accept: Accept,
        caught_up: CaughtUp,
        report: Callable[[Delta | None], None],
        show: ChildObserver,
        follow: ChildFollower,
    ) -> None:
        self._ports = ports
        self._accept = accept
        self._caught_up = caught_up
        self._show = show
        self._follow = follow
        self._supervisor = Supervisor(report)
        self.jobs: Sized = (
            self._supervisor.jobs
        )  # under way but for timers, aborted ones that have not stopped included
        self._runs: dict[RunOperation, ToolRun] = {}  # those that have begun
        self._agents: dict[RunOperation, Agent] = {}
        self._calls: dict[CallId, Agent] = {}  # of each call the latest agent
        self.timers: dict[TimerOperation, Callable[[], None]] = {}  # those that run, with what forgets each

    @property
    def busy(self) -> bool:
        """Whether something is under way that will report, or a timer will fire."""
        return self._supervisor.live > 0 or bool(self.timers)

    @property
    def all_wait(self) -> bool:
        """Whether nothing is under way but sub-agents that wait, and no timer runs."""
        return not self.timers and len(self.jobs) == sum(agent.waits for agent in self._agents.values())

    def until_agents_wait(self) -> list[Coroutine[object, object, None]]:
        """For each sub-agent that does not wait, to wait until it does."""
        return [agent.until_waits() for agent in self._agents.values() if not agent.waits]

    @property
    def asked_from_within(self) -> bool:
        """Whether the caller belongs to a job that is under way here."""
        return self._supervisor.caller() is not None

    def demand_from_outside(self) -> None:
        """Raises RuntimeError where the caller belongs to a job that whoever waits here would wait for."""
        job = self._supervisor.caller()
        if job is not None and not job.detached:
            raise RuntimeError(
                f"{job.name} is under way, and would wait for its own end here; let it end first, and wait elsewhere"
            )

    def agent(self, call: CallId) -> Agent:
        """The sub-agent that runs for the call. Raises NoSuchAgent."""
        if call not in self._calls:
            raise NoSuchAgent(f"no sub-agent runs for call {call}")
        return self._calls[call]

    def begin(self, command: Command, state: State) -> Delta | None:
        """Begin what the command asks for; its report, if that is there at once. `state` is the one it led to."""
        if secrets_in_force() is not self._ports.secrets:  # they are within a job, whose report most commands follow
            with in_force(self._ports.secrets):  # also for what is begun here and goes on
                return self.begin(command, state)
        match command:  # by how often they come
            case StartTimer():
                forget = self._ports.clock.call_at(command.deadline_ms, partial(self._fire, command.operation))
                self.timers[command.operation] = forget
            case CancelTimer():
                forget_timer = self.timers.pop(command.operation, None)
                if forget_timer is not None:
                    forget_timer()
            case CheckCall():
                return check_call(self._ports.tools, command)
            case StartTool():
                self._supervisor.start(self._tool_job(command))
            case CallModel():
                self._supervisor.start(self._model_job(command))
            case AbortTool():
                self._supervisor.abort((OperationKind.RUN, command.operation))
            case AbortModel():
                self._supervisor.abort((OperationKind.MODEL, command.operation))
            case AnswerTool():
                if command.operation in self._runs:
                    self._runs[command.operation].answer(command.value)
            case AskHook() | TellHook() | CheckCorrection() | Summarise() | HandOff():
                return self._begin_other(command, state)
            case StartChild():
                return self._begin_child(command)
            case TellChild():
                if command.operation in self._agents:
                    self._agents[command.operation].tell(command.delta)
            case AbortOther():
                self._supervisor.abort((command.kind, command.operation))
            case _:
                assert_never(command)
        return None

    async def close(self, stop_seconds: float) -> tuple[str, ...]:
        """Stop everything and wait for it; the names of what has not stopped in time."""
        self.forget_timers()
        return await self._supervisor.close(stop_seconds)

    def let_go(self) -> None:
        """Stop everything, do not wait, and report nothing of it."""
        self._supervisor.disown()
        self.forget_timers()

    def forget_timers(self) -> None:
        """No timer fires any more."""
        while self.timers:
            self.timers.popitem()[1]()

    def _fire(self, operation: TimerOperation) -> None:
        del self.timers[operation]
        self._accept(TimerFired(operation))

    # --- models and tools ---

    def _model_job(self, command: CallModel) -> Job:
        return Job(
            key=(OperationKind.MODEL, command.operation),
            work=partial(read_reply, self._ports.provider, command, self._accept, self._caught_up, self._ports.secrets),
            failure=partial(model_failure, command),
            stopped=None,
        )

    def _tool_job(self, command: StartTool) -> Job:
        return Job(
            key=(OperationKind.RUN, command.operation),
            work=partial(self._run_tool, command),
            failure=partial(tool_failure, command),
            stopped=ToolStopped(command.operation),
        )

    async def _run_tool(self, command: StartTool, job: Job) -> Delta:
        run = ToolRun(command, self._accept, self._caught_up, job, self._ports.secrets)
        self._runs[command.operation] = run
        try:
            return await run.serve(self._ports.tools)
        finally:
            del self._runs[command.operation]

    # --- hooks, corrections, summaries, handoffs ---

    def _begin_other(
        self, command: AskHook | TellHook | CheckCorrection | Summarise | HandOff, state: State
    ) -> Delta | None:
        optional, secrets = self._ports.optional, self._ports.secrets
        match command:
            case TellHook():
                self._tell(command)
                return None
            case AskHook() if optional.hooks is not None:
                work, failure = partial(ask_hook, optional.hooks, command), partial(hook_failure, command)
                job = Job(key=(OperationKind.HOOK, command.operation), work=work, failure=failure, stopped=None)
            case CheckCorrection() if optional.corrector is not None:
                job = Job(
                    key=(OperationKind.CORRECTION, command.operation),
                    work=partial(correct, optional.corrector, command),
                    failure=partial(correction_failure, command, secrets),
                    stopped=None,
                )
            case Summarise():
                summariser = optional.summariser or ProviderSummariser(self._ports.provider, model_of(state))
                job = Job(
                    key=(OperationKind.SUMMARY, command.operation),
                    work=partial(summarise, summariser, command),
                    failure=partial(summary_failure, command),
                    stopped=None,
                )
            case HandOff() if optional.handoffs is not None:
                job = Job(
                    key=(OperationKind.HANDOFF, command.operation),
                    work=partial(hand_off, optional.handoffs, command),
                    failure=partial(handoff_failure, command),
                    stopped=None,
                )
            case _:
                return answer_without_port(command)
        self._supervisor.start(job)
        return None

    def _tell(self, command: TellHook) -> None:
        hooks = self._ports.optional.hooks
        if hooks is None:
            return
        try:
            hooks.tell(command.context)
        except Exception as error:
            complain(f"the hook {command.context.name}, which only observes, failed", error, self._ports.secrets)

    # --- sub-agents ---

    def _begin_child(self, command: StartChild) -> Delta | None:
        if self._ports.optional.agents is None:
            return answer_without_port(command)
        parent = _Parent(self._ports, command.call, self._accept, self._show, self._follow)
        try:
            agent = self._ports.optional.agents.agent(command, parent)
        except Exception as error:
            return child_failure(command, error)
        self._agents[command.operation] = agent
        self._calls[command.call] = agent
        self._supervisor.start(
            Job(
                key=(OperationKind.RUN, command.operation),
                work=partial(self._run_agent, agent, command),
                failure=partial(child_failure, command),
                stopped=ToolStopped(command.operation),
                # A sub-agent that is to stop has tools to stop first; its task is cancelled where the process ends.
                stop=agent.cancel,
                over=partial(self._forget_agent, agent, command),
            )
        )
        return None

    async def _run_agent(self, agent: Agent, command: StartChild, job: Job) -> Delta | None:
        ended = await agent.run()
        if job.aborted and ended.usage == NO_USAGE and ended.tool_calls == 0:
            return job.stopped
        return ended

    def _forget_agent(self, agent: Agent, command: StartChild) -> None:
        del self._agents[command.operation]
        if self._calls[command.call] is agent:
            del self._calls[command.call]


@frozen
class _Parent(ParentSession):
    """What the sub-agent of the call can reach."""

    _ports: Ports
    _call: CallId
    _accept: Accept
    _show: ChildObserver
    _follow: ChildFollower

    @property
    @override
    def ports(self) -> Ports:
        return self._ports

    @override
    def report(self, report: ChildReport) -> None:
        self._accept(report)

    @override
    def show(self, within: Address, event: Event) -> None:
        self._show((self._call, *within), event)

    @override
    def follow(self, session_id: str, records: Sequence[LogRecord]) -> None:
        self._follow(session_id, records)
