"""Questions that a tool puts to a person while it runs, in Temporal: answered, declined, given up, asked again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from loopkernel.data.words import CallStatus
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.temporal import TemporalRun, start, temporal_worker
from temporalio.client import Client

from tests.homes.temporal.clerk import clerk
from tests.homes.temporal.crash_worker import QUEUE
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer
from tests.homes.temporal.world import QUICK, demand_lawful, home, last_statuses, play, started, until

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)


@asynccontextmanager
async def told(server: TemporalServer, folder: Path, words: str) -> AsyncIterator[TemporalRun]:
    """A run that was told this, while a worker in this process serves it. Its log is lawful."""
    client = await Client.connect(server.address)
    async with temporal_worker(client, folder.name, clerk(folder)):
        run = await start(client, folder.name, clerk(folder), folder.name)
        await run.say(words)
        yield run
        await demand_lawful(run)


async def asked(run: TemporalRun, question: str) -> WaitingCall:
    """The call whose tool asks that."""
    found: list[WaitingCall] = []

    async def there() -> bool:
        found[:] = [call for call in await run.waiting() if call.question == question]
        return bool(found)

    await until(there)
    return found[0]


@pytest.mark.parametrize(("words", "before"), [("ask", "ask"), ("delegate ask", "delegate: ask")])
def test_questions_are_answered_and_declined(server: TemporalServer, tmp_path: Path, words: str, before: str) -> None:
    async def whole() -> None:
        async with told(server, tmp_path, words) as run:
            await run.answer(await asked(run, "Which word?"), "tea")
            await run.answer(await asked(run, "And which other?"), None)
            assert await run.rest() == f"{before}: tea nothing"

    play(whole)


def test_a_run_is_cancelled_while_its_tool_asks(server: TemporalServer, tmp_path: Path) -> None:
    async def whole() -> None:
        async with told(server, tmp_path, "ask") as run:
            await asked(run, "Which word?")
            await run.cancel()
            await run.rest()
            assert await last_statuses(run) == [CallStatus.CANCELLED]
            await run.say("hello")
            assert await run.rest() == "I heard: hello"

    play(whole)


def test_a_tool_ends_without_the_answer_to_its_question(server: TemporalServer, tmp_path: Path) -> None:
    async def whole() -> None:
        async with told(server, tmp_path, "hurry") as run:
            await asked(run, "Are you there?")
            (tmp_path / "go").touch()

            async def said() -> bool:
                return await run.rest() == "hurry: nobody was there"

            await until(said)
            assert await run.waiting() == ()

    play(whole)


@pytest.mark.rule("RESUME-3")
def test_a_worker_is_killed_while_its_tools_ask(tmp_path: Path) -> None:
    """Each runs again, since it only reads, and asks again; an answer that was given is asked for again, too."""

    async def whole() -> None:
        async with home(tmp_path) as (_, client, worker):
            runs = [await start(client, QUEUE, clerk(tmp_path), f"run-{number}", pace=QUICK) for number in range(2)]
            for run in runs:
                await run.say("ask")
                await asked(run, "Which word?")
            await runs[1].answer(await asked(runs[1], "Which word?"), "milk")
            await asked(runs[1], "And which other?")
            worker.kill()
            worker.start()

            async def again() -> bool:
                return started(tmp_path)["ask"] == 2 * len(runs)

            await until(again)
            for run in runs:
                await run.answer(await asked(run, "Which word?"), "tea")
                await run.answer(await asked(run, "And which other?"), "cake")
                assert await run.rest() == "ask: tea cake"
            await demand_lawful(*runs)

    play(whole)
