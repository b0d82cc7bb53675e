"""Updates on their way to the editor: in order, and never waited for by the session that they are about.

An editor that is slow to read keeps nobody up. What waits for it grows no larger than the session itself: pieces of
one text that wait behind each other become one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock

from loopkernel_adapters.acp.updates import Update


class Outbox:
    """Sends one update after the other. Where the editor is gone, what waits is dropped."""

    def __init__(self, send: Callable[[Update], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: deque[Update] = deque()
        self._sending: asyncio.Task[None] | None = None

    def put(self, updates: Iterable[Update]) -> None:
        """Send these after all before them."""
        for update in updates:
            joined = _joined(self._waiting[-1], update) if self._waiting else None
            if joined is None:
                self._waiting.append(update)
            else:
                self._waiting[-1] = joined
        if self._waiting and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def told(self) -> None:
        """Wait until all of them are sent."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                with suppress(ConnectionError):
                    await self._send(self._waiting.popleft())
        finally:
            self._sending = None


def _joined(first: Update, second: Update) -> Update | None:
    """Two pieces of one text as one; None where they are something else."""
    if type(first) is not type(second) or not isinstance(first, AgentMessageChunk | AgentThoughtChunk):
        return None
    assert isinstance(second, AgentMessageChunk | AgentThoughtChunk)  # as the first
    plain = first.field_meta is None and second.field_meta is None and first.message_id == second.message_id
    if not plain or not isinstance(first.content, TextContentBlock) or not isinstance(second.content, TextContentBlock):
        return None
    text = first.content.text + second.content.text
    return first.model_copy(update={"content": TextContentBlock(type="text", text=text)})
