"""Servers of the Model Context Protocol that the editor passes: none is trusted, so each of their tools asks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import assert_never

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from loopkernel_adapters.provider_keys import real_keys
from loopkernel_adapters.tools.mcp import HttpServer, McpServer, StdioServer
from loopkernel_adapters.tools.sent_media import NotTaken

PassedServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


def servers_of(passed: Sequence[PassedServer], folder: Path) -> tuple[McpServer, ...]:
    """The servers; those that are commands run in the folder of the session. Raises NotTaken."""
    return tuple(_server(server, folder) for server in passed)


def _server(server: PassedServer, folder: Path) -> McpServer:
    match server:
        case McpServerStdio():
            environment = {variable.name: variable.value for variable in server.env}
            return StdioServer(
                name=server.name, command=(server.command, *server.args), environment=environment, folder=folder
            )
        case HttpMcpServer():
            if not server.url.startswith(("http://", "https://")):
                raise NotTaken(f"the server {server.name} has the address {server.url}, which is not one of HTTP")
            return HttpServer(
                name=server.name, url=server.url, headers={header.name: header.value for header in server.headers}
            )
        case SseMcpServer() | AcpMcpServer():
            raise NotTaken(f"the server {server.name} is one of type {server.type}; pass it as a command, or as http")
        case _:
            assert_never(server)


def keys_of_servers(servers: Sequence[McpServer]) -> Mapping[str, str]:
    """What they get that looks like a key: no model and no log is to see it."""
    found: dict[str, str] = {}
    for server in servers:
        match server:
            case StdioServer():
                keys = real_keys(server.environment)
            case HttpServer():
                keys = real_keys({}, server.headers)
            case _:
                assert_never(server)
        found.update((f"{server.name}-{name}", key) for name, key in keys.items() if key not in found.values())
    return found
