"""Lives of a run, as they are told: tools that raise, cancels, crashes, forks, background runs, handoffs, approvals."""

import asyncio
import subprocess
import sys
from pathlib import Path

from loopkernel.data.effects import StartTool
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import Approve, CancelAll, StartHandoff
from loopkernel.replaying import fork
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import Reply, call_reply, text_reply
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.telemetry.watching import Telemetry

from tests.adapters.driver.driver_world import FunctionTools, said, say
from tests.adapters.driver.test_handoff import Carrying
from tests.adapters.driver.test_outlasting import Background
from tests.adapters.telemetry.telemetry_world import (
    NOON_MS,
    Collected,
    PlainSpan,
    TakingTime,
    an_input,
    named,
    replayed,
    tools_that_take_time,
)

ROOT = Path(__file__).parents[3]


class Watched:
    """Drivers over runs that are watched."""

    def __init__(
        self,
        *replies: Reply,
        runs: BlockingRuns | None = None,
        tools: FunctionTools | None = None,
        optional: OptionalPorts | None = None,
        collected: Collected | None = None,
        begun_ms: int = NOON_MS,
    ) -> None:
        self.clock = ManualClock(begun_ms)
        self.runs: BlockingRuns = runs or MemoryRuns()
        self.collected = collected or Collected()
        self.telemetry = Telemetry(self.collected.tracers, self.collected.meters)
        self.provider = TakingTime(replies, self.clock)
        self.tools = tools or tools_that_take_time(self.clock)
        self.optional = optional or OptionalPorts()

    async def driver(self, run: str = "run") -> Driver:
        return await Driver.open(
            store=await self.telemetry.watch(self.runs).open(run),
            created=Created(session_id=run, policy=Policy(), tools=self.tools.offered()),
            provider=self.provider,
            tools=self.tools,
            clock=self.clock,
            optional=self.optional,
        )

    def told(self) -> list[PlainSpan]:
        """All spans, once those who look on have caught up; they are those of the log."""
        assert self.telemetry.close(60)
        return self.collected.spans


def test_a_tool_that_raises_is_a_span_with_an_error() -> None:
    async def run() -> None:
        watched = Watched(call_reply(("fail", an_input()), ("crash", an_input())), text_reply("No milk."))
        async with await watched.driver() as driver:
            await driver.send(say("go"))
            await driver.rest()
        spans = watched.told()
        for name in ("execute_tool fail", "execute_tool crash"):
            (span,) = named(spans, name)
            assert (span.error, span["error.type"]) == (True, "tool_error")
        (turn,) = named(spans, "invoke_agent")
        assert not turn.error
        assert spans == replayed(watched.runs, "run").spans

    asyncio.run(run())


def test_a_cancelled_turn_ends_all_that_is_within_it() -> None:
    async def run() -> None:
        begun = asyncio.Event()

        async def hang(command: StartTool, context: RunContext) -> ToolOutput:
            begun.set()
            return await asyncio.Future()

        watched = Watched(call_reply(("hang", an_input())), tools=FunctionTools(hang=hang))
        async with await watched.driver() as driver:
            await driver.send(say("go"))
            await begun.wait()
            watched.clock.advance(2_000)
            await driver.send(CancelAll())
            await driver.stopped()
        spans = watched.told()
        (turn,), (call,) = named(spans, "invoke_agent"), named(spans, "execute_tool hang")
        assert turn["loopkernel.turn.end"] == "user_abort"
        assert [event[0] for event in turn.events] == ["loopkernel.cancel"]
        assert (call["error.type"], call.end_ms) == ("user:cancelled", turn.end_ms)
        assert not any(span["loopkernel.unfinished"] for span in spans)
        assert spans == replayed(watched.runs, "run").spans

    asyncio.run(run())


def test_a_reply_that_is_cancelled_is_an_aborted_chat() -> None:
    async def run() -> None:
        never = asyncio.Event()
        watched = Watched((*text_reply("Half")[:1], never))
        async with await watched.driver() as driver:
            await driver.send(say("go"))
            while not watched.provider.requests:
                await asyncio.sleep(0)
            await driver.send(CancelAll())
            await driver.stopped()
        (chat,) = named(watched.told(), "chat default")
        assert chat["error.type"] == "aborted"

    asyncio.run(run())


def test_a_run_that_waits_for_a_person_is_left_and_gone_on_with() -> None:
    """What is left waiting is told as unfinished; the turn goes on in a tree of its own, which names the first."""

    async def run() -> None:
        watched = Watched(call_reply(("order", an_input(item="milk"))), text_reply("Ordered."))
        async with await watched.driver() as driver:
            await driver.send(say("go"))
            await driver.rest()
        watched.clock.advance(3_600_000)
        async with await watched.driver() as driver:
            call = next(iter(driver.state.ledger.entries)).call.id  # type: ignore[union-attr]  # it waits
            watched.clock.advance(60_000)
            await driver.send(Approve(call))
            await driver.rest()
        spans = watched.told()
        first, second = named(spans, "invoke_agent")
        assert first["loopkernel.unfinished"] and not second["loopkernel.unfinished"]
        assert second.links == ((first.trace, first.span, "before the restart"),)
        assert first.trace != second.trace
        again = replayed(watched.runs, "run")
        assert spans == again.spans
        for metrics in (watched.collected.metrics, again.metrics):
            (waited,) = metrics["loopkernel.person.wait"].values()
            assert isinstance(waited, tuple) and waited[:2] == (1, 3_660.0)  # an hour of it without a process

    asyncio.run(run())


KILLED = """
import asyncio, pathlib, sys
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.folders import JsonlFolder
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from tests.adapters.driver.driver_world import FunctionTools, echo, say
from tests.adapters.telemetry.telemetry_world import an_input
from tests.adapters.telemetry.test_lives import Watched

class Printing(SpanExporter):
    def export(self, spans):
        for span in spans:
            print(span.get_span_context().span_id, flush=True)
        return SpanExportResult.SUCCESS

async def hang(command, context):
    assert watched.telemetry.flush(60)
    print("hanging", flush=True)
    await asyncio.Future()

replies = [call_reply(("echo", an_input())), call_reply(("hang", an_input()))]
watched = Watched(*replies, runs=JsonlFolder(pathlib.Path(sys.argv[1])), tools=FunctionTools(echo=echo, hang=hang))
watched.collected.tracers.add_span_processor(SimpleSpanProcessor(Printing()))

async def main():
    async with await watched.driver() as driver:
        await driver.send(say("go"))
        await driver.rest()

asyncio.run(main())
"""


def test_a_killed_process_and_the_one_that_goes_on_tell_one_tree_together(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as dead:
        assert dead.stdout is not None
        told_before = []
        while (line := dead.stdout.readline().strip()) != "hanging":
            assert line, "the process ended before it was killed"
            told_before.append(int(line))
        dead.kill()
    runs = JsonlFolder(tmp_path)

    async def go_on() -> list[PlainSpan]:
        async def hang(command: StartTool, context: RunContext) -> ToolOutput:
            return said("at last")

        tools = FunctionTools(echo=hang, hang=hang)
        watched = Watched(text_reply("Done."), runs=runs, tools=tools, begun_ms=NOON_MS + 60_000)
        async with await watched.driver() as driver:
            await driver.rest()
        return watched.told()

    told_after = asyncio.run(go_on())
    whole = replayed(runs, "run").spans
    assert told_before and set(told_before).isdisjoint(span.span for span in told_after)
    assert sorted([*told_before, *(span.span for span in told_after)]) == [span.span for span in whole]
    assert [span for span in whole if span.span not in told_before] == told_after
    before, after = named(whole, "invoke_agent")
    assert before["loopkernel.unfinished"]
    assert after.links == ((before.trace, before.span, "before the restart"),)
    assert {span.name for span in whole if span.parent == after.span} == {"execute_tool hang", "chat default"}


def test_a_fork_is_told_from_where_it_leaves_and_names_what_it_left() -> None:
    async def run() -> None:
        watched = Watched(text_reply("one"), text_reply("two"), text_reply("other"))
        async with await watched.driver() as driver:
            await driver.send(say("first"))
            await driver.rest()
            watched.clock.advance(1_000)
            await driver.send(say("second"))
            await driver.rest()
        log = watched.runs.read("run")
        place = next(i for i, record in enumerate(log) if i and type(log[i - 1].delta).__name__ == "ModelCompleted")
        with_other = MemoryRuns()
        store = with_other.open("other")
        store.append(fork(log, at=place, session_id="other", now_ms=NOON_MS + 9_000), durable=True)
        store.close()
        own = len(watched.told())
        assert own == 4

        other = Watched(text_reply("other"), runs=with_other, begun_ms=NOON_MS + 10_000)
        async with await other.driver("other") as driver:
            await driver.send(say("instead"))
            await driver.rest()
        spans = other.told()
        (turn,) = named(spans, "invoke_agent")  # of the turns before the fork, none is told twice
        assert turn["gen_ai.conversation.id"] == "other"
        first = named(watched.collected.spans, "invoke_agent")[0]
        assert turn.links == ((first.trace, first.span, "forked from"),)

    asyncio.run(run())


def test_a_run_in_the_background_is_a_tree_of_its_own() -> None:
    async def run() -> None:
        background = Background()
        watched = Watched(
            call_reply(("background", an_input())),
            text_reply("Started."),
            text_reply("So it ended."),
            tools=FunctionTools(background=background),
        )
        async with await watched.driver() as driver:
            await driver.send(say("go"))
            await driver.rest()
            watched.clock.advance(30_000)
            background.may_end.set()
            await driver.stopped()
        spans = watched.told()
        call, later = sorted(named(spans, "execute_tool background"), key=lambda span: span.parent is None)
        assert call.parent is not None and later.parent is None
        assert later["loopkernel.background"] and not call["loopkernel.background"]
        assert later.links == ((call.trace, call.span, "started by"),)
        assert later.end_ms - later.begin_ms >= 30_000
        turn = named(spans, "invoke_agent")[0]
        assert turn.begin_ms <= call.begin_ms <= call.end_ms <= turn.end_ms < later.end_ms
        assert spans == replayed(watched.runs, "run").spans

    asyncio.run(run())


def test_a_handoff_is_told_with_the_session_that_goes_on() -> None:
    async def run() -> None:
        carrying = Carrying()
        watched = Watched(text_reply("one"), optional=OptionalPorts(handoffs=carrying))
        async with await watched.driver() as driver:
            await driver.send(say("first"))
            await driver.rest()
            await driver.send(StartHandoff("finish the tests"))
            carrying.may_end.set()
            await driver.over()
        spans = watched.told()
        (handed,) = named(spans, "hand_off")
        assert handed["loopkernel.handoff.session"] == "next"
        assert spans == replayed(watched.runs, "run").spans

    asyncio.run(run())


def test_content_is_told_where_it_is_asked_for_and_never_a_secret() -> None:
    async def run(content: bool) -> str:
        clock, collected = ManualClock(NOON_MS), Collected()
        with Telemetry(collected.tracers, collected.meters, content=content) as telemetry:
            agent = Agent(
                TakingTime([call_reply(("read", an_input(key="hunter2-hunter2"))), text_reply("Milk.")], clock),
                tools_that_take_time(clock),
                runs=telemetry.watch(MemoryRuns()),
                clock=clock,
                secrets=Secrets({"KEY": "hunter2-hunter2"}),
            )
            await agent.run("Look with hunter2-hunter2, please")
        return str([span.attributes for span in collected.spans])

    with_content, without = asyncio.run(run(True)), asyncio.run(run(False))
    assert "please" in with_content and "milk" in with_content and "Milk." in with_content
    assert "please" not in without and "milk" not in without and "Milk." not in without
    assert "hunter2" not in with_content + without
