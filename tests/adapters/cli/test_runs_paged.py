"""`loopkernel runs` with more runs than a screen holds: the latest are shown, the others counted and not read."""

import os
from contextlib import closing
from pathlib import Path

import pytest
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.cli.options import RUNS_SHOWN
from loopkernel_adapters.ports import RunEntry
from loopkernel_adapters.stores import folders
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.cli.sessions import CommandLine
from tests.adapters.stores.log_lines import some_records

MANY = RUNS_SHOWN + 7
STORES = ("sqlite:runs.sqlite", "jsonl:logs")
EARLIER = "earlier runs not shown: `"


def fill(runs: BlockingRuns, many: int) -> list[str]:
    """So many runs, the last of them with a sub-agent. Their ids, the latest last."""
    record = some_records(1)[0]
    ids = [f"run-{number:05}" for number in range(many)]
    for number, run in enumerate((*ids, f"{ids[-1]}/1")):
        with closing(runs.open(run)) as store:
            store.append([LogRecord(record.delta, 1_000 + number)], durable=False)
    return ids


def stored(name: str) -> BlockingRuns:
    kind, _, path = name.partition(":")
    return SqliteRuns(Path(path)) if kind == "sqlite" else JsonlFolder(Path(path))


def in_order_of_time(folder: Path, runs: list[str]) -> None:
    """Have the files written in this order, however quickly they were."""
    for number, run in enumerate(runs):
        os.utime(folder / f"{run}.jsonl", ns=(number, number))


def listed(loopkernel: CommandLine, *arguments: str) -> tuple[list[str], str]:
    """The ids that are shown, and the rest."""
    ended = loopkernel("runs", *arguments)
    assert ended.status == 0
    shown, _, rest = ended.out.partition("\n\n")
    return [line.split()[0] for line in shown.splitlines()], rest


@pytest.mark.parametrize("name", STORES)
def test_the_latest_are_shown_and_the_others_counted(loopkernel: CommandLine, name: str) -> None:
    ids = fill(stored(name), MANY)
    if name == "jsonl:logs":
        in_order_of_time(Path("logs"), ids)
    where = ("--store", name)
    shown, rest = listed(loopkernel, *where)
    assert shown == ids[-RUNS_SHOWN:]
    assert rest.startswith(f"7 {EARLIER}")
    assert f"runs --all --store {name}`, or --limit N" in rest
    assert f"resume {ids[-1]}" in rest
    shown, rest = listed(loopkernel, *where, "--limit", "3")
    assert (shown, f"{MANY - 3} {EARLIER}" in rest) == (ids[-3:], True)
    for all_of_them in (("--all",), ("--limit", str(MANY)), ("--limit", str(MANY + 1))):
        shown, rest = listed(loopkernel, *where, *all_of_them)
        assert (shown, "not shown" in rest) == (ids, False)


@pytest.mark.parametrize("name", STORES)
def test_a_program_gets_whatever_it_asks_for(loopkernel: CommandLine, name: str) -> None:
    ids = fill(stored(name), MANY)
    if name == "jsonl:logs":
        in_order_of_time(Path("logs"), ids)
    for asked, given in (((), ids), (("--all",), ids), (("--limit", "4"), ids[-4:])):
        told = loopkernel("runs", "--json", "--store", name, *asked).objects()
        assert [line["run"] for line in told] == given
    assert loopkernel("runs", "--all", "--limit", "4", "--store", name).status == 2


def test_no_log_is_read_that_is_not_shown(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fill(JsonlFolder(Path("logs")), MANY)
    in_order_of_time(Path("logs"), ids)
    looked_at, first_and_last = list[str](), folders._entry

    def noted(path: Path) -> RunEntry | None:
        looked_at.append(path.stem)
        return first_and_last(path)

    monkeypatch.setattr(folders, "_entry", noted)
    listed(loopkernel, "--store", "jsonl:logs", "--limit", "2")
    assert looked_at == [ids[-1], ids[-2]]


def test_what_is_no_log_is_neither_shown_nor_counted_among_the_latest(loopkernel: CommandLine) -> None:
    ids = fill(JsonlFolder(Path("logs")), 4)
    in_order_of_time(Path("logs"), ids)
    Path("logs", "notes.jsonl").write_text("buy milk\n")
    Path("logs", "gone.jsonl").symlink_to("nowhere")
    shown, rest = listed(loopkernel, "--store", "jsonl:logs", "--limit", "3")
    assert (shown, rest.startswith("1 earlier run not shown")) == (ids[1:], True)


@pytest.mark.parametrize("most", [None, 0, 1, 2, 3, 4])
def test_each_store_gives_the_same_page(most: int | None, folder: Path) -> None:
    stores: tuple[BlockingRuns, ...] = (MemoryRuns(), JsonlFolder(folder / "logs"), SqliteRuns(folder / "runs.sqlite"))
    assert {runs.latest(most).total for runs in stores} == {0}
    for runs in stores:
        fill(runs, 3)
    in_order_of_time(folder / "logs", [f"run-{number:05}" for number in range(3)])
    memory, *others = (runs.latest(most) for runs in stores)
    assert others == [memory, memory]
    assert len(memory.entries) == min(3, 3 if most is None else most)
    assert memory.total == 3
