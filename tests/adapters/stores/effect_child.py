"""A process whose forks run a session with a dangerous tool until a system call kills them, and which then goes on.

It speaks as `fault_child.py` does; an order has a list of faults, one for each life but the last.
"""

import asyncio
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from loopkernel.data.effects import Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.states import Confirming, Done, Idle, State
from loopkernel.data.tools import EffectClass, ToolOutput, ToolProfile
from loopkernel.data.user_deltas import Reject, Say
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import NoSuchRun, Provider, Restored, RunContext, Sealing
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, World, said, say
from tests.adapters.stores import fault_child
from tests.adapters.stores.fault_child import RUN, Order, Report, in_fork, runs_in

# The reply to a request whose thread holds so many messages of results.
REPLIES: tuple[Reply, ...] = (
    call_reply(("pay", NO_INPUT)),
    call_reply(("pay", NO_INPUT), ("note", NO_INPUT)),
    text_reply("All is paid."),
)
DANGEROUS, REPEATABLE = ToolProfile(effect=EffectClass.DANGEROUS), ToolProfile(effect=EffectClass.IDEMPOTENT)


class Knowing(Provider):
    """Answers by what it is shown, so it goes on where a process before it stopped."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        answered = sum(isinstance(message, ResultMessage) for message in request.thread)
        async for delta in ScriptedProvider([REPLIES[answered]]).stream(request, operation):
            yield delta


class Acknowledging(BlockingStore):
    """Says how many records are durable, as soon as they are; keeps a snapshot every few records."""

    def __init__(self, inner: BlockingStore, acknowledge: Callable[[int], None]) -> None:
        self.inner = inner
        self.records = list(inner.load())
        self.acknowledge = acknowledge

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.inner.append(records, durable)
        self.records += records
        if durable:
            self.acknowledge(len(self.records))
            if len(self.records) % 3 == 0:
                self.inner.save_snapshot(replay(self.records))

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self.inner.load()

    @override
    def restore(self) -> Restored:
        return self.inner.restore()

    def vouch(self) -> None:
        assert isinstance(self.inner, Sealing)
        self.inner.vouch()

    @override
    def save_snapshot(self, state: State) -> None:
        self.inner.save_snapshot(state)

    @override
    def close(self) -> None:
        self.inner.close()


class Holding(Acknowledging):
    """Says so before it is so, and writes at the end: a planted fault."""

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.records += records
        self.acknowledge(len(self.records))

    @override
    def close(self) -> None:
        self.inner.append(self.records[len(self.inner.load()) :], durable=True)
        self.inner.close()


def tools_of(folder: Path) -> FunctionTools:
    """Tools that write down, durably, that they have been started, before they do anything."""

    async def started(command: StartTool, context: RunContext) -> ToolOutput:
        line = f"{command.tool} {command.call.reply}.{command.call.position} {command.key}\n"
        descriptor = os.open(folder / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
        os.close(descriptor)
        return said("done")

    tools = FunctionTools(DANGEROUS, pay=started, note=started)
    tools.profiles["note"] = REPEATABLE
    return tools


async def life(
    kind: str, folder: Path, acknowledge: Callable[[int], None], keeping: type[Acknowledging] = Acknowledging
) -> State:
    """One life of the process: go on to the end of the turn. A person approves nothing a second time."""
    store = keeping(runs_in(kind, folder).open(RUN), acknowledge)
    begun = any(isinstance(record.delta, Say) for record in store.records)
    world = World(provider=Knowing(), tools=tools_of(folder), store=store)
    async with await world.open() as driver:
        if not begun:
            await driver.send(say("Pay the bills."))
        await driver.rest()
        while isinstance(driver.state, Confirming):
            waiting = [entry for entry in driver.state.ledger.entries if entry.status.value == "blocked-on-user"]
            await driver.send(Reject(call=waiting[0].call.id))
            await driver.rest()
        return driver.state


def drive(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    asyncio.run(life(kind, folder, acknowledge))


def hold(kind: str, folder: Path, acknowledge: Callable[[int], None]) -> None:
    asyncio.run(life(kind, folder, acknowledge, Holding))


def records_of(kind: str, folder: Path) -> tuple[LogRecord, ...]:
    try:
        return runs_in(kind, folder).read(RUN)
    except (NoSuchRun, FileNotFoundError):
        return ()


def recovered(kind: str, folder: Path) -> tuple[LogRecord, ...]:
    store = runs_in(kind, folder).open(RUN)
    records = store.load()
    store.close()
    return records


def lives(order: Order) -> Report:
    """A life for each fault, and one without; what was lost, what was started twice, and how it ended."""
    kind, folder = order["kind"], Path(order["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    problems, statuses, calls = [], [], ""
    before: tuple[LogRecord, ...] = ()
    for fault in order["faults"]:
        report = in_fork({**order, "fault": fault})
        statuses.append(report["status"])
        calls = report["calls"]
        if report["status"] not in (0, -9):
            problems.append(f"a life ended by itself: {report['error']}")
        left = records_of(kind, folder)
        if left[: len(before)] != before or len(left) < report["acknowledged"]:
            problems.append(f"{report['acknowledged']} records were acknowledged, and {len(left)} are there")
        before = recovered(kind, folder)
        if left != before or before != recovered(kind, folder):
            problems.append("recovering changed what was there, or twice was not once")
    last = asyncio.run(life(kind, folder, lambda number: None))
    whole = recovered(kind, folder)
    if whole[: len(before)] != before or replay(whole) != last:
        problems.append("the last life did not go on from what was there")
    if not isinstance(last, Idle | Done):
        problems.append(f"the session did not come to rest: {type(last).__name__}")
    starts = Counter((folder / "starts").read_text().splitlines())
    twice = [line for line, times in starts.items() if times > 1 and line.startswith("pay")]
    repeated = sum(times - 1 for line, times in starts.items() if line.startswith("note"))
    if twice or sum(line.startswith("pay") for line in starts) > 2:
        problems.append(f"a dangerous tool was started twice: {starts}")
    return {"problems": problems, "statuses": statuses, "calls": calls, "repeated": repeated, "starts": len(starts)}


def main() -> None:
    fault_child.JOBS.update(drive=drive, hold=hold)
    for line in sys.stdin:
        try:
            report = lives(json.loads(line))
        except Exception as error:
            report = {"broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
