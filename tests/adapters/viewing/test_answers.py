"""An answer from the page reaches exactly the call that was shown, and nobody but the page can send one."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import Approve, CallAnswer, Correct, Reject, RememberTool
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.viewing.live import LONGEST_ASKED, LiveRun, Looking, NotAnswered
from loopkernel_adapters.viewing.serving import LONGEST_ANSWER, LOOPBACK, ViewServer
from loopkernel_adapters.viewing.shown import editable, visible

from tests.adapters.viewing.asking_runs import INPUT, asking_run


class Answers:
    """Notes what is answered; may refuse."""

    def __init__(self) -> None:
        self.given: list[tuple[WaitingCall, CallAnswer]] = []
        self.refused: NotAnswered | None = None

    def __call__(self, call: WaitingCall, answer: CallAnswer) -> None:
        if self.refused is not None:
            raise self.refused
        self.given.append((call, answer))


@contextmanager
def served(log: list[LogRecord], answers: Answers) -> Iterator[ViewServer]:
    looking = Looking(read=lambda: log, answer=answers)
    with ViewServer(LiveRun("a run", looking)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def told(server: ViewServer, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOOPBACK, server.server_port, timeout=60)
    own = {"Origin": f"http://{LOOPBACK}:{server.server_port}", "Content-Type": "application/json"}
    sent = {name.replace("_", "-"): value for name, value in {**own, **headers}.items() if value}
    try:
        connection.request("GET" if body is None else "POST", f"/{server.token}/{path}", body=body, headers=sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


# Any: what the page is told, looked at here.
def asked(server: ViewServer) -> Any:
    return json.loads(told(server, "news?since=0")[1])["asked"]


def answer(server: ViewServer, sent: JsonValue, **headers: str) -> tuple[int, bytes]:
    return told(server, "answer", json.dumps(sent).encode(), **headers)


def test_the_question_is_shown_whole_and_its_answer_is_for_it_alone() -> None:
    answers = Answers()
    with served(asking_run(), answers) as server:
        (question,) = asked(server)
        assert (question["call"], question["tool"], question["answers"]) == (
            "1.1",
            "pay",
            ["yes", "always", "no", "edit"],
        )
        shown = question["input"]
        assert "\u202e" not in shown and "\u27e8U+202E\u27e9" in shown and '"amount": 5' in shown
        for wrong in (None, "", "0" * 32, question["asked"][:-1]):
            assert answer(server, {"asked": wrong, "answer": "yes"})[0] == 409
        for word in ("edit", "YES", None, "rerun"):
            assert answer(server, {"asked": question["asked"], "answer": word})[0] == 409
        assert answers.given == []
        assert answer(server, {"asked": question["asked"], "answer": "yes"}) == (200, b"{}")
        ((call, said),) = answers.given
        assert (call.tool, said) == ("pay", Approve(call=call.path[-1]))
        assert json.loads(call.input.text) == INPUT
        assert answer(server, {"asked": question["asked"], "answer": "no", "why": "too much"})[0] == 200
        assert answers.given[1][1] == Reject(call=call.path[-1], why="too much")


def test_always_is_for_the_tool_and_said_by_its_own_word() -> None:
    answers = Answers()
    with served(asking_run(), answers) as server:
        assert answer(server, {"asked": asked(server)[0]["asked"], "answer": "always"})[0] == 200
        ((call, said),) = answers.given
        assert said == Approve(call=call.path[-1], remember=RememberTool())


def test_another_input_runs_only_as_it_was_shown() -> None:
    answers = Answers()
    with served(asking_run(), answers) as server:
        (question,) = asked(server)
        assert json.loads(question["editable"]) == INPUT
        assert "\u202e" not in question["editable"] and "\u200b" not in question["editable"]
        text = '{"amount": 6, "to": "b\u202ecod.exe", "big": 12345678901234567890}'
        status, told_back = told(server, "edited", json.dumps({"asked": question["asked"], "text": text}).encode())
        shown = json.loads(told_back)
        assert (status, "\u202e" in shown["input"], "\u27e8U+202E\u27e9" in shown["input"]) == (200, False, True)
        edit: dict[str, JsonValue] = {"asked": question["asked"], "answer": "edit", "text": text}
        for wrong in (
            edit,
            {**edit, "shown": question["asked"]},
            {**edit, "shown": shown["shown"], "text": text.replace("6", "7")},
            {**edit, "shown": shown["shown"], "asked": "0" * 32},
            {"asked": question["asked"], "answer": "edit", "input": {"amount": 6}},
        ):
            assert answer(server, wrong)[0] == 409
        assert answers.given == []
        assert answer(server, {**edit, "shown": shown["shown"]})[0] == 200
        ((call, said),) = answers.given
        assert said == Correct(call=call.path[-1], input=Json.of(json.loads(text)))


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"', '{"a": NaN}', '{"text": "' + "x" * LONGEST_ASKED + '"}'])
def test_what_is_no_input_is_said_so(text: str) -> None:
    answers = Answers()
    with served(asking_run(), answers) as server:
        given: JsonValue = {"asked": asked(server)[0]["asked"], "text": text}
        assert told(server, "edited", json.dumps(given).encode())[0] in (409, 413)
        assert answers.given == []


@given(words=st.dictionaries(st.text(), st.text(), max_size=4))
def test_what_is_offered_to_be_edited_says_the_same_and_hides_nothing(words: dict[str, str]) -> None:
    text = editable(json.dumps(words, ensure_ascii=False, indent=2))
    assert json.loads(text) == words
    assert visible(text, len(text)) == text


def test_a_question_about_another_input_is_another_question() -> None:
    answers = Answers()
    with served(asking_run({"amount": 5}), answers) as one, served(asking_run({"amount": 6}), answers) as other:
        (first,), (second,) = asked(one), asked(other)
        assert first["asked"] != second["asked"]
        assert answer(other, {"asked": first["asked"], "answer": "yes"})[0] == 409
        assert answers.given == []


def test_what_is_too_long_to_be_shown_cannot_be_answered() -> None:
    answers = Answers()
    with served(asking_run({"text": "x" * LONGEST_ASKED}), answers) as server:
        (question,) = asked(server)
        assert question["answers"] == []
        assert answer(server, {"asked": question["asked"], "answer": "yes"})[0] == 409
        assert answers.given == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": ""}),
        (403, {"Origin": "null"}),
        (403, {"Host": "rebound.example"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (415, {"Content_Type": "text/plain"}),
        (413, {"Content_Length": str(LONGEST_ANSWER + 1)}),
        (413, {"Content_Length": "-1"}),
    ],
)
def test_nobody_but_the_page_answers(status: int, headers: dict[str, str]) -> None:
    answers = Answers()
    with served(asking_run(), answers) as server:
        given: JsonValue = {"asked": asked(server)[0]["asked"], "answer": "yes"}
        assert answer(server, given, **headers)[0] == status
        shown = server.address
        server.token = "another"
        assert told(server, f"../{shown.split('/')[-2]}/answer", json.dumps(given).encode())[0] == 404
        assert told(server, "other", json.dumps(given).encode())[0] == 404
        assert answers.given == []


def test_why_it_cannot_be_answered_is_told() -> None:
    answers = Answers()
    answers.refused = NotAnswered("the run is open elsewhere")
    with served(asking_run(), answers) as server:
        status, body = answer(server, {"asked": asked(server)[0]["asked"], "answer": "yes"})
        assert (status, body) == (409, b"the run is open elsewhere\n")
