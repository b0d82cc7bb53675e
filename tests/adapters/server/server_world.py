"""A real server on loopback, clients that can be cut off at any byte, and agents that talk, ask and pay."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from attrs import frozen
from loopkernel.codec import effects_to_text
from loopkernel.data.choices import Lifetime
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override
from loopkernel.replaying import fold
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.ports import Provider, RunContext
from loopkernel_adapters.providers.scripted import ANY, Reply, ScriptedProvider, call_reply
from loopkernel_adapters.server.app import app_of
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool
from uvicorn import Config, Server

LOOPBACK = "127.0.0.1"
TOKEN = "a-token-of-these-tests"
ALLOWED_ORIGIN = "http://pages.example:3000"
SESSION = Policy(lifetime=Lifetime.SESSION, max_turns=1_000)

# Any: what came over the wire, looked at by each test.
Answer = Any


def words(*pieces: str) -> Reply:
    """A reply that streams in pieces."""
    return (*(ModelText(ANY, piece) for piece in pieces), ModelCompleted(ANY, StopReason.END_TURN))


def pay(amount: int = 5) -> Reply:
    """A reply that calls the tool that asks."""
    return call_reply(("pay", Json.of({"amount": amount})))


class Talker(Provider):
    """A model that says the same pieces whenever it is asked, and lets others have their turn between them."""

    def __init__(self, pieces: int, length: int = 1) -> None:
        self._pieces = pieces
        self._padding = " " * length

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        for number in range(self._pieces):
            yield ModelText(operation, f"{number}{self._padding}")
            await asyncio.sleep(0)
        yield ModelCompleted(operation, StopReason.END_TURN)


class Till:
    """A tool that asks, and notes what was paid."""

    def __init__(self) -> None:
        self.paid: list[JsonObject] = []
        self.held: asyncio.Event | None = None  # what each run waits for
        profile = ToolProfile(effect=EffectClass.IDEMPOTENT, approval=Decision.ASK)
        self.tool = FunctionTool(tool=Tool(name="pay", profile=profile), function=self._pay)

    async def _pay(self, given: JsonObject, _: RunContext) -> str:
        self.paid.append(given)
        if self.held is not None:
            await self.held.wait()
        return "paid"


def agent_of(
    replies: Sequence[Reply] | Provider, *, tools: Sequence[FunctionTool] = (), runs: BlockingRuns | None = None
) -> Agent:
    """An agent that says these."""
    provider = ScriptedProvider(replies) if isinstance(replies, Sequence) else replies
    return Agent(provider, tools, policy=SESSION, runs=runs)


@asynccontextmanager
async def serving(agent: Agent, *, most_open: int = 1_000) -> AsyncIterator["Client"]:
    """A client of the agent behind a real server on loopback."""
    hosts: set[str] = set()
    app = app_of(agent, token=TOKEN, hosts=lambda: hosts, origins=[ALLOWED_ORIGIN], most_open=most_open, mcp=True)
    # Any: uvicorn's type of an app has parameters that are not checked here.
    config = Config(cast(Any, app), host=LOOPBACK, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = Server(config)
    with _signals_left_alone(server):
        serve = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        hosts.add(f"{LOOPBACK}:{port}")
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            app.state.runs.end_streams()
            await serve


@contextmanager
def _signals_left_alone(server: Server) -> Iterator[None]:
    from contextlib import nullcontext

    setattr(server, "capture_signals", nullcontext)  # noqa: B010 - a method that is replaced, for this server alone
    yield


class Cut(Exception):
    """The connection is gone."""


@frozen
class Client:
    """Speaks HTTP over a bare connection for each request."""

    port: int
    token: str | None = TOKEN

    async def ask(
        self, method: str, path: str, body: JsonValue | bytes = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of the answer."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        try:
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            writer.write(self.head(method, path, len(content), headers) + content)
            status, told = await head_of(reader)
            if told.get("transfer-encoding") == "chunked":
                return status, told, b"".join([chunk async for chunk in chunks_of(reader)])
            return status, told, await reader.readexactly(int(told.get("content-length", "0")))
        finally:
            writer.close()

    async def get(self, path: str) -> Answer:
        """What is there, as JSON."""
        status, _, body = await self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    async def post(self, path: str, body: JsonValue = None, status: int = 200) -> Answer:
        """What was answered, as JSON."""
        given, _, answer = await self.ask("POST", path, {} if body is None else body)
        assert given == status, answer
        return json.loads(answer)

    def head(self, method: str, path: str, length: int = 0, headers: dict[str, str] | None = None) -> bytes:
        """The head of a request."""
        told = {"Host": f"{LOOPBACK}:{self.port}", "Content-Length": str(length), "Connection": "close"}
        if self.token is not None:
            told["Authorization"] = f"Bearer {self.token}"
        if method == "POST":
            told["Content-Type"] = "application/json"
        told |= headers or {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    @asynccontextmanager
    async def following(self, run: str, last: str | None = None, within: str = "") -> AsyncIterator["Following"]:
        """The events of a run, or of the sub-agent at that address in it, behind that one."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        try:
            headers = {} if last is None else {"Last-Event-ID": last}
            query = f"?within={within}" if within else ""
            writer.write(self.head("GET", f"/runs/{run}/events{query}", headers=headers))
            status, _ = await head_of(reader)
            assert status == 200
            yield Following(reader)
        finally:
            writer.transport.abort()

    async def until(self, run: str, state: str) -> Answer:
        """How the run stands, once its state is that."""
        async with self.following(run) as events:
            while (found := await self.get(f"/runs/{run}"))["state"] != state:
                await events.next()
            return found


@frozen
class Heard:
    """A message of a stream: its id, its kind, and what it says."""

    id: str
    kind: str
    data: Answer


class Following:
    """Messages of a stream, as an `EventSource` takes them: whole ones alone."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._chunks = chunks_of(reader)
        self._text = ""

    async def next(self) -> Heard:
        """The next message. Raises Cut at the end."""
        while True:
            whole, found, rest = self._text.partition("\n\n")
            if not found:
                try:
                    self._text += (await anext(self._chunks)).decode()
                except (StopAsyncIteration, asyncio.IncompleteReadError, ConnectionError) as error:
                    raise Cut from error
                continue
            self._text = rest
            fields = dict(line.partition(":")[::2] for line in whole.splitlines() if not line.startswith(":"))
            if "data" in fields:
                data = json.loads(fields["data"])
                return Heard(fields.get("id", "").strip(), fields.get("event", "message").strip(), data)

    async def until(self, kind: str) -> list[Heard]:
        """All up to the first event of that kind."""
        heard = [await self.next()]
        while heard[-1].data.get("event", heard[-1].data).get("type") != kind:
            heard.append(await self.next())
        return heard


async def head_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def chunks_of(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The pieces of a body that is sent in such."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]


def events_in(log: Sequence[LogRecord]) -> list[tuple[str, JsonValue]]:
    """What a client is to hear of the log, worked out of it alone: each id, and the event."""
    return [
        (f"{record}.{number}@{step.context.now_ms}", json.loads(effects_to_text((event,)))[0])
        for record, step in enumerate(fold(log), start=1)
        for number, event in enumerate(effect for effect in step.effects if is_event(effect))
    ]
