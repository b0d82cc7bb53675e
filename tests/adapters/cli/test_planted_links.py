"""A link that others have put beside a log leads nowhere: nothing is read or written through it, and that is said."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from loopkernel_adapters.cli import beginnings
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.places import OneFile
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.durable_files import write_new_file
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.cli.sessions import MODEL, CommandLine, says, script

PRECIOUS = Path("precious.txt")
LOG = "run.jsonl"
BESIDE = (".snapshot", ".snapshot.new", ".begun.json", ".agents")
Link = Callable[[Path], object]


@pytest.fixture(autouse=True)
def precious(folder: Path) -> Path:
    """What is not to be changed."""
    PRECIOUS.write_text("buy milk\n")
    script(says("Done."))
    return PRECIOUS


def unharmed() -> bool:
    return PRECIOUS.read_text() == "buy milk\n" and PRECIOUS.stat().st_mode & 0o777 != 0o600


@pytest.mark.parametrize("suffix", BESIDE)
@pytest.mark.parametrize("leads_to", ["precious.txt", "nowhere", "elsewhere"])
def test_a_link_beside_a_log_is_refused_before_anything_is_written(
    loopkernel: CommandLine, suffix: str, leads_to: str
) -> None:
    Path("elsewhere").mkdir()
    planted = Path(LOG + suffix)
    planted.symlink_to(leads_to)
    ended = loopkernel("run", "go", *MODEL, "--log", LOG)
    assert ended.status == 2
    assert f"{planted} is a link to '{leads_to}', and nothing is read or written through a link" in ended.err
    assert unharmed()
    assert planted.is_symlink()
    assert not Path(LOG).exists()
    assert not Path("nowhere").exists()
    assert list(Path("elsewhere").iterdir()) == []
    planted.unlink()
    assert loopkernel("run", "go", *MODEL, "--log", LOG).status == 0
    planted.unlink(missing_ok=True)
    planted.symlink_to(leads_to)
    assert "is a link to" in loopkernel("resume", LOG, *MODEL).err
    assert unharmed()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_note_is_never_written_through_a_link(link: Callable[[Path, Path], object]) -> None:
    place = OneFile(path=Path(LOG))
    for name in (f"{LOG}.begun.json", f"{LOG}.begun.json~"):
        link(PRECIOUS, Path(name))
    beginnings.note(place, LOG, Options(model="scripted:script.json"))
    assert unharmed()
    assert beginnings.begun_with(place, LOG) is not None  # it lies there all the same, as a file of its own


def test_a_pipe_in_the_place_of_a_note_is_not_waited_for(loopkernel: CommandLine) -> None:
    assert loopkernel("run", "go", *MODEL, "--log", LOG).status == 0
    note = Path(f"{LOG}.begun.json")
    note.unlink()
    os.mkfifo(note)
    assert loopkernel("resume", LOG, *MODEL).status == 0


def planted_folder(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("name", ["runs.sqlite-locks", "runs.sqlite.begun"])
def test_a_folder_of_a_store_that_is_a_link_is_refused(loopkernel: CommandLine, name: str) -> None:
    Path("elsewhere").mkdir()
    planted_folder(Path(name))
    ended = loopkernel("run", "go", *MODEL, "--store", "sqlite:runs.sqlite")
    assert (ended.status, f"{name} is a link to 'elsewhere'" in ended.err) == (2, True)
    assert list(Path("elsewhere").iterdir()) == []


@pytest.mark.parametrize("store", [(), ("--store", "sqlite:.loopkernel/runs.sqlite"), ("--store", "jsonl:.loopkernel")])
def test_the_folder_of_the_runs_is_no_link_that_nobody_named(loopkernel: CommandLine, store: tuple[str, ...]) -> None:
    Path("elsewhere").mkdir()
    planted_folder(Path(".loopkernel"))
    for command in (("run", "go", *MODEL), ("runs",)):
        ended = loopkernel(*command, *store)
        assert (ended.status, ".loopkernel is a link to 'elsewhere'" in ended.err) == (2, True)
    assert list(Path("elsewhere").iterdir()) == []
    assert loopkernel("run", "go", *MODEL, "--store", "sqlite:elsewhere/runs.sqlite").status == 0


def test_the_database_of_the_folder_is_no_link_either(loopkernel: CommandLine) -> None:
    Path(".loopkernel").mkdir()
    Path(".loopkernel", "runs.sqlite").symlink_to("../elsewhere.sqlite")
    ended = loopkernel("run", "go", *MODEL)
    assert (ended.status, "runs.sqlite is a link to '../elsewhere.sqlite'" in ended.err) == (2, True)
    assert not Path("elsewhere.sqlite").exists()


def test_the_lock_of_a_run_is_no_link(folder: Path) -> None:
    runs = SqliteRuns(folder / "runs.sqlite")
    runs.open("s").close()
    planted = folder / "runs.sqlite-locks" / "1.lock"
    planted.symlink_to(PRECIOUS)
    with pytest.raises(StoreError, match=r"1\.lock is a link to"):
        runs.open("s")
    assert planted.is_symlink()
    planted.unlink()
    planted.hardlink_to(PRECIOUS)
    runs.open("s").close()
    assert unharmed()


def test_a_snapshot_is_not_read_through_a_link(folder: Path) -> None:
    from loopkernel.replaying import replay
    from loopkernel_adapters.stores.jsonl import JsonlStore
    from loopkernel_adapters.stores.snapshots import read_snapshot

    from tests.adapters.stores.log_lines import some_records

    log, records = folder / LOG, some_records(9)
    with closing(JsonlStore(log)) as store:
        store.append(records, durable=True)
        store.save_snapshot(replay(records))
    kept = log.with_name(f"{LOG}.snapshot")
    assert read_snapshot(log, Seals.of_user(), doubted=True) is not None
    kept.rename(folder / "moved")
    kept.symlink_to("moved")
    assert read_snapshot(log, Seals.of_user(), doubted=True) is None


@pytest.mark.parametrize("leads_to", ["precious.txt", "nowhere"])
def test_a_new_file_is_never_a_link(folder: Path, leads_to: str) -> None:
    Path("out.jsonl").symlink_to(leads_to)
    with pytest.raises(FileExistsError):
        write_new_file(Path("out.jsonl"), [b"x"])
    Path(f".new.jsonl.{os.getpid()}.unfinished").symlink_to(leads_to)
    with pytest.raises(FileExistsError):
        write_new_file(Path("new.jsonl"), [b"x"])
    assert unharmed()
    assert not Path("nowhere").exists()


def test_the_current_folder_can_hold_the_logs(loopkernel: CommandLine) -> None:
    assert loopkernel("run", "go", *MODEL, "--store", "jsonl:.").status == 0
    assert loopkernel("resume", "last", "--store", "jsonl:.").status == 0
