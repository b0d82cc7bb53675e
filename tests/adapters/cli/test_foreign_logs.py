"""A log gives no authority: one that this user's programs did not write runs nothing that a person did not mean."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import RememberedTool
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.cli import chat as chat_module
from loopkernel_adapters.cli import run as run_module
from loopkernel_adapters.cli.session import Workbench
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.seals import ALTERED, FOREIGN, Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns, SqliteStore

from tests.adapters.cli.sessions import MODEL, CommandLine, says, script, shell
from tests.adapters.stores.hostile_logs import ASKS, HARM, HOSTILE, log_of


def planted(store: str, records: Sequence[LogRecord], *, sealed: bool, theirs: Path) -> tuple[str, ...]:
    """Put the log where a cloned folder would have it; how it is named on the command line."""
    seals = Seals(theirs)
    log: JsonlStore | SqliteStore
    if store == "file":
        log = JsonlStore(Path("sent.jsonl"), seals)
    else:
        Path(".loopkernel").mkdir()
        log = SqliteRuns(Path(".loopkernel", "runs.sqlite"), seals).open("r")
    if sealed:
        log.vouch()
    log.append(records, durable=True)
    if sealed:
        log.save_snapshot(replay(records))
    log.close()
    return ("sent.jsonl",) if store == "file" else ("r",)


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("approve", [(), ("--approve", "ask"), ("--approve", "never")])
@pytest.mark.parametrize("store", ["file", "sqlite"])
@pytest.mark.parametrize("sealed", [False, True], ids=["bare", "sealed by another"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_a_foreign_log_runs(
    loopkernel: CommandLine, tmp_path: Path, kind: str, store: str, sealed: bool, approve: tuple[str, ...]
) -> None:
    script(says("Very well."))
    named = planted(store, HOSTILE[kind], sealed=sealed, theirs=tmp_path / "theirs")
    ended = loopkernel("resume", *named, *MODEL, "--tools", "all", *approve)
    assert ended.status != 2, ended.err
    assert "not believed" in ended.out
    assert (ALTERED if sealed else FOREIGN) in ended.out
    assert not HARM.exists()


@pytest.mark.rule("RESUME-8")
def test_a_person_may_let_it_run_all_the_same(loopkernel: CommandLine, tmp_path: Path) -> None:
    script(says("Very well."))
    named = planted("file", HOSTILE["not checked yet"], sealed=False, theirs=tmp_path / "theirs")
    ended = loopkernel("resume", *named, *MODEL, "--tools", "all", lines=("yes",))
    assert HARM.exists(), ended.out


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("store", ["file", "sqlite"])
@pytest.mark.parametrize("out", [(), ("--out", "fork.jsonl")])
def test_a_fork_does_not_launder(loopkernel: CommandLine, tmp_path: Path, store: str, out: tuple[str, ...]) -> None:
    records = log_of(policy=Policy(), tool=ASKS, remembered=(RememberedTool("shell"),))
    named = planted(store, records, sealed=True, theirs=tmp_path / "theirs")
    script(shell("touch harm"), says("Very well."))
    forked = loopkernel("fork", *named, "--at", "3", *out)
    if forked.status == 2:  # the run of a store needs a note of one's own first
        assert "others may have recorded this run" in forked.err
        return
    new = "fork.jsonl" if out else "last"
    ended = loopkernel("resume", new, *MODEL, "--tools", "all", lines=("go on",))
    assert "not believed" in ended.out
    assert not HARM.exists()


@pytest.mark.rule("RESUME-8")
def test_ones_own_run_is_believed_and_so_is_its_fork(loopkernel: CommandLine) -> None:
    script(shell("true"), says("One."))
    assert loopkernel("chat", *MODEL, lines=("go", "always")).status == 0
    for name in ("last", "fork.jsonl"):
        script(shell("touch harm"), says("Two."))
        ended = loopkernel("resume", name, lines=("again",))
        assert "not believed" not in ended.out
        assert HARM.exists(), ended.out
        HARM.unlink()
        if name == "last":
            assert loopkernel("fork", "last", "--at", "12", "--out", "fork.jsonl").status == 0


# --- announcements --------------------------------------------------------------------------------------


def test_a_run_is_in_its_store_before_it_is_announced(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[int]()

    def noted(bench: Workbench, *_: object) -> tuple[str, ...]:
        found.append(len(bench.place.read(bench.run)))
        return ()

    monkeypatch.setattr(chat_module, "introduction", noted)
    monkeypatch.setattr(run_module, "tell_beginning", noted)
    monkeypatch.setattr(chat_module, "tell_beginning", noted)
    script(says("Hello."))
    for command in (("chat", *MODEL), ("chat", *MODEL, "--json"), ("run", "go", *MODEL, "--json")):
        loopkernel(*command)
    assert len(found) == 3
    assert all(records > 0 for records in found)
