"""An editor: the SDK's own client, over real pipes, connected to the agent in this process or in one of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp import RequestError
from acp.client.connection import ClientSideConnection
from acp.core import AgentSideConnection
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallUpdate,
)
from loopkernel_adapters.acp.agent import EditorAgent
from loopkernel_adapters.acp.content import ContentBlock
from loopkernel_adapters.acp.sessions import Surroundings
from loopkernel_adapters.acp.updates import Update

# What the editor answers to a question: the place of an option, or whatever else an editor may do.
Answering = Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[RequestPermissionResponse]]
NO = RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


def choosing(kind: str, number: int = 0) -> Answering:
    """A person who chooses the option of that kind, the first or a later one."""

    async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
        chosen = [option for option in options if option.kind == kind][number]
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    return answer


class Editor:
    """A client that keeps what it is told, and answers as it is told to. `updates` are those of all sessions."""

    def __init__(self, answering: Answering | None = None) -> None:
        self.answering = choosing("allow_once") if answering is None else answering
        self.updates: list[Update] = []
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self.something = asyncio.Event()

    # Any: a request may carry fields of any kind beside those of the protocol

    async def session_update(self, session_id: str, update: Update, **_: Any) -> None:
        """Keep it."""
        self.updates.append(update)
        self.something.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Keep it, and answer."""
        self.asked.append((tool_call, options))
        self.something.set()
        return await self.answering(tool_call, options)

    def on_connect(self, conn: object) -> None:
        """The agent is there."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; looked at whenever something comes."""
        while not condition():
            self.something.clear()
            await self.something.wait()

    def texts(self) -> str:
        """What the agent has said."""
        chunks = [update for update in self.updates if update.session_update == "agent_message_chunk"]
        return "".join(getattr(chunk.content, "text", "") for chunk in chunks)

    def statuses(self) -> list[str | None]:
        """The statuses of calls, as they came."""
        return [update.status for update in self.updates if update.session_update in ("tool_call", "tool_call_update")]


def text(words: str) -> list[ContentBlock]:
    """A prompt of these words."""
    return [TextContentBlock(type="text", text=words)]


@asynccontextmanager
async def connected(surroundings: Surroundings, editor: Editor) -> AsyncIterator[ClientSideConnection]:
    """The editor, connected to an agent in this process; every message is bytes on the way."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 24)
    agent_reader, agent_writer = await asyncio.open_connection(sock=theirs, limit=1 << 24)
    agent = EditorAgent(surroundings)
    serving = AgentSideConnection(agent, agent_writer, agent_reader, use_unstable_protocol=True)
    # an editor need not do all that the protocol knows
    connection = ClientSideConnection(editor, writer, reader, use_unstable_protocol=True)  # type: ignore[arg-type]
    try:
        yield connection
    finally:
        await connection.close()
        await agent.close()
        await serving.close()
        for each in (writer, agent_writer):
            each.close()


async def refusal(request: Awaitable[object]) -> RequestError:
    """The error that the request ends with."""
    try:
        await request
    except RequestError as error:
        return error
    raise AssertionError("the request was answered")
