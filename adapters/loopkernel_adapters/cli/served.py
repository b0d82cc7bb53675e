"""The agent of a command that serves many runs: opened from the options, with the servers of tools that they name.

What the options say holds for each run that is served, whoever began it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

from attrs import frozen
from loopkernel.data.choices import Lifetime
from loopkernel.data.policy import Policy

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.cli.beginnings import note
from loopkernel_adapters.cli.models import Models, SoughtModels
from loopkernel_adapters.cli.options import NO_SERVER, Options
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import StoredRuns, opened_place
from loopkernel_adapters.cli.rules import instructions_of, policy_of, secrets_of
from loopkernel_adapters.cli.servers import named_server, with_variables
from loopkernel_adapters.cli.toolbox import confinement_of, opened_tools
from loopkernel_adapters.ports import Runs, Tools
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.stores.threaded import asynchronous_runs
from loopkernel_adapters.tools.registry import CombinedTools


@frozen(kw_only=True)
class Means:
    """All that the agent is made of but its servers, open."""

    options: Options
    policy: Policy
    instructions: str
    secrets: Secrets
    tools: Tools
    models: Models
    place: StoredRuns

    def note(self, run: str) -> None:
        """Keep what the run was begun with, for whoever goes on with it."""
        note(self.place, run, self.options)


def opened_means(options: Options, resources: ExitStack) -> Means:
    """What is wrong with the options is said before anything is loaded. Raises Unusable."""
    policy_of(options, Lifetime.SESSION, (options.first_model,))
    instructions, secrets = instructions_of(options), secrets_of(options)
    place = resources.enter_context(opened_place(options.store, make=True))
    confined = confinement_of(options, place.folder())
    opened = opened_tools(options.folder, options.tool_set, sub_agents=options.sub_agents, confined=confined)
    tools = resources.enter_context(opened)
    models = SoughtModels((options.first_model, *options.fallback_models), options.base_url, resources).opened()
    return Means(
        options=options,
        policy=policy_of(options, Lifetime.SESSION, models.names),
        instructions=instructions,
        secrets=secrets.with_keys(keys_of(models.provider)),
        tools=tools,
        models=models,
        place=place,
    )


@frozen(kw_only=True)
class Served:
    """The agent, and the tools that mean the same after a restart: None, all."""

    agent: Agent
    lasting: frozenset[str] | None
    note: Callable[[str], None]


@asynccontextmanager
async def served_agent(means: Means) -> AsyncIterator[Served]:
    """The agent, with the servers of tools, which are open meanwhile. Raises Unusable."""
    named = [named_server(text, pin) for text, pin in means.options.servers if text != NO_SERVER]
    servers = with_variables(named, means.options)
    async with AsyncExitStack() as resources:
        tools, lasting = means.tools, None
        if servers:
            from loopkernel_adapters.tools.mcp import McpUnavailable, open_servers

            try:
                opened = await resources.enter_async_context(open_servers(servers, secrets=means.secrets))
                tools = CombinedTools((means.tools, opened))
            except (McpUnavailable, ValueError) as error:
                raise Unusable(str(error)) from error
            lasting = frozenset(tool.name for tool in means.tools.offered())
        runs: Runs = asynchronous_runs(means.place.runs)
        agent = Agent(
            means.models.provider,
            tools,
            policy=means.policy,
            instructions=means.instructions or None,
            runs=runs,
            secrets=means.secrets,
            on_change="refresh",
        )
        yield Served(agent=agent, lasting=lasting, note=means.note)
