"""An agent: a model, tools, a policy, and a place for its runs.

    async for event in agent.run("What do my notes say?"):
        ...

A run outlives the process if its place does: `Agent(..., runs=SqliteRuns(path))` and `agent.session(run=...)`. For
programs with ports of their own there is `driver/asyncio_driver.py` below this, and the kernel below that.
"""

import asyncio
import threading
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, Literal, TypeVar, assert_never, cast, get_args

from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.foreign import ForeignMessage
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.thread_deltas import Created
from loopkernel.loop.algorithms.beginnings import start_from
from loopkernel.presets import preset
from loopkernel.replaying import replay

from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.audience import RecordFollower
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.driver.taking_up import ResumeSettings, SettingsDiffer
from loopkernel_adapters.optional_ports import NO_PORTS, ChildFollower, ChildObserver, OptionalPorts, Ports
from loopkernel_adapters.ports import Clock, NoSuchRun, Observer, Provider, RunFailed, Runs, Tools
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.sessions.event_buffer import AgentEvent, EventsDropped
from loopkernel_adapters.sessions.result import NoAnswer, Output_co, Result
from loopkernel_adapters.sessions.session import MOST_EVENTS, Session, Turn, Words, said
from loopkernel_adapters.sessions.turn_locks import TurnLocks
from loopkernel_adapters.sessions.waiting_calls import Answer, Approver, WaitingCall
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.threaded import asynchronous_runs
from loopkernel_adapters.tools.registry import CombinedTools, FunctionTool, Registry

__all__ = [
    "Agent",
    "AgentEvent",
    "Answer",
    "Approver",
    "EventsDropped",
    "NoAnswer",
    "Result",
    "RunFailed",
    "Session",
    "SettingsDiffer",
    "Turn",
    "WaitingCall",
]

# A typed function (it needs the extra `tools`), or a tool that was made already.
AnyTool = FunctionTool | Callable[..., object]
# What holds for a run that goes on, where the tools, instructions or policy in its log differ from its agent's:
# `raise` SettingsDiffer, `refresh` them from the agent, or `keep` those of the log.
OnChange = Literal["raise", "refresh", "keep"]
Outcome = TypeVar("Outcome")
_SETTINGS = frozenset({"policy", "tools", "instructions"})


class Agent(Generic[Output_co]):
    """Everything that runs have in common; it holds nothing of any of them.

    >>> import asyncio
    >>> from loopkernel_adapters.agent import Agent
    >>> from loopkernel_adapters.providers.scripted import ScriptedProvider, text_reply
    >>> agent = Agent(ScriptedProvider([text_reply("Good morning!"), text_reply("Still here.")]))
    >>> agent.run_sync("Hello").text
    'Good morning!'
    >>> async def main():
    ...     turn = agent.run("Are you there?")
    ...     async for event in turn:
    ...         print(type(event).__name__, end=" ")
    ...     print("->", turn.result.reason.value)
    >>> asyncio.run(main())
    InputSettled MessageAdded ReplyGrew ReplyEnded MessageAdded TurnEnded -> model_stop

    `provider` is a model's name, such as "anthropic:NAME", "openai:NAME" or "local", or any object that fulfils the
    port `Provider`; if something that a name needs is missing, such as a key, ProviderUnavailable is raised at once.
    `tools` are typed functions and registry tools, or any object that fulfils the port `Tools`. `policy` is a policy,
    or the name of a preset; without one, a new run follows the default, and a run that goes on follows its own. `model`
    is the model's name, if it is not the policy's. With `output_type`, each turn has to end with an output of that type
    (a pydantic model, a dataclass, a TypedDict, a plain type), which is `result.output`; if an output does not fit, the
    model is told, and tries again as long as the policy lets it. `runs` keeps the logs; without it they are in memory,
    as long as the agent lives. `optional` are the ports that a session can do without; sub-agents run in this process
    unless it names a port for them.

    `on_change` says which settings hold for a run that was begun with tools, instructions or a policy other than those
    of this agent: see `OnChange`. What this agent is not given is not compared.

    `approve` answers in place of a person for each call that waits for one; see `Answer`. It may be asynchronous,
    and what it raises ends the run. Without it, calls that have to be approved are left waiting: the turn ends with a
    result whose `waiting` names them, and a session that goes on with the run can answer them. Questions of running
    tools are then declined, since they end with their run.

    `observers` see each event as it happens; `child_observers` those of sub-agents. `most_events` is how many events
    wait for a slow reader; beyond that some are left out, and `EventsDropped` stands in their place.

    Everything here runs on asyncio. In a trio program, let a thread wait for it: `await
    trio.to_thread.run_sync(agent.run_sync, "Hello")`.
    """

    def __init__(
        self,
        provider: Provider | str,
        tools: Tools | Sequence[AnyTool] = (),
        *,
        policy: Policy | str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        output_type: type[Output_co] | None = None,
        on_change: OnChange = "raise",
        runs: Runs | BlockingRuns | None = None,
        secrets: Secrets | Mapping[str, str] = NO_SECRETS,
        optional: OptionalPorts = NO_PORTS,
        approve: Approver | None = None,
        observers: Sequence[Observer] = (),
        child_observers: Sequence[ChildObserver] = (),
        clock: Clock | None = None,
        most_events: int = MOST_EVENTS,
    ) -> None:
        if on_change not in get_args(OnChange):
            raise ValueError(f"on_change is {on_change!r}; it is one of {', '.join(map(repr, get_args(OnChange)))}")
        self.runs = asynchronous_runs(MemoryRuns() if runs is None else runs)
        if isinstance(provider, str):
            provider, model = self._named(provider, model)
        self._provider = provider
        if not isinstance(tools, Sequence) and not hasattr(tools, "offered"):
            name = getattr(tools, "__name__", type(tools).__name__)
            raise TypeError(
                f"tools is {name}, which is neither a list of tools nor fulfils the port `Tools`; write [{name}]"
            )
        self._tools = registered(tools) if isinstance(tools, Sequence) else tools
        self._model = model
        self._output_tool: str | None = None
        self._read_output: Callable[[Json], Output_co] = cast(Callable[[Json], Output_co], _as_json)  # without a type
        if output_type is not None:
            self._demand_output(output_type)
        self._given = None if policy is None else self._whole_policy(policy)
        self._policy = self._whole_policy("default") if self._given is None else self._given
        output, names = self._policy.output_tool, [each.name for each in self._tools.offered()]
        if output is not None and output not in names:
            raise ValueError(
                f"the policy's output_tool {output!r} is none of the tools: {', '.join(names) or 'no tool'}"
            )
        self._instructions = instructions
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
        self._optional = evolve(optional, agents=optional.agents or InProcessAgents(self.runs.open))
        self._approve = approve
        self._observers = tuple(observers)
        self._child_observers = tuple(child_observers)
        self._clock = WallClock() if clock is None else clock
        self._most_events = most_events
        self._on_change: OnChange = on_change
        self._turns = TurnLocks()
        self._waiting_loop = WaitingLoop()

    def run(self, words: Words, run: str | None = None, *, after: str | None = None) -> Turn[Output_co]:
        """A run of one turn: await it for its result, or iterate over it for its events, as they come and in order.

        If the run is new, it begins with the messages of the run `after`: so a task can have a second prompt. Of two
        turns of one run at the same time, the second waits for the first.

        When the turn is over, everything is closed. To leave the iteration early, iterate in the block of
        `async with agent.run(words) as turn`, whose end closes everything. Raises, in both ways: RunFailed where the
        policy is `on_error: raise`, StoreFailed when the log cannot be written, and what `runs` and `approve` raise.
        """

        @asynccontextmanager
        async def opened() -> AsyncIterator[Session[Output_co]]:
            async with AsyncExitStack() as resources:
                if run is not None:
                    await resources.enter_async_context(self._turns.of(run))
                yield await resources.enter_async_context(self.session(run, after=after))

        return Turn(opened, said(words))

    def run_sync(self, words: Words, run: str | None = None, *, after: str | None = None) -> Result[Output_co]:
        """Like awaiting `run`, for programs without an event loop. Raises RuntimeError inside a running one.

        One event loop serves all calls, since clients of models are bound to one; it ends with the agent.
        """

        async def finished() -> Result[Output_co]:
            return await self.run(words, run, after=after)

        return self._waiting_loop.run(finished)

    @asynccontextmanager
    async def session(
        self,
        run: str | None = None,
        *,
        after: str | None = None,
        policy: Policy | str | None = None,
        mode: ApprovalMode | None = None,
        remembered: Sequence[Remembered] | None = None,
        tools: Tools | None = None,
        follow: RecordFollower | None = None,
        follow_children: ChildFollower | None = None,
        on_change: OnChange | None = None,
    ) -> AsyncIterator[Session[Output_co]]:
        """A session of any number of turns. With the id of an existing run, it goes on with that run.

            async with agent.session(run) as session:
                result = await session.say("And now?")

        A run goes on with the tools of this agent, and with the policy and the instructions that this agent was given;
        where none were given, with those in its log. Where its log has others, `on_change` says which hold (None: as
        the agent says), and nothing goes on before that. `policy`, `mode`, `remembered` (the approvals that hold for
        later calls) and `tools` (in place of the agent's) hold for this session, whatever the log has. What is given
        takes effect before anything in the run goes on. A run that its store does not vouch for, such as one that was
        copied here, goes on under what is given alone, and its open calls ask again (`session.doubt` says why).

        A new run begins with the messages of the run `after`, if one is named, and with nothing else of it; that run
        is not touched. Raises NoSuchRun if it does not exist, and OtherRules if it was written under other rules. A run
        that goes on ignores `after`. `follow` is given the records that are added, as they are shown, and
        `follow_children` those of sub-agents, by their sessions. What was under way when the process ended goes on by
        itself, as the policy says (`session.go_on`). At the end all is closed. Raises as `runs.open` and `Driver.open`.
        """
        _demand_asyncio()
        name = new_run_id() if run is None else run
        tools = self._tools if tools is None else tools
        given = self._given_for(policy, mode, remembered, tools)
        created = given.begin(name, self._policy)
        given = _agreeing(given, on_change or self._on_change, own_policy=policy is not None)
        if after is not None and not await self._has_begun(name):
            created = evolve(created, start=await self._messages_of(after))
        driver = await Driver.open(
            store=await self.runs.open(name),
            created=created,
            resume_with=given,
            provider=self._provider,
            tools=tools,
            clock=self._clock,
            observers=self._observers,
            secrets=self._secrets,
            optional=self._optional,
            child_observers=self._child_observers,
            follow=follow,
            follow_children=follow_children,
        )
        async with driver:
            session = Session(name, driver, self._approve, self._read_output, self._most_events)
            try:
                yield session
            finally:
                session.end_events()

    @property
    def ports(self) -> Ports:
        """What this agent's runs are carried out with, for a home of runs that is not this process."""
        secrets = self._secrets.with_keys(keys_of(self._provider))
        return Ports(
            provider=self._provider, tools=self._tools, clock=self._clock, secrets=secrets, optional=self._optional
        )

    def created(self, run: str, nonce: str) -> Created:
        """The first record of a run that begins there; `nonce` is a text that no other run has."""
        given = ResumeSettings(tools=self._tools.offered(), instructions=self._instructions)
        return evolve(given.begin(run, self._policy), nonce=nonce)

    def _named(self, name: str, model: str | None) -> tuple[Provider, str]:
        """The provider of that name, closed with this agent, and its model. Raises ProviderUnavailable, ValueError."""
        from loopkernel_adapters.providers.named import opened

        opening = opened(name)
        provider, named_model = opening.__enter__()
        weakref.finalize(self, opening.__exit__, None, None, None)
        if model not in (None, named_model):
            raise ValueError(f"{name!r} names the model {named_model}, and model={model!r} another one; leave one out")
        return provider, named_model

    def _demand_output(self, output_type: type[Output_co]) -> None:
        try:
            from loopkernel_adapters.tools.functions_outputs import OUTPUT_TOOL, OutputType
        except ImportError as error:
            raise ImportError("output_type needs an extra: pip install 'loopkernel[tools]'") from error
        wanted = OutputType(output_type)
        self._tools = CombinedTools((self._tools, Registry([wanted.tool()])))
        self._output_tool = OUTPUT_TOOL
        self._read_output = wanted.read

    def _given_for(
        self,
        policy: Policy | str | None,
        mode: ApprovalMode | None,
        remembered: Sequence[Remembered] | None,
        tools: Tools,
    ) -> ResumeSettings:
        return ResumeSettings(
            policy=self._given if policy is None else self._whole_policy(policy),
            mode=mode,
            model=self._model,
            tools=tools.offered(),
            instructions=self._instructions,
            remembered=None if remembered is None else tuple(remembered),
        )

    def _whole_policy(self, policy: Policy | str) -> Policy:
        """The policy, or the preset of that name, for this agent's model and output."""
        policy = preset(policy) if isinstance(policy, str) else policy
        if self._output_tool is not None:
            policy = evolve(policy, output_tool=self._output_tool, output_required=True)
        return policy if self._model is None else evolve(policy, model=self._model)

    async def _has_begun(self, run: str) -> bool:
        try:
            return bool(await self.runs.read(run))
        except NoSuchRun:
            return False

    async def _messages_of(self, run: str) -> tuple[ForeignMessage, ...]:
        state = replay(await self.runs.read(run))
        return () if state.session is None else start_from(state.session.thread)


class WaitingLoop:
    """An event loop for callers that have none: made at the first use, closed with whoever holds this."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._in_use = threading.Lock()

    def run(self, work: Callable[[], Coroutine[object, object, Outcome]]) -> Outcome:
        """The result of the work. Raises RuntimeError where it cannot be waited for."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("run_sync() would block the event loop that runs here; write `await agent.run(...)`")
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError("run_sync() is under way in another thread; give each thread an agent of its own")
        try:
            if self._runner is None:
                self._runner = asyncio.Runner()
                weakref.finalize(self, _close, self._runner)
            done: list[Outcome] = []

            async def kept() -> None:  # asyncio prints all of what its main task returns, only to throw that away
                done.append(await work())

            self._runner.run(kept())
            return done[0]
        finally:
            self._in_use.release()


def _close(runner: asyncio.Runner) -> None:
    """Close its loop. Where another one runs (garbage is collected anywhere), nothing can be run for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        runner.close()
    else:
        runner.get_loop().close()


def _as_json(given: Json) -> Json:
    return given


def _agreeing(given: ResumeSettings, on_change: OnChange, *, own_policy: bool) -> ResumeSettings:
    """What a run is gone on with, where its log may have other settings; `own_policy` is given for this session."""
    kept = _SETTINGS - {"policy"} if own_policy else _SETTINGS
    match on_change:
        case "raise":
            return evolve(given, must_agree=kept)
        case "refresh":
            return given
        case "keep":
            given = evolve(given, tools=None, instructions=None)
            return given if own_policy else evolve(given, policy=None, model=None)
        case _:
            assert_never(on_change)


def _demand_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "an agent belongs to an event loop of asyncio, and none runs here; in a program of trio, have a thread "
            "wait for it: await trio.to_thread.run_sync(agent.run_sync, words)"
        ) from None


def registered(tools: Sequence[AnyTool]) -> Registry:
    """A registry of the tools; functions become tools by their signatures."""
    return Registry([each if isinstance(each, FunctionTool) else _made(each) for each in tools])


def _made(function: Callable[..., object]) -> FunctionTool:
    try:
        from loopkernel_adapters.tools.functions import tool
    except ModuleNotFoundError as error:
        raise ImportError(
            f"to make a tool of the function {getattr(function, '__name__', function)!r}, {error.name} is needed: "
            "pip install 'loopkernel[tools]'"
        ) from error
    return tool(function)


def new_run_id() -> str:
    """An id that no other run has, and that sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
