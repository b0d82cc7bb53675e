"""What MCP servers get of the environment: `--mcp-variable` for programs, `--mcp-header` for addresses.

Only names are typed and noted; the values are those of the variables at the moment.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from attrs import evolve

from loopkernel_adapters.cli.argument_values import HEADER, VARIABLE_IN_BRACES
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.provider_keys import real_keys

if TYPE_CHECKING:  # an extra, which takes a second to import
    from loopkernel_adapters.tools.mcp import McpServer


def with_variables(servers: "Sequence[McpServer]", options: Options) -> "list[McpServer]":
    """The servers with what each of them gets. Raises Unusable, which shows no value."""
    from loopkernel_adapters.tools.mcp import HttpServer, StdioServer

    names = [server.name for server in servers]
    variables = _variables(options, names)
    headers = _headers(options, names)
    given = list["McpServer"]()
    for server in servers:
        match server:
            case StdioServer():
                if headers[server.name]:
                    raise Unusable(f"the server {server.name} is a command, and takes no header; see --mcp-variable")
                given.append(evolve(server, environment={**variables[""], **variables[server.name]}))
            case HttpServer():
                if variables[server.name]:
                    raise Unusable(f"the server {server.name} is an address, and takes no variable; see --mcp-header")
                given.append(evolve(server, headers=headers[server.name]))
            case _:
                assert_never(server)
    return given


def _variables(options: Options, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The variables of each server; under no name those that every command gets."""
    found: dict[str, dict[str, str]] = {name: {} for name in ("", *names)}
    for text in options.server_variables:
        name, _, variable = text.rpartition("=")
        _demand_server(name, ("", *names))
        found[name][variable] = _value(variable)
    return found


def _headers(options: Options, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The headers of each server."""
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in options.server_headers:
        parts = HEADER.fullmatch(text)
        if parts is None:  # in a note that was changed
            raise Unusable(f"{text!r} is no header of a server; name it with --mcp-header")
        name, header, value = parts.groups()
        _demand_server(name, names)
        filled = VARIABLE_IN_BRACES.sub(lambda match: _value(match[1]), value)
        if not (filled.isascii() and filled.isprintable()):
            raise Unusable(
                f"the header {header} of the server {name} would have a line end or another character that no header "
                f"can; look at the environment variables in {value!r}"
            )
        found[name][header] = filled
    return found


def _demand_server(name: str, names: Sequence[str]) -> None:
    if name not in names:
        others = ", ".join(filter(None, names))
        raise Unusable(f"no server is called {name}, which is to get something; there is {others}")


def keys_of_servers(options: Options) -> dict[str, str]:
    """What servers get that looks like a key, by the name of its variable: no model and no log is to see it."""
    named = {text.rpartition("=")[2] for text in options.server_variables}
    named.update(name for text in options.server_headers for name in VARIABLE_IN_BRACES.findall(text))
    return real_keys({name: os.environ.get(name) for name in sorted(named)})


def _value(variable: str) -> str:
    """The value of the variable. Raises Unusable."""
    if variable not in os.environ:
        raise Unusable(f"the servers need the environment variable {variable}; export it first")
    return os.environ[variable]
