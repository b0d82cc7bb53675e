"""What the bench measures: the driver and the loop by hand do the same work, and assert that they have."""

import asyncio

import pytest

from bench import agent_work, installation, naive
from bench.agent_work import by_hand, conversation, driven, streamed_by_hand

pytestmark = pytest.mark.in_place


def test_both_do_their_work() -> None:
    asyncio.run(driven(3, calls=2, pieces=4))
    asyncio.run(by_hand(3, calls=2))
    asyncio.run(streamed_by_hand(4))


def test_the_conversation_that_is_saved_is_that_of_the_loop_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[naive.Message] = []
    agent = naive.agent

    async def noted(model: naive.Model, tools: dict[str, naive.Tool], question: str) -> list[naive.Message]:
        kept.extend(await agent(model, tools, question))
        return kept

    monkeypatch.setattr(naive, "agent", noted)
    asyncio.run(agent_work.by_hand(3))
    assert kept[:-1] == conversation(3)


def test_work_that_was_not_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lazy(tools: dict[str, naive.Tool], call: naive.Message) -> naive.Message:
        return {"role": "tool"}

    monkeypatch.setattr(naive, "result", lazy)
    with pytest.raises(AssertionError):
        asyncio.run(by_hand(1))


def test_a_bare_installation_is_counted_by_the_metadata() -> None:
    assert installation.bare_distributions() == {"loopkernel", "attrs"}
