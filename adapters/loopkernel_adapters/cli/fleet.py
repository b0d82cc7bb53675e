"""`loopkernel worker` serves the sessions of a PostgreSQL database; `loopkernel send` says something to one of them."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import Lifetime
from loopkernel.data.user_deltas import CancelAll, Say, UserDelta

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.cli.fleet_store import dsn_of, in_fleet
from loopkernel_adapters.cli.models import SoughtModels
from loopkernel_adapters.cli.options import NO_SERVER, Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain, described, in_loop
from loopkernel_adapters.cli.places import postgres_runs, told
from loopkernel_adapters.cli.rules import instructions_of, policy_of, secrets_of
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.toolbox import confinement_of, opened_tools
from loopkernel_adapters.fleet.worker import Worker

if TYPE_CHECKING:
    from loopkernel_adapters.stores.postgres import PostgresRuns

ENDING = (signal.SIGINT, signal.SIGTERM)


def work(options: Options, screen: Screen) -> ExitStatus:
    """Serve until the process is told to end. Raises Unusable."""
    dsn = dsn_of(options.store)
    if any(text != NO_SERVER for text, _ in options.servers):
        raise Unusable("a worker starts no servers of tools yet: leave --mcp out, or write a worker of your own")
    with ExitStack() as resources:
        policy_of(options, Lifetime.SESSION, (options.first_model,))  # what is wrong is said before anything is loaded
        instructions, secrets = instructions_of(options), secrets_of(options)
        confined = confinement_of(options, None)
        opened = opened_tools(options.folder, options.tool_set, sub_agents=options.sub_agents, confined=confined)
        tools = resources.enter_context(opened)
        models = SoughtModels((options.first_model, *options.fallback_models), options.base_url, resources).opened()
        policy = policy_of(options, Lifetime.SESSION, models.names)

        async def serve() -> None:
            runs = postgres_runs(dsn)
            agent = Agent(
                models.provider, tools, policy=policy, instructions=instructions or None, runs=runs, secrets=secrets
            )
            worker = Worker(agent, complain=_complain)
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(in_loop)
            for number in ENDING:
                loop.add_signal_handler(number, worker.stop)
            try:
                await runs.entries()  # so that a database which is not there is told now
                screen.labelled("worker", "serves until it is told to end (Ctrl-C); what is under way may finish")
                await worker.serve()
            finally:
                await runs.close()

        with told("the store cannot be used"):
            asyncio.run(serve())
    return ExitStatus.NATURAL_END


def _complain(run: str | None, error: Exception) -> None:
    complain(f"{'the store' if run is None else f'run {run}'}: {described(error)}")


def send(run: str, inputs: Sequence[UserDelta], store: str | None, screen: Screen) -> ExitStatus:
    """Have the inputs wait for the run, whoever serves it. Raises Unusable."""

    async def sent(runs: "PostgresRuns") -> list[int]:
        return [await runs.send(run, delta) for delta in inputs]

    numbers = in_fleet(dsn_of(store), f"nothing can be sent to run {run}", sent)
    screen.labelled("sent", f"to run {run}, as input {', '.join(map(str, numbers))}; a worker hands it on")
    return ExitStatus.NATURAL_END


def inputs_of(words: str | None, *, cancel: bool) -> tuple[UserDelta, ...]:
    """What the command line says: a cancellation comes before the words. Raises Unusable where that is nothing."""
    said: list[UserDelta] = [CancelAll()] if cancel else []
    if words is not None and words.strip():
        said.append(Say(content=(TextBlock(words),)))
    if not said:
        raise Unusable("there is nothing to send: give words, or --cancel; --waiting lists the calls that wait")
    return tuple(said)
