"""Messages that are said at once in one session: the result of each turn tells what belongs to it, and no more."""

import asyncio

import pytest
from attrs import evolve
from loopkernel.data.choices import OnBusy
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import EffectClass
from loopkernel.data.user_deltas import ChangePolicy
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.agent import Agent, Result, Session, WaitingCall
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.tools.functions import tool

OUTPUT = Json.of({"number": 7})


@tool(effect=EffectClass.READ_ONLY)
def submit(number: int) -> None:
    """Give the number."""


@tool
def refund(number: int) -> None:
    """Pay it back."""


async def said(session: Session, words: str) -> Result:
    return await session.say(words)


@pytest.mark.rule("INPUT-2")
def test_each_message_has_the_reply_to_it_though_they_are_said_at_once() -> None:
    async def run() -> None:
        replies = (text_reply("one"), call_reply(("submit", OUTPUT)), text_reply("three"))
        async with Agent(ScriptedProvider(replies), [submit], policy=Policy(output_tool="submit")).session() as session:
            results = await asyncio.gather(*(said(session, "go") for _ in replies))
        assert [result.text for result in results] == ["one", "", "three"]
        assert [result.output for result in results] == [None, OUTPUT, None]
        assert [len(result.calls) for result in results] == [0, 1, 0]
        ends = TurnEndReason.MODEL_STOP, TurnEndReason.OUTPUT, TurnEndReason.MODEL_STOP
        assert [result.reason for result in results] == [*ends]

    asyncio.run(run())


@pytest.mark.rule("INPUT-1")
def test_a_message_that_interrupts_has_its_own_turn() -> None:
    async def run() -> None:
        model = ScriptedProvider([(asyncio.Event(),), text_reply("two")])
        async with Agent(model, policy=Policy(on_busy=OnBusy.INTERRUPT)).session() as session:
            first = asyncio.ensure_future(said(session, "a"))
            while not model.requests:
                await asyncio.sleep(0)
            second = await said(session, "b")
            assert (second.reason, second.text) == (TurnEndReason.MODEL_STOP, "two")
            assert ((await first).reason, (await first).text) == (TurnEndReason.INTERRUPTED, "")

    asyncio.run(run())


def test_the_policy_of_a_session_is_changed_by_what_is_sent() -> None:
    async def run() -> None:
        async with Agent(ScriptedProvider([]), policy=Policy(max_turns=3)).session() as session:
            assert session.policy == Policy(max_turns=3)
            await session.send(ChangePolicy(evolve(session.policy, max_turns=5)))
            assert session.policy == Policy(max_turns=5)

    asyncio.run(run())


def test_an_approver_is_asked_once_for_a_call_however_many_turns_wait() -> None:
    async def run() -> None:
        asked: list[WaitingCall] = []

        async def approve(call: WaitingCall) -> bool:
            asked.append(call)
            await asyncio.sleep(0)
            return True

        model = ScriptedProvider([call_reply(("refund", OUTPUT)), text_reply("one"), text_reply("two")])
        async with Agent(model, [refund], approve=approve).session() as session:
            results = await asyncio.gather(said(session, "a"), said(session, "b"))
        assert [result.text for result in results] == ["one", "two"]
        assert len(asked) == 1

    asyncio.run(run())


@pytest.mark.rule("INPUT-2")
def test_a_message_that_stays_in_the_queue_has_no_end_yet() -> None:
    async def run() -> None:
        model = ScriptedProvider([(asyncio.Event(),), text_reply("three"), text_reply("two")])
        async with Agent(model).session() as session:
            turns = [asyncio.ensure_future(said(session, words)) for words in ("a", "b")]
            while not model.requests:
                await asyncio.sleep(0)
            await session.cancel()
            assert [(await turn).reason for turn in turns] == [TurnEndReason.USER_ABORT, None]
            third = await said(session, "c")  # it goes first, and then what waited
            assert (third.text, third.reason) == ("three", TurnEndReason.MODEL_STOP)

    asyncio.run(run())
