"""Messages as lines of JSON, over the pipes to an editor: what is not a message is dropped, and ends nothing."""

import asyncio
import json
from typing import Any

LONGEST_LINE = 50 * 1024 * 1024  # bytes: a prompt may hold images


class Lines:
    """A transport of the SDK. A line that is longer than the limit of the reader is dropped as well."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    # Any: a message is what JSON says it is; the SDK judges it

    async def send(self, message: dict[str, Any]) -> None:
        """Send it. Raises ConnectionError."""
        async with self._sending:
            self._writer.write(f"{json.dumps(message, separators=(',', ':'))}\n".encode())
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None: there are no more."""
        while True:
            try:
                line = await self._reader.readline()
                message = json.loads(line) if line else None
            except (ValueError, RecursionError):
                continue
            if not line:
                return None
            if isinstance(message, dict) and isinstance(message.get("id"), int | str | None):
                return message

    async def close(self) -> None:
        """Nothing more is sent."""
        self._writer.close()
