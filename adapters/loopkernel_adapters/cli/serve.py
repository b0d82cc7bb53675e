"""`loopkernel serve`: runs over HTTP, for programs of this machine."""

import asyncio
import os
import re
import secrets
import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, in_loop
from loopkernel_adapters.cli.places import told
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.served import Means, opened_means, served_agent

if TYPE_CHECKING:  # an extra
    from uvicorn import Server

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "LOOPKERNEL_TOKEN"
SHORTEST_TOKEN = 16  # characters
MOST_CONNECTIONS = 5_000
GRACE_SECONDS = 3  # for what is being answered when the server is told to end
ENDING = (signal.SIGINT, signal.SIGTERM)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")


def serve(options: Options, port: int, origins: Sequence[str], screen: Screen) -> ExitStatus:
    """Serve until the process is told to end. Raises Unusable."""
    try:
        import starlette  # noqa: F401 - asked for, so that what is missing is told now
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Unusable(f"{error.name} is needed to serve HTTP: pip install 'loopkernel[server]'") from error
    token, given = _token()
    with ExitStack() as resources, told("the store cannot be used"):
        means = opened_means(options, resources)
        listening = resources.enter_context(_listening(port))
        asyncio.run(_serve(means, listening, token, None if given else token, origins, screen))
    return ExitStatus.NATURAL_END


async def _serve(
    means: Means, listening: socket.socket, token: str, shown: str | None, origins: Sequence[str], screen: Screen
) -> None:
    from loopkernel_adapters.server.app import app_of

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(in_loop)
    port = listening.getsockname()[1]
    hosts = frozenset({f"{LOOPBACK}:{port}", f"localhost:{port}"})
    async with served_agent(means) as served:
        app = app_of(
            served.agent,
            token=token,
            hosts=lambda: hosts,
            origins=[origin.rstrip("/") for origin in origins],
            lasting=served.lasting,
            note=served.note,
            mcp=find_spec("mcp") is not None,
        )
        server = _server(app)

        def end() -> None:
            server.force_exit = server.should_exit  # told twice, it waits for nobody
            server.should_exit = True
            app.state.runs.end_streams()

        for number in ENDING:
            loop.add_signal_handler(number, end)
        screen.labelled("server", f"http://{LOOPBACK}:{port}; GET /openapi.json tells what can be asked")
        told_of_token = f"the one of the variable {TOKEN_VARIABLE}" if shown is None else shown
        screen.labelled("token", f"{told_of_token}; send it as: Authorization: Bearer TOKEN")
        screen.labelled("", "whoever has it can have all done that the tools can do; Ctrl-C ends the server")
        await server.serve(sockets=[listening])


def _server(app: object) -> "Server":
    """A server that prints nothing, and leaves signals to this command."""
    from typing import Any, cast

    from uvicorn import Config, Server

    # Any: uvicorn's type of an app has parameters that are not checked here, and Starlette fulfils it.
    config = Config(
        cast(Any, app),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        loop="asyncio",
        lifespan="on",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = Server(config)
    setattr(server, "capture_signals", nullcontext)  # noqa: B010 - a method that is replaced, for this server alone
    return server


def _listening(port: int) -> socket.socket:
    """Raises Unusable."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(socket.SOMAXCONN)
    except OSError as error:
        listening.close()
        raise Unusable(f"port {port} cannot be listened to: {error.strerror}; name another with --port") from error
    return listening


def _token() -> tuple[str, bool]:
    """The token, and whether it was given. Raises Unusable, which does not show it."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(24), False
    if len(given) < SHORTEST_TOKEN or not _TOKEN.fullmatch(given):
        raise Unusable(
            f"the variable {TOKEN_VARIABLE} holds no token: it has to have at least {SHORTEST_TOKEN} characters, all "
            "of them letters, digits or ._~+/=-; unset it to have one made"
        )
    return given, True
