"""A run that goes on, shown to a browser of this machine: the page, and what is new of the run each time that it asks.

Only this machine is listened to, and only whoever knows the token is answered: it stands in the address, which is shown
in the terminal. What another site has a browser ask is refused by its Host and its Origin. Nothing can be changed here
but by an answer to exactly a question that waits, which the page alone can send.
"""

import hmac
import json
import re
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import JsonValue, parse_json
from loopkernel.later_typing import override

from loopkernel_adapters.sessions.asked_calls import NoAnswer
from loopkernel_adapters.viewing.live import LiveRun, NotAnswered
from loopkernel_adapters.viewing.page import page_of, policy_for_browser

LOOPBACK = "127.0.0.1"
PATIENCE = 10  # seconds for a request to come whole
LONGEST_ANSWER = 100_000  # bytes
MOST_DOCUMENTS = 1_000
_NUMBERS = re.compile(rf"[0-9]{{1,9}}(,[0-9]{{1,9}}){{0,{MOST_DOCUMENTS}}}")
_LENGTH = re.compile(r"[0-9]{1,7}")


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
        """A browser that has gone is not told of."""


class _Answers(BaseHTTPRequestHandler):
    """One connection."""

    timeout = PATIENCE
    server_version, sys_version = "loopkernel", ""
    server: ViewServer  # what made it

    def do_GET(self) -> None:
        """The page, or what is new; of everything else, that it is not there."""
        name = self._asked_for()
        if not self._is_from_here():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this page is for a browser of this machine alone\n")
        elif name not in ("", "news"):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here; use the address in the terminal\n")
        else:
            self._answer(name, parse_qs(urlsplit(self.path).query).get("since", ["0"])[0])

    def do_POST(self) -> None:
        """An answer to what waits for a person, or another input to be shown, from the page itself."""
        length = self.headers.get("Content-Length", "")
        if not self._is_from_here() or self.headers.get("Origin") is None:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"answers come from the page itself alone\n")
        elif self._asked_for() not in ("answer", "edited"):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here; use the address in the terminal\n")
        elif self.headers.get("Content-Type") != "application/json":
            self._send(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "text/plain", b"an answer is JSON\n")
        elif not _LENGTH.fullmatch(length) or int(length) > LONGEST_ANSWER:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"this is too long for an answer\n")
        else:
            self._take(self.rfile.read(int(length)))

    def _asked_for(self) -> str | None:
        """What is asked for by whoever knows the token; None: by somebody else, or nothing that could be here."""
        parts = urlsplit(self.path).path.split("/")
        if len(parts) != 3 or not hmac.compare_digest(parts[1].encode(), self.server.token.encode()):
            return None
        return parts[2]

    def _take(self, body: bytes) -> None:
        try:
            given = parse_json(body.decode())
            if not isinstance(given, dict):
                raise NoAnswer("an answer is an object")
            told: JsonValue = {}
            if self._asked_for() == "edited":
                told = self.server.run.edited(given)
            else:
                self.server.run.answer(given)
        except (NotAnswered, NoAnswer, CodecError, UnicodeDecodeError) as error:
            self._send(HTTPStatus.CONFLICT, "text/plain", f"{error}\n".encode("utf-8", "replace"))
        except Exception as error:
            self._tell(error)
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps(told).encode())

    def _answer(self, name: str, since: str) -> None:
        try:
            if name == "":
                self._send(HTTPStatus.OK, "text/html", page_of(self.server.run.whole(), live=True).encode())
            elif _NUMBERS.fullmatch(since):
                told = self.server.run.news([*map(int, since.split(","))])
                self._send(HTTPStatus.OK, "application/json", json.dumps(told, separators=(",", ":")).encode())
            else:
                self._send(HTTPStatus.BAD_REQUEST, "text/plain", b"since is numbers of steps\n")
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """The browser is told, since nobody reads the terminal while it goes on."""
        if isinstance(error, ConnectionError | TimeoutError):
            raise error
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
