"""`loopkernel mcp`: the agent as a server of the Model Context Protocol, which a client starts and speaks with.

What this process prints goes to the standard error: the standard output is the protocol's alone.
"""

import asyncio
import sys
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version

from loopkernel_adapters.cli.acp import output_of_its_own
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain, in_loop
from loopkernel_adapters.cli.served import Means, opened_means, served_agent


def serve_mcp(options: Options) -> ExitStatus:
    """Serve until the client leaves. Raises Unusable."""
    try:
        import mcp  # noqa: F401 - asked for, so that what is missing is told now
    except ImportError as error:
        raise Unusable(f"{error.name} is needed to serve MCP: pip install 'loopkernel[mcp,server]'") from error
    with ExitStack() as resources:
        means = opened_means(options, resources)
        if sys.stdin.isatty():
            complain(
                "this speaks a protocol and waits for a client; name it in the settings of one (docs/mcp-server.md)"
            )
        asyncio.run(_serve(means))
    return ExitStatus.NATURAL_END


async def _serve(means: Means) -> None:
    from loopkernel_adapters.server.mcp_server import mcp_server_of
    from loopkernel_adapters.server.open_runs import OpenRuns

    asyncio.get_running_loop().set_exception_handler(in_loop)
    async with served_agent(means) as served:
        runs = OpenRuns(served.agent, lasting=served.lasting, note=served.note)
        try:
            with output_of_its_own():
                await mcp_server_of(runs, _version()).run_stdio_async()
        finally:
            await runs.close()


def _version() -> str:
    try:
        return version("loopkernel")
    except PackageNotFoundError:  # run from the sources alone
        return ""
