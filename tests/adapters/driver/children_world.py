"""Sessions with sub-agents: their tools, their logs, and a model that knows by the conversation what to say next."""

from collections.abc import AsyncIterator, Iterable

from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import Request, StartTool
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.policy import Policy
from loopkernel.data.tools import EffectClass, ToolOutput, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.ports import Provider, RunContext
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import ASKS, FunctionTools, NotedStore, Run, World, echo

DISPATCHES = ToolProfile(effect=EffectClass.IDEMPOTENT, child=True)
TASK = Json.of({"prompt": "do it"})
PARENT_CALL = CallId(ModelOperation(1), 1)
CHILD_CALL = CallId(ModelOperation(1), 1)
SPENT = Usage(input=10, output=5)


class Logs:
    """The logs of sub-agents by their sessions. They outlive the drivers that write them.

    Each fails from append number `failing_from` on.
    """

    def __init__(self, failing_from: int | None = None) -> None:
        self.kept: dict[str, NotedStore] = {}
        self._failing_from = failing_from

    def __call__(self, session_id: str) -> NotedStore:
        before = self.kept.get(session_id)
        self.kept[session_id] = store = NotedStore(self._failing_from)
        if before is not None:
            store.append(before.load(), durable=True)
        return store

    @property
    def only(self) -> NotedStore:
        (store,) = self.kept.values()
        return store


async def never(command: StartTool, context: RunContext) -> ToolOutput:
    """In the place of a tool that sub-agents run for."""
    raise AssertionError("a sub-agent was started as a tool")


def tools_with_agents(asks: bool = False, **runs: Run) -> FunctionTools:
    """A tool `task` for sub-agents, and these; `asks`: a person is to approve each call of these."""
    tools = FunctionTools()
    tools.runs = {"task": never, **(runs or {"echo": echo})}
    tools.profiles = dict.fromkeys(tools.runs, ASKS) if asks else {}
    tools.profiles["task"] = DISPATCHES
    return tools


def a_family(
    replies: Iterable[Reply] = (),
    *,
    provider: Provider | None = None,
    tools: FunctionTools | None = None,
    policy: Policy | None = None,
    logs: Logs | None = None,
) -> tuple[World, Logs]:
    """A session that may have sub-agents, and their logs."""
    logs = logs or Logs()
    world = World(
        replies,
        provider=provider,
        tools=tools or tools_with_agents(),
        policy=policy,
        optional=OptionalPorts(agents=InProcessAgents(logs)),
    )
    return world, logs


def dispatches(count: int = 1) -> Reply:
    """A reply that starts so many sub-agents."""
    return call_reply(*[("task", TASK)] * count, usage=SPENT)


def one_tool_then(text: str) -> list[Reply]:
    """What a sub-agent says that calls `echo` and then answers."""
    return [call_reply(("echo", Json.of({"say": "milk"})), usage=SPENT), text_reply(text, SPENT)]


class Knowing(ScriptedProvider):
    """Says what fits the conversation, whoever asks and however often: a parent dispatches, a child calls `echo`."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        messages = list(request.thread)
        task = next(text_of(message.content) for message in messages if isinstance(message, UserMessage))
        answered = any(isinstance(message, ResultMessage) for message in messages)
        if task == "go":
            reply = text_reply("all done", SPENT) if answered else dispatches()
        else:
            reply = one_tool_then("the child is done")[answered]
        for item in reply:
            if isinstance(item, ModelDelta):
                yield evolve(item, operation=operation)
