"""The driver: log first, one delta at a time, each command carried out once, and the log tells all of it."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import effects_to_text, state_to_text
from loopkernel.data.choices import Lifetime
from loopkernel.data.effects import CallModel, CheckCall, Command, Request, StartTool
from loopkernel.data.events import InputSettled, MessageAdded, Refused, ReplyGrew, RunStarted
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Done, Idle, Initial
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed
from loopkernel.data.tool_deltas import ToolProgress
from loopkernel.data.tools import InvalidCall, ToolOutput, Verdict
from loopkernel.data.user_deltas import Enqueue
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel.replay import fold, replay
from loopkernel_adapters.driver.asyncio_driver import RECORDS_PER_GROUP, is_event
from loopkernel_adapters.ports import ProgressReport, ToolError
from loopkernel_adapters.providers.scripted import ANY, Reply, ScriptedProvider, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver_world import NO_INPUT, FunctionTools, NotedStore, World, echo, one_turn, said, say

TEXT_PIECES = st.lists(st.text(max_size=3), max_size=4)
ROUND = st.lists(st.sampled_from(["echo", "fails", "talks", "absent"]), min_size=1, max_size=4)
TURN = st.tuples(TEXT_PIECES, st.lists(ROUND, max_size=3))


def replies_of(turn: tuple[list[str], list[list[str]]]) -> list[Reply]:
    """Rounds of calls, then an answer in pieces."""
    pieces, rounds = turn
    answer = (*(ModelText(ANY, piece) for piece in pieces), *text_reply("done"))
    return [*(call_reply(*((tool, NO_INPUT) for tool in calls)) for calls in rounds), answer]


async def fails(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
    raise ToolError("no such page")


async def talks(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
    for step in ("half", "nearly"):
        await report_progress(step)
    return said("all of it")


def some_tools() -> FunctionTools:
    return FunctionTools(echo=echo, fails=fails, talks=talks)


class WitnessedProvider(ScriptedProvider):
    """Tells of each model call as it begins."""

    def __init__(self, replies: list[Reply], witness: Callable[[int], None]) -> None:
        super().__init__(replies)
        self._witness = witness

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self._witness(operation)
        async for delta in super().stream(request, operation):
            yield delta


class WitnessedTools(FunctionTools):
    """Tells of each check and each run as it begins."""

    def __init__(self, witness: Callable[[CheckCall | StartTool], None]) -> None:
        super().__init__(echo=echo, fails=fails, talks=talks)
        self._witness = witness

    @override
    def check(self, command: CheckCall) -> Verdict:
        self._witness(command)
        return super().check(command)

    @override
    async def run(self, command: StartTool, report_progress: ProgressReport) -> ToolOutput:
        self._witness(command)
        return await super().run(command, report_progress)


def commands_in(store: NotedStore) -> list[Command]:
    """The commands that follow from what the store has made durable."""
    return [effect for step in fold(store.durable) for effect in step.effects if not is_event(effect)]


# --- log first ---


@given(turns=st.lists(TURN, min_size=1, max_size=3))
@pytest.mark.rule("RESUME-2")
def test_no_command_begins_before_the_delta_that_caused_it_is_durable(
    turns: list[tuple[list[str], list[list[str]]]],
) -> None:
    store = NotedStore()
    begun: list[Command] = []
    recorded: list[bool] = []

    def witness(command: CheckCall | StartTool) -> None:
        recorded.append(command in commands_in(store))
        begun.append(command)

    def witness_model(operation: int) -> None:
        calls = [c for c in commands_in(store) if isinstance(c, CallModel) and c.operation == operation]
        recorded.append(len(calls) == 1)
        begun.extend(calls)

    async def run() -> None:
        replies = [reply for turn in turns for reply in replies_of(turn)]
        world = World(provider=WitnessedProvider(replies, witness_model), tools=WitnessedTools(witness), store=store)
        async with world.open() as driver:
            for _ in turns:
                await driver.send(say("go"))
                await driver.rest()
        assert all(recorded)
        asked = [command for command in commands_in(store) if isinstance(command, CheckCall | StartTool | CallModel)]
        assert sorted(begun, key=repr) == sorted(asked, key=repr)  # each command once, and no other

    asyncio.run(run())


@given(turns=st.lists(TURN, min_size=1, max_size=3))
@pytest.mark.rule("RESUME-1")
@pytest.mark.rule("DELTA-1")
def test_the_log_replays_to_the_same_state_and_effects(turns: list[tuple[list[str], list[list[str]]]]) -> None:
    async def run() -> None:
        world = World([reply for turn in turns for reply in replies_of(turn)], tools=some_tools())
        async with world.open() as driver:
            for _ in turns:
                await driver.send(say("go"))
                await driver.rest()
            live = driver.state
        records = world.noted.load()
        assert state_to_text(replay(records)) == state_to_text(live)
        shown = tuple(effect for step in fold(records) for effect in step.effects if is_event(effect))
        assert effects_to_text(shown) == effects_to_text(tuple(world.events))
        assert isinstance(live, Idle)
        assert world.endings() == [TurnEndReason.MODEL_STOP] * len(turns)

    asyncio.run(run())


@given(before=st.integers(0, 3), after=st.integers(0, 3))
@pytest.mark.rule("RESUME-1")
def test_a_log_that_is_opened_again_goes_on(before: int, after: int) -> None:
    async def run() -> None:
        script = [text_reply(str(number)) for number in range(before + after)]
        world = World(script)
        async with world.open() as driver:
            for _ in range(before):
                await driver.send(say("go"))
                await driver.rest()
            left = driver.state
        records = world.noted.load()
        again = World(store=NotedStore(), provider=world.scripted)
        again.store.append(records, durable=True)
        async with again.open() as driver:
            assert again.store.load()[: len(records)] == records
            assert [record.delta for record in again.store.load()[len(records) :]] == [Resumed()]
            assert driver.state.session == left.session
            for _ in range(after):
                await driver.send(say("go"))
                await driver.rest()
            assert replay(again.store.load()) == driver.state
        assert len(again.endings()) == after

    asyncio.run(run())


@pytest.mark.rule("DELTA-8")
def test_a_fresh_log_begins_with_its_creation() -> None:
    async def run() -> None:
        world = World()
        async with world.open() as driver:
            assert isinstance(driver.state, Idle)
        created, acquired = world.noted.durable
        assert isinstance(created.delta, Created)
        assert acquired.delta == Acquired()
        assert created.now_ms == 1_000
        assert world.events == [RunStarted("s")]
        assert world.noted.appends == [(2, True)]

    asyncio.run(run())


# --- groups ---


@given(pieces=st.integers(0, 3 * RECORDS_PER_GROUP))
@pytest.mark.rule("RESUME-2")
def test_increments_are_recorded_in_groups_and_shown_at_once(pieces: int) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        world = World([(*(ModelText(ANY, "a") for _ in range(pieces)), gate, *text_reply("b"))])
        async with world.open() as driver:
            await driver.send(say("go"))
            opening = len(world.noted.appends)
            for _ in range(pieces + 2):
                await asyncio.sleep(0)
            assert len(world.seen(ReplyGrew)) == pieces
            full = [(RECORDS_PER_GROUP, False)] * (pieces // RECORDS_PER_GROUP)
            assert world.noted.appends[opening:] == full
            gate.set()
            await driver.rest()
        rest = pieces % RECORDS_PER_GROUP + 1  # with the last piece, "b"
        groups = [(RECORDS_PER_GROUP, False)] if rest == RECORDS_PER_GROUP else []
        last = (rest + 1 - len(groups) * RECORDS_PER_GROUP, True)
        assert world.noted.appends[opening:] == [*full, *groups, last]

    asyncio.run(run())


@given(calls=st.integers(1, 10))
def test_reports_that_come_together_are_recorded_together(calls: int) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        waiting = 0

        async def waits(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            nonlocal waiting
            waiting += 1
            await gate.wait()
            return said("ok")

        world = World([call_reply(*[("waits", NO_INPUT)] * calls), text_reply("b")], tools=FunctionTools(waits=waits))
        async with world.open() as driver:
            await driver.send(say("go"))
            while waiting < calls:
                await asyncio.sleep(0)
            before = len(world.noted.appends)
            gate.set()
            await driver.rest()
        assert world.noted.appends[before][0] == calls
        assert world.results() == [("done", "ok")] * calls

    asyncio.run(run())


# --- carrying out ---


@pytest.mark.rule("TOOL-8")
def test_results_come_back_in_any_order() -> None:
    async def run() -> None:
        first_may_end = asyncio.Event()

        async def waits(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            if command.call.position == 1:
                await first_may_end.wait()
            else:
                first_may_end.set()
            return said(str(command.call.position))

        world = World([call_reply(*[("waits", NO_INPUT)] * 2), text_reply("b")], tools=FunctionTools(waits=waits))
        assert isinstance(await one_turn(world), Idle)
        assert world.results() == [("done", "2"), ("done", "1")]

    asyncio.run(run())


def test_a_run_with_one_effect_at_a_time_needs_one_task() -> None:
    async def run() -> None:
        tasks: set[asyncio.Task[object] | None] = set()

        async def notes_task(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            tasks.add(asyncio.current_task())
            return said("ok")

        world = World(
            [*[call_reply(("notes_task", NO_INPUT))] * 5, text_reply("b")], tools=FunctionTools(notes_task=notes_task)
        )
        async with world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert len(asyncio.all_tasks()) == 1  # at rest the driver owns none
        assert len(world.tools.started) == 5
        assert len(tasks) == 1

    asyncio.run(run())


def test_others_get_their_turn_even_if_nothing_ever_waits() -> None:
    async def run() -> None:
        endless = [call_reply(("echo", NO_INPUT))] * 1_000
        world = World(endless, policy=Policy(max_turns=None))
        async with world.open() as driver:
            await driver.send(say("go"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert 1 <= len(world.scripted.requests) < 20

        many = (ModelText(ANY, "a"),) * 1_000
        world = World([(*many, *text_reply("b"))])
        async with world.open() as driver:
            await driver.send(say("go"))
            await asyncio.sleep(0)
            assert 1 <= len(world.seen(ReplyGrew)) < 1_000

    asyncio.run(run())


def test_progress_is_recorded_before_the_tool_goes_on() -> None:
    async def run() -> None:
        world = World([call_reply(("talks", NO_INPUT)), text_reply("b")], tools=some_tools())
        await one_turn(world)
        progress = [r.delta.text for r in world.noted.load() if isinstance(r.delta, ToolProgress)]
        assert progress == ["half", "nearly"]

    asyncio.run(run())


def test_a_tool_may_speak_to_its_own_session() -> None:
    async def run() -> None:
        async def enqueues(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            await driver.send(Enqueue(content=say("and then").content))
            return said("ok")

        world = World(
            [call_reply(("enqueues", NO_INPUT)), text_reply("b"), text_reply("c")],
            tools=FunctionTools(enqueues=enqueues),
        )
        async with world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert world.endings() == [TurnEndReason.MODEL_STOP] * 2
        assert len(world.scripted.requests) == 3

    asyncio.run(run())


def test_send_returns_when_the_input_is_durable() -> None:
    async def run() -> None:
        world = World([text_reply("b")])
        async with world.open() as driver:
            message = say("go")
            await driver.send(message)
            assert world.noted.durable[-1].delta == message
            assert world.seen(InputSettled)
            assert world.scripted.requests == []  # and the model is asked only then
            await driver.rest()

    asyncio.run(run())


@pytest.mark.rule("STATE-8")
def test_rest_ends_with_the_task_and_later_input_is_refused() -> None:
    async def run() -> None:
        world = World([text_reply("b")], policy=Policy(lifetime=Lifetime.TASK))
        async with world.open() as driver:
            await driver.send(say("go"))
            await asyncio.gather(driver.rest(), driver.rest())
            assert isinstance(driver.state, Done)
            await driver.send(say("more"))
            assert isinstance(world.events[-1], Refused)
            await driver.rest()

    asyncio.run(run())


def test_a_session_can_be_released() -> None:
    async def run() -> None:
        world = World()
        async with world.open() as driver:
            await driver.send(Disposed())
            assert isinstance(driver.state, Initial)
            await driver.rest()

    asyncio.run(run())


def test_a_check_that_says_no_reaches_the_model() -> None:
    async def run() -> None:
        class StrictTools(FunctionTools):
            @override
            def check(self, command: CheckCall) -> Verdict:
                return InvalidCall("path is missing")

        world = World(
            [call_reply(("echo", NO_INPUT), ("echo", Json.of({"a": 1}))), text_reply("b")], tools=StrictTools(echo=echo)
        )
        await one_turn(world)
        assert [status for status, _ in world.results()] == [CallStatus.ERROR.value] * 2
        assert all("path is missing" in text for _, text in world.results())
        assert world.tools.started == []
        assert world.seen(MessageAdded)

    asyncio.run(run())


def test_stamps_come_from_the_clock() -> None:
    async def run() -> None:
        world = World([text_reply("b")])
        async with world.open() as driver:
            world.clock.advance(500)
            await driver.send(say("go"))
            await driver.rest()
        assert [record.now_ms for record in world.noted.load()][:3] == [1_000, 1_000, 1_500]

    asyncio.run(run())
