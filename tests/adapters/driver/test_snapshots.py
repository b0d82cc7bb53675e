"""Snapshots: kept when it is time, of a state that the log leads to; and nothing depends on them."""

import asyncio
from collections.abc import Sequence

import pytest
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.states import Idle, State
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.driver import asyncio_driver, log_writer
from loopkernel_adapters.ports import Restored, RulesDiffer, StoreFailed
from loopkernel_adapters.providers.scripted import ANY, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NotedStore, World, complaints_of, one_turn, say


class Snapshots(NotedStore):
    """A store with snapshots: `kept` are those of this driver, each with the number of records it stands for."""

    def __init__(self, restored: Restored | None = None, failing: bool = False) -> None:
        super().__init__()
        self.kept: list[tuple[int, State]] = []
        self._restored = restored
        self._failing = failing

    @override
    def restore(self) -> Restored:
        return self._restored or super().restore()

    @override
    def save_snapshot(self, state: State) -> None:
        if self._failing:
            raise OSError(28, "No space left on device")
        self.kept.append((len(self.load()), state))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool, int]]:
    """Snapshots are due after three records, and when closing; returns what the driver asks."""
    asked: list[tuple[int, bool, int]] = []

    def due(since: int, closing: bool, before: int = 0) -> bool:
        asked.append((since, closing, before))
        return since >= 3 or (closing and since > 0)

    monkeypatch.setattr(log_writer, "snapshot_due", due)
    monkeypatch.setattr(asyncio_driver, "SOONEST", 1)  # before which it does not ask
    return asked


async def talk(world: World) -> None:
    async with await world.open() as driver:
        for _ in range(3):
            await driver.send(say("go"))
            await driver.rest()


def test_a_snapshot_is_of_the_state_that_all_records_lead_to(often: list[tuple[int, bool, int]]) -> None:
    store = Snapshots()
    reply = (*[ModelText(ANY, "a")] * 10, *text_reply("b"))
    asyncio.run(talk(World([reply] * 3, store=store)))
    records = store.load()
    assert len(store.kept) > 3
    assert store.kept[-1][0] == len(records)
    for covered, state in store.kept:
        assert replay(records[:covered]) == state
    assert any(closing for _, closing, _ in often)


def test_how_many_records_a_snapshot_covers_counts_from_the_whole_log(often: list[tuple[int, bool, int]]) -> None:
    first = Snapshots()
    asyncio.run(talk(World([text_reply("b")] * 3, store=first)))
    *_, (covered, state) = first.kept
    second = Snapshots(Restored(state=state, records=()))
    often.clear()
    asyncio.run(talk(World([text_reply("b")] * 3, store=second)))
    assert often[0][2] == state.stamp.version <= covered
    third = Snapshots(Restored(records=first.load()))
    often.clear()
    asyncio.run(talk(World([text_reply("b")] * 3, store=third)))
    assert often[0] == (len(first.load()) + 1, False, 0)


def test_a_snapshot_that_cannot_be_kept_is_only_complained_about(often: list[tuple[int, bool, int]]) -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        world = World([text_reply("b")], store=Snapshots(failing=True))
        assert isinstance(await one_turn(world), Idle)
        assert complaints
        assert complaints[0].startswith("no snapshot could be kept; the log is whole")

    asyncio.run(run())


@pytest.mark.rule("RESUME-1")
def test_a_snapshot_of_other_rules_is_replaced_before_anything_follows_it() -> None:
    class Witness(Snapshots):
        @override
        def append(self, records: Sequence[LogRecord], durable: bool) -> None:
            assert self.kept  # a crash from here on leaves a log that these rules can fold
            super().append(records, durable)

    async def run() -> None:
        before = World([text_reply("b")])
        state = await one_turn(before)
        store = Witness(Restored(state=state, rules_version=RULES_VERSION - 1, records=()))
        await one_turn(World([text_reply("c")], store=store))
        assert store.kept[0] == (0, state)

        store = Witness(Restored(state=state, rules_version=RULES_VERSION, records=()), failing=True)
        store.kept = [(0, state)]
        await one_turn(World([text_reply("c")], store=store))  # nothing to replace

        failing = Snapshots(Restored(state=state, rules_version=RULES_VERSION - 1, records=()), failing=True)
        with pytest.raises(StoreFailed, match="cannot be replaced"):
            await World(store=failing).open()
        assert failing.closed
        assert failing.load() == ()

        behind = Snapshots(Restored(state=state, rules_version=RULES_VERSION - 1, records=(LogRecord(say("more"), 0),)))
        with pytest.raises(RulesDiffer):
            await World(store=behind).open()
        assert behind.closed

    asyncio.run(run())
