"""Pydantic AI behind the port: one agent, whose messages go into the next run. Run by the interpreter that has it."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, ModelRetry, capture_run_messages
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import FinishReason, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.differential.frameworks.stage import CommandFailed, Item, Stage, main

# Pydantic AI has parts of many types where this file touches it: each Any below stands for one of them.
REASONS: dict[str, FinishReason] = {"natural": "stop", "calls": "tool_call", "output limit": "length"}


def items_of(message: Any) -> list[Item]:
    """A message, as all frameworks show theirs."""
    return [item for part in message.parts for item in item_of(part)]


def item_of(part: Any) -> list[Item]:
    """A part of a message."""
    match part.part_kind:
        case "user-prompt":
            return [["text", "user", str(part.content)]]
        case "text":
            return [["text", "assistant", part.content]]
        case "tool-call":
            return [["call", part.tool_call_id, part.tool_name, part.args_as_json_str()]]
        case "tool-return":
            failed = getattr(part, "outcome", "success") not in ("success", None)
            return [["given", part.tool_call_id, str(part.content), "failed" if failed else ""]]
        case "retry-prompt" if part.tool_name is not None:
            return [["given", part.tool_call_id, part.model_response(), "failed"]]
        case "retry-prompt":
            return [["text", "user", part.model_response()]]
        case other:
            return [["text", "system", other]]


class Player:
    """One agent, with one tool, and the messages so far."""

    cancel: Callable[[], None] | None = None  # a run is cancelled with its task

    def __init__(self, stage: Stage) -> None:
        async def reply(messages: list[Any], info: Any) -> ModelResponse:
            answer = stage.asked([item for message in messages for item in items_of(message)])
            if "problem" in answer:
                wait = answer.get("retry_after_s")
                raise ModelHTTPError(answer["problem"], "scripted", {"message": answer.get("message"), "wait": wait})
            if "cut" in answer:
                raise ConnectionResetError("the connection was reset")
            parts: list[Any] = [TextPart(answer["text"])] if answer.get("text") else []
            parts += [ToolCallPart(call["tool"], call["arguments"], call["id"]) for call in answer.get("calls", [])]
            return ModelResponse(parts=parts, finish_reason=REASONS[answer.get("stop", "natural")])

        async def shell(command: str) -> str:
            """Run a command."""
            try:
                return await stage.run(command)
            except CommandFailed as failed:
                raise ModelRetry(str(failed)) from failed

        self._agent = Agent(FunctionModel(reply), tools=[shell])
        self._messages: list[Any] = []

    async def prompt(self, text: str) -> None:
        """One run; where it fails, what it has added so far is kept."""
        with capture_run_messages() as messages:
            try:
                await self._agent.run(text, message_history=self._messages)
            finally:
                self._messages = list(messages) or self._messages


if __name__ == "__main__":
    main(Player)
