"""The driver while its log is being written: nothing follows from a record before that, and what comes in waits."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import StartTool
from loopkernel.data.states import Idle
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import ChangeInstructions, ChangeMode
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.log_writer import FOLDED_PER_SLICE, taken_up_from
from loopkernel_adapters.ports import RunContext, StoreFailed
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.stores.threaded import asynchronous
from typing_extensions import override

from tests.adapters.driver.awaited_stores import Held
from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, World, said, say
from tests.adapters.stores.log_lines import some_records

pytestmark = pytest.mark.in_place  # its worlds have stores of their own


class HeldWorld(World):
    """A world whose log waits for permits, one for each append."""

    held: Held

    def hold(self) -> "HeldWorld":
        self.held = Held(self.store)
        self.around = lambda store: self.held
        return self


async def opened(world: HeldWorld) -> Driver:
    """A driver whose beginning is recorded."""
    world.held.permits.release()
    return await (await world.open()).__aenter__()


async def turns(many: int = 20) -> None:
    for _ in range(many):
        await asyncio.sleep(0)


def test_nothing_follows_from_a_record_before_it_is_written_and_what_comes_in_waits() -> None:
    async def run() -> None:
        world = HeldWorld([call_reply(("echo", NO_INPUT)), text_reply("b")]).hold()
        driver = await opened(world)
        before, shown = driver.state, len(world.events)
        sending = asyncio.ensure_future(driver.send(say("go")))
        await turns()
        driver.post(ChangeMode(ApprovalMode.BYPASS))  # returns: it waits for its step
        more = asyncio.ensure_future(driver.send(ChangeInstructions("be brief")))
        resting = asyncio.ensure_future(driver.rest())
        await turns()
        assert driver.state is before
        assert (len(world.events), world.scripted.requests) == (shown, [])
        assert not (sending.done() or more.done() or resting.done())
        world.held.permits.release()
        await sending
        await turns()
        assert not more.done()
        assert len(world.held.asked[-1][0]) >= 2  # what has come in meanwhile is recorded together
        for _ in range(20):
            world.held.permits.release()
        await asyncio.gather(more, resting)
        assert isinstance(driver.state, Idle)
        await driver.close()
        assert driver.state == replay(world.store.load())

    asyncio.run(run())


def test_a_close_waits_for_the_write_that_is_under_way_and_begins_nothing_of_it() -> None:
    async def run() -> None:
        world = HeldWorld([text_reply("b")]).hold()
        driver = await opened(world)
        sending = asyncio.ensure_future(driver.send(say("go")))
        await turns()
        closing = asyncio.ensure_future(driver.close())
        await turns()
        assert not closing.done()
        world.held.permits.release()
        await closing
        await sending  # it is recorded
        assert world.scripted.requests == []
        assert driver.state == replay(world.store.load())
        assert world.noted.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.parametrize("under_way", [True, False])
def test_a_close_aborts_what_is_under_way_before_the_log_is_written(under_way: bool) -> None:
    """Also where the store stands still: in the write that is under way, or in the last one, of what is left."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def works(command: StartTool, context: RunContext) -> ToolOutput:
        await context.report_progress("half")  # recorded in a group, so it is left for the close
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return said("never")

    async def run() -> None:
        world = HeldWorld([call_reply(("works", NO_INPUT))], tools=FunctionTools(works=works)).hold()
        driver = await opened(world)
        for _ in range(20):
            world.held.permits.release()
        await driver.send(say("go"))
        await begun.wait()
        while not world.held.permits.locked():
            await world.held.permits.acquire()
        asked = len(world.held.asked)
        if under_way:
            driver.post(ChangeMode(ApprovalMode.PLAN))
            await turns()
            assert len(world.held.asked) == asked + 1
        closing = asyncio.ensure_future(driver.close())
        await turns()
        assert ended.is_set()
        assert not closing.done()
        assert len(world.held.asked) == asked + 1
        world.held.permits.release()
        world.held.permits.release()
        await closing
        assert driver.state == replay(world.store.load())
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_send_that_is_cancelled_is_recorded_all_the_same_and_once() -> None:
    async def run() -> None:
        world = HeldWorld().hold()
        driver = await opened(world)
        change = ChangeInstructions("be brief")
        sending = asyncio.ensure_future(driver.send(change))
        await turns()
        sending.cancel()
        await asyncio.wait({sending})
        world.held.permits.release()
        await driver.rest()
        await driver.close()
        assert [record.delta for record in world.store.load()].count(change) == 1

    asyncio.run(run())


def test_a_write_that_fails_stops_the_driver_and_whoever_waits_hears_of_it() -> None:
    class Failing(Held):
        @override
        async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
            await super().append(records, durable, taken)
            if len(self.asked) > 1:
                raise OSError(28, "No space left on device")

    async def run() -> None:
        world = HeldWorld([text_reply("b")])
        world.held = Failing(MemoryStore())
        world.around = lambda store: world.held
        driver = await opened(world)
        before = driver.state
        sends = [asyncio.ensure_future(driver.send(say(words))) for words in ("one", "two")]
        resting = asyncio.ensure_future(driver.rest())
        await turns()
        world.held.permits.release()
        ends = await asyncio.gather(*sends, resting, return_exceptions=True)
        assert all(isinstance(end, StoreFailed) for end in ends)
        assert driver.state is before
        assert world.scripted.requests == []
        with pytest.raises(StoreFailed):
            await driver.send(say("three"))
        await driver.close()

    asyncio.run(run())


@given(numbers=st.lists(st.one_of(st.none(), st.integers(1, 99)), max_size=6), with_secrets=st.booleans())
def test_what_came_out_of_the_inbox_is_named_where_it_is_recorded(
    numbers: list[int | None], with_secrets: bool
) -> None:
    async def run() -> None:
        world = HeldWorld(secrets=Secrets({"KEY": "hunter22"} if with_secrets else {})).hold()
        driver = await opened(world)
        deltas = [ChangeInstructions(f"hunter22 number {place}") for place in range(len(numbers))]
        sends = [
            asyncio.ensure_future(driver.send(delta, taken=number))
            for delta, number in zip(deltas, numbers, strict=True)
        ]
        for _ in range(20):
            world.held.permits.release()
        await asyncio.gather(*sends)
        await driver.close()
        for records, durable, taken in world.held.asked[1:]:
            told = [record.delta.instructions for record in records if isinstance(record.delta, ChangeInstructions)]
            places = [int(text.rpartition(" ")[2]) for text in told]
            assert list(taken) == [number for place in places if (number := numbers[place]) is not None]
            assert durable or not taken
            assert not with_secrets or "hunter22" not in repr(records)
        assert sorted(number for _, _, taken in world.held.asked for number in taken) == sorted(
            number for number in numbers if number is not None
        )

    asyncio.run(run())


def test_others_get_their_turn_while_a_long_log_is_folded() -> None:
    """So many turns more for each further slice of the log; nothing else of an opening depends on its length."""

    async def turns_of_another(slices: int) -> int:
        store = MemoryStore()
        store.append(some_records(FOLDED_PER_SLICE * slices), durable=True)
        opening = asyncio.ensure_future(taken_up_from(asynchronous(store)))
        taken = 0
        while not opening.done():
            taken += 1
            await asyncio.sleep(0)
        assert len(opening.result()[0].records) == FOLDED_PER_SLICE * slices
        return taken

    once, often = (asyncio.run(turns_of_another(slices)) for slices in (1, 8))
    assert often == once + 7


def test_nothing_can_be_taken_out_of_a_store_without_an_inbox() -> None:
    async def run() -> None:
        async with await World().open() as driver:
            with pytest.raises(ValueError, match="has no inbox"):
                await driver.send(ChangeInstructions("be brief"), taken=1)

    asyncio.run(run())
