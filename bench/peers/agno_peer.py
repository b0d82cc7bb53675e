"""agno at the work of `bench.agent_table`; run by the interpreter that has it (see `bench.peers.table`)."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.agent import Agent  # type: ignore[import-not-found]  # it is in an environment of its own
from agno.models.base import Model  # type: ignore[import-not-found]  # as above
from agno.models.response import ModelResponse  # type: ignore[import-not-found]  # as above

from bench.peers.serving import serve

WORD = "word "


class Scripted(Model):  # type: ignore[misc]  # a class of agno, which is not there for the type checker
    """Answers at once: so many rounds of so many calls, then so many pieces of text. Any: what is agno's own."""

    def __init__(self, rounds: int, calls: int, pieces: int) -> None:
        super().__init__(id="scripted", name="Scripted", provider="scripted")
        self.rounds, self.calls, self.pieces, self.asked = rounds, calls, pieces, 0

    def _calls(self) -> list[dict[str, Any]]:
        self.asked += 1
        if self.asked > self.rounds:
            return []
        return [
            {
                "id": f"call_{self.asked}_{number}",
                "type": "function",
                "function": {"name": "read", "arguments": f'{{"path":"{self.asked}-{number}"}}'},
            }
            for number in range(self.calls)
        ]

    async def ainvoke(self, *given: Any, **named: Any) -> ModelResponse:
        """A whole reply."""
        calls = self._calls()
        return ModelResponse(role="assistant", content=None if calls else WORD * self.pieces, tool_calls=calls)

    async def ainvoke_stream(self, *given: Any, **named: Any) -> AsyncIterator[ModelResponse]:
        """A reply in pieces."""
        assert not self._calls()
        for _ in range(self.pieces):
            yield ModelResponse(role="assistant", content=WORD)

    def invoke(self, *given: Any, **named: Any) -> ModelResponse:
        """Not asked for."""
        raise NotImplementedError

    def invoke_stream(self, *given: Any, **named: Any) -> Iterator[ModelResponse]:
        """Not asked for."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **named: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


async def work(rounds: int, calls: int, pieces: int) -> tuple[int, int]:
    """The characters that were said, and the calls that ran."""
    ran = 0

    async def read(path: str) -> str:
        """Read a file."""
        nonlocal ran
        ran += 1
        return "ok"

    agent = Agent(model=Scripted(rounds, calls, pieces), tools=[read], telemetry=False)
    if rounds:
        result = await agent.arun("go")
        return len(result.content), ran
    said = 0
    async for event in agent.arun("go", stream=True):
        if event.event == "RunContent":
            said += len(event.content)
    return said, ran


if __name__ == "__main__":
    serve(work)
