"""Many clients at one server: what 500 that follow 200 sessions hear, while others that never read hold nothing up.

    python -m bench.clients [--sessions 200] [--clients 500] [--stuck 50] [--turns 5]

The server is a process of its own. Each session says one thing after the other to a scripted model; each client follows
one of them to its end. Then it is counted whether each has heard all of it, once and in order.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOOPBACK = "127.0.0.1"
TOKEN = "a-token-of-this-bench"
PIECES = 50  # of each reply
AT_ONCE = 50  # requests under way


class Server:
    """The server, as a process."""

    def __init__(self, folder: Path, turns: int) -> None:
        reply = {"text": " ".join(map(str, range(PIECES)))}
        (folder / "script.json").write_text(json.dumps([reply] * turns))
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "loopkernel_adapters",
                "serve",
                "--model",
                "scripted:script.json",
                "--tools",
                "files",
            ],
            cwd=folder,
            env={**os.environ, "LOOPKERNEL_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        (self.port,) = map(int, re.findall(r":(\d+);", self.process.stdout.readline()))

    async def opened(self, method: str, path: str, body: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which that was asked."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {LOOPBACK}:{self.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )
        writer.write(head.encode())
        return reader, writer

    async def asked(self, method: str, path: str, body: str = "") -> bytes:
        """The whole answer."""
        reader, writer = await self.opened(method, path, body)
        answer = await reader.read()
        writer.close()
        assert b" 20" in answer[:15], answer[:300]
        return answer


async def followed(server: Server, run: str, turns: int) -> list[str]:
    """The ids of all events of the run, up to the end of its last turn."""
    reader, writer = await server.opened("GET", f"/runs/{run}/events")
    ids: list[str] = []
    while turns:
        line = await reader.readline()
        if line.startswith(b"id: "):
            ids.append(line[4:].decode().strip())
        turns -= b'"type":"turn-ended"' in line
    writer.transport.abort()
    return ids


async def measured(server: Server, sessions: int, clients: int, stuck: int, turns: int) -> None:
    """Have all of it happen, and tell the figures."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def say(run: str) -> float:
        async with at_once:
            began = time.perf_counter()
            await server.asked("POST", f"/runs/{run}/say", json.dumps({"text": "go on"}))
            return time.perf_counter() - began

    runs = [f"run-{number}" for number in range(sessions)]
    for run in runs:
        await server.asked("POST", "/runs", json.dumps({"run": run}))
    idle = [await server.opened("GET", f"/runs/{runs[number % sessions]}/events") for number in range(stuck)]
    following = [asyncio.create_task(followed(server, runs[number % sessions], turns)) for number in range(clients)]
    began = time.perf_counter()
    took: list[float] = []
    for _ in range(turns):
        took += await asyncio.gather(*map(say, runs))
    heard = await asyncio.gather(*following)
    seconds = time.perf_counter() - began
    wrong = sum(len(ids) != len(set(ids)) or ids != heard[number % sessions] for number, ids in enumerate(heard))
    events = sum(map(len, heard))
    took.sort()
    print(f"{clients} clients on {sessions} sessions, {stuck} more that never read, {turns} turns each")
    print(f"{events} events heard in {seconds:.1f} s, {events / seconds:.0f} a second; wrong streams: {wrong}")
    median, late = took[len(took) // 2] * 1000, took[-len(took) // 100] * 1000
    print(f"to say something: median {median:.0f} ms, 99th percentile {late:.0f} ms")
    for _, writer in idle:
        writer.transport.abort()


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("sessions", 200), ("clients", 500), ("stuck", 50), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as folder:
        server = Server(Path(folder), given.turns * given.sessions)
        try:
            asyncio.run(measured(server, given.sessions, given.clients, given.stuck, given.turns))
        finally:
            server.process.kill()
            server.process.wait()
            assert server.process.stdout is not None
            server.process.stdout.close()


if __name__ == "__main__":
    main()
