"""Servers of tools that an editor passes: offered, asked about, and not trusted beyond the session."""

import asyncio
import sys
from pathlib import Path

from acp.schema import EnvVariable, McpServerStdio
from loopkernel.data.json_text import Json
from loopkernel_adapters.providers.scripted import call_reply

from tests.adapters.acp.editor import Editor, choosing, connected, refusal, text
from tests.adapters.acp.world import DONE, World

SERVER = Path(__file__).resolve().parents[1] / "mcp" / "honest_server.py"
PASSED = McpServerStdio(
    name="files",
    command=sys.executable,
    args=[str(SERVER), "stdio"],
    env=[EnvVariable(name="TOKEN", value="abc-123-def-456")],
)
SHOUT = call_reply(("mcp__files__shout", Json.of({"text": "hello"})))


def test_what_was_always_allowed_of_a_server_is_asked_about_when_the_session_is_loaded(tmp_path: Path) -> None:
    async def play() -> None:
        world, first = World([SHOUT, SHOUT, DONE, SHOUT, DONE]), Editor(choosing("allow_always", 1))
        async with connected(world.surroundings(), first) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[PASSED])).session_id
            await agent.prompt(session_id=session, prompt=text("go"))
            assert first.statuses().count("completed") == 2
            assert len(first.asked) == 1
        second = Editor(choosing("reject_once"))
        async with connected(world.surroundings(), second) as agent:
            await agent.load_session(session_id=session, cwd=str(tmp_path), mcp_servers=[PASSED])
            second.updates.clear()
            await agent.prompt(session_id=session, prompt=text("go"))
            assert (len(second.asked), second.statuses()[-1]) == (1, "failed")

    asyncio.run(play())


def test_a_server_that_cannot_be_used_is_told_in_words(tmp_path: Path) -> None:
    async def play() -> None:
        async with connected(World([]).surroundings(), Editor()) as agent:
            missing = McpServerStdio(name="gone", command=str(tmp_path / "gone"), args=[], env=[])
            error = await refusal(agent.new_session(cwd=str(tmp_path), mcp_servers=[missing]))
            assert "gone" in str(error) and "Traceback" not in str(error)

    asyncio.run(play())
