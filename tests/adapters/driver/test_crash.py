"""Sudden death: of the process, or of the disk. What was told before is in the log after, and the log goes on."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel.data.states import Cancelled, Idle
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.user_deltas import CancelAll, Say
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.providers.scripted import text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from tests.adapters.driver.driver_world import (
    World,
    say,
)

ROOT = Path(__file__).parents[3]
CHILD = """
import asyncio, pathlib, sys
from loopkernel.data.events import InputSettled, ToolEnded
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore
from tests.adapters.driver.driver_world import NO_INPUT, World, say

def tell(event):
    if isinstance(event, InputSettled | ToolEnded):
        print(type(event).__name__, flush=True)

async def main():
    store = JsonlStore(pathlib.Path(sys.argv[1]))
    world = World([call_reply(*[("echo", NO_INPUT)] * 3), text_reply("b")] * 500, store=store)
    async with await world.open(tell) as driver:
        while True:
            await driver.send(say("go"))
            await driver.rest()

asyncio.run(main())
"""


FULL_DISK = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
{CHILD}"""


def test_a_full_disk_stops_the_run_and_the_log_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert child.returncode == 1
    assert "StoreFailed: the log cannot be written (File too large)" in child.stderr
    assert path.stat().st_size == 20_000  # the last record was written in part
    store = JsonlStore(path)
    assert store.torn_tail is not None
    inputs = sum(isinstance(record.delta, Say) for record in store.load())
    assert child.stdout.count("InputSettled") <= inputs
    store.append([LogRecord(CancelAll(), 0)], durable=True)
    store.close()


@pytest.mark.rule("RESUME-2")
def test_what_was_told_before_a_kill_is_in_the_log_after_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for told in (1, 7, 40):
        begun = len(read_log(path).records) if path.exists() else 0
        child = subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert child.stdout is not None
        acknowledged = [child.stdout.readline() for _ in range(told)]
        child.kill()
        acknowledged += child.stdout.readlines()
        child.stdout.close()
        assert child.wait() == -9
        found = read_log(path)
        inputs = sum(isinstance(record.delta, Say) for record in found.records[begun:])
        ended = sum(isinstance(record.delta, ToolSucceeded) for record in found.records[begun:])
        assert sum(line == "InputSettled\n" for line in acknowledged) <= inputs
        assert sum(line == "ToolEnded\n" for line in acknowledged) <= ended
        assert len(found.records) >= begun + 3

        async def come_to_rest() -> None:
            world = World([text_reply("b")], store=JsonlStore(path))
            async with await world.open() as driver:
                await driver.rest()
                await driver.send(CancelAll())
                await driver.send(say("go on"))
                await driver.rest()
                assert isinstance(driver.state, Idle | Cancelled)
                assert replay(world.store.load()) == driver.state

        asyncio.run(come_to_rest())
