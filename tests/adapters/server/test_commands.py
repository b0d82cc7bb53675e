"""The commands as processes: what `serve` leaves waiting is answered in the page of `view --serve`; `mcp` is started.

Slow: each test starts servers of its own.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.adapters.server.server_world import Answer
from tests.adapters.server.test_reconnects import start

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Whoever starts the tests in the background may have SIGINT ignored, which a process inherits."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


WRITING = {"text": "I write it.", "calls": [{"tool": "write_file", "input": {"path": "a.txt", "text": "hi"}}]}
COMMAND = [sys.executable, "-m", "loopkernel_adapters"]


def leave_waiting(folder: Path) -> None:
    """A run that waits for a person, and whose server has ended."""

    async def play() -> None:
        process, client = start(folder)
        try:
            await client.post("/runs", {"run": "r", "text": "write"}, 201)
            await client.until("r", "Confirming")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0

    asyncio.run(play())


def test_what_waits_is_answered_in_the_page_and_goes_on_there(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps([WRITING, {"text": "Done."}]))
    leave_waiting(tmp_path)
    with subprocess.Popen(
        [*COMMAND, "view", "r", "--serve"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        (address,) = re.findall(r"http://\S+", server.stdout.readline())
        origin = address.rpartition("/")[0].rpartition("/")[0]

        def news() -> Answer:
            with urlopen(f"{address}news?since=0", timeout=60) as answer:
                return json.load(answer)

        try:
            (question,) = news()["asked"]
            assert (question["tool"], question["answers"]) == ("write_file", ["yes", "always", "no", "edit"])
            assert not (tmp_path / "a.txt").exists()
            body = json.dumps({"asked": question["asked"], "answer": "yes"}).encode()
            headers = {"Content-Type": "application/json", "Origin": origin}
            with urlopen(Request(f"{address}answer", body, headers), timeout=60) as answer:
                assert answer.status == 200
            while not (tmp_path / "a.txt").exists():  # until its tool has run
                assert server.poll() is None
                news()
            assert (tmp_path / "a.txt").read_text() == "hi"
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0


def test_a_client_starts_the_command_and_gives_it_a_task(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps([{"text": "Good morning"}]))
    arguments = [*COMMAND[1:], "mcp", "--model", "scripted:script.json", "--tools", "files"]
    parameters = StdioServerParameters(command=COMMAND[0], args=arguments, cwd=str(tmp_path))

    async def play() -> None:
        async with Client(stdio_client(parameters)) as client:
            answer = await client.call_tool("run_task", {"task": "Hello"})
            assert answer.structured_content is not None
            assert answer.structured_content["text"] == "Good morning"

    asyncio.run(play())
