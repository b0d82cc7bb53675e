"""A run that goes on is served to this machine's browser alone, and only to whoever has the address."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from loopkernel.replaying import LogRecord
from loopkernel_adapters.viewing.live import LiveRun, Looking
from loopkernel_adapters.viewing.serving import LOOPBACK, ViewServer

from tests.adapters.viewing.made_runs import long_run


@contextmanager
def served(log: list[LogRecord]) -> Iterator[ViewServer]:
    """A server of what the log holds at each time."""
    with ViewServer(LiveRun("a run", Looking(read=lambda: log))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: ViewServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(LOOPBACK, server.server_port, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def test_the_page_and_the_news_come_to_whoever_has_the_address() -> None:
    log = long_run(60)
    whole = log.copy()
    del log[40:]
    with served(log) as server:
        status, page, headers = ask(server, f"/{server.token}/")
        assert status == 200
        assert page.startswith(b"<!doctype html>")
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        log.extend(whole[40:50])
        _, news, _ = ask(server, f"/{server.token}/news?since=40")
        assert [step["n"] for step in json.loads(news)["runs"][0]["steps"]] == list(range(41, 51))
        _, none, _ = ask(server, f"/{server.token}/news?since=50")
        assert json.loads(none)["runs"][0]["steps"] == []


@pytest.mark.parametrize(
    "path",
    ["/", "/news", "/wrong/", "/wrong/news?since=0", "/{token}x/", "/{token}", "/{token}/other", "/{token}/news/"],
)
def test_no_other_address_leads_anywhere(path: str) -> None:
    with served(long_run(5)) as server:
        status, body, _ = ask(server, path.format(token=server.token))
        assert status == 404
        assert server.token.encode() not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.invalid"},
        {"Host": "127.0.0.1"},
        {"Host": "[::1]:80"},
        {"Origin": "http://example.invalid"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_what_another_site_has_a_browser_ask_is_refused(headers: dict[str, str]) -> None:
    with served(long_run(5)) as server:
        assert ask(server, f"/{server.token}/", headers=headers)[0] == 403
        assert ask(server, f"/{server.token}/news?since=0", headers=headers)[0] == 403
        assert ask(server, f"/{server.token}/")[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed_there(method: str) -> None:
    with served(long_run(5)) as server:
        assert ask(server, f"/{server.token}/", method)[0] == 501


@pytest.mark.parametrize("since", ["-1", "x", "", "9" * 40, "1.5"])
def test_a_number_that_is_none_is_refused_or_taken_as_the_beginning(since: str) -> None:
    with served(long_run(5)) as server:
        status, body, _ = ask(server, f"/{server.token}/news?since={since}")
        assert status == (200 if since == "" else 400), body


def test_a_log_that_cannot_be_read_now_is_told_and_read_again_later() -> None:
    log = long_run(5)
    troubles = [OSError("it is locked")]

    def read() -> list[LogRecord]:
        if troubles:
            raise troubles.pop()
        return log

    with ViewServer(LiveRun("a run", Looking(read=read))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert ask(server, f"/{server.token}/")[0] == 503
        assert ask(server, f"/{server.token}/")[0] == 200
        server.shutdown()
        thread.join()


def test_only_this_machine_is_listened_to() -> None:
    with served(long_run(5)) as server:
        assert server.socket.getsockname()[0] == LOOPBACK
