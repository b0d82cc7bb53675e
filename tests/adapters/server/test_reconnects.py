"""No event is lost and none comes twice, wherever a connection is cut and whatever process serves the log afterwards.

Slow: hundreds of connections to a real server, and a server that is killed.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.server.server_world import Client, Cut, Heard, Talker, agent_of, events_in, serving

pytestmark = pytest.mark.slow

CUTS = 500
PIECES = 20  # of each reply


def as_told(heard: list[Heard]) -> list[tuple[str, object]]:
    assert all(each.id == each.data["id"] for each in heard)
    return [(each.id, each.data["event"]) for each in heard]


async def cut_and_come_again(client: Client, run: str, draw: random.Random) -> list[Heard]:
    """What a client has that is cut off after a few messages or none, in the midst of one or not, and comes again."""
    heard: list[Heard] = []
    for _ in range(CUTS):
        async with client.following(run, heard[-1].id if heard else None) as events:
            for _ in range(draw.randrange(4)):
                heard.append(await events.next())
    return heard


def test_a_connection_that_is_cut_five_hundred_times_loses_and_doubles_nothing() -> None:
    async def play() -> None:
        agent = agent_of(Talker(PIECES))
        async with serving(agent) as client:
            await client.post("/runs", {"run": "long", "text": "go on"}, 201)
            heard_all = asyncio.create_task(cut_and_come_again(client, "long", random.Random(21)))
            while not heard_all.done():  # it goes on meanwhile
                await client.until("long", "Idle")
                await client.post("/runs/long/say", {"text": "more"})
            heard = await heard_all
            last = (await client.until("long", "Idle"))["last_event"]
            async with client.following("long", heard[-1].id) as events:
                while heard[-1].id != last:
                    heard.append(await events.next())
            assert as_told(heard) == events_in(await agent.runs.read("long"))
            assert len(heard) > CUTS

    asyncio.run(play())


def start(folder: Path) -> tuple["subprocess.Popen[str]", Client]:
    """A server of the command line over the store of that folder."""
    command = [
        sys.executable,
        "-m",
        "loopkernel_adapters",
        "serve",
        "--model",
        "scripted:script.json",
        "--tools",
        "files",
    ]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(3)]
    port = int(lines[0].split(";")[0].rpartition(":")[2])
    return process, Client(port, lines[1].split(";")[0].split()[1])


async def heard_until_the_kill(client: Client, process: "subprocess.Popen[str]") -> list[Heard]:
    heard: list[Heard] = []
    async with client.following("r") as events:
        await client.post("/runs/r/say", {"text": "more"})
        try:
            while True:
                heard.append(await events.next())
                if sum(each.data["event"]["type"] == "reply-grew" for each in heard) == 3 * PIECES:
                    process.kill()
        except Cut:
            return heard


def test_ids_hold_over_a_server_that_is_killed(tmp_path: Path) -> None:
    """A client goes on at another server where it was; where a crash took what it had heard, it is told so."""
    reply = {"text": " ".join(map(str, range(PIECES)))}
    stuck = {"text": " ".join(map(str, range(3 * PIECES))), "calls": [{"tool": "none", "input": {}}]}
    (tmp_path / "script.json").write_text(json.dumps([reply, stuck, reply, reply]))

    async def play() -> None:
        process, client = start(tmp_path)
        try:
            await client.post("/runs", {"run": "r", "text": "begin"}, 201)
            before = (await client.until("r", "Idle"))["last_event"]
            heard = await heard_until_the_kill(client, process)
        finally:
            process.kill()
            process.wait()
        assert before in [each.id for each in heard]
        process, client = start(tmp_path)
        try:
            async with client.following("r", before) as events:
                first = await events.next()
            assert first == heard[[each.id for each in heard].index(before) + 1]
            await client.post("/runs/r/say", {"text": "and now"})
            await client.until("r", "Idle")
            log = SqliteRuns(tmp_path / ".loopkernel" / "runs.sqlite").read("r")
            kept = [each for each in heard if (each.id, each.data["event"]) in events_in(log)]
            async with client.following("r", heard[-1].id) as events:
                first = await events.next()
            if kept == heard:
                assert first.kind == "message"
            else:
                assert (first.kind, first.id) == ("reset", "")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0

    asyncio.run(play())
