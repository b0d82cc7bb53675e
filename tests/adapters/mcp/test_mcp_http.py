"""Servers over HTTP whose answers are too large, compressed, or do not come: refused in words, and soon."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import CallId, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.tools import ToolOutput
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.mcp import HttpServer, McpLimits, McpUnavailable, open_servers
from typing_extensions import override

from tests.adapters.driver.silent_context import SilentContext

LIMITS = McpLimits(start_seconds=20, call_seconds=20, stop_seconds=0.05, message_bytes=10_000)
TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
QUICK_S = 10.0  # without the bound, it is `call_seconds`


def handler(size: int, compressed: bool, silent_end: threading.Event | None) -> type[BaseHTTPRequestHandler]:
    """What answers one request; the last one, if it shall be silent, when the event has come."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in asked:
                self._answer(202, b"")
                return
            results = {
                "initialize": {
                    "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                },
                "tools/list": TOOLS,
                "tools/call": {"content": [{"type": "text", "text": "z" * size}]},
            }
            if asked["method"] not in results:
                self._answer(404, b"")
                return
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}).encode()
            self._answer(200, gzip.compress(body) if compressed else body)

        def do_GET(self) -> None:
            self._answer(405, b"")

        def do_DELETE(self) -> None:
            if silent_end is not None:
                silent_end.wait(60)
            self._answer(200, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("mcp-session-id", "s")
            if compressed:
                self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """The client has gone."""


@contextmanager
def serving(size: int, *, compressed: bool = False, bids_farewell: bool = True) -> Iterator[HttpServer]:
    """A server whose tool answers with a text of that size."""
    leave = threading.Event()
    answers = handler(size, compressed, None if bids_farewell else leave)
    with Server(("127.0.0.1", 0), answers) as server:
        serves = threading.Thread(target=server.serve_forever, args=(0.01,))
        serves.start()
        try:
            yield HttpServer(name="h", url=f"http://127.0.0.1:{server.server_port}/mcp")
        finally:
            leave.set()
            server.shutdown()
            serves.join()


async def called(server: HttpServer) -> ToolOutput:
    async with open_servers([server], LIMITS) as tools:
        call = CallId(ModelOperation(1), 1)
        start = StartTool(operation=RunOperation(1), call=call, run=1, tool="mcp__h__t", input=Json.of({}), key="k")
        return await tools.run(start, SilentContext())


def test_an_answer_has_a_bound_on_its_size() -> None:
    with serving(5_000) as server:
        assert text_of(asyncio.run(called(server)).content) == "z" * 5_000
    with serving(1_000_000) as server, pytest.raises(ToolError, match="the server h"):
        asyncio.run(called(server))


def test_a_compressed_answer_is_not_read() -> None:
    with (
        serving(1_000_000, compressed=True) as server,
        pytest.raises(McpUnavailable, match=r"the server h .*compresses its answers"),
    ):
        asyncio.run(called(server))


def test_a_server_that_is_silent_at_the_end_is_left_soon() -> None:
    with serving(10, bids_farewell=False) as server:
        began = time.monotonic()
        assert text_of(asyncio.run(called(evolve(server, headers={"x-note": "hi"}))).content) == "z" * 10
        assert time.monotonic() - began < QUICK_S
