"""Each operation over a real connection: what is said, answered, cancelled and forked, and what is refused in words."""

import asyncio
import json

import pytest
from loopkernel.data.json_text import JsonValue
from loopkernel_adapters.providers.scripted import text_reply
from loopkernel_adapters.server.app import app_of
from loopkernel_adapters.server.operations import MOST_BYTES, OPERATIONS
from loopkernel_adapters.tools.input_schema import InputSchema
from starlette.routing import Route

from tests.adapters.server.server_world import (
    ALLOWED_ORIGIN,
    TOKEN,
    Talker,
    Till,
    agent_of,
    events_in,
    pay,
    serving,
    words,
)

DONE = text_reply("Done.")


def described(name: str, answer: JsonValue) -> None:
    """The answer is as the description says."""
    schema = next(each.answer for each in OPERATIONS if each.name == name)
    assert isinstance(schema, dict)
    assert list(InputSchema(schema).faults(answer)) == []


def test_a_run_is_begun_said_to_and_told() -> None:
    async def play() -> None:
        agent = agent_of([words("Good ", "morning"), DONE])
        async with serving(agent) as client:
            begun = await client.post("/runs", {"run": "a", "text": "Hello", "key": "one"}, 201)
            assert begun == {"run": "a"}
            status = await client.until("a", "Idle")
            described("status", status)
            assert (status["text"], status["reason"]) == ("Good morning", "model_stop")
            async with client.following("a", status["last_event"]) as events:
                fate = await client.post("/runs/a/say", {"text": "And now?"})
                described("say", fate)
                heard = await events.until("turn-ended")
            ids = [told for told, _ in events_in(await agent.runs.read("a"))]
            assert [each.id for each in heard] == ids[ids.index(status["last_event"]) + 1 :]
            listed = await client.get("/runs")
            described("list_runs", listed)
            assert [each["run"] for each in listed["runs"]] == ["a"]
            again = await client.post("/runs/a/say", {"text": "Hello", "key": "one"}, 409)
            assert again["error"] == "duplicate"
            assert (await client.post("/runs", {"run": "a", "text": "Hello"}, 409))["error"] == "already-there"

    asyncio.run(play())


def test_an_answer_lets_exactly_the_call_run_that_was_shown() -> None:
    till = Till()

    async def play() -> None:
        async with serving(agent_of([pay(5), pay(7), DONE], tools=[till.tool])) as client:
            await client.post("/runs", {"run": "a", "text": "Pay"}, 201)
            first = (await client.until("a", "Confirming"))["waiting"][0]
            assert (first["tool"], first["input"], first["call"]) == ("pay", {"amount": 5}, "1.1")
            for wrong in ("", "0" * 32, first["asked"].upper() + "x"):
                refused = await client.post("/runs/a/answer", {"asked": wrong, "answer": "yes"}, 409)
                assert refused["error"] == "changed"
            for answer in ("YES", "sure", "rerun", "say"):
                await client.post("/runs/a/answer", {"asked": first["asked"], "answer": answer}, 400)
            await client.post("/runs/a/answer", {"asked": first["asked"], "answer": "yes", "why": "?"}, 400)
            assert till.paid == []
            edit = {"asked": first["asked"], "answer": "edit", "input": {"amount": 1}}
            await client.post("/runs/a/answer", edit)
            second = (await client.until("a", "Confirming"))["waiting"][0]
            assert till.paid == [{"amount": 1}]
            await client.post("/runs/a/answer", edit, 409)  # the question that it answered waits no more
            await client.post("/runs/a/answer", {"asked": second["asked"], "answer": "no", "why": "too much"})
            await client.until("a", "Idle")
            assert till.paid == [{"amount": 1}]

    asyncio.run(play())


def test_a_run_is_steered_cancelled_edited_and_forked() -> None:
    till = Till()

    async def play() -> None:
        till.held = asyncio.Event()
        agent = agent_of([pay(), words("never"), DONE, DONE, DONE], tools=[till.tool])
        async with serving(agent) as client:
            await client.post("/runs", {"run": "a", "text": "Pay"}, 201)
            asked = (await client.until("a", "Confirming"))["waiting"][0]["asked"]
            await client.post("/runs/a/answer", {"asked": asked, "answer": "always"})
            await client.until("a", "Executing")
            assert (await client.post("/runs/a/steer", {"text": "Quick"}))["fate"] == "waiting-as-steer"
            assert (await client.post("/runs/a/enqueue", {"text": "Then"}))["fate"] == "queued"
            await client.post("/runs/a/cancel", {"call": "9.9"})
            await client.post("/runs/a/cancel", {"call": "all"}, 400)
            await client.post("/runs/a/cancel")
            status = await client.get("/runs/a")
            assert status["state"] in ("Cancelled", "Idle")
            log = await agent.runs.read("a")
            fork = await client.post("/runs/a/fork", {"at": 4}, 201)
            assert (await agent.runs.read(fork["run"]))[:4] == log[:4]
            await client.post("/runs/a/fork", {"at": 10_000}, 409)
            await client.post(f"/runs/{fork['run']}/edit", {"message": 1, "text": "Say it"})
            assert (await client.until(fork["run"], "Idle"))["reason"] in ("model_stop", "error")
            await client.post(f"/runs/{fork['run']}/edit", {"message": 900, "text": "None"}, 409)

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/runs/none", "/runs/none/events", "/nothing", "/runs/a%2Fb"])
def test_what_is_not_there_is_said_so(path: str) -> None:
    async def play() -> None:
        async with serving(agent_of([])) as client:
            status, _, body = await client.ask("GET", path)
            assert (status, set(json.loads(body))) == (404, {"error", "message"})

    asyncio.run(play())


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"Authorization": ""}),
        (401, {"Authorization": f"Bearer {TOKEN}x"}),
        (401, {"Authorization": TOKEN}),
        (421, {"Host": "rebound.example"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (415, {"Content-Type": "text/plain"}),
    ],
)
def test_nobody_else_is_let_in(status: int, headers: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(agent_of([DONE])) as client:
            given, told, body = await client.ask("POST", "/runs", {"text": "Hello"}, headers)
            assert given == status
            assert TOKEN.encode() not in body
            assert "access-control-allow-origin" not in told
            assert (await client.get("/runs"))["total"] == 0

    asyncio.run(play())


def test_pages_of_an_origin_that_is_allowed_are_let_in() -> None:
    async def play() -> None:
        async with serving(agent_of([DONE])) as client:
            origin = {"Origin": ALLOWED_ORIGIN, "Authorization": ""}
            status, told, _ = await client.ask("OPTIONS", "/runs", None, origin)
            assert (status, told["access-control-allow-origin"]) == (204, ALLOWED_ORIGIN)
            status, told, _ = await client.ask("GET", "/runs", None, {"Origin": ALLOWED_ORIGIN})
            assert (status, told["access-control-allow-origin"]) == (200, ALLOWED_ORIGIN)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"{"),
        (400, b"[]"),
        (400, b"\xff"),
        (400, b'{"text": ""}'),
        (400, b'{"text": "x", "more": 1}'),
        (400, b'{"text": "x", "text": "y"}'),
        (400, b'{"run": "../etc", "text": "x"}'),
        (413, b" " * (MOST_BYTES + 1)),
    ],
)
def test_a_body_that_is_not_as_described_is_refused(status: int, body: bytes) -> None:
    async def play() -> None:
        async with serving(agent_of([DONE])) as client:
            given, _, answer = await client.ask("POST", "/runs", body)
            assert (given, set(json.loads(answer))) == (status, {"error", "message"})

    asyncio.run(play())


def test_the_description_is_that_of_the_routes() -> None:
    async def play() -> None:
        async with serving(agent_of([])) as client:
            document = await client.get("/openapi.json")
        app = app_of(agent_of([]), token=None, hosts=frozenset)
        found = [route for route in app.routes if isinstance(route, Route)]
        routes = {(route.path, method) for route in found for method in route.methods or ()}
        told = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
        assert told == {(path, method) for path, method in routes if method != "HEAD"}
        for methods in document["paths"].values():
            for operation in methods.values():
                assert operation["responses"].keys() >= {"400", "401", "404", "409"}

    asyncio.run(play())


def test_a_run_that_rests_makes_room_for_another_and_comes_back() -> None:
    async def play() -> None:
        async with serving(agent_of(Talker(3)), most_open=1) as client:
            for run in ("a", "b", "a", "b"):
                if run in [each["run"] for each in (await client.get("/runs"))["runs"]]:
                    await client.post(f"/runs/{run}/say", {"text": "again"})
                else:
                    await client.post("/runs", {"run": run, "text": "Hello"}, 201)
                await client.until(run, "Idle")
            async with client.following("a") as events:  # which is closed by now
                kinds = [(await events.next()).data["event"]["type"] for _ in range(8)]
            assert kinds[0] == "run-started"

    asyncio.run(play())


def test_where_none_rests_the_server_is_full() -> None:
    till = Till()

    async def play() -> None:
        till.held = asyncio.Event()
        async with serving(agent_of([pay()], tools=[till.tool]), most_open=1) as client:
            await client.post("/runs", {"run": "a", "text": "Pay"}, 201)
            asked = (await client.until("a", "Confirming"))["waiting"][0]["asked"]
            await client.post("/runs/a/answer", {"asked": asked, "answer": "yes"})
            assert (await client.post("/runs", {"run": "b", "text": "Hello"}, 503))["error"] == "full"
            till.held.set()
            await client.until("a", "Idle")

    asyncio.run(play())


def test_a_reader_who_does_not_read_holds_nothing_up() -> None:
    async def play() -> None:
        async with serving(agent_of(Talker(20, length=100_000))) as client:
            await client.post("/runs", {"run": "a"}, 201)
            async with client.following("a"), client.following("a"):  # neither is read from
                for _ in range(4):  # 8 MB, which is more than the buffers on the way hold
                    await client.post("/runs/a/say", {"text": "more"})
                    assert (await client.until("a", "Idle"))["reason"] == "model_stop"

    asyncio.run(play())
