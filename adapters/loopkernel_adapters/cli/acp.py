"""`loopkernel acp`: the agent of an editor, which starts it and speaks the Agent Client Protocol with it.

What is wrong with the options is said before anything is served. What this process prints goes to the standard error:
the standard output is the protocol's alone.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve
from loopkernel.data.choices import Lifetime
from loopkernel.data.policy import Policy

from loopkernel_adapters.cli.beginnings import begun_with, note
from loopkernel_adapters.cli.models import SoughtModels
from loopkernel_adapters.cli.options import NO_SERVER, Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain, in_loop
from loopkernel_adapters.cli.places import StoredRuns, opened_place
from loopkernel_adapters.cli.rules import instructions_of, policy_from_now_on, policy_of, secrets_of
from loopkernel_adapters.cli.servers import named_server, with_variables
from loopkernel_adapters.cli.toolbox import confinement_of, opened_tools
from loopkernel_adapters.ports import Tools
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.stores.threaded import asynchronous_runs

if TYPE_CHECKING:  # an extra
    from loopkernel_adapters.acp.agent import EditorAgent
    from loopkernel_adapters.acp.sessions import Surroundings

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


def serve_editor(options: Options) -> ExitStatus:
    """Serve until the editor leaves. Raises Unusable."""
    try:
        from loopkernel_adapters.acp.agent import EditorAgent
    except ImportError as error:
        raise Unusable(str(error)) from error
    with ExitStack() as resources:
        surroundings = _surroundings(options, resources)
        if sys.stdin.isatty():
            complain("this speaks a protocol and waits for an editor; name it in the settings of one (docs/acp.md)")
        logging.getLogger().addHandler(logging.NullHandler())  # else Python prints what the protocol's library logs
        asyncio.run(_served(EditorAgent(surroundings)))
    return ExitStatus.NATURAL_END


async def _served(agent: "EditorAgent") -> None:
    from acp import run_agent
    from acp.stdio import stdio_streams

    from loopkernel_adapters.acp.lines import LONGEST_LINE, Lines

    asyncio.get_running_loop().set_exception_handler(in_loop)
    with output_of_its_own():
        try:
            reader, writer = await stdio_streams(limit=LONGEST_LINE)
        except ValueError as error:
            raise Unusable(f"standard input and output are to be pipes to an editor: {error}") from error
    try:
        await run_agent(agent, Lines(reader, writer), use_unstable_protocol=True)
    finally:
        await agent.close()


@contextmanager
def output_of_its_own() -> Iterator[None]:
    """Within it `sys.stdout` is the output of the protocol; from now on what else is printed goes to the error."""
    sys.stdout.flush()
    protocol = os.fdopen(os.dup(STANDARD_OUTPUT), "w", encoding="utf-8", closefd=False)
    os.dup2(STANDARD_ERROR, STANDARD_OUTPUT)
    with redirect_stdout(protocol):
        yield


def _surroundings(options: Options, resources: ExitStack) -> "Surroundings":
    """What all sessions have in common. Raises Unusable."""
    from loopkernel_adapters.acp.sessions import Surroundings

    policy_of(options, Lifetime.SESSION, (options.first_model,))
    instructions, secrets = instructions_of(options), secrets_of(options)
    named = [named_server(text, pin) for text, pin in options.servers if text != NO_SERVER]
    servers = with_variables(named, options)
    sought = SoughtModels((options.first_model, *options.fallback_models), options.base_url, resources)
    place = resources.enter_context(opened_place(options.store, make=True))
    models = sought.opened()  # last, since it takes longest

    def go_on(policy: Policy) -> Policy:
        return policy_from_now_on(policy, options, models.names)

    def keep(run: str, folder: Path) -> None:
        note(place, run, evolve(options, workspace=folder))

    return Surroundings(
        runs=asynchronous_runs(place.runs),
        provider=models.provider,
        models=models.names,
        policy=policy_of(options, Lifetime.SESSION, models.names),
        go_on=go_on,
        tools=lambda folder: _tools(evolve(options, workspace=folder), options.workspace, place),
        note=keep,
        folder_of=lambda run: _folder_of(place, run),
        servers=tuple(servers),
        instructions=instructions or None,
        secrets=secrets.with_keys(keys_of(models.provider)),
        terminals=options.isolation is None,  # a terminal of the editor is in no sandbox
    )


@contextmanager
def _tools(options: Options, within: Path | None, place: StoredRuns) -> Iterator[Tools]:
    """The tools of a session. Raises ValueError, in words for the editor."""
    with ExitStack() as resources:
        try:
            if within is not None and not options.folder.resolve().is_relative_to(within.resolve()):
                raise Unusable(f"{options.folder} does not lie in {within}, where --workspace lets sessions work")
            confined = confinement_of(options, place.folder())
            opened = opened_tools(options.folder, options.tool_set, sub_agents=options.sub_agents, confined=confined)
            tools = resources.enter_context(opened)
        except Unusable as error:
            raise ValueError(str(error)) from error
        yield tools


def _folder_of(place: StoredRuns, run: str) -> Path | None:
    """The folder that the run was begun in; None where this was not noted, or others may have."""
    try:
        begun = begun_with(place, run)
    except Unusable:
        return None
    return None if begun is None else begun.workspace
