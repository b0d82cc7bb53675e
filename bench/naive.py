"""What most people would write by hand: a loop over dicts. What the driver is measured beside.

It keeps no log, checks nothing, bounds nothing, and forgets everything with the process. What the driver costs beyond
it is the price of the rest.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Message = dict[str, Any]  # Any: JSON, as the APIs of models have it
Model = Callable[[list[Message]], Awaitable[Message]]
StreamingModel = Callable[[list[Message]], AsyncIterator[Message]]
Tool = Callable[..., Awaitable[str]]


async def agent(model: Model, tools: dict[str, Tool], question: str) -> list[Message]:
    """Ask the model, run the tools it calls, feed the results back, until it calls none: the whole conversation."""
    messages: list[Message] = [{"role": "user", "content": question}]
    while True:
        reply = await model(messages)
        messages.append(reply)
        calls = reply.get("tool_calls")
        if not calls:
            return messages
        if len(calls) == 1:
            messages.append(await result(tools, calls[0]))
        else:
            messages.extend(await asyncio.gather(*(result(tools, call) for call in calls)))


async def result(tools: dict[str, Tool], call: Message) -> Message:
    """The message that answers a call."""
    function = call["function"]
    output = await tools[function["name"]](**json.loads(function["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": output}


async def streamed(model: StreamingModel, messages: list[Message]) -> AsyncIterator[str]:
    """Pass each piece of a reply on as it comes, and keep the whole."""
    pieces: list[str] = []
    async for chunk in model(messages):
        if chunk["type"] == "text":
            pieces.append(chunk["text"])
            yield chunk["text"]
    messages.append({"role": "assistant", "content": "".join(pieces)})
