"""The questions of running tools: the driver rests, and the tool that asked goes on with the answer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import StartTool
from loopkernel.data.events import QuestionAsked, Refused, ToolEnded
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    CancelAll,
    CancelCall,
    Reject,
    UserDelta,
)
from loopkernel.replaying import replay
from loopkernel_adapters.ports import RunContext

from tests.adapters.driver.driver_world import FunctionTools, said, say
from tests.adapters.driver.people_world import YES, a_world, asked, the_call, waiting


class Asking:
    """A tool that asks these questions in turn, and returns the answers that it got."""

    def __init__(self, *questions: str) -> None:
        self.questions = questions
        self.answers: list[JsonValue] = []

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        for question in self.questions:
            answer = await context.ask(question)
            self.answers.append(None if answer is None else answer.value())
        return said("asked")


@pytest.mark.rule("TOOL-19")
def test_a_question_waits_for_its_answer_which_goes_back_to_the_tool() -> None:
    async def run() -> None:
        asking = Asking("which?", "sure?")
        world = a_world("asking", tools=FunctionTools(asking=asking))
        async with await world.open() as driver:
            await asked(driver)
            assert [entry.question for entry in waiting(driver)] == ["which?"]
            await driver.send(AnswerQuestion(call=the_call(), value=Json.of({"one": 1})))
            await driver.rest()
            assert [entry.question for entry in waiting(driver)] == ["sure?"]
            await driver.send(AnswerQuestion(call=the_call(), value=None))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert asking.answers == [{"one": 1}, None]
        assert world.seen(QuestionAsked) == [QuestionAsked(the_call(), "which?"), QuestionAsked(the_call(), "sure?")]
        assert world.results() == [("done", "asked")]
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


@pytest.mark.rule("TOOL-19")
def test_a_rejection_declines_a_question_and_the_tool_goes_on() -> None:
    async def run() -> None:
        asking = Asking("sure?")
        world = a_world("asking", tools=FunctionTools(asking=asking))
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(Reject(call=the_call()))
            await driver.rest()
        assert asking.answers == [None]
        assert world.results() == [("done", "asked")]

    asyncio.run(run())


@given(order=st.permutations([1, 2, 3]))
@pytest.mark.rule("TOOL-19")
def test_each_run_gets_the_answer_to_its_own_question(order: list[int]) -> None:
    async def run() -> None:
        async def asks(command: StartTool, context: RunContext) -> ToolOutput:
            answer = await context.ask(f"question {command.call.position}")
            return said("nothing" if answer is None else str(answer.value()))

        world = a_world("asks", "asks", "asks", tools=FunctionTools(asks=asks))
        async with await world.open() as driver:
            await asked(driver)
            assert len(waiting(driver)) == 3
            for position in order:
                await driver.send(AnswerQuestion(call=the_call(position), value=Json.of(position)))
                await driver.rest()
        assert world.results() == [("done", str(position)) for position in order]

    asyncio.run(run())


def test_a_run_asks_one_question_at_a_time() -> None:
    async def run() -> None:
        answers: list[JsonValue] = []

        async def asks(command: StartTool, context: RunContext) -> ToolOutput:
            found = await asyncio.gather(*(context.ask(question) for question in ("one", "two", "three")))
            answers.extend(answer.value() for answer in found if answer is not None)
            return said("ok")

        world = a_world("asks", tools=FunctionTools(asks=asks))
        async with await world.open() as driver:
            await asked(driver)
            for number in (1, 2, 3):
                assert len(world.seen(QuestionAsked)) == number
                await driver.send(AnswerQuestion(call=the_call(), value=Json.of(number)))
                await driver.rest()
            assert isinstance(driver.state, Idle)
        assert answers == [1, 2, 3]
        assert not world.seen(Refused)

    asyncio.run(run())


@pytest.mark.in_place
def test_the_answer_to_a_question_that_the_tool_gave_up_is_not_taken_for_another() -> None:
    async def run() -> None:
        answers: list[JsonValue] = []

        async def impatient(command: StartTool, context: RunContext) -> ToolOutput:
            first = asyncio.ensure_future(context.ask("first"))
            await asyncio.sleep(0)
            first.cancel()
            second = await context.ask("second")
            answers.append(None if second is None else second.value())
            return said("ok")

        world = a_world("impatient", tools=FunctionTools(impatient=impatient))
        async with await world.open() as driver:
            await driver.send(say("go"))
            for number in (1, 2):
                for _ in range(9):  # so that the tool has asked what it can ask now
                    await asyncio.sleep(0)
                assert len(world.seen(QuestionAsked)) == number
                await driver.send(AnswerQuestion(call=the_call(), value=Json.of(number)))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert answers == [2]

    asyncio.run(run())


@pytest.mark.parametrize("stop", [CancelAll(), CancelCall(the_call())], ids=lambda value: type(value).__name__)
@pytest.mark.rule("TOOL-19")
def test_a_cancel_ends_the_wait_and_a_tool_that_cleans_up_cannot_ask_again(stop: UserDelta) -> None:
    async def run() -> None:
        answers: list[Json | None] = []

        async def asks(command: StartTool, context: RunContext) -> ToolOutput:
            try:
                await context.ask("sure?")
            finally:
                answers.append(await context.ask("and now?"))
            return said("never")

        world = a_world("asks", tools=FunctionTools(asks=asks))
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(stop)
            await driver.rest()
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks()) == 1
        assert answers == [None]
        assert len(world.seen(QuestionAsked)) == 1
        assert [status for status, _ in world.results()] == ["cancelled"]

    asyncio.run(run())


def test_what_a_tool_leaves_behind_cannot_ask() -> None:
    async def run() -> None:
        kept: list[RunContext] = []

        async def leaks(command: StartTool, context: RunContext) -> ToolOutput:
            kept.append(context)
            return said("ok")

        world = a_world("leaks", tools=FunctionTools(leaks=leaks))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            recorded = len(world.noted.load())
            assert await kept[0].ask("sure?") is None
            await kept[0].go_on_in_background("handle")
            assert len(world.noted.load()) == recorded

    asyncio.run(run())


@pytest.mark.parametrize("how", ["it ends", "it goes on in the background"])
def test_a_question_of_a_run_that_is_answered_gets_no_answer(how: str) -> None:
    async def run() -> None:
        answers: list[Json | None] = []

        async def splits(command: StartTool, context: RunContext) -> ToolOutput:
            asking = asyncio.ensure_future(context.ask("sure?"))
            while not world.seen(QuestionAsked):
                await asyncio.sleep(0)
            asking.add_done_callback(lambda done: answers.append(done.result()))
            if how != "it ends":
                await context.go_on_in_background("job")
                await asking
            return said("ok")

        world = a_world("splits", tools=FunctionTools(splits=splits))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ToolEnded)
            await driver.rest()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            assert isinstance(driver.state, Idle)
        assert answers == [None]

    asyncio.run(run())


def test_close_ends_a_run_that_waits_for_an_answer() -> None:
    async def run() -> None:
        world = a_world("asking", tools=FunctionTools(asking=Asking("sure?")))
        async with await world.open() as driver:
            await asked(driver)
        assert len(asyncio.all_tasks()) == 1
        assert world.results() == []

    asyncio.run(run())


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("TOOL-10")
def test_the_timeout_of_a_tool_does_not_run_while_it_waits_for_an_answer() -> None:
    async def run() -> None:
        may_end = asyncio.Event()

        async def asks_and_waits(command: StartTool, context: RunContext) -> ToolOutput:
            await context.ask("sure?")
            await may_end.wait()
            return said("ok")

        tools = FunctionTools(asks_and_waits=asks_and_waits)
        world = a_world("asks_and_waits", tools=tools, policy=Policy(tool_timeout_ms=1_000))
        async with await world.open() as driver:
            await asked(driver)
            assert world.clock.pending == 0
            world.clock.advance(60_000)
            await driver.send(AnswerQuestion(call=the_call(), value=YES))
            await asyncio.sleep(0)
            assert world.clock.pending == 1
            world.clock.advance(1_000)
            await driver.rest()
        assert [status for status, _ in world.results()] == ["error"]

    asyncio.run(run())
