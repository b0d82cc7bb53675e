"""Agno behind the port: one agent, whose session is kept in memory. Run by the interpreter that has it."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.exceptions import ModelProviderError, ModelRateLimitError
from agno.models.base import Model
from agno.models.response import ModelResponse

from tests.differential.frameworks.stage import Answer, Item, Stage, main

# Agno has messages and runs of many types where this file touches them: each Any below stands for one of them.


@dataclass
class StagedModel(Model):  # type: ignore[misc]  # the checker does not see the framework
    """Answers as the stage says; a reply comes whole."""

    id: str = "staged"
    stage: Stage | None = None

    async def ainvoke(self, messages: list[Any], assistant_message: Any, **_: Any) -> ModelResponse:
        """The next answer."""
        assert self.stage is not None
        answer = self.stage.asked([item for message in messages for item in items_of(message)])
        if "problem" in answer:
            raise problem_of(answer)
        if "cut" in answer:
            raise ModelProviderError("the connection was reset", status_code=502)
        return ModelResponse(
            role="assistant",
            content=answer.get("text") or None,
            tool_calls=[
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["tool"], "arguments": call["arguments"]},
                }
                for call in answer.get("calls", [])
            ],
        )

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        """Not the way that is played here."""
        raise NotImplementedError

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        """Not the way that is played here."""
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        """Not the way that is played here."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


def problem_of(answer: Answer) -> Exception:
    """The problem as Agno's own models raise it."""
    message, status = answer.get("message", ""), answer["problem"]
    return ModelRateLimitError(message) if status == 429 else ModelProviderError(message, status_code=status)


def items_of(message: Any) -> list[Item]:
    """A message of a request, as all frameworks show theirs."""
    if message.role == "tool":
        return [["given", message.tool_call_id, str(message.content), "failed" if message.tool_call_error else ""]]
    items: list[Item] = [["text", message.role, str(message.content)]] if message.content else []
    for call in message.tool_calls or []:
        items.append(["call", call["id"], call["function"]["name"], call["function"]["arguments"]])
    return items


class RunFailed(Exception):
    """A run has ended with an error, which Agno puts into the run and does not raise."""


class Player:
    """One agent, with one tool, and its session."""

    cancel: Callable[[], None] | None = None  # a run is cancelled with its task

    def __init__(self, stage: Stage) -> None:
        async def shell(command: str) -> str:
            """Run a command."""
            return await stage.run(command)

        self._agent = Agent(
            model=StagedModel(stage=stage),
            tools=[shell],
            db=InMemoryDb(),
            session_id="judged",
            add_history_to_context=True,
            num_history_runs=100,
            telemetry=False,
        )

    async def prompt(self, text: str) -> None:
        """One run; the session has what came before."""
        run = await self._agent.arun(text)
        if run.status.value.lower() == "error":
            raise RunFailed(str(run.content))


if __name__ == "__main__":
    main(Player)
