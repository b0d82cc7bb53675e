"""The recorded provider: what a log holds of each reply, again, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.model_deltas import (
    FromModel,
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelReasoning,
    ModelText,
    ModelUsage,
)
from loopkernel.data.policy import Policy
from loopkernel.data.tools import ToolOutput, ValidCall
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.replaying import LogRecord
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.ports import NoSuchRun, RunContext, StoreCorrupt
from loopkernel_adapters.providers.recorded import RecordedProvider
from loopkernel_adapters.providers.scripted import ANY
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.testing.provider_check import Situation, Staged, check_provider, request_for_check

from tests.adapters.driver.driver_world import FunctionTools, World, one_turn, said, say
from tests.adapters.providers.openai_world import asking

OPERATION = ModelOperation(41)
ECHO = Json.of({"word": "hello"})
REPLIES: list[list[ModelDelta]] = [
    [ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED, message="busy", retry_after_ms=0)],
    [
        ModelReasoning(ANY, "Hm."),
        ModelCall(operation=ANY, provider_id="c", tool="echo", input=ECHO),
        ModelCompleted(ANY, StopReason.TOOL_USE, Usage(3, 4)),
    ],
    [ModelText(ANY, "It said hello."), ModelCompleted(ANY, StopReason.END_TURN, Usage(5, 6))],
]


async def task_of(world: World) -> None:
    """One turn, through its countdowns."""
    async with await world.open() as driver:
        await driver.send(say("Echo hello"))
        resting = asyncio.create_task(driver.rest())
        while not resting.done():
            world.clock.advance(60_000)
            await asyncio.sleep(0)
        await resting


def recorded_run() -> World:
    """A run with a failed request, a call and an answer."""
    world = World(REPLIES)
    asyncio.run(task_of(world))
    assert world.endings() == [TurnEndReason.MODEL_STOP]
    return world


LOG = recorded_run().noted.load()


def replayed(provider: RecordedProvider, number: int) -> list[ModelDelta]:
    async def collect() -> list[ModelDelta]:
        request = asking(number=ModelOperation(number))
        return [delta async for delta in provider.stream(request, OPERATION)]

    return asyncio.run(collect())


def test_each_reply_of_the_log_is_given_again() -> None:
    provider = RecordedProvider(LOG)
    told = [evolve(delta, operation=OPERATION) for reply in REPLIES for delta in reply]
    assert [delta for number in (1, 2, 3) for delta in replayed(provider, number)] == told
    assert replayed(provider, 2) == replayed(provider, 2)  # by its number, however often
    assert provider.models == (Policy().model,)


def test_a_request_beyond_the_record_fails_in_words() -> None:
    for number in (4, 0, -1):
        (failed,) = replayed(RecordedProvider(LOG), number)
        assert isinstance(failed, ModelFailed)
        assert failed.error is ErrorClass.BAD_REQUEST
        assert "ends with reply 3" in failed.message


def test_a_run_is_replayed_through_real_tools_under_another_policy() -> None:
    async def shouts(command: StartTool, context: RunContext) -> ToolOutput:
        return said(command.input.text.upper())

    world = World(provider=RecordedProvider(LOG), tools=FunctionTools(echo=shouts), policy=Policy(max_turns=1))

    asyncio.run(task_of(world))
    assert world.results() == [("done", '{"WORD":"HELLO"}')]
    assert world.endings() == [TurnEndReason.MAX_TURNS]


def _records(*deltas: ModelDelta) -> list[LogRecord]:
    return [LogRecord(delta, 0) for delta in deltas]


def test_late_reports_and_recorded_verdicts_are_left_out() -> None:
    one, two = ModelOperation(1), ModelOperation(2)
    call = ModelCall(operation=one, provider_id="c", tool="echo", input=ECHO, verdict=ValidCall())
    end = ModelCompleted(one, StopReason.TOOL_USE)
    provider = RecordedProvider(
        _records(call, ModelText(two, "a"), end, ModelUsage(one, Usage(9)), ModelText(one, "b"))
    )
    first = replayed(provider, 1)
    assert first == [evolve(call, operation=OPERATION, verdict=None), evolve(end, operation=OPERATION)]
    assert replayed(provider, 2) == [ModelText(OPERATION, "a")]  # the log breaks it off


@given(runs())
def test_of_any_run_every_accepted_delta_of_the_model_is_given_again(run: Run) -> None:
    provider = RecordedProvider(run.log)
    numbers = {record.delta.operation for record in run.log if isinstance(record.delta, FromModel)}
    for number in numbers:
        if not 1 <= number <= 50:
            continue
        expected = [record.delta for record in run.log if isinstance(record.delta, FromModel)]
        expected = [delta for delta in expected if delta.operation == number]
        ends = [place for place, delta in enumerate(expected, 1) if isinstance(delta, ModelCompleted | ModelFailed)]
        got = replayed(provider, number)
        assert [type(delta) for delta in got] == [type(delta) for delta in expected[: ends[0] if ends else None]]
        assert all(delta.operation == OPERATION for delta in got)


# --- logs in files ------------------------------------------------------------------------------------


def written(path: Path, records: Iterable[LogRecord]) -> Path:
    store = JsonlStore(path)
    store.append(tuple(records), durable=True)
    store.close()
    return path


def test_a_log_is_read_from_either_kind_of_file(tmp_path: Path) -> None:
    expected = replayed(RecordedProvider(LOG), 2)
    assert replayed(RecordedProvider.from_log(written(tmp_path / "run.jsonl", LOG)), 2) == expected
    database = tmp_path / "runs.sqlite"
    every = SqliteRuns(database)
    store = every.open("first")
    store.append(LOG, durable=True)
    store.close()
    assert replayed(RecordedProvider.from_log(database), 2) == expected
    other = every.open("second")
    other.append(LOG[:2], durable=True)
    other.close()
    assert replayed(RecordedProvider.from_log(database, "first"), 2) == expected
    with pytest.raises(NoSuchRun, match="2 runs"):
        RecordedProvider.from_log(database)
    with pytest.raises(NoSuchRun):
        RecordedProvider.from_log(database, "third")


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RecordedProvider.from_log(tmp_path / "none.jsonl")
    path = tmp_path / "notes.txt"
    path.write_text("milk\n")
    with pytest.raises(StoreCorrupt):
        RecordedProvider.from_log(path)


# --- duties -------------------------------------------------------------------------------------------


def test_the_recorded_provider_keeps_its_duties() -> None:
    one = ModelOperation(1)
    call = ModelCall(operation=one, provider_id="c", tool="read_file", input=Json.of({"path": "a.txt"}))
    text = (ModelText(one, "It says "), ModelText(one, "hello."), ModelCompleted(one, StopReason.END_TURN))
    failed = ModelFailed(operation=one, error=ErrorClass.SERVER, message="so it was")
    recorded: dict[Situation, tuple[ModelDelta, ...]] = {
        Situation.TEXT: text,
        Situation.CALLS: (call, ModelCompleted(one, StopReason.TOOL_USE)),
        Situation.FAILING: (failed,),
        Situation.CUT: (ModelText(one, "I"), failed),
    }

    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        if situation not in recorded:
            yield None
            return
        yield Staged(
            provider=RecordedProvider(_records(*recorded[situation])),
            request=evolve(request_for_check(), number=one),
            text={Situation.TEXT: "It says hello."}.get(situation),
            keys=(),
        )

    uncounted = "not counted: how often the service is asked (duty 5)"
    unstaged = {f"not staged: {situation.value}" for situation in (Situation.STOPPED, Situation.SILENT)}
    assert set(check_provider(staged)) == {*unstaged, uncounted}


def test_what_a_replayed_run_says_is_what_was_said() -> None:
    world = World(provider=RecordedProvider(_records(*text_of_run())))
    state = asyncio.run(one_turn(world))
    assert state.session is not None
    (reply,) = [message for message in state.session.thread if isinstance(message, AssistantMessage)]
    assert reply.content == (TextBlock("It says hello."),)


def text_of_run() -> list[ModelDelta]:
    one = ModelOperation(1)
    return [ModelText(one, "It says "), ModelText(one, "hello."), ModelCompleted(one, StopReason.END_TURN)]
