"""The examples of the documents: the agent in a process, and in a fleet; each asks a person, and pays once."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from loopkernel.replaying import replay
from loopkernel_adapters.stores.postgres import PostgresRuns

from tests.homes.postgres.server import PostgresServer
from tests.homes.postgres.test_workers import is_asked, seen

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "homes"
DONE = "Done: paid 12 EUR."


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("builtins.input", lambda question: "yes")


@pytest.fixture
def examples(configuration: None) -> Iterator[None]:
    yield
    for name in ("agent", "in_a_process", "in_a_fleet"):
        sys.modules.pop(name, None)


def example(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.usefixtures("examples")
def test_the_agent_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = example("in_a_process")
    monkeypatch.setattr(process, "STORE", tmp_path / "runs.sqlite")
    asyncio.run(process.main("one"))
    said = capsys.readouterr().out
    assert 'waits for a person: pay with {"amount":12}' in said and DONE in said


@pytest.mark.usefixtures("examples")
def test_the_agent_in_a_fleet(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSN", server.dsn)
    fleet = example("in_a_fleet")

    async def whole() -> None:
        worker = asyncio.create_task(fleet.main("worker"))
        runs = PostgresRuns(server.dsn)

        async def paid() -> bool:
            return DONE in repr(replay(await runs.read("one")))

        try:
            await fleet.main("say", "one")
            await seen(lambda: is_asked(runs, "one"))
            await fleet.main("approve", "one")
            await seen(paid)
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            await runs.close()

    asyncio.run(whole())
    assert 'pay with {"amount":12}' in capsys.readouterr().out
