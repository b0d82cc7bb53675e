"""Strands Agents behind the port. Run by the interpreter that has it."""

import asyncio
import json
import types
from collections.abc import AsyncIterator
from typing import Any

import strands
import strands.event_loop._retry as retrying
from typing_extensions import override

from tests.differential.frameworks.stage import Answer, CommandFailed, Item, Stage, main
from tests.differential.strands.scripts import Reply
from tests.differential.strands.theirs import FAILURES, ScriptedModel, pieces

# Strands has values of any shape where this file touches it: each Any below stands for one of its dictionaries.
STOPS = {"natural": "end_turn", "calls": "tool_use", "output limit": "max_tokens"}
PROBLEMS = {429: "throttled", 529: "throttled", 400: "too_long", 401: "broken"}


class StagedModel(ScriptedModel):
    """Answers as the stage says, in the events of Strands."""

    def __init__(self, stage: Stage) -> None:
        super().__init__([])
        self._stage = stage

    @override
    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **more: Any) -> AsyncIterator[Any]:
        """The next answer."""
        answer = self._stage.asked([item for message in messages for item in items_of(message)])
        if "problem" in answer:
            raise FAILURES[PROBLEMS[answer["problem"]]](answer.get("message", ""))
        yield {"messageStart": {"role": "assistant"}}
        events = pieces(reply_of(answer))
        half = any(call["half"] for call in answer.get("calls", []))
        for event in events[:-1] if "cut" in answer and half else events:
            yield event
        if answer.get("cut") == "reset":
            raise ConnectionResetError("the connection was reset")
        if "cut" not in answer:
            yield {"messageStop": {"stopReason": STOPS[answer.get("stop", "natural")]}}
            yield {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}}


def reply_of(answer: Answer) -> Reply:
    """The answer as a script of the differential has it."""
    calls = answer.get("calls", [])
    reply: Reply = {"text": answer.get("text", "")}
    if calls:
        reply["calls"] = [{"id": call["id"], "tool": call["tool"], "input": call["arguments"]} for call in calls]
    return reply


def items_of(message: Any) -> list[Item]:
    """A message, as all frameworks show theirs."""
    items: list[Item] = []
    for content in message["content"]:
        if "text" in content:
            items.append(["text", message["role"], content["text"]])
        elif "toolUse" in content:
            use = content["toolUse"]
            items.append(["call", use["toolUseId"], use["name"], json.dumps(use["input"])])
        elif "toolResult" in content:
            told = content["toolResult"]
            text = "\n".join(item.get("text", "") for item in told["content"])
            items.append(["given", told["toolUseId"], text, "failed" if told["status"] == "error" else ""])
    return items


class Player:
    """One agent, with one tool."""

    def __init__(self, stage: Stage) -> None:
        async def shell(command: str) -> Any:
            """Run a command."""
            try:
                return await stage.run(command)
            except CommandFailed as failed:
                return {"status": "error", "content": [{"text": str(failed)}]}

        async def sleep(seconds: float) -> None:
            stage.now_s += seconds
            await asyncio.sleep(0)

        retrying.asyncio = types.SimpleNamespace(sleep=sleep)  # a clock of our own
        self._agent = strands.Agent(model=StagedModel(stage), tools=[strands.tool(shell)], callback_handler=None)
        self.cancel = self._agent.cancel

    async def prompt(self, text: str) -> None:
        """One invocation; the agent keeps its messages."""
        await self._agent.invoke_async(text)


if __name__ == "__main__":
    main(Player)
