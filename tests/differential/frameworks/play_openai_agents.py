"""The OpenAI Agents SDK behind the port: one agent, and a session of its items. Run by the interpreter that has it."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import agents
import httpx2
import openai
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.differential.frameworks.stage import Answer, CommandFailed, Item, Stage, main

# The SDK has values of any shape where this file touches it: each Any below stands for one of its items.
PROBLEMS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    429: openai.RateLimitError,
    529: openai.InternalServerError,
}


class StagedModel(agents.Model):  # type: ignore[misc]  # the checker does not see the SDK
    """Answers as the stage says; a reply comes whole."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> agents.ModelResponse:
        """The next answer."""
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        answer = self._stage.asked([item for each in items for item in items_of(each)])
        if "problem" in answer:
            raise problem_of(answer)
        if "cut" in answer:
            raise openai.APIConnectionError(request=httpx2.Request("POST", "http://127.0.0.1/"))
        return agents.ModelResponse(output=output_of(answer), usage=agents.Usage(requests=1), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not the way that is played here."""
        raise NotImplementedError


def problem_of(answer: Answer) -> Exception:
    """The problem as the client of the SDK raises it."""
    wait = answer.get("retry_after_s")
    headers = {} if wait is None else {"retry-after": str(wait)}
    response = httpx2.Response(answer["problem"], headers=headers, request=httpx2.Request("POST", "http://127.0.0.1/"))
    return PROBLEMS[answer["problem"]](answer.get("message", ""), response=response, body=None)


def output_of(answer: Answer) -> list[Any]:
    """The output items of a reply."""
    status: Any = "incomplete" if answer.get("stop") == "output limit" else "completed"
    output: list[Any] = []
    if answer.get("text"):
        text = ResponseOutputText(text=answer["text"], type="output_text", annotations=[])
        output.append(ResponseOutputMessage(id="m", content=[text], role="assistant", status=status, type="message"))
    for call in answer.get("calls", []):
        output.append(
            ResponseFunctionToolCall(
                call_id=call["id"],
                name=call["tool"],
                arguments=call["arguments"],
                status=status if call["half"] else "completed",
                type="function_call",
            )
        )
    return output


def items_of(item: Any) -> list[Item]:
    """An item of a request, as all frameworks show theirs."""
    match item.get("type", "message"):
        case "function_call":
            return [["call", item["call_id"], item["name"], item["arguments"]]]
        case "function_call_output":
            return [["given", item["call_id"], str(item["output"]), ""]]
        case "message":
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            return [["text", item["role"], text]]
        case other:
            return [["text", "system", other]]


class Player:
    """One agent, with one tool, and its session."""

    cancel: Callable[[], None] | None = None  # a run is cancelled with its task

    def __init__(self, stage: Stage) -> None:
        async def shell(command: str) -> str:
            """Run a command."""
            try:
                return await stage.run(command)
            except CommandFailed as failed:
                return str(failed)  # what the SDK tells of an exception leaves its words out

        agents.set_tracing_disabled(True)
        self._agent = agents.Agent(name="judged", model=StagedModel(stage), tools=[agents.function_tool(shell)])
        self._session = agents.SQLiteSession("judged")

    async def prompt(self, text: str) -> None:
        """One run; the session has what came before."""
        await agents.Runner.run(self._agent, text, session=self._session, max_turns=40)


if __name__ == "__main__":
    main(Player)
