"""Who is let in: whoever has the token, and names this server as itself. It stands before every route.

A page of another site can have a browser send requests here, and a name of another site can be made to lead here. The
first are known by their `Origin`, the second by their `Host`; neither has the token, which stands in a header alone.
"""

import hmac
from collections.abc import Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = frozenset({"/openapi.json"})  # what it describes is public
ALLOWED_METHODS = "GET, POST, DELETE"
ALLOWED_HEADERS = "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version"
SHOWN_HEADERS = "Mcp-Session-Id"
PREFLIGHT_SECONDS = "600"


class Guard:
    """An app behind a token. `hosts` are the names that it is called by, `origins` those of pages that may use it."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Callable[[], Collection[str]], origins: Collection[str]
    ) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        origin = headers.get("origin")
        if refused is None and scope["method"] == "OPTIONS" and origin is not None:
            refused = _preflight()
        if origin is not None and origin in self._origins:
            send = _shared_with(origin, send)
        await (self._app if refused is None else refused)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        known = self._hosts()
        if len(hosts) != 1 or hosts[0].lower() not in known:
            return refusal(421, "host", "this server goes by another name; use the address that it has shown")
        own = {f"http://{host}" for host in known} | {f"https://{host}" for host in known}
        if len(origins) > 1 or any(origin not in self._origins and origin not in own for origin in origins):
            return refusal(403, "origin", "pages of this origin may not use this server; allow it with --origin")
        if scope["method"] == "OPTIONS" or scope["path"] in OPEN or self._has_token(headers):
            return None
        answer = refusal(401, "token", "send the token that the server has shown: Authorization: Bearer TOKEN")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _has_token(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        given = headers.getlist("authorization")
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), f"Bearer {self._token}".encode())


def refusal(status: int, error: str, message: str) -> JSONResponse:
    """An answer that says what is wrong, and what to do."""
    return JSONResponse({"error": error, "message": message}, status_code=status)


def _preflight() -> Response:
    """What a browser asks before a page of another origin may send more than a form could."""
    headers = {
        "Access-Control-Allow-Methods": ALLOWED_METHODS,
        "Access-Control-Allow-Headers": ALLOWED_HEADERS,
        "Access-Control-Max-Age": PREFLIGHT_SECONDS,
    }
    return Response(status_code=204, headers=headers)


def _shared_with(origin: str, send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = SHOWN_HEADERS
            headers.add_vary_header("Origin")
        await send(message)

    return sent
