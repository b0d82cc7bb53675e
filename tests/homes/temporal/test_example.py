"""The example of the documents: a run is begun, waits for a person, is approved, and says that it is done."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.temporal import temporal_worker

from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "homes"


@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
def test_the_example_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("in_temporal")

    async def whole() -> None:
        server = TemporalServer(tmp_path)
        client = await server.start()
        monkeypatch.setattr(example, "ADDRESS", server.address)
        try:
            async with temporal_worker(client, example.QUEUE, example.agent):
                await example.main("run", "one")
                await example.main("approve", "one")
        finally:
            server.kill()

    try:
        asyncio.run(whole())
    finally:
        for name in ("in_temporal", "agent"):
            sys.modules.pop(name, None)
    said = capsys.readouterr().out
    assert 'waits for a person: pay with {"amount":12}' in said
    assert "Done: paid 12 EUR." in said
