"""A service on 127.0.0.1 that speaks the Messages API and answers the requests of a loop from a script."""

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from attrs import frozen
from loopkernel.later_typing import override

from tests.differential.claude.scripts import Answer, Called, Part, Problem, Reply, Said, reply

JsonObject = dict[str, object]
SUMMARY = "<summary>what was said before</summary>"
_SUMMARY_WORDS = ("Your task is to create a detailed summary", "You write summaries of conversations")
_LAST = reply(Said("re: last"))


@frozen
class Asked:
    """A request of the loop itself, with the answer that it was given."""

    body: JsonObject
    answer: Answer


class Service:
    """Gives the answers in order. A request for a summary is given one, and counted; else nothing is found."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._left = list(answers)
        self._lock = threading.Lock()
        self._messages = 0
        self.asked: list[Asked] = []
        self.summaries: list[int] = []  # how many requests there had been before each
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
                if self.path.split("?")[0] != "/v1/messages":
                    _problem(self, Problem(404, "not_found_error"))
                    return
                service.answer(self, given)

            @override
            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, given: JsonObject) -> None:
        """Answer one request."""
        with self._lock:
            self._messages += 1
            number = self._messages
            answer: Answer
            if any(words in json.dumps(given) for words in _SUMMARY_WORDS):
                self.summaries.append(len(self.asked))
                answer = reply(Said(SUMMARY))
            elif not given.get("tools"):
                answer = reply(Said("aside"))  # a title, or another thing beside the conversation
            else:
                answer = self._left.pop(0) if self._left else _LAST
                self.asked.append(Asked(given, answer))
        if isinstance(answer, Problem):
            _problem(handler, answer)
        elif given.get("stream"):
            _stream(handler, answer, number, given)
        else:
            _whole(handler, answer, number, given)


class _Server(ThreadingHTTPServer):
    @override
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # connections are reset on purpose here, by either side


def _problem(handler: BaseHTTPRequestHandler, problem: Problem) -> None:
    _body(handler, problem.status, {"type": "error", "error": _error(problem.kind, problem.message)}, problem)


def _error(kind: str, message: str) -> JsonObject:
    return {"type": kind, "message": message}


def _body(handler: BaseHTTPRequestHandler, status: int, body: object, problem: Problem | None = None) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    if problem is not None and problem.retry_after is not None:
        handler.send_header("retry-after", str(problem.retry_after))
    handler.end_headers()
    handler.wfile.write(data)


def _message(number: int, given: JsonObject) -> JsonObject:
    return {
        "id": f"msg_{number:06}",  # one that two replies share is taken for one reply
        "type": "message",
        "role": "assistant",
        "model": given.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }


def _whole(handler: BaseHTTPRequestHandler, answer: Reply, number: int, given: JsonObject) -> None:
    """The reply without a stream: its open blocks are left out."""
    content = [_block(part) for part in answer.parts if not part.open]
    _body(handler, 200, {**_message(number, given), "content": content, "stop_reason": answer.stop})


def _block(part: Part) -> JsonObject:
    if isinstance(part, Called):
        return {"type": "tool_use", "id": part.id, "name": part.tool, "input": json.loads(part.written)}
    return {"type": "text", "text": part.text}


def _stream(handler: BaseHTTPRequestHandler, answer: Reply, number: int, given: JsonObject) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    try:
        _events(handler, answer, {"type": "message_start", "message": _message(number, given)})
    except OSError:
        handler.close_connection = True


def _events(handler: BaseHTTPRequestHandler, answer: Reply, start: JsonObject) -> None:
    def send(event: JsonObject) -> None:
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        handler.wfile.flush()

    send(start)
    for place, part in enumerate(answer.parts):
        at: JsonObject = {"index": place}
        if isinstance(part, Called):
            begun: JsonObject = {"type": "tool_use", "id": part.id, "name": part.tool, "input": {}}
            grown: JsonObject = {"type": "input_json_delta", "partial_json": part.written}
        else:
            begun, grown = {"type": "text", "text": ""}, {"type": "text_delta", "text": part.text}
        send({"type": "content_block_start", **at, "content_block": begun})
        send({"type": "content_block_delta", **at, "delta": grown})
        if not part.open:
            send({"type": "content_block_stop", **at})
    if answer.ends in ("reset", "closed"):
        # What was sent reaches the client, and is read, before the connection is lost, which would overtake it.
        threading.Event().wait(1)
    if answer.ends == "reset":
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()
        raise ConnectionResetError
    if answer.ends == "closed":
        handler.close_connection = True  # in the middle of the body
        return
    if answer.ends == "error":
        send({"type": "error", "error": _error("overloaded_error", "planted")})
    else:
        stopped: JsonObject = {"stop_reason": answer.stop, "stop_sequence": None}
        send({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 5}})
        send({"type": "message_stop"})
    handler.wfile.write(b"0\r\n\r\n")
