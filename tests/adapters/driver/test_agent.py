"""The agent: events in order, a result, and nothing left, however a run is left."""

import asyncio
import doctest
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ReplyGrew
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.states import Cancelled, Confirming, Idle
from loopkernel.data.tools import InvalidCall, ToolOutput, ValidCall, Verdict
from loopkernel.data.user_deltas import Correct
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters import agent as agent_module
from loopkernel_adapters.agent import Agent, Approver, EventsDropped, Result, WaitingCall
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.pacing import BURST
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.sessions import session as session_module
from loopkernel_adapters.sessions.waiting_calls import calls_waiting_in
from typing_extensions import override

from tests.adapters.driver.agent_world import TWO_ROUNDS, an_agent, asking, tidied
from tests.adapters.driver.driver_world import (
    ASKS,
    NO_INPUT,
    FunctionProvider,
    FunctionTools,
    World,
    descriptors,
    echo,
    one_turn,
    said,
)


def test_the_example_in_the_words_of_the_agent_runs() -> None:
    assert doctest.testmod(agent_module) == doctest.TestResults(failed=0, attempted=7)


def test_the_events_of_a_run_are_those_that_the_driver_shows_in_that_order() -> None:
    async def run() -> None:
        world = World(TWO_ROUNDS)
        await one_turn(world)
        events: list[object] = []
        turn = an_agent(*TWO_ROUNDS).run("go")
        async for event in turn:
            events.append(event)
        assert events == world.events[1:]  # the first is that of the session's beginning
        assert turn.result.reason is TurnEndReason.MODEL_STOP
        assert turn.result.text == "That is all."
        assert [result.tool for result in turn.result.calls] == ["echo"]
        assert isinstance(turn.result.state, Idle)
        assert turn.result.waiting == ()

    asyncio.run(run())


def test_the_log_of_a_run_leads_to_the_state_of_its_result() -> None:
    agent = an_agent(*TWO_ROUNDS)
    result = agent.run_sync("go")
    assert replay(asyncio.run(agent.runs.read(result.run))) == result.state


def test_a_turn_happens_once_and_has_no_result_before_its_end() -> None:
    async def run() -> None:
        turn = an_agent(*TWO_ROUNDS).run("go")
        with pytest.raises(RuntimeError, match="the turn is not over"):
            _ = turn.result
        assert (await turn).text == "That is all."
        with pytest.raises(RuntimeError, match="begun already"):
            await turn

    asyncio.run(run())


def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def test_a_typed_function_is_a_tool() -> None:
    replies = (call_reply(("word_count", Json.of({"text": "a b c"}))), text_reply("b"))
    result = Agent(ScriptedProvider(replies), [word_count], approve=lambda call: True).run_sync("go")
    assert [(call.tool, call.content) for call in result.calls] == [("word_count", (TextBlock("3"),))]


def shouted(word: str) -> str:
    """A word, louder."""
    return word.upper()


def doubled(number: int) -> int:
    """Twice the number."""
    return 2 * number


@pytest.mark.rule("CALL-1")
def test_a_call_takes_what_an_earlier_one_gives_and_is_judged_by_that() -> None:
    calls = (
        ("shouted", Json.of({"word": "five"})),
        ("doubled", Json.of({"number": {"$result": "scripted_1"}})),
        ("shouted", Json.of({"word": {"$result": "scripted_1"}})),
        ("word_count", Json.of({"text": "a b c"})),
        ("doubled", Json.of({"number": {"$result": "scripted_4"}})),
    )
    agent = Agent(
        ScriptedProvider((call_reply(*calls), text_reply("done"))),
        [shouted, doubled, word_count],
        approve=lambda call: True,
    )
    told = [(call.status, call.content) for call in agent.run_sync("go").calls]
    assert [content for status, content in told if status is CallStatus.DONE] == [
        (TextBlock("FIVE"),),
        (TextBlock("FIVE"),),
        (TextBlock("3"),),
        (TextBlock("6"),),
    ]
    assert told[1][0] is CallStatus.ERROR
    assert "number" in str(told[1][1])


def test_a_missing_extra_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "loopkernel_adapters.tools.functions", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ImportError, match=r"pip install 'loopkernel\[tools\]'"):
        Agent(ScriptedProvider(()), [word_count])


# --- left early ---


class Endless:
    """A model that streams for ever, and what became of its stream."""

    def __init__(self) -> None:
        self.closed = 0

    async def __call__(self, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        try:
            while True:
                yield ModelText(operation, "more ")
        finally:
            self.closed += 1


async def breaks(agent: Agent) -> None:
    async for event in agent.run("go", "r"):
        if isinstance(event, ReplyGrew):
            break


async def breaks_in_a_block(agent: Agent) -> None:
    async with agent.run("go", "r") as turn:
        async for event in turn:
            if isinstance(event, ReplyGrew):
                break
    assert turn.result.reason is TurnEndReason.USER_ABORT
    assert len(asyncio.all_tasks()) == 1


async def raises(agent: Agent) -> None:
    with pytest.raises(ZeroDivisionError):
        async with agent.run("go", "r") as turn:
            async for event in turn:
                if isinstance(event, ReplyGrew):
                    raise ZeroDivisionError


async def is_cancelled(agent: Agent) -> None:
    seen = asyncio.Event()

    async def consumes() -> None:
        async for event in agent.run("go", "r"):
            if isinstance(event, ReplyGrew):
                seen.set()

    consuming = asyncio.ensure_future(consumes())
    await seen.wait()
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming
    assert len(asyncio.all_tasks()) == 1


async def is_awaited_no_longer(agent: Agent) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await agent.run("go", "r")
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("leaves", [breaks, breaks_in_a_block, raises, is_cancelled, is_awaited_no_longer])
def test_whoever_leaves_early_cancels_the_turn_and_closes_everything(
    leaves: Callable[[Agent], Awaitable[None]],
) -> None:
    async def run() -> None:
        gc.collect()
        before, stream = descriptors(), Endless()
        agent = Agent(FunctionProvider(stream))
        await leaves(agent)
        await tidied()
        state = replay(await agent.runs.read("r"))
        assert isinstance(state, Cancelled)
        assert state.session.last_end is TurnEndReason.USER_ABORT
        assert stream.closed == 1
        assert descriptors() == before
        await (await agent.runs.open("r")).close()  # nobody has it open any more

    asyncio.run(run())


# --- a slow reader ---


def test_a_slow_reader_misses_increments_first_and_never_the_end() -> None:
    async def run() -> None:
        pieces = [ModelText(ANY, "word ")] * (BURST - 10)  # of more, some would be recorded as one
        world = World([(*pieces, *text_reply("end"))])
        await one_turn(world)
        seen: list[object] = []
        agent = Agent(ScriptedProvider([(*pieces, *text_reply("end"))]), most_events=50)
        async for event in agent.run("go"):
            seen.append(event)
            for _ in range(10):
                await asyncio.sleep(0)
        dropped = sum(event.count for event in seen if isinstance(event, EventsDropped))
        assert dropped + sum(not isinstance(event, EventsDropped) for event in seen) == len(world.events) - 1
        assert dropped > 0
        shown = [event for event in seen if not isinstance(event, EventsDropped | ReplyGrew)]
        assert shown == [event for event in world.events[1:] if not isinstance(event, ReplyGrew)]

    asyncio.run(run())


# --- calls that wait for a person ---


def test_without_an_approver_a_call_is_left_waiting_and_a_session_goes_on_with_it() -> None:
    async def run() -> None:
        agent = asking()
        result = await agent.run("go")
        assert result.reason is None
        assert [(call.tool, call.input, call.question) for call in result.waiting] == [
            ("echo", Json.of({"a": 1}), None)
        ]
        async with agent.session(result.run) as session:
            assert session.waiting == result.waiting
            await session.answer(session.waiting[0], True)
            result = await session.go_on()
        assert (result.reason, result.text) == (TurnEndReason.MODEL_STOP, "That is all.")
        assert [answer.status.value for answer in result.calls] == ["done"]

    asyncio.run(run())


@pytest.mark.rule("ASK-4")
def test_an_answer_to_a_call_as_it_was_before_is_not_taken() -> None:
    async def run() -> None:
        agent = asking()
        result = await agent.run("go")
        async with agent.session(result.run) as session:
            (call,) = session.waiting
            with pytest.raises(ValueError, match=r"the call 1\.1 has changed since"):
                await session.answer(evolve(call, input=Json.of({"a": 0})), True)
            assert session.waiting == (call,)

    asyncio.run(run())


@pytest.mark.rule("ASK-4")
def test_an_approver_whose_call_changes_meanwhile_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WaitingCall] = []

    def as_it_is_now(driver: Driver) -> tuple[WaitingCall, ...]:
        return tuple(evolve(call, input=Json.of({"a": 2})) if seen else call for call in calls_waiting_in(driver))

    def approve(call: WaitingCall) -> bool:
        seen.append(call)
        return call.input == Json.of({"a": 1})  # the one that is there no more

    monkeypatch.setattr(session_module, "calls_waiting_in", as_it_is_now)

    async def run() -> Result:
        return await asking(approve).run("go")

    result = asyncio.run(run())
    assert [call.input for call in seen] == [Json.of({"a": 1}), Json.of({"a": 2})]
    assert [answer.status.value for answer in result.calls] == ["rejected-by-user"]


async def consents_later(call: WaitingCall) -> bool:
    await asyncio.sleep(0)
    return True


@pytest.mark.parametrize(
    ("approve", "status"),
    [
        (lambda call: True, "done"),
        (consents_later, "done"),
        (lambda call: False, "rejected-by-user"),
        (lambda call: "not today", "rejected-by-user"),
        (lambda call: Correct(call=call.path[-1], input=Json.of({"a": 2})), "done"),
    ],
)
def test_an_approver_answers_in_the_place_of_a_person(approve: Approver, status: str) -> None:
    result = asking(approve).run_sync("go")
    assert [answer.status.value for answer in result.calls] == [status]
    assert result.waiting == ()


def test_what_an_approver_raises_ends_the_run_and_the_call_still_waits() -> None:
    def approve(call: WaitingCall) -> bool:
        raise ZeroDivisionError(call.tool)

    agent = asking(approve)
    with pytest.raises(ZeroDivisionError, match="echo"):
        agent.run_sync("go", "r")
    assert isinstance(replay(asyncio.run(agent.runs.read("r"))), Confirming)
    with pytest.raises(TypeError, match="waits for an approval"):
        asking(lambda call: None).run_sync("go")


def test_an_answer_of_another_type_is_told_and_rejects_nothing() -> None:
    agent = asking(lambda call: {"approved": True})  # type: ignore[arg-type, return-value]  # what it is about
    with pytest.raises(TypeError, match="of type dict; it is True, False"):
        agent.run_sync("go", "r")
    assert isinstance(replay(asyncio.run(agent.runs.read("r"))), Confirming)


def test_one_tool_without_a_list_is_told() -> None:
    def echo(text: str) -> str:
        return text

    with pytest.raises(TypeError, match=r"write \[echo\]"):
        Agent(ScriptedProvider([]), echo)  # type: ignore[arg-type]  # what it is about


def test_an_answer_that_is_never_taken_is_not_asked_for_for_ever() -> None:
    asked: list[WaitingCall] = []

    def approve(call: WaitingCall) -> Correct:
        asked.append(call)
        return Correct(call=call.path[-1], input=NO_INPUT)

    class Refusing(FunctionTools):
        @override
        def check(self, command: CheckCall) -> Verdict:
            return InvalidCall("no") if asked else ValidCall()

    agent = an_agent(*TWO_ROUNDS, tools=Refusing(ASKS, echo=echo), approve=approve)
    assert len(agent.run_sync("go").waiting) == 1
    assert len(asked) == 3


@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize(("approve", "answer"), [(None, "None"), (lambda call: "blue", '"blue"')])
def test_a_question_is_answered_or_else_declined(approve: Approver | None, answer: str) -> None:
    async def asks(command: StartTool, context: RunContext) -> ToolOutput:
        value = await context.ask("Which colour?")
        return said("None" if value is None else value.text)

    replies = (call_reply(("asks", NO_INPUT)), text_reply("b"))
    result = an_agent(*replies, tools=FunctionTools(asks=asks), approve=approve).run_sync("go")
    assert [block.text for call in result.calls for block in call.content if hasattr(block, "text")] == [answer]
