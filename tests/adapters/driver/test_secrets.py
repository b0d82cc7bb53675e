"""Secrets in a whole session: the tools get the values, and nothing that is kept or shown holds one."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import effects_to_text, record_to_text
from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import Event, MessageAdded, QuestionAsked, ReplyGrew
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.policy import Policy
from loopkernel.data.states import Confirming
from loopkernel.data.tools import InvalidCall, ToolOutput, Verdict
from loopkernel.data.user_deltas import AnswerQuestion, Correct, Reject
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.replaying import fold
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.scripted import ANY, call_reply, text_reply
from loopkernel_adapters.secrets import Secrets, handle
from typing_extensions import override

from tests.adapters.driver.driver_world import (
    ASKS,
    NO_INPUT,
    FunctionProvider,
    FunctionTools,
    World,
    complaints_of,
    echo,
    one_turn,
    said,
    say,
)
from tests.adapters.driver.people_world import asked, the_call

VALUE = "hunter22"
HANDLE = handle("KEY")
SECRETS = Secrets({"KEY": VALUE})


def demand_hidden(world: World) -> str:
    """No record, no effect and no event holds the value. Returns the log."""
    records = world.store.load()
    log = "\n".join(map(record_to_text, records))
    shown = "\n".join(effects_to_text(step.effects) for step in fold(records))
    assert VALUE not in log
    assert VALUE not in shown
    assert VALUE not in effects_to_text(tuple(world.events))
    return log


class TellsAll:
    """Says the value wherever a tool can say something, and notes what it is answered."""

    def __init__(self) -> None:
        self.answers: list[Json | None] = []

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        await context.report_progress("starting with hunt")
        await context.report_progress("er22 at last")
        self.answers.append(await context.ask(f"is {VALUE} right?"))
        return said(f"used {VALUE}")


@pytest.mark.rule("TOOL-12")
def test_what_everybody_says_is_recorded_without_the_value() -> None:
    async def run() -> None:
        reply = (
            ModelReasoning(ANY, "I think of hun"),
            ModelReasoning(ANY, "ter22"),
            ModelText(ANY, "It is hunte"),
            ModelText(ANY, "r22."),
            ModelInput(ANY, '{"key": "hunter'),
            ModelInput(ANY, '22"}'),
            ModelCall(operation=ANY, provider_id="a", tool="tells_all", input=Json.of({"key": VALUE})),
            ModelCall(operation=ANY, provider_id="b", tool="tells_all", input=RawInput(f'{{"key": "{VALUE}')),
            ModelCompleted(ANY, StopReason.TOOL_USE),
        )
        tool = TellsAll()
        world = World([reply, text_reply("b")], tools=FunctionTools(tells_all=tool), secrets=SECRETS)
        async with await world.open() as driver:
            await driver.send(say(f"use {VALUE}"))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
            assert [event.question for event in world.seen(QuestionAsked) if isinstance(event, QuestionAsked)] == [
                f"is {HANDLE} right?"
            ]
            await driver.send(AnswerQuestion(call=the_call(), value=Json.of(f"yes, {VALUE}")))
            await driver.rest()
        log = demand_hidden(world)
        streamed = [event for event in world.events if isinstance(event, ReplyGrew)]
        assert "".join(event.text for event in streamed if event.reasoning) == f"I think of {HANDLE}"
        assert "".join(event.text for event in streamed if not event.reasoning).startswith(f"It is {HANDLE}.")
        assert f"use {HANDLE}" in log
        assert f"starting with {HANDLE} at last" in log
        # What the tool was told it got as it is, and what it then said was hidden again.
        assert world.tools.started[0].input == Json.of({"key": VALUE})
        assert tool.answers == [Json.of(f"yes, {VALUE}")]
        assert ("done", f"used {HANDLE}") in world.results()

    asyncio.run(run())


@pytest.mark.rule("TOOL-12")
def test_only_the_run_gets_the_value_of_a_handle() -> None:
    checked: list[Json] = []

    class Noting(FunctionTools):
        @override
        def check(self, command: CheckCall) -> Verdict:
            checked.append(command.input)
            return super().check(command)

    async def run() -> None:
        given_input = Json.of({"header": f"Bearer {HANDLE}", "other": handle("OTHER")})
        tools = Noting(echo=echo)
        world = World([call_reply(("echo", given_input)), text_reply("b")], tools=tools, secrets=SECRETS)
        await one_turn(world)
        demand_hidden(world)
        assert checked == [given_input]
        assert tools.started[0].input == Json.of({"header": f"Bearer {VALUE}", "other": handle("OTHER")})
        assert world.results() == [("done", given_input.text)]

    asyncio.run(run())


@given(cuts=st.lists(st.integers(0, 30), max_size=6), value=st.sampled_from([VALUE, "aabaab"]))
@pytest.mark.rule("TOOL-12")
def test_a_value_that_streams_is_never_shown_however_it_is_cut(cuts: list[int], value: str) -> None:
    async def run() -> None:
        text = f"aab {value} aaba{value}hunt"
        places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
        pieces = [text[begin:end] for begin, end in pairwise(places)]
        texts: list[ModelDelta] = [ModelText(ANY, piece) for piece in pieces]
        world = World([[*texts, ModelCompleted(ANY, StopReason.END_TURN)]], secrets=Secrets({"KEY": value}))
        await one_turn(world)
        shown = "".join(event.text for event in world.events if isinstance(event, ReplyGrew))
        assert shown == f"aab {HANDLE} aaba{HANDLE}hunt"
        assert value not in "".join(map(record_to_text, world.noted.load()))

    asyncio.run(run())


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("raised", [ToolError(f"{VALUE} is wrong"), ValueError(f"{VALUE} is wrong"), SystemExit(VALUE)])
def test_what_a_tool_raises_is_told_without_the_value(raised: BaseException) -> None:
    async def run() -> None:
        async def breaks(command: StartTool, context: RunContext) -> ToolOutput:
            raise raised

        tools = FunctionTools(breaks=breaks)
        world = World([call_reply(("breaks", NO_INPUT)), text_reply("b")], tools=tools, secrets=SECRETS)
        await one_turn(world)
        demand_hidden(world)
        assert HANDLE in world.results()[0][1]

    asyncio.run(run())


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize(
    "failure", [ConnectionError(f"key {VALUE}"), ModelFailed(operation=ANY, error=ErrorClass.AUTH, message=VALUE)]
)
def test_what_a_model_fails_with_is_told_without_the_value(failure: Exception | ModelFailed) -> None:
    async def run() -> None:
        world = World([(failure,)], secrets=SECRETS, policy=Policy(retry=None))
        await one_turn(world)
        assert HANDLE in demand_hidden(world)

    asyncio.run(run())


@pytest.mark.rule("TOOL-12")
def test_what_a_person_answers_and_why_a_check_says_no_are_told_without_the_value() -> None:
    class Strict(FunctionTools):
        @override
        def check(self, command: CheckCall) -> Verdict:
            return super().check(command) if command.input == NO_INPUT else InvalidCall(f"not {VALUE}")

    async def run() -> None:
        replies = [call_reply(("echo", NO_INPUT)), text_reply("b")]
        world = World(replies, tools=Strict(ASKS, echo=echo), secrets=SECRETS)
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(Correct(call=the_call(), input=Json.of({"key": VALUE})))
            await driver.send(Reject(call=the_call(), why=f"{VALUE} is mine"))
            await driver.rest()
        log = demand_hidden(world)
        assert f"not {HANDLE}" in log
        assert f"{HANDLE} is mine" in log

    asyncio.run(run())


def test_faults_that_stop_nothing_are_told_without_the_value() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())

        def breaks(event: Event) -> None:
            if isinstance(event, MessageAdded):
                raise ValueError("the screen is gone") from RuntimeError(VALUE)

        async def streams(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            try:
                yield ModelText(operation, "a")
                yield ModelCompleted(operation, StopReason.END_TURN)
            finally:
                raise ConnectionError(f"closed with {VALUE}")

        world = World(provider=FunctionProvider(streams), secrets=SECRETS)
        async with await world.open(breaks) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert (
            f"the provider could not close the stream of a reply: ConnectionError: closed with {HANDLE}" in complaints
        )
        # Its own words hold nothing, but the default handler would show its cause.
        assert "an observer failed at MessageAdded; it stays subscribed: ValueError: the screen is gone" in complaints

    asyncio.run(run())


def test_the_driver_and_its_run_show_no_value() -> None:
    async def run() -> None:
        shown: list[str] = []

        async def shows(command: StartTool, context: RunContext) -> ToolOutput:
            shown.append(repr(context))
            return said("ok")

        world = World([call_reply(("shows", NO_INPUT)), text_reply("b")], tools=FunctionTools(shows=shows))
        world.secrets = SECRETS
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            shown.append(repr(driver))
            shown.append(repr(driver.state))
        assert not any(VALUE in text for text in shown)

    asyncio.run(run())
