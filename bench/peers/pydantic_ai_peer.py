"""pydantic-ai at the work of `bench.agent_table`; run by the interpreter that has it (see `bench.peers.table`)."""

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from bench.peers.serving import serve

WORD = "word "


async def work(rounds: int, calls: int, pieces: int) -> tuple[int, int]:
    """The characters that were said, and the calls that ran."""
    asked = ran = said = 0

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal asked
        asked += 1
        if asked > rounds:
            return ModelResponse(parts=[TextPart(WORD * pieces)])
        return ModelResponse(
            parts=[
                ToolCallPart("read", f'{{"path":"{asked}-{number}"}}', f"call_{asked}_{number}")
                for number in range(calls)
            ]
        )

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(pieces):
            yield WORD

    async def read(path: str) -> str:
        """Read a file."""
        nonlocal ran
        ran += 1
        return "ok"

    agent = Agent(FunctionModel(reply, stream_function=stream), tools=[read])
    unlimited = UsageLimits(request_limit=None)
    if rounds:
        result = await agent.run("go", usage_limits=unlimited)
        return len(result.output), ran
    async with agent.run_stream("go", usage_limits=unlimited) as streamed:
        async for piece in streamed.stream_text(delta=True, debounce_by=None):
            said += len(piece)
    return said, ran


if __name__ == "__main__":
    serve(work)
