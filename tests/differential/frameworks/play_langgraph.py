"""LangGraph behind the port: its prebuilt agent, with a checkpointer in memory. Run by the interpreter that has it."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

from tests.differential.frameworks.stage import Answer, CommandFailed, Item, Stage, main

# LangGraph has messages of many types where this file touches it: each Any below stands for one of them.
REASONS = {"natural": "stop", "calls": "tool_calls", "output limit": "length"}


class ProblemOfProvider(Exception):
    """What the client of a provider raises."""


class StagedModel(BaseChatModel):  # type: ignore[misc]  # the checker does not see LangChain
    """Answers as the stage says; a reply comes whole."""

    stage: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """The script knows them."""
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        answer = self.stage.asked([item for message in messages for item in items_of(message)])
        if "problem" in answer:
            raise ProblemOfProvider(f"{answer['problem']}: {answer.get('message')}")
        if "cut" in answer:
            raise ConnectionResetError("the connection was reset")
        return ChatResult(generations=[ChatGeneration(message=message_of(answer))])


def message_of(answer: Answer) -> AIMessage:
    """The reply as the clients of providers give it: calls whose arguments do not parse are kept apart."""
    calls, invalid = [], []
    for call in answer.get("calls", []):
        try:
            calls.append({"name": call["tool"], "args": json.loads(call["arguments"]), "id": call["id"]})
        except ValueError as error:
            given = {"name": call["tool"], "args": call["arguments"], "id": call["id"], "error": str(error)}
            invalid.append(given)
    reason = {"finish_reason": REASONS[answer.get("stop", "natural")]}
    return AIMessage(
        content=answer.get("text", ""), tool_calls=calls, invalid_tool_calls=invalid, response_metadata=reason
    )


def items_of(message: Any) -> list[Item]:
    """A message, as all frameworks show theirs; a call that did not parse goes to the provider as any other does."""
    if message.type == "tool":
        failed = "failed" if message.status == "error" else ""
        return [["given", message.tool_call_id, str(message.content), failed]]
    role = {"human": "user", "ai": "assistant"}.get(message.type, "system")
    items: list[Item] = [["text", role, str(message.content)]] if message.content else []
    for call in getattr(message, "tool_calls", []):
        items.append(["call", call["id"], call["name"], json.dumps(call["args"])])
    for call in getattr(message, "invalid_tool_calls", []):
        items.append(["call", call["id"], call["name"], call["args"]])
    return items


class Player:
    """One agent, with one tool, and the thread that it keeps."""

    cancel: Callable[[], None] | None = None  # a run is cancelled with its task

    def __init__(self, stage: Stage) -> None:
        async def shell(command: str) -> str:
            """Run a command."""
            try:
                return await stage.run(command)
            except CommandFailed as failed:
                raise ToolException(str(failed)) from failed

        tool = StructuredTool.from_function(coroutine=shell, name="shell", handle_tool_error=True)
        self._agent = create_react_agent(StagedModel(stage=stage), [tool], checkpointer=InMemorySaver())
        self._settings = {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": 100}

    async def prompt(self, text: str) -> None:
        """One run; the thread has what came before."""
        await self._agent.ainvoke({"messages": [("user", text)]}, self._settings)


if __name__ == "__main__":
    main(Player)
