"""What a turn gives whose end is an output: the checked input of the output call, and nothing where there is none."""

import asyncio

import pytest
from loopkernel.data.choices import OutputCalls
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.agent import Agent, Result
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.tools.functions import tool

SEVEN = Json.of({"number": 7})
POLICY = Policy(output_tool="submit", output_required=True)


@tool(effect=EffectClass.READ_ONLY)
def submit(number: int) -> None:
    """Give the number."""
    raise AssertionError("an output is not run")


@tool(effect=EffectClass.READ_ONLY)
def look() -> int:
    """Look."""
    return 7


def came_of(*replies: Reply, policy: Policy = POLICY) -> Result:
    return Agent(ScriptedProvider(replies), [submit, look], policy=policy).run_sync("go")


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize(
    "replies",
    [
        (call_reply(("submit", SEVEN)),),
        (call_reply(("submit", Json.of({"number": "seven"}))), call_reply(("submit", SEVEN))),
        (text_reply("It is 7."), call_reply(("submit", SEVEN))),
        (call_reply(("look", Json.of({}))), call_reply(("submit", SEVEN))),
        (call_reply(("look", Json.of({})), ("submit", SEVEN), ("submit", Json.of({"number": 8}))),),
        (call_reply(("submit", Json.of({"number": "seven"})), ("submit", SEVEN)),),
        (call_reply(("look", Json.of({})), ("submit", Json.of({"number": {"$result": "scripted_1"}}))),),
    ],
)
@pytest.mark.parametrize("others", OutputCalls)
def test_the_output_is_what_the_output_call_was_given(replies: tuple[Reply, ...], others: OutputCalls) -> None:
    result = came_of(*replies, policy=Policy(output_tool="submit", output_calls=others, output_required=True))
    assert result.reason is TurnEndReason.OUTPUT
    assert result.output in (SEVEN, Json.of({"number": "7"}))  # a reference stands for a text


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize(
    ("replies", "policy", "reason"),
    [
        ((text_reply("7"), text_reply("7!")), POLICY, TurnEndReason.ERROR),
        ((text_reply("7"),), Policy(), TurnEndReason.MODEL_STOP),
        ((call_reply(("look", Json.of({}))), text_reply("7")), Policy(output_tool="submit"), TurnEndReason.MODEL_STOP),
    ],
)
def test_without_such_an_end_there_is_no_output(
    replies: tuple[Reply, ...], policy: Policy, reason: TurnEndReason
) -> None:
    result = came_of(*replies, policy=policy)
    assert (result.reason, result.output) == (reason, None)


def test_the_output_of_one_turn_is_not_that_of_the_next() -> None:
    async def run() -> None:
        replies = (call_reply(("submit", SEVEN)), text_reply("Hello."), call_reply(("submit", Json.of({"number": 8}))))
        policy = Policy(output_tool="submit")
        agent = Agent(ScriptedProvider(replies), [submit, look], policy=policy, runs=MemoryRuns())
        async with agent.session("s") as session:
            found = [(await session.say("go")).output for _ in replies]
        assert found == [SEVEN, None, Json.of({"number": 8})]
        async with agent.session("s") as session:
            assert (await session.go_on()).output == found[-1]  # the last turn, as the log tells it
            failed = await session.say("go")
        assert (failed.reason, failed.output) == (TurnEndReason.ERROR, None)

    asyncio.run(run())


def test_an_output_tool_that_nobody_offers_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="output_tool 'submit' is none of the tools: look"):
        Agent(ScriptedProvider([]), [look], policy=POLICY)
