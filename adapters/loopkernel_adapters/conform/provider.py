"""A provider on the loopback interface, which answers the conversation of an agent from a script."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from attrs import evolve
from loopkernel.data.json_text import JsonValue
from loopkernel.later_typing import override

from loopkernel_adapters.conform.asked import Asked, mapping
from loopkernel_adapters.conform.record import Exchange
from loopkernel_adapters.conform.script import (
    Answer,
    Called,
    Cut,
    Problem,
    Reply,
    Said,
    command_of,
    cut_arguments,
    said,
)
from loopkernel_adapters.conform.shell import Finish, ShellHint, ShellTool, shell_in
from loopkernel_adapters.conform.wires.chat import Chat
from loopkernel_adapters.conform.wires.messages import Messages
from loopkernel_adapters.conform.wires.responses import Responses
from loopkernel_adapters.conform.wires.wire import Wire, WireCall, reply_of

WIRES: tuple[Wire, ...] = (Messages(), Chat(), Responses())
SUMMARY = "<summary>say-1: it was asked for, and is under way</summary>"
_SUMMARY_WORDS = ("summary of", "summarize", "summarise", "compact", "condense")
_LAST = said("done")
_MOST_BYTES = 50_000_000
_MOST_EXCHANGES = 60  # more is without end
_BEFORE_RESET_S = 0.3  # what was sent has to reach the client before the reset, which would overtake it


class Provider:
    """Answers requests of the conversation in order, each other one apart, and keeps what was asked."""

    def __init__(self, answers: tuple[Answer, ...], effects: str, hint: ShellHint, finish: Finish | None) -> None:
        self._left = list(answers)
        self._effects = effects
        self._hint = hint
        self._finish = finish
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._number = 0
        self.life = 0
        self.shell: ShellTool | None = None
        self.offered: tuple[str, ...] = ()  # the tools of the last request that had some, and no shell
        self.exchanges: list[Exchange] = []
        self.asides = 0
        self.summaries: list[int] = []
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, wire: Wire, body: dict[str, JsonValue], size: int, handler: "_Handler") -> None:
        """Answer one request."""
        asked = evolve(wire.read(body), size=size)
        arrived = time.monotonic()
        with self._lock:
            self._number += 1
            number, answer, own = self._number, self._answer_for(asked), False
            if answer is None:
                own, answer = True, self._left.pop(0) if self._left else _LAST
                if len(self.exchanges) > _MOST_EXCHANGES:
                    answer = Problem(status=400, kind="invalid_request_error", message="the scenario is over")
                self.exchanges.append(
                    Exchange(
                        number=len(self.exchanges) + 1,
                        life=self.life,
                        at_s=arrived,
                        answered_s=time.monotonic(),
                        asked=asked,
                        answer=answer,
                    )
                )
        if isinstance(answer, Problem):
            handler.put(wire.status(answer), wire.problem(answer), answer.retry_after_s)
            return
        reply = reply_of(answer, number, asked.model, tuple(self._parts(answer)))
        if not asked.streams:
            handler.put_whole(wire.whole(reply), answer.cut, self._over)
        else:
            handler.put_stream(wire.stream(reply), answer.cut, self._over)
        if own:
            with self._lock:  # the answer of another request may stand behind it by now
                place = next(at for at, each in enumerate(self.exchanges) if each.at_s == arrived)
                self.exchanges[place] = evolve(self.exchanges[place], answered_s=time.monotonic())

    def _answer_for(self, asked: Asked) -> Answer | None:
        """The answer of a request beside the conversation; None for one of the conversation itself."""
        shell = shell_in(asked.tools, self._hint)
        said_last = next(reversed(list(asked.words("user"))), "").lower()
        if any(words in said_last for words in _SUMMARY_WORDS) or (shell is None and "summar" in said_last):
            self.summaries.append(len(self.exchanges))
            return said(SUMMARY)
        if shell is None:
            self.asides += 1
            if asked.tools:
                self.offered = tuple(tool.name for tool in asked.tools)
            return said("aside")
        self.shell = shell
        return None

    def _parts(self, reply: Reply) -> Iterator[str | WireCall]:
        if reply == _LAST and self._finish is not None and self.shell is not None:
            name, arguments = self._finish.called_in(self.shell)
            yield WireCall(id=f"call_finish_{self._number}", name=name, arguments=arguments, whole=True)
            return
        for part in reply.parts:
            match part:
                case Said(text):
                    yield text
                case Called():
                    yield self._call(part)

    def _call(self, call: Called) -> WireCall:
        shell = self.shell
        if shell is None:  # a script that begins before a shell was offered would be a mistake here
            raise LookupError("no shell tool is known yet")
        whole = call.raw if call.raw is not None else shell.arguments(command_of(call, self._effects))
        return WireCall(
            id=call.call_id,
            name=shell.name if call.tool is None else call.tool,
            arguments=cut_arguments(call, whole),
            whole=not call.half,
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # connections are reset on purpose here, by either side


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass

    def put(self, status: int, body: JsonValue, retry_after_s: int | None = None) -> None:
        """A whole answer."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if retry_after_s is not None:
            self.send_header("retry-after", str(retry_after_s))
        self.end_headers()
        self.wfile.write(data)

    def put_whole(self, body: JsonValue, cut: Cut | None, over: threading.Event) -> None:
        """A reply as one document, of which half comes where it is cut."""
        if cut is None:
            self.put(200, body)
            return
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self._break_off(cut, over)

    def put_stream(self, events: Iterator[str], cut: Cut | None, over: threading.Event) -> None:
        """A reply event by event."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if cut is None or cut is Cut.CLEAN:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._break_off(cut, over)

    def _break_off(self, cut: Cut, over: threading.Event) -> None:
        self.wfile.flush()
        self.close_connection = True
        if cut is Cut.SILENCE:
            over.wait()
        if cut is Cut.RESET:
            threading.Event().wait(_BEFORE_RESET_S)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            raise ConnectionResetError


def _handler_of(provider: Provider) -> Callable[..., _Handler]:
    """The handler of a server: a class, as the server wants it."""

    class Handler(_Handler):
        def do_POST(self) -> None:
            size = min(int(self.headers.get("content-length", "0")), _MOST_BYTES)
            data = self.rfile.read(size)
            path = self.path.partition("?")[0]
            wire = next((each for each in WIRES if path.endswith(each.path)), None)
            try:
                body = mapping(json.loads(data or b"{}"))
            except ValueError:
                body = {}
            if wire is None:
                self.put(*_beside(path))
            else:
                provider.answer(wire, body, len(data), self)

        def do_GET(self) -> None:
            self.put(*_beside(self.path.partition("?")[0]))

    return Handler


def _beside(path: str) -> tuple[int, JsonValue]:
    """The answer to a request that is not for a model."""
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": 10}
    if path.endswith("/models"):
        return 200, {"object": "list", "data": [], "has_more": False}
    return 404, {"error": {"message": "not here", "type": "not_found_error", "code": None}}
