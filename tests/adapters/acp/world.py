"""What sessions are made of in these tests: a scripted model, a tool that notes its runs, and a place for runs."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve
from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel_adapters.acp.sessions import Surroundings
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.ports import Provider, RunContext, Tools
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.secrets import NO_SECRETS
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.threaded import asynchronous_runs
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool, Registry

DONE = text_reply("Done.")


def pay(**given: int) -> Reply:
    """A reply that calls the tool that asks."""
    return call_reply(("pay", Json.of(dict(given) or {"amount": 5})))


class World:
    """Everything around the sessions. `runs` of the tool `pay`, which asks, are noted with their inputs."""

    def __init__(
        self,
        replies: Sequence[Reply],
        *,
        place: BlockingRuns | None = None,
        policy: Policy | None = None,
        tool: str = "pay",
    ) -> None:
        self.paid: list[JsonObject] = []
        self.held: asyncio.Event | None = None  # what each run waits for
        self.folders: dict[str, Path] = {}
        self.place: BlockingRuns = MemoryRuns() if place is None else place
        self.policy = Policy(lifetime=Lifetime.SESSION, max_turns=50) if policy is None else policy
        self.provider: Provider = ScriptedProvider(replies)
        self._tool = tool

    def surroundings(self) -> Surroundings:
        """As `loopkernel acp` would give them."""
        return Surroundings(
            runs=asynchronous_runs(self.place),
            provider=self.provider,
            models=("large", "small"),
            policy=evolve(self.policy, model="large", fallback_models=("small",)),
            go_on=lambda policy: policy,
            tools=self._tools,
            note=self.folders.__setitem__,
            folder_of=self.folders.get,
            servers=(),
            instructions=None,
            secrets=NO_SECRETS,
            terminals=True,
        )

    @contextmanager
    def _tools(self, folder: Path) -> Iterator[Tools]:
        profile = ToolProfile(effect=EffectClass.IDEMPOTENT, approval=Decision.ASK)
        yield Registry([FunctionTool(tool=Tool(name=self._tool, profile=profile), function=self._pay)])

    async def _pay(self, given: JsonObject, _: RunContext) -> str:
        self.paid.append(given)
        if self.held is not None:
            await self.held.wait()
        return "paid"
