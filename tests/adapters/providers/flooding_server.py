"""A server on 127.0.0.1 that says the beginning of an answer, and then the same piece again and again."""

import contextlib
import itertools
import socket
import threading
from types import TracebackType
from typing import Self

MOST_SENT = 160_000_000  # bytes; a client that has taken so many takes everything


class FloodingServer:
    """Answers one request: `head` as it is, then `piece` without end. `sent` counts the bytes behind the head.

    It stops when the client has gone, or has taken all that is ever sent.
    """

    def __init__(self, head: bytes, piece: bytes) -> None:
        self._head = head
        self._piece = piece
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="flooding-server", daemon=True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(self._head)
            for _ in itertools.repeat(None):
                connection.sendall(self._piece)
                self.sent += len(self._piece)
                if self.sent >= MOST_SENT:
                    return


def head(status: int, *headers: str) -> bytes:
    """The head of an answer whose body goes on as long as the connection."""
    return "\r\n".join([f"HTTP/1.1 {status} Said", "connection: close", *headers, "", ""]).encode()
