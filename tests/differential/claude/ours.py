"""The preset, with the project's own driver and provider, in the same conversation."""

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path

from attrs import evolve
from loopkernel.data.events import Event, RetryScheduled
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.json_text import Json
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookContinue
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.tools import AccessMode, EffectClass, FieldResource, Tool, ToolProfile
from loopkernel.data.words import HookPoint, TurnEndReason
from loopkernel.later_typing import override
from loopkernel.presets import preset
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import Hooks, OptionalPorts
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool, Registry
from loopkernel_adapters.tools.shell import Shell

from tests.differential.claude.observations import Seen, seen
from tests.differential.claude.scripts import Conversation
from tests.differential.claude.service import Service
from tests.differential.claude.theirs import MODEL, runs_in

WELL = frozenset({TurnEndReason.MODEL_STOP, TurnEndReason.STOP_SEQUENCE})


def played(conversation: Conversation) -> Seen:
    """The conversation as the preset has it."""
    with (
        Service(conversation.answers) as service,
        tempfile.TemporaryDirectory() as folder,
        Workspace(Path(folder)) as workspace,
    ):
        return asyncio.run(_played(conversation, service, Path(folder), workspace))


async def _played(conversation: Conversation, service: Service, work: Path, workspace: Workspace) -> Seen:
    clock, waits, ends = ManualClock(1_000), list[int](), list[bool]()

    def wait_no_longer(event: Event) -> None:
        if isinstance(event, RetryScheduled):
            waits.append(event.delay_ms)
            asyncio.get_running_loop().call_soon(clock.advance, event.delay_ms)

    async with AnthropicProvider(api_key="no-key", base_url=service.url) as provider:
        agent = Agent(
            provider,
            _tools(work, workspace),
            policy=_policy(conversation),
            optional=OptionalPorts(hooks=_StopHook(conversation.blocks)),
            observers=(wait_no_longer,),
            clock=clock,
        )
        async with agent.session() as session:
            for prompt in conversation.prompts:
                result = await session.say(prompt)
                ends.append(result.reason in WELL)
    return seen(service, runs_in(work), len(waits), tuple(ends))


def _policy(conversation: Conversation) -> Policy:
    policy = evolve(preset("claude"), model=MODEL)
    if conversation.retries is not None and policy.retry is not None:
        policy = evolve(policy, retry=evolve(policy.retry, retries=conversation.retries))
    return (
        evolve(policy, hooks=(Hook(point=HookPoint.STOP, name="stop", gated=True),)) if conversation.blocks else policy
    )


class _StopHook(Hooks):
    """Keeps a turn from its end, so many times."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        if self._blocks == 0:
            return HookContinue()
        self._blocks -= 1
        return HookBlock("go on")

    @override
    def tell(self, context: HookContext) -> None:
        pass


def _tools(work: Path, workspace: Workspace) -> Registry:
    """Tools that go by the names of the product's, and do what the scripts need of them."""

    shell = Shell(workspace).tool()

    async def run(given: JsonObject, context: RunContext) -> str:
        running = shell.function(given, context)
        assert isinstance(running, Awaitable)
        said = await running
        assert isinstance(said, str)
        if said.endswith(")") and "(exit status " in said.splitlines()[-1]:
            raise ToolError(said)
        return said

    def read(given: JsonObject, context: RunContext) -> str:
        try:
            return (work / str(given["file_path"])).read_text()
        except OSError as error:
            raise ToolError(str(error)) from error

    path = FieldResource("file_path", AccessMode.READ)
    runs = ToolProfile(commands=("command",))
    reads = ToolProfile(effect=EffectClass.READ_ONLY, resources=(path,), early=True)
    return Registry(
        [
            FunctionTool(tool=evolve(shell.tool, name="Bash", profile=runs), function=run),
            FunctionTool(tool=_tool("Read", "file_path", reads), function=read),
        ]
    )


def _tool(name: str, field: str, profile: ToolProfile) -> Tool:
    schema = Json.of({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]})
    return Tool(name=name, description=name, input_schema=schema, profile=profile)
