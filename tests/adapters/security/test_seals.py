"""Seals: a store knows a log again that this user's programs have written, and no other, nor an older copy of it."""

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import StartTool
from loopkernel.data.json_text import Json
from loopkernel.data.tools import Decision, EffectClass, ToolOutput
from loopkernel.data.user_deltas import Approve
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, fork, replay
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.ports import RunContext, Sealing
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.seals import ALTERED, FOREIGN, OLDER, Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.tools.functions import tool
from loopkernel_adapters.tools.registry import Registry

from tests.adapters.stores.hostile_logs import HOSTILE
from tests.kernel.building import call_id


@pytest.mark.rule("RESUME-8")
def test_a_log_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    seals, path = Seals(tmp_path / "mine"), tmp_path / "log.jsonl"
    store = JsonlStore(path, seals)
    store.vouch()
    store.append(HOSTILE["bypass"], durable=True)
    store.close()
    assert JsonlFolder(tmp_path, seals).doubt("log") is None
    added = JsonlStore(path, seals)  # by a program that copies records, and is not a driver
    added.append((LogRecord(Approve(call=call_id(1)), 1),), durable=True)
    added.close()
    assert JsonlFolder(tmp_path, seals).doubt("log") == FOREIGN
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert JsonlFolder(tmp_path, seals).doubt("log") is None


@pytest.mark.rule("RESUME-8")
@given(data=st.data())
def test_no_line_of_one_log_makes_another_believed(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is cut, repeated, exchanged or taken from elsewhere: the seal of the last line speaks for all before."""
    folder = tmp_path_factory.mktemp("logs")
    seals = Seals(folder / "mine")
    for name, kind in (("one", "bypass"), ("two", "approved")):
        store = JsonlStore(folder / f"{name}.jsonl", seals)
        store.vouch()
        store.append(HOSTILE[kind], durable=True)
        store.close()
    one, two = ((folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True) for name in ("one", "two"))
    mixed = [data.draw(st.sampled_from((a, b))) for a, b in zip(one, two, strict=False)]
    size = data.draw(st.integers(1, len(mixed)))
    (folder / "mixed.jsonl").write_bytes(b"".join(mixed[:size]))
    believed = JsonlFolder(folder, seals).doubt("mixed") is None
    assert believed == (mixed[:size] in (one[:size], two[:size]))


@pytest.mark.parametrize("kind", [SqliteRuns, JsonlFolder])
@pytest.mark.rule("RESUME-8")
def test_without_a_place_for_the_secret_nothing_is_believed_and_it_is_said(
    tmp_path: Path, kind: type[SqliteRuns] | type[JsonlFolder]
) -> None:
    (tmp_path / "file").write_text("")
    runs = kind(tmp_path / "runs", Seals(tmp_path / "file"))
    store = runs.open("r")
    store.vouch()
    store.append(HOSTILE["bypass"], durable=True)
    store.close()
    doubt = runs.doubt("r")
    assert doubt is not None and "nothing can be sealed here" in doubt and "seal.key" in doubt


@pytest.mark.parametrize("fault", ["readable", "short", "link"])
def test_a_secret_that_others_may_know_is_not_used(tmp_path: Path, fault: str) -> None:
    good = Seals(tmp_path / "config")
    assert good.seal(b"x") is not None
    secret = tmp_path / "config" / "seal.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    if fault == "readable":
        secret.chmod(0o644)
    elif fault == "short":
        secret.write_bytes(b"short")
    else:
        secret.rename(tmp_path / "elsewhere")
        secret.symlink_to(tmp_path / "elsewhere")
    bad = Seals(tmp_path / "config")
    assert bad.seal(b"x") is None
    assert bad.problem


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("kind", [SqliteRuns, JsonlFolder])
def test_a_state_that_others_put_beside_a_log_is_not_gone_by(
    tmp_path: Path, kind: type[SqliteRuns] | type[JsonlFolder]
) -> None:
    """Whoever can write there can put any state: of a log of one's own, and of a foreign one."""
    mine, log, other = Seals(tmp_path / "mine"), HOSTILE["remembered"], HOSTILE["bypass"]
    for run, sealed in (("own", True), ("foreign", False)):
        store = kind(tmp_path / "runs", mine).open(run)
        if sealed:
            store.vouch()
        store.append(log, durable=True)
        store.close()
        theirs = kind(tmp_path / "runs", Seals(tmp_path / "theirs")).open(run)
        theirs.vouch()
        theirs.save_snapshot(replay(other))
        theirs.close()
        again = kind(tmp_path / "runs", mine).open(run)
        restored = again.restore()
        again.close()
        assert (restored.state, restored.records) == (None, log)
        assert restored.doubt == (None if sealed else FOREIGN)


# --- agents ---------------------------------------------------------------------------------------------


def agent(runs: BlockingRuns, ran: list[str], *replies: Reply) -> Agent:
    """One whose tool takes notes."""

    @tool(effect=EffectClass.IDEMPOTENT, approval=Decision.ASK)
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(str(amount))
        return "paid"

    return Agent(ScriptedProvider(list(replies)), [pay], runs=runs)


def pays(amount: int) -> Reply:
    return call_reply(("pay", Json.of({"amount": amount})))


@pytest.mark.rule("RESUME-7")
@pytest.mark.rule("RESUME-8")
def test_an_agent_goes_by_what_it_is_given(tmp_path: Path) -> None:
    mine, ran = SqliteRuns(tmp_path / "runs.sqlite", Seals(tmp_path / "mine")), list[str]()
    theirs = SqliteRuns(tmp_path / "runs.sqlite", Seals(tmp_path / "theirs"))

    async def play() -> None:
        asking = agent(mine, ran, pays(1))
        async with asking.session("r") as session:
            assert (await session.say("pay")).waiting
        headless = agent(mine, ran, text_reply("No."))
        async with headless.session("r", mode=ApprovalMode.HEADLESS) as session:
            result = await session.go_on()
            assert (session.doubt, result.text, ran) == (None, "No.", [])
        permissive = agent(mine, ran, pays(2), text_reply("Paid."))
        async with permissive.session("r", mode=ApprovalMode.BYPASS) as session:
            await session.say("again")
        assert ran == ["2"]
        async with agent(mine, ran, pays(3), text_reply("Paid.")).session("r") as session:
            await session.say("again")  # as the log has it
        assert ran == ["2", "3"]
        async with agent(theirs, ran, pays(4)).session("r") as session:
            assert session.doubt == ALTERED
            assert (await session.say("again")).waiting
        assert ran == ["2", "3"]

    asyncio.run(play())


# --- keys and copies ------------------------------------------------------------------------------------


class Noting(Registry):
    """Tools that note under which keys they run."""

    keys: list[str]

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.keys.append(command.key)
        return await super().run(command, context)


def keys_of(runs: BlockingRuns, run: str, *replies: Reply) -> list[str]:
    """The keys under which the calls of one turn run, in a session that goes on with the run."""

    @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    noting = Noting([pay])
    noting.keys = []

    async def play() -> None:
        async with Agent(ScriptedProvider(list(replies)), noting, runs=runs).session(run) as session:
            await session.say("pay")

    asyncio.run(play())
    return noting.keys


@pytest.mark.rule("RESUME-4")
def test_two_runs_of_one_name_share_no_key() -> None:
    keys = [key for _ in range(3) for key in keys_of(MemoryRuns(), "r", pays(1), text_reply("Paid."))]
    assert len(keys) == len(set(keys)) == 3


@pytest.mark.rule("RESUME-4")
@pytest.mark.rule("RESUME-8")
def test_a_backup_that_is_restored_is_noticed_and_shares_no_key(tmp_path: Path) -> None:
    seals = Seals(tmp_path / "mine")
    here, copy = tmp_path / "here", tmp_path / "copy"
    here.mkdir()
    runs = SqliteRuns(here / "runs.sqlite", seals)
    first = keys_of(runs, "r", pays(1), text_reply("Paid."))
    shutil.copytree(here, copy)
    assert runs.doubt("r") is None
    second = keys_of(runs, "r", pays(2), text_reply("Paid."))
    shutil.rmtree(here)
    shutil.copytree(copy, here)
    assert runs.doubt("r") == OLDER
    other = keys_of(runs, "r", pays(3), text_reply("Paid."))
    assert len({*first, *second, *other}) == 3


@pytest.mark.rule("RESUME-8")
def test_a_fork_by_hand_is_vouched_for_by_whoever_says_so(tmp_path: Path) -> None:
    runs = SqliteRuns(tmp_path / "runs.sqlite", Seals(tmp_path / "mine"))
    records = fork(HOSTILE["bypass"], 3, "new", 0)
    for run, says_so in (("new", False), ("vouched", True)):
        store = runs.open(run)
        assert isinstance(store, Sealing)
        if says_so:
            store.vouch()
        store.append(records, durable=True)
        store.close()
        assert runs.doubt(run) == (None if says_so else FOREIGN)
