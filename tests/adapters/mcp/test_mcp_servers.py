"""Tools of servers: honest ones over both transports, and every way in which a server may misbehave."""

import asyncio
import json
import os
import select
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.blocks import MediaBlock, TextBlock, text_of
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import Event, ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, ToolOutput, UnknownTool, ValidCall
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.mcp import (
    HttpServer,
    McpLimits,
    McpTools,
    McpUnavailable,
    StdioServer,
    open_servers,
    tool_name,
)
from typing_extensions import override

from tests.adapters.driver.driver_world import child_processes, descriptors, say
from tests.adapters.driver.silent_context import SilentContext

RAW = Path(__file__).with_name("raw_server.py")
HONEST = Path(__file__).with_name("honest_server.py")
QUICK = McpLimits(start_seconds=20, call_seconds=20, stop_seconds=0.05)
CALL = CallId(ModelOperation(1), 1)


TEXT = Json.of({"text": "hi"})


class ToldContext(SilentContext):
    """Notes the progress that is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @override
    async def report_progress(self, text: str) -> None:  # type: ignore[override]  # the silent one never returns
        self.told.append(text)


def raw(way: str, *, trusted: bool = False, pin: str | None = None, environment: Mapping[str, str] = {}) -> StdioServer:
    command = (sys.executable, "-S", str(RAW), way)
    return StdioServer(name="raw", command=command, trusted=trusted, pin=pin, environment=environment)


def start(tool: str, given: Json) -> StartTool:
    return StartTool(operation=RunOperation(1), call=CALL, run=1, tool=tool, input=given, key="k")


async def called(tools: McpTools, tool: str = "mcp__raw__echo", text: str = "hi") -> ToolOutput:
    return await tools.run(start(tool, Json.of({"text": text})), SilentContext())


async def answered(way: str, limits: McpLimits = QUICK) -> ToolOutput:
    """What one call of the tool of such a server gives."""
    async with open_servers([raw(way)], limits) as tools:
        return await called(tools)


@contextmanager
def nothing_left() -> Iterator[None]:
    """No descriptor and no child process more than before."""
    before = descriptors(), child_processes()
    yield
    assert (descriptors(), child_processes()) == before


@pytest.mark.rule("TOOL-1", "TOOL-18", "RESUME-3")
def test_a_tool_of_a_server_is_checked_and_dangerous_and_asks() -> None:
    async def run() -> None:
        async with open_servers([raw("honest")], QUICK) as tools:
            [tool] = tools.offered()
            assert tool.name == "mcp__raw__echo"
            assert tool.profile is not None
            assert (tool.profile.effect, tool.profile.approval) == (EffectClass.DANGEROUS, Decision.ASK)

            def verdict(name: str, given: JsonValue) -> object:
                command = CheckCall(operation=CheckOperation(1), call=CALL, tool=name, input=Json.of(given))
                return tools.check(command)

            assert isinstance(verdict("mcp__raw__echo", {"text": "a"}), ValidCall)
            assert isinstance(verdict("mcp__raw__echo", {"text": 1}), InvalidCall)
            assert verdict("mcp__raw__other", {}) == UnknownTool()
            assert text_of((await called(tools)).content) == "hi"

    with nothing_left():
        asyncio.run(run())


@pytest.mark.rule("TOOL-1", "ASK-1")
@pytest.mark.parametrize(("trusted", "effect"), [(True, EffectClass.READ_ONLY), (False, EffectClass.DANGEROUS)])
def test_what_a_server_says_of_its_tools_is_believed_only_where_it_is_trusted(
    trusted: bool, effect: EffectClass
) -> None:
    async def run() -> None:
        async with open_servers([raw("hints", trusted=trusted)], QUICK) as tools:
            [tool] = tools.offered()
            assert tool.profile is not None
            assert tool.profile.effect is effect
            assert tool.profile.unbounded is not trusted

    asyncio.run(run())


@pytest.mark.parametrize("way", ["wrong_id", "twice", "floods_errors", "garbage", "asks_back", "chatters", "stays"])
def test_what_a_server_says_beside_its_answer_changes_nothing(way: str) -> None:
    with nothing_left():
        assert text_of(asyncio.run(answered(way)).content) == "hi"


@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("dies", "the server raw"),
        ("floods", "the server raw"),
        ("silent", "has not answered within 0.2 s"),
        ("breaks_protocol", "the server raw failed"),
        ("fails", "no such city"),
        ("refuses", "refuses: bad city"),
    ],
)
def test_a_call_that_comes_to_nothing_is_a_failure_in_words(way: str, words: str) -> None:
    async def run() -> None:
        limits = evolve(QUICK, call_seconds=0.2 if way == "silent" else 20)
        async with open_servers([raw(way)], limits) as tools:
            with pytest.raises(ToolError, match=words):
                await called(tools)
            if way == "dies":
                with pytest.raises(ToolError, match="the server raw"):
                    await called(tools)

    with nothing_left():
        asyncio.run(run())


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("mute", "has not answered within 0.2 s"),
        ("twins", "have the same name"),
        ("same_when_safe", "have the same name"),
        ("endless", "offers more than 200 tools"),
        ("bad_schema", "has a schema that cannot be used"),
        ("large_schema", "it has more than 50000 characters"),
        ("no_list", "cannot be used: ValidationError: 1 validation error for ListToolsResult. Look"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_in_words(way: str, words: str) -> None:
    async def run() -> None:
        limits = evolve(QUICK, start_seconds=0.2 if way == "mute" else 20)
        with pytest.raises(McpUnavailable, match=words):
            async with open_servers([raw(way)], limits):
                pass

    with nothing_left():
        asyncio.run(run())


def test_a_program_that_is_not_there_is_told() -> None:
    async def run() -> None:
        with pytest.raises(McpUnavailable, match="the server none cannot be started: No such file"):
            async with open_servers([StdioServer(name="none", command=("/no/such/program",))]):
                pass
        with pytest.raises(McpUnavailable, match="the same name"):
            async with open_servers([raw("honest"), raw("honest")]):
                pass

    with nothing_left():
        asyncio.run(run())


def test_a_list_that_has_changed_since_it_was_pinned_is_refused() -> None:
    async def run() -> None:
        async with open_servers([raw("honest")], QUICK) as tools:
            pin = tools.pins["raw"]
        async with open_servers([raw("honest", pin=pin)], QUICK) as tools:
            assert tools.pins["raw"] == pin
        with pytest.raises(McpUnavailable, match="offers other tools than when it was pinned"):
            async with open_servers([raw("changed", pin=pin)], QUICK):
                pass

    asyncio.run(run())


def test_names_are_kept_apart_and_short_enough() -> None:
    async def run() -> None:
        async with open_servers([raw("claims_names")], QUICK) as tools:
            names = [tool.name for tool in tools.offered()]
            assert names[:2] == ["mcp__raw__read_file", "mcp__raw__mcp__other__x_y_z"]
            assert len(names[2]) == 64
            assert names[2] == tool_name("raw", "e" * 90) != tool_name("raw", "e" * 91)
            assert text_of((await called(tools, names[0])).content) == "hi"

    asyncio.run(run())


@pytest.mark.rule("TOOL-11")
def test_an_answer_is_cut_and_media_are_what_they_say() -> None:
    huge = asyncio.run(answered("huge"))
    assert [len(block.text) for block in huge.content if isinstance(block, TextBlock)] == [200_000, 73]
    odd = asyncio.run(answered("odd")).content
    assert [type(block) for block in odd] == [TextBlock, TextBlock, MediaBlock]
    assert odd[2] == MediaBlock("image/png", "aGk=")


def test_no_more_progress_is_told_than_somebody_may_read() -> None:
    async def run() -> None:
        context = ToldContext()
        async with open_servers([raw("much_progress")], evolve(QUICK, progress_reports=3)) as tools:
            await tools.run(start("mcp__raw__echo", Json.of({"text": "hi"})), context)
        assert context.told == ["p" * 500] * 3

    asyncio.run(run())


@pytest.mark.parametrize("way", ["odd_progress"])
def test_what_the_library_logs_is_not_for_everybody(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert text_of(asyncio.run(answered(way)).content) == "hi"
    assert "Traceback" not in capfd.readouterr().err


def test_a_server_that_fails_leaves_nothing_of_the_others() -> None:
    async def run() -> None:
        gone = StdioServer(name="gone", command=("/nonexistent/program",))
        with pytest.raises(McpUnavailable, match="the server gone cannot be started"):
            async with open_servers([evolve(raw("mute"), name="other"), gone], QUICK):
                pass
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left():
        asyncio.run(run())


def test_tools_of_two_servers_with_one_name_are_refused() -> None:
    async def run() -> None:
        with pytest.raises(McpUnavailable, match="two servers offer a tool mcp__raw__echo__echo"):
            async with open_servers(
                [evolve(raw("two_parts"), name="raw"), evolve(raw("one"), name="raw__echo")], QUICK
            ):
                pass

    with nothing_left():
        asyncio.run(run())


def test_progress_is_told() -> None:
    async def run() -> None:
        context = ToldContext()
        async with open_servers([raw("progress")], QUICK) as tools:
            await tools.run(start("mcp__raw__echo", Json.of({"text": "hi"})), context)
        assert context.told == ["1 of 2", "done soon"]

    asyncio.run(run())


def test_a_server_sees_little_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> dict[str, str]:
        server = raw("environment", environment={"CITY": "Bern"})
        async with open_servers([server], QUICK) as tools:
            seen: dict[str, str] = json.loads(text_of((await called(tools)).content))
            return seen

    monkeypatch.setenv("SOME_API_KEY", "hunter22")
    seen = asyncio.run(run())
    assert seen["CITY"] == "Bern"
    assert "SOME_API_KEY" not in seen


def test_nothing_that_a_server_has_started_stays() -> None:
    async def run() -> int:
        async with open_servers([raw("leaves_child")], QUICK) as tools:
            return os.pidfd_open(int(text_of((await called(tools)).content)))

    child = asyncio.run(run())
    try:
        ended, _, _ = select.select([child], [], [], 20)
        assert ended == [child]  # the process of that descriptor is no more
    finally:
        os.close(child)


def test_an_aborted_call_and_a_cancelled_session_leave_nothing() -> None:
    async def run() -> None:
        async with open_servers([raw("silent")], QUICK) as tools:
            running = asyncio.create_task(called(tools))
            for _ in range(20):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        async def holds() -> None:
            async with open_servers([raw("honest")], QUICK):
                opened.set()
                await asyncio.Event().wait()

        opened = asyncio.Event()
        holding = asyncio.create_task(holds())
        await opened.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left():
        asyncio.run(run())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_session_uses_a_server_of_the_official_library(transport: str) -> None:
    async def run() -> None:
        command = (sys.executable, str(HONEST), transport)
        if transport == "stdio":
            await use(StdioServer(name="files", command=command))
            return
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            port = int(await process.stdout.readline())
            await use(HttpServer(name="files", url=f"http://127.0.0.1:{port}/mcp"))
        finally:
            process.kill()
            await process.communicate()

    async def use(server: StdioServer | HttpServer) -> None:
        async with open_servers([server], QUICK) as tools:
            reply = call_reply(("mcp__files__read", Json.of({"path": "notes.txt"})), ("mcp__files__breaks", TEXT))
            ended: list[tuple[str, str]] = []

            def note(event: Event) -> None:
                if isinstance(event, ToolEnded):
                    ended.append((event.result.status.value, text_of(event.result.content)))

            driver = await Driver.open(
                store=MemoryStore(),
                created=Created(
                    session_id="s", policy=Policy(approval_mode=ApprovalMode.BYPASS), tools=tools.offered()
                ),
                provider=ScriptedProvider([reply, text_reply("b")]),
                tools=tools,
                clock=ManualClock(),
                observers=(note,),
            )
            async with driver:
                await driver.send(say("go"))
                await driver.rest()
            assert ended[0] == ("done", "buy milk")
            assert ended[1][0] == "error"

    asyncio.run(run())
