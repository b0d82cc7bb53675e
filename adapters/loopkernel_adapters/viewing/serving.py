"""A run that goes on, shown to a browser of this machine: the page, and what is new of the run each time that it asks.

Only this machine is listened to, and only whoever knows the token is answered: it stands in the address, which is shown
in the terminal. What another site has a browser ask is refused by its Host and its Origin. Nothing can be changed here.
"""

import hmac
import json
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from loopkernel.data.json_text import JsonValue
from loopkernel.data.records import LogRecord
from loopkernel.later_typing import override

from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.page import page_of, policy_for_browser
from loopkernel_adapters.viewing.run import RunDocument

LOOPBACK = "127.0.0.1"
ASKED_EVERY_MS = 1_000
PATIENCE = 10  # seconds for a request to come whole
_NUMBER = re.compile(r"[0-9]{1,9}")


class LiveRun:
    """The document of a run, which is told anew by what its log holds now. `read` gives all of its records."""

    def __init__(self, name: str, read: Callable[[], Sequence[LogRecord]]) -> None:
        self._name, self._read = name, read
        self._document = RunDocument(name=name)
        self._lock = threading.Lock()

    def whole(self) -> dict[str, JsonValue]:
        """All of it so far."""
        with self._lock:
            self._catch_up()
            return document_of(self._name, [self._document], asked_every_ms=ASKED_EVERY_MS)

    def news(self, since: int) -> JsonValue:
        """What is new since so many steps."""
        with self._lock:
            self._catch_up()
            return self._document.news(min(since, self._document.length))

    def _catch_up(self) -> None:
        self._document.take(self._read()[self._document.length :])


class ViewServer(ThreadingHTTPServer):
    """Serves one run until it is closed."""

    daemon_threads = True

    def __init__(self, run: LiveRun, port: int = 0) -> None:
        self.run = run
        self.token = secrets.token_urlsafe(24)
        super().__init__((LOOPBACK, port), _Answers)

    @property
    def hosts(self) -> frozenset[str]:
        """As what a browser may name it."""
        return frozenset({f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"})

    @property
    def address(self) -> str:
        """Where the page is, for whoever may see it."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that has gone is no news."""


class _Answers(BaseHTTPRequestHandler):
    """One connection."""

    timeout = PATIENCE
    server_version, sys_version = "loopkernel", ""
    server: ViewServer  # what made it

    def do_GET(self) -> None:
        """The page, or what is new; of everything else, that it is not there."""
        asked = urlsplit(self.path)
        parts = asked.path.split("/")
        token, name = (parts[1], parts[2]) if len(parts) == 3 else ("", "")
        if not self._is_from_here():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this page is for a browser of this machine alone\n")
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()) or name not in ("", "news"):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here; use the address in the terminal\n")
        else:
            self._answer(name, parse_qs(asked.query).get("since", ["0"])[0])

    def _answer(self, name: str, since: str) -> None:
        try:
            if name == "":
                self._send(HTTPStatus.OK, "text/html", page_of(self.server.run.whole(), live=True).encode())
            elif _NUMBER.fullmatch(since):
                news = json.dumps(self.server.run.news(int(since)), separators=(",", ":")).encode()
                self._send(HTTPStatus.OK, "application/json", news)
            else:
                self._send(HTTPStatus.BAD_REQUEST, "text/plain", b"since is a number of steps\n")
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # which the browser is told, since nobody reads the terminal while it goes on
            told = f"the run cannot be read now: {type(error).__name__}: {error}\n".encode("utf-8", "replace")
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", told)

    def _is_from_here(self) -> bool:
        """Whether the browser was led here by this page or by the user, not by the page of somebody else."""
        hosts = self.headers.get_all("Host", [])
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site")
        return (
            len(hosts) == 1
            and hosts[0] in self.server.hosts
            and (origin is None or origin in {f"http://{host}" for host in self.server.hosts})
            and (site is None or site in ("same-origin", "none"))
        )

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{policy_for_browser(live=True)}; frame-ancestors 'none'",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal shows the address, and the token would be in each line."""
