"""The client that front ends of AG-UI are made of, from npm, against a real server: pictures, its own tools, consent.

Slow: it starts node. It needs `npm install --prefix .venv-npm @ag-ui/client`, which nothing here does by itself.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply

from tests.adapters.server.server_world import LOOPBACK, TOKEN, Till, agent_of, pay, serving
from tests.adapters.server.test_ag_ui_clients import PNG, last_result

pytestmark = pytest.mark.slow

MODULES = Path(__file__).parents[3] / ".venv-npm"
SCRIPT = Path(__file__).with_name("ag_ui_client.mjs")
NOT_THERE = (
    "AG-UI WAS NOT TRIED WITH ITS OWN CLIENT: that needs node, and `npm install --prefix .venv-npm @ag-ui/client`"
)


def test_a_front_end_made_of_the_protocols_own_client() -> None:
    node = shutil.which("node")
    if node is None or not (MODULES / "node_modules" / "@ag-ui" / "client").is_dir():
        pytest.skip(NOT_THERE)
    till = Till()
    painting = call_reply(("set_colour", Json.of({"to": "red"})))
    model = ScriptedProvider([painting, pay(5), text_reply("It is red, and paid.")])

    async def play() -> bytes:
        async with serving(agent_of(model, tools=[till.tool])) as client:
            arguments = (str(SCRIPT), f"http://{LOOPBACK}:{client.port}/ag-ui", TOKEN, PNG)
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(node, *arguments, cwd=MODULES, stdout=pipe, stderr=pipe)
            told, faults = await process.communicate()
            assert process.returncode == 0, faults.decode()
            return told

    had = json.loads(asyncio.run(play()))
    (message,) = [each for each in model.requests[0].thread if isinstance(each, UserMessage)]
    assert message.content == (TextBlock("Make the page like this"), MediaBlock("image/png", PNG))
    assert last_result(model) == [(TextBlock("paid"),)]
    assert till.paid == [{"amount": 5}]
    assert had["events"].count("RUN_STARTED") == had["events"].count("RUN_FINISHED") == 3
    told = [(each["role"], each.get("toolCallId"), each.get("content")) for each in had["messages"]]
    assert [each for each in told if each[0] == "tool"] == [
        ("tool", "1.1", "the page is red"),
        ("tool", "2.1", "paid"),
    ]
    assert told[-1] == ("assistant", None, "It is red, and paid.")
