"""Workers, leases that end at any moment, and inputs from anywhere: against a plain account of what must hold."""

import asyncio
from collections.abc import Awaitable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.user_deltas import Say
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.ports import NoSuchRun, StoreError, StoreLocked
from loopkernel_adapters.stores.postgres_store import PostgresStore

from tests.homes.postgres.server import PostgresServer
from tests.homes.postgres.world import World, said

T = TypeVar("T")
NAMES = st.sampled_from(["a", "b", "b/child"])
PARENTS = st.sampled_from(["a", "b"])
WORKERS = st.sampled_from([0, 1, 2])
LATER, NOW = 1e9, 0.0


class Account:
    """What must hold of one run."""

    def __init__(self) -> None:
        self.log: list[LogRecord] = []
        self.inbox: dict[int, Say] = {}
        self.sent = 0
        self.store: PostgresStore | None = None  # of the one writer
        self.holder: int | None = None  # the worker that has the lease, with a store or by a claim
        self.unfinished = False  # in its row
        self.left = False  # what its holder leaves when it lets go
        self.has_rested = False
        self.due = False
        self.listed = False

    @property
    def has_work(self) -> bool:
        return bool(self.inbox) or self.unfinished or self.due


class Histories(RuleBasedStateMachine):
    """One history. What is awaited is run to its end: the moments between are what `test_crashes` is for."""

    server: PostgresServer

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._folder = TemporaryDirectory()
        self._world = World(self.server.dsn, Path(self._folder.name))
        self._workers = [self._world.worker() for _ in range(3)]
        self._runs = {name: Account() for name in ("a", "b", "b/child")}
        self._fenced: list[tuple[str, PostgresStore]] = []
        self._numbers = count()

    def done(self, act: Awaitable[T]) -> T:
        return self._loop.run_until_complete(act)

    @override
    def teardown(self) -> None:
        for account in self._runs.values():
            if account.store is not None:
                self.done(account.store.close())
        for _, store in self._fenced:
            self.done(store.close())
        for worker in self._workers:
            self.done(worker.close())
        self._loop.close()
        self._folder.cleanup()

    @rule(worker=WORKERS, name=NAMES)
    def open(self, worker: int, name: str) -> None:
        account = self._runs[name]
        if account.store is not None or account.holder not in (None, worker):
            if "/" in name and account.holder != worker:
                return  # the end of that lease would be waited for
            with pytest.raises(StoreLocked):
                self.done(self._workers[worker].open(name))
            return
        store = self.done(self._workers[worker].open(name))
        store.vouch()
        assert self.done(store.load()) == tuple(account.log)
        restored = self.done(store.restore())
        assert restored.doubt is None
        assert len(restored.records) == len(account.log) or restored.state is not None
        account.store, account.holder, account.listed = store, worker, True
        account.left, account.unfinished, account.has_rested = account.unfinished, True, False

    @rule(name=NAMES, size=st.integers(0, 3), durable=st.booleans(), draws=st.data())
    def append(self, name: str, size: int, durable: bool, draws: st.DataObject) -> None:
        account = self._runs[name]
        if account.store is None:
            return
        taken = sorted(account.inbox)[: draws.draw(st.integers(0, len(account.inbox)))]
        records = [LogRecord(account.inbox[number], 0) for number in taken]
        records += [LogRecord(ModelText(ModelOperation(1), str(next(self._numbers))), 0) for _ in range(size)]
        before = len(account.log)
        self.done(account.store.append(records, durable, taken))
        account.log += records
        for number in taken:
            del account.inbox[number]
        if len(account.log) > before and account.has_rested:
            account.has_rested, account.left = False, True
        account.unfinished = account.unfinished or len(account.log) > before

    @precondition(lambda self: self._fenced)
    @rule(draws=st.data())
    def write_too_late(self, draws: st.DataObject) -> None:
        name, store = draws.draw(st.sampled_from(self._fenced))
        late = LogRecord(ModelText(ModelOperation(1), "too late"), 0)
        with pytest.raises(StoreError):
            self.done(store.append([late], True, sorted(self._runs[name].inbox)))
        with pytest.raises(StoreError):
            self.done(store.save_snapshot(replay(self._runs[name].log)))

    @rule(name=NAMES)
    def snapshot(self, name: str) -> None:
        account = self._runs[name]
        if account.store is not None and account.log:
            self.done(account.store.save_snapshot(replay(account.log)))

    @rule(name=NAMES)
    def end_lease(self, name: str) -> None:
        self.done(self._world.end_lease(name))
        account = self._runs[name]
        if account.store is not None:
            self._fenced.append((name, account.store))
        account.store = account.holder = None

    @rule(worker=WORKERS)
    def beat(self, worker: int) -> None:
        leases = self._workers[worker]._leases
        self.done(leases._connections.run(leases._renew))

    @rule(name=NAMES)
    def close(self, name: str) -> None:
        account = self._runs[name]
        if account.store is not None:
            self.done(account.store.close())
            account.store = account.holder = None
            account.unfinished = account.left

    @precondition(lambda self: self._fenced)
    @rule()
    def close_too_late(self) -> None:
        """One that was fenced off lets go of nothing that another one holds."""
        name, store = self._fenced.pop()
        self.done(store.close())
        account = self._runs[name]
        if account.holder is None:
            found = self.done(self._world.sql("SELECT unfinished FROM runs WHERE run = %s", name))
            account.unfinished = found == [(True,)]

    @rule(name=PARENTS, worker=WORKERS)
    def send(self, name: str, worker: int) -> None:
        account = self._runs[name]
        account.sent += 1
        account.inbox[account.sent] = said(f"{name} {account.sent}")
        assert self.done(self._workers[worker].send(name, account.inbox[account.sent])) == account.sent
        account.listed = True

    @rule(name=NAMES, unfinished=st.booleans(), wake=st.sampled_from([None, LATER, NOW]))
    def rest(self, name: str, unfinished: bool, wake: float | None) -> None:
        account = self._runs[name]
        if account.holder is None:
            return
        self.done(self._workers[account.holder].rest(name, wake, unfinished))
        account.unfinished = account.left = unfinished
        account.has_rested, account.due = True, wake == NOW
        if account.store is None:
            account.holder = None  # it was claimed, and not opened

    @rule(worker=WORKERS, most=st.integers(1, 3))
    def claim(self, worker: int, most: int) -> None:
        free = {name for name, each in self._runs.items() if each.holder is None and each.has_work and "/" not in name}
        if self._runs["b/child"].holder is not None:
            free.discard("b")
        found = self.done(self._workers[worker].claim(most))
        assert set(found) <= free and len(set(found)) == len(found) == min(most, len(free))
        for name in found:
            self._runs[name].holder = worker

    @invariant()
    def nothing_is_lost(self) -> None:
        for name, account in self._runs.items():
            if account.listed:
                assert self.done(self._workers[0].read(name)) == tuple(account.log)
            else:
                with pytest.raises(NoSuchRun):
                    self.done(self._workers[0].read(name))
            assert dict(self.done(self._workers[1].inbox(name))) == account.inbox


def test_every_history_keeps_what_was_acknowledged_under_one_writer(server: PostgresServer) -> None:
    histories = type("HistoriesOfThisServer", (Histories,), {"server": server})
    run_state_machine_as_test(
        histories,
        settings=settings(
            max_examples=20,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
