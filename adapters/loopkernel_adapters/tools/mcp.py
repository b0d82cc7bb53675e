"""Tools of servers of the Model Context Protocol: `mcp__SERVER__TOOL`, with bounds on time and size, and pinned.

What a server offers is read once, when it is opened, and stays: a server that changes its list, or a description in it,
changes nothing for the session. `pin` is a digest of that list; a caller that gives back the pin of an earlier session
has a changed server refused, until a person has looked at it. What a server says of its own tools is believed only
where it is trusted: else each of them is dangerous and asks.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

from attrs import frozen
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json
from loopkernel.data.tools import (
    AccessMode,
    Decision,
    EffectClass,
    FixedResource,
    Tool,
    ToolOutput,
    ToolProfile,
    UnknownTool,
    Verdict,
)
from loopkernel.later_typing import override

from loopkernel_adapters.bounded_text import beginning, first_line, hidden, in_force, one_line, secrets_in_force
from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.tools.input_schema import JsonObject, demand_schema
from loopkernel_adapters.tools.registry import FunctionTool, Registry

try:
    import httpx2
    from mcp import Client, MCPError
    from mcp import types as protocol
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams  # its public place has no name for the pair
    from mcp.client.streamable_http import streamable_http_client

    from loopkernel_adapters.tools.mcp_transports import PLAIN, ServerGone, bounded_answers, child_server
except ModuleNotFoundError as error:
    raise ImportError("tools of servers need an extra: pip install 'loopkernel[mcp]'") from error

# Where nobody has asked for logs, Python prints warnings of the library, tracebacks among them, for everybody to see.
for _logger in ("mcp", "client"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())

LONGEST_NAME = 64  # characters of a tool's whole name, the most that providers take
_LONGEST_WORDS = 1_000  # characters of what a server says when it cannot be used
_LONGEST_PROGRESS = 500  # characters of what a server says of its progress
_LEAVING_SECONDS = 1.0  # beyond `stop_seconds`
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class McpUnavailable(Exception):
    """A server cannot be used. The message says which, why, and what to do."""


@frozen(kw_only=True)
class McpLimits:
    """Bounds on what servers may take: seconds to begin, answer and end, bytes of a message, characters of a result."""

    start_seconds: float = 30.0
    call_seconds: float = 300.0
    stop_seconds: float = 2.0
    message_bytes: int = 16_000_000
    result_chars: int = 200_000
    description_chars: int = 8_000
    schema_chars: int = 50_000
    tools: int = 200
    pages: int = 20
    progress_reports: int = 1_000  # of one call; what comes behind them is not told


@frozen(kw_only=True)
class StdioServer:
    """A server that is a program: its command, what its environment has beside a small safe part, and its folder."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = {}
    folder: Path | None = None
    trusted: bool = False
    pin: str | None = None


@frozen(kw_only=True)
class HttpServer:
    """A server behind an address, spoken to by streamable HTTP; `headers` go with every request."""

    name: str
    url: str
    headers: Mapping[str, str] = {}
    trusted: bool = False
    pin: str | None = None


McpServer = StdioServer | HttpServer


class McpTools(Tools):
    """The tools of the servers that are open. Made by `open_servers`."""

    def __init__(self, tools: Sequence[FunctionTool], pins: Mapping[str, str]) -> None:
        self._registry = Registry(tools)
        self.pins = pins  # of each server, by its name

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._registry.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        known = any(tool.name == command.tool for tool in self.offered())
        return self._registry.check(command) if known else UnknownTool()

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self._registry.run(command, context)


@asynccontextmanager
async def open_servers(
    servers: Sequence[McpServer], limits: McpLimits | None = None, secrets: Secrets = NO_SECRETS
) -> AsyncIterator[McpTools]:
    """Connect to the servers and offer their tools while the context is open.

    No value of `secrets`, those of the session, is in what is offered, also where a description is cut. Raises
    McpUnavailable: a server does not start or answer in time, offers what cannot be offered, or has another pin than it
    should.
    """
    limits = limits or McpLimits()
    names = [server.name for server in servers]
    if len({_safe(name) for name in names}) < len(names):
        raise McpUnavailable(f"two servers of {', '.join(names)} have the same name; give one of them another name")
    connections = [_Connection(server, limits) for server in servers]
    with in_force(secrets or secrets_in_force()):
        opening = [asyncio.create_task(connection.open()) for connection in connections]
    try:
        await asyncio.gather(*opening)
        tools = [tool for connection in connections for tool in connection.tools]
        _demand_own_names(tools)
        yield McpTools(tools, {connection.server.name: connection.pin for connection in connections})
    finally:
        for task in opening:
            task.cancel()  # where another server has failed, nobody waits for these
        if opening:
            await asyncio.wait(opening)
        await asyncio.gather(*(connection.close() for connection in connections))


def _demand_own_names(tools: Sequence[FunctionTool]) -> None:
    """Raises McpUnavailable where one server's tool has the name of another's."""
    names = [tool.tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise McpUnavailable(f"two servers offer a tool {', '.join(twice)}; give one of the servers another name")


class _Connection:
    """One server, and the task that holds it: the client has to be left by the task that has entered it."""

    def __init__(self, server: McpServer, limits: McpLimits) -> None:
        self.server = server
        self.tools: tuple[FunctionTool, ...] = ()
        self.pin = ""
        self._limits = limits
        self._client: Client | None = None
        self._ready: asyncio.Future[None] | None = None
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and read what is offered. Raises McpUnavailable."""
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(self._ready))
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                await asyncio.shield(self._ready)
        except TimeoutError as error:
            raise McpUnavailable(
                f"the server {self.server.name} has not answered within {self._limits.start_seconds:g} s; "
                "look whether it runs by itself, or go on without it"
            ) from error

    async def close(self) -> None:
        """Leave the server. Closing one that never opened, or twice, is harmless."""
        self._leave.set()
        if self._task is None:
            return
        if self._ready is not None and not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=self._limits.stop_seconds + _LEAVING_SECONDS)
        self._task.cancel()  # one that does not answer even to a farewell is not waited for
        await asyncio.wait({self._task})
        if self._ready is not None and self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # looked at, so that nobody is told that it was not

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        try:
            async with Client(_transport(self.server, self._limits), cache=None) as client:
                self.tools, self.pin = await self._offered(client)
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                await self._leave.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(_unavailable(self.server, error))
        finally:
            self._client = None

    async def _offered(self, client: Client) -> tuple[tuple[FunctionTool, ...], str]:
        listed: list[protocol.Tool] = []
        cursor: str | None = None
        for _ in range(self._limits.pages):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None or len(listed) > self._limits.tools:
                break
        if cursor is not None or len(listed) > self._limits.tools:
            raise McpUnavailable(f"the server {self.server.name} offers more than {self._limits.tools} tools")
        pin = _pin(listed)
        if self.server.pin is not None and self.server.pin != pin:
            raise McpUnavailable(
                f"the server {self.server.name} offers other tools than when it was pinned: its pin is now {pin}. "
                "Look at what it offers; if that is well, pin it anew"
            )
        tools = tuple(self._tool(tool) for tool in listed)
        if len({tool.tool.name for tool in tools}) < len(tools):
            raise McpUnavailable(f"two tools of the server {self.server.name} have the same name")
        return tools, pin

    def _tool(self, offered: protocol.Tool) -> FunctionTool:
        description = offered.description or offered.title or ""
        try:
            schema = Json.of(offered.input_schema)
            if len(schema.text) > self._limits.schema_chars:
                raise ValueError(f"it has more than {self._limits.schema_chars} characters")
            demand_schema(schema.value())
        except (ValueError, TypeError, CodecError) as error:
            name = beginning(offered.name, LONGEST_NAME, "...")
            raise McpUnavailable(
                f"the tool {name} of the server {self.server.name} has a schema that cannot be used: {error}"
            ) from error
        tool = Tool(
            name=tool_name(self.server.name, offered.name),
            description=beginning(description, self._limits.description_chars),
            input_schema=schema,
            profile=_profile(self.server, offered.annotations),
        )

        async def call(given: JsonObject, context: RunContext) -> ToolOutput:
            return await self._call(offered.name, given, context)

        return FunctionTool(tool=tool, function=call)

    async def _call(self, tool: str, given: JsonObject, context: RunContext) -> ToolOutput:
        client = self._client
        if client is None:
            raise ToolError(f"the server {self.server.name} is gone; do the work with other tools")

        told = 0
        secrets = secrets_in_force()  # the client tells progress in a task of its own

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told
            told += 1
            if told <= self._limits.progress_reports:  # each of them is recorded
                words = message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
                await context.report_progress(beginning(words, _LONGEST_PROGRESS, secrets=secrets))

        try:
            async with asyncio.timeout(self._limits.call_seconds):
                result = await client.call_tool(tool, dict(given), progress_callback=tell)
        except TimeoutError as error:
            raise ToolError(
                f"the server {self.server.name} has not answered within {self._limits.call_seconds:g} s"
            ) from error
        except MCPError as error:
            raise ToolError(f"the server {self.server.name} refuses: {error.message}") from error
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a result that breaks the protocol, or a connection that is gone
            raise ToolError(f"the server {self.server.name} failed: {type(error).__name__}") from error
        if result.is_error:
            raise ToolError(text_of_result(result, self._limits.result_chars) or "the tool failed and does not say why")
        return as_output(result, self._limits.result_chars)


def tool_name(server: str, tool: str) -> str:
    """`mcp__SERVER__TOOL`, in the characters and the length that providers take; a long one ends in a digest of it."""
    name = f"mcp__{_safe(server)}__{_safe(tool)}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}_{digest}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


def _pin(listed: Sequence[protocol.Tool]) -> str:
    """The SHA-256 of all that is offered, in an order of its own."""
    texts = sorted(tool.model_dump_json(by_alias=True, exclude_none=True) for tool in listed)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _profile(server: McpServer, hints: protocol.ToolAnnotations | None) -> ToolProfile:
    """Calls of one server do not overlap, as nobody says what they touch; where it is trusted, those that read may.

    One that is not trusted may reach what rules of approval deny, such as the files that tools here work on.
    """
    key = f"mcp:{server.name}"
    if not server.trusted or hints is None:
        resources = (FixedResource(key, AccessMode.WRITE),)
        return ToolProfile(
            effect=EffectClass.DANGEROUS, approval=Decision.ASK, resources=resources, unbounded=not server.trusted
        )
    if hints.read_only_hint:
        resources = (FixedResource(key, AccessMode.READ),)
        return ToolProfile(effect=EffectClass.READ_ONLY, resources=resources)
    effect = EffectClass.IDEMPOTENT if hints.idempotent_hint else EffectClass.DANGEROUS
    return ToolProfile(effect=effect, approval=Decision.ASK, resources=(FixedResource(key, AccessMode.WRITE),))


def _transport(server: McpServer, limits: McpLimits) -> Transport:
    match server:
        case StdioServer():
            return child_server(
                server.command,
                server.environment,
                server.folder,
                longest_line=limits.message_bytes,
                stop_seconds=limits.stop_seconds,
            )
        case HttpServer():
            return _over_http(server, limits)
        case _:
            assert_never(server)


@asynccontextmanager
async def _over_http(server: HttpServer, limits: McpLimits) -> AsyncIterator[TransportStreams]:
    timeout = httpx2.Timeout(limits.start_seconds, read=limits.call_seconds)
    hooks = {"response": [bounded_answers(limits.message_bytes)]}
    async with (
        httpx2.AsyncClient(headers={**PLAIN, **server.headers}, timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.message_bytes) as streams,
    ):
        yield streams


def _unavailable(server: McpServer, error: Exception) -> McpUnavailable:
    """Why a server cannot be used, in words."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    match error:
        case McpUnavailable():
            return error
        case OSError():
            why = f"cannot be started: {error.strerror or error}"
        case ServerGone():
            why = f"does not speak the protocol: {error}"
        case MCPError():
            why = f"refuses: {one_line(error.message, _LONGEST_WORDS)}"
        case _:
            why = f"cannot be used: {type(error).__name__}: {beginning(first_line(str(error)), _LONGEST_WORDS)}"
    return McpUnavailable(f"the server {server.name} {why}. Look whether it runs by itself, or go on without it")


# --- what a tool answers ---------------------------------------------------------------------------------


def as_output(result: protocol.CallToolResult, most_chars: int) -> ToolOutput:
    """The blocks of the result, up to so many characters in all; what is structured stands for no text at all."""
    blocks: list[UserBlock] = []
    left = most_chars
    for found in _blocks(result):
        block = TextBlock(hidden(found.text)) if isinstance(found, TextBlock) else found
        size = len(block.text) if isinstance(block, TextBlock) else len(block.data)
        if size <= left:
            blocks.append(block)
            left -= size
            continue
        if isinstance(block, TextBlock):
            blocks.append(TextBlock(beginning(block.text, left)))
        blocks.append(TextBlock(f"(the rest of the answer was left out: it has more than {most_chars} characters)"))
        break
    return ToolOutput(content=tuple(blocks))


def text_of_result(result: protocol.CallToolResult, most_chars: int) -> str:
    """The texts of the result, for an error."""
    blocks = as_output(result, most_chars).content
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock)).strip()


def _blocks(result: protocol.CallToolResult) -> Iterator[UserBlock]:
    found = False
    for block in result.content:
        found = True
        yield _block(block)
    if not found and result.structured_content is not None:
        yield TextBlock(Json.of(result.structured_content).text)


def _block(block: protocol.ContentBlock) -> UserBlock:
    match block:
        case protocol.TextContent():
            return TextBlock(block.text)
        case protocol.ImageContent() | protocol.AudioContent():
            return _media(block.mime_type, block.data)
        case protocol.ResourceLink():
            return TextBlock(f"(a resource: {block.name}, {block.uri})")
        case protocol.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, protocol.TextResourceContents):
                return TextBlock(resource.text)
            return _media(resource.mime_type or "application/octet-stream", resource.blob)
        case _:
            assert_never(block)


def _media(mime_type: str, data: str) -> UserBlock:
    """A medium, if it is what it says: base64."""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return TextBlock(f"(a medium of type {mime_type} that cannot be decoded)")
    return MediaBlock(mime_type, data)
