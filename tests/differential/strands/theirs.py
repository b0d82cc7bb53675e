"""Plays scripts in the real Strands, with a scripted model in process. Run by the interpreter that has Strands.

A script a line comes in, what was seen of it goes out.
"""

import asyncio
import json
import logging
import sys
import types
import warnings
from collections.abc import AsyncIterator
from typing import Any, cast

import strands
import strands.event_loop._retry as retrying
from pydantic import BaseModel
from strands.models.model import Model
from strands.types.exceptions import (
    ContextWindowOverflowException,
    MaxTokensReachedException,
    ModelThrottledException,
)

from tests.differential.strands.observations import (
    Asked,
    Block,
    Played,
    Seen,
    Shown,
    assistant_text,
    canonical,
    result,
    user_text,
)
from tests.differential.strands.scripts import LAST, OUTPUT_TOOL, Prompt, Reply, Script

# Strands has values of any shape where this file touches it: each Any below stands for one of its dictionaries.


class Answer(BaseModel):
    """An answer."""

    value: int


assert Answer.__name__ == OUTPUT_TOOL
FAILURES: dict[str, type[Exception]] = {
    "throttled": ModelThrottledException,
    "too_long": ContextWindowOverflowException,
    "broken": RuntimeError,
}


class ScriptedModel(Model):  # type: ignore[misc]  # the checker does not see Strands
    """Answers each request with the next reply of the script, and notes the request."""

    def __init__(self, replies: list[Reply]) -> None:
        self.left = list(replies)
        self.asked: list[Asked] = []
        self.agent: Any = None

    def update_config(self, **_: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """There is nothing to configure."""
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not the way that is played here."""
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **more: Any) -> AsyncIterator[Any]:
        """The next reply, in the events that Strands reads."""
        choice = more.get("tool_choice")
        self.asked.append(
            {
                "messages": shown(messages),
                "tools": sorted(each["name"] for each in tool_specs or []),
                "forced": choice["tool"]["name"] if choice and "tool" in choice else None,
            }
        )
        reply = self.left.pop(0) if self.left else LAST
        if "fails" in reply:
            raise FAILURES[reply["fails"]](reply["fails"])
        yield {"messageStart": {"role": "assistant"}}
        for piece in pieces(reply):
            yield piece
            if reply.get("cancel") and "contentBlockDelta" in piece:
                self.agent.cancel()
        redaction = {}
        if "redacts_user" in reply:
            redaction["redactUserContentMessage"] = reply["redacts_user"]
        if "redacts_reply" in reply:
            redaction["redactAssistantContentMessage"] = reply["redacts_reply"]
        if redaction:
            yield {"redactContent": redaction}
        yield {"messageStop": {"stopReason": reply.get("stop", "end_turn")}}
        yield {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}}


def pieces(reply: Reply) -> list[dict[str, Any]]:
    """The blocks of a reply as stream events."""
    events: list[dict[str, Any]] = []
    if reply.get("text"):
        events += [{"contentBlockStart": {"start": {}}}, {"contentBlockDelta": {"delta": {"text": reply["text"]}}}]
        events.append({"contentBlockStop": {}})
    for call in reply.get("calls", []):
        start = {"toolUse": {"name": call["tool"], "toolUseId": call["id"]}}
        events += [
            {"contentBlockStart": {"start": start}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": call["input"]}}}},
            {"contentBlockStop": {}},
        ]
    return events


def shown(messages: list[Any]) -> list[Shown]:
    """The messages in the form that both loops are compared in; a blank reply, which it fills in, is nothing."""
    found: list[Shown] = []
    for message in messages:
        blocks = [block for content in message["content"] for block in block_of(message["role"], content)]
        if blocks:
            found.append((message["role"], blocks))
    return found


def block_of(role: str, content: Any) -> list[Block]:
    """A block of content, or nothing where it says nothing."""
    if "text" in content:
        if not content["text"].strip() or content["text"] == "[blank text]":
            return []
        return [user_text(content["text"]) if role == "user" else assistant_text(content["text"])]
    if "toolUse" in content:
        use = content["toolUse"]
        return [["call", use["toolUseId"], use["name"], canonical(json.dumps(use["input"]))]]
    told = content["toolResult"]
    text = "\n".join(item.get("text", "") for item in told["content"])
    return [result(told["toolUseId"], told["status"] == "success", text)]


class Player:
    """One agent, and the prompts of its script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.runs: list[list[str]] = []
        self.waits: list[int] = []
        self.model = ScriptedModel(script["replies"])
        self.agent = strands.Agent(model=self.model, tools=self.tools(), callback_handler=None)
        self.model.agent = self.agent

    def tools(self) -> list[Any]:
        """The tools of every script; each notes its start."""

        async def read(path: str) -> str:
            """Read."""
            self.runs.append(["read", path])
            return f"read {path} " + "." * 200

        async def big(path: str) -> str:
            """Read much."""
            self.runs.append(["big", path])
            return path * 3000

        async def fail(path: str) -> dict[str, Any]:
            """Fail."""
            self.runs.append(["fail", path])
            return {"status": "error", "content": [{"text": "it failed"}]}

        async def fall(path: str) -> str:
            """Raise."""
            self.runs.append(["raise", path])
            raise RuntimeError("it raised")

        async def cancel(path: str) -> str:
            """Cancel the agent that runs it."""
            self.runs.append(["cancel", path])
            self.agent.cancel()
            await asyncio.sleep(0)
            return "it ran on"

        return [strands.tool(each) for each in (read, big, fail, cancel)] + [strands.tool(name="raise")(fall)]

    async def play(self) -> Seen:
        """The prompts, one after the other."""

        async def sleep(seconds: float) -> None:
            self.waits.append(int(seconds * 1000))

        retrying.asyncio = types.SimpleNamespace(sleep=sleep)  # a clock of our own
        prompts = [await self.prompt(prompt) for prompt in self.script["prompts"]]
        return {"prompts": prompts, "history": shown(self.agent.messages)}

    async def prompt(self, prompt: Prompt) -> Played:
        """One prompt, to its end."""
        self.runs, self.waits, self.model.asked = [], [], []
        wanted = Answer if prompt.get("output") else None
        detail = ""
        try:
            ended = await self.agent.invoke_async(prompt["text"], structured_output_model=wanted)
            end = "output" if ended.structured_output is not None else cast("str", ended.stop_reason)
        except MaxTokensReachedException:
            end = "max_tokens"
        except Exception as error:  # whatever a script makes of the real loop is what is compared
            end, detail = "error", f"{type(error).__name__}: {error}"
        return {"asked": self.model.asked, "runs": self.runs, "waits": self.waits, "end": end, "detail": detail}


def main() -> None:
    """Each line of the input, played."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(asyncio.run(Player(json.loads(line)).play())), flush=True)


if __name__ == "__main__":
    main()
