"""Servers that say a secret wherever a bound may cut it, or send the conversation on: none of it goes anywhere."""

import asyncio
import sys
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.codec import record_to_text
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.tools.mcp import HttpServer, McpLimits, McpUnavailable, StdioServer, open_servers

from tests.adapters.providers.wire_server import Answer, WireServer

TELLING = Path(__file__).with_name("telling_server.py")
SECRET = "Gg4Rr6Tt2Bb8Nn0Mm5Ss"
LIMITS = McpLimits(start_seconds=20, call_seconds=20, stop_seconds=0.05, result_chars=1_000, description_chars=500)


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("letters", [485, 490, 985])
@pytest.mark.parametrize("known", [True, False])
def test_no_part_of_a_secret_that_a_server_says_is_told(letters: int, known: bool) -> None:
    """Also by a server that was opened before anybody knew the secrets, where it describes nothing at length."""
    limits = LIMITS if known else evolve(LIMITS, description_chars=100_000)
    secrets = Secrets({"S": SECRET})
    server = StdioServer(name="s", command=(sys.executable, "-S", str(TELLING), SECRET, str(letters)))

    async def run() -> str:
        async with open_servers([server], limits, secrets if known else NO_SECRETS) as tools:
            names = [tool.name for tool in tools.offered()]
            replies = [*(call_reply((name, Json.of({}))) for name in names), text_reply("done")]
            policy = Policy(approval_mode=ApprovalMode.BYPASS)
            agent = Agent(ScriptedProvider(replies), tools, secrets=secrets, policy=policy)
            result = await agent.run("go")
            return "\n".join(map(record_to_text, await agent.runs.read(result.run)))

    log = asyncio.run(run())
    assert not [place for place in range(len(SECRET) - 7) if SECRET[place : place + 8] in log]
    assert log.count("{{secret:S}}") > 10
    assert log.count('"type":"tool-progress"') == 3


def test_nothing_is_sent_on_to_another_server() -> None:
    with WireServer([]) as other:
        away = Answer(status=307, headers=(("location", f"{other.url}/mcp"),))
        with WireServer([away] * 5) as server:

            async def run() -> None:
                headers = {"authorization": "Bearer hush"}
                async with open_servers([HttpServer(name="h", url=f"{server.url}/mcp", headers=headers)], LIMITS):
                    raise AssertionError("the other server was taken for this one")

            with pytest.raises(McpUnavailable, match=f"the server h refuses: Redirect to {other.url}/mcp not followed"):
                asyncio.run(run())
        assert other.accepted == 0
