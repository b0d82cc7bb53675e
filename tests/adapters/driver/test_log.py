"""The log comes first, in groups where that is safe, and it tells all of a run."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import effects_to_text, state_to_text
from loopkernel.data.effects import CallModel, CheckCall, Command, Request, StartTool
from loopkernel.data.events import ReplyGrew, RunStarted
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import RULES_VERSION, Acquired, Created, Resumed
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import LogRecord, fold, replay
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.driver.log_writer import RECORDS_PER_GROUP
from loopkernel_adapters.ports import Restored, RulesDiffer, RunContext, ToolError, demand_same_rules
from loopkernel_adapters.providers.scripted import ANY, Reply, ScriptedProvider, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, NotedStore, World, echo, said, say

TEXT_PIECES = st.lists(st.text(max_size=3), max_size=4)
ROUND = st.lists(st.sampled_from(["echo", "fails", "talks", "absent"]), min_size=1, max_size=4)
TURN = st.tuples(TEXT_PIECES, st.lists(ROUND, max_size=3))


def replies_of(turn: tuple[list[str], list[list[str]]]) -> list[Reply]:
    """Rounds of calls, then an answer in pieces."""
    pieces, rounds = turn
    answer = (*(ModelText(ANY, piece) for piece in pieces), *text_reply("done"))
    return [*(call_reply(*((tool, NO_INPUT) for tool in calls)) for calls in rounds), answer]


async def fails(command: StartTool, context: RunContext) -> ToolOutput:
    raise ToolError("no such page")


async def talks(command: StartTool, context: RunContext) -> ToolOutput:
    for step in ("half", "nearly"):
        await context.report_progress(step)
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
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self._witness(command)
        return await super().run(command, context)


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
        async with await world.open() as driver:
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
        replies = [reply for turn in turns for reply in replies_of(turn)]
        world = World(replies, tools=some_tools(), policy=Policy(loop=None))  # the model may repeat itself
        async with await world.open() as driver:
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
        async with await world.open() as driver:
            for _ in range(before):
                await driver.send(say("go"))
                await driver.rest()
            left = driver.state
        records = world.noted.load()
        again = World(store=NotedStore(), provider=world.scripted)
        again.store.append(records, durable=True)
        async with await again.open() as driver:
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
        async with await world.open() as driver:
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
        async with await world.open() as driver:
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

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            nonlocal waiting
            waiting += 1
            await gate.wait()
            return said("ok")

        world = World([call_reply(*[("waits", NO_INPUT)] * calls), text_reply("b")], tools=FunctionTools(waits=waits))
        async with await world.open() as driver:
            await driver.send(say("go"))
            while waiting < calls:
                await asyncio.sleep(0)
            before = len(world.noted.appends)
            gate.set()
            await driver.rest()
        assert world.noted.appends[before][0] == calls
        assert world.results() == [("done", "ok")] * calls

    asyncio.run(run())


@pytest.mark.rule("RESUME-1")
@given(st.integers(0, 9))
def test_a_log_of_other_rules_is_not_opened(version: int) -> None:
    store = NotedStore()
    store.append((LogRecord(Created(session_id="s", rules_version=version), 0), LogRecord(Acquired(), 0)), True)
    if version == RULES_VERSION:
        demand_same_rules(Restored(records=store.load()))
        return
    with pytest.raises(RulesDiffer, match=f"version {version} of the rules"):
        asyncio.run(World(store=store).open())
    assert store.closed
