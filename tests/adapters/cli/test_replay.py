"""`loopkernel replay`, and how a run is held against its log: every difference is found and told."""

import io
import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.codec import record_to_text
from loopkernel.data.states import Initial
from loopkernel.replaying import fold
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.verification import Witnessed, first_difference
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from tests.adapters.cli.cli_world import labelled, prepare, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace and a script in it."""
    return prepare(tmp_path, monkeypatch)


def test_a_replay_shows_the_same_events_and_the_state_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    shown = capsys.readouterr().out.split("\n\n")[0]
    assert main(["replay", "log.jsonl"]) == ExitStatus.NATURAL_END
    output = capsys.readouterr().out
    assert output.split("\n\n")[0] == shown
    (state,) = labelled(output, "state")
    assert state.startswith("Idle at version")
    assert "4 messages" in state
    assert labelled(output, "laws")[0].endswith("all held")


def test_a_torn_tail_is_told_and_the_log_left_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    whole = (folder / "log.jsonl").read_bytes()
    (folder / "log.jsonl").write_bytes(whole[:-9])
    capsys.readouterr()
    assert main(["replay", "log.jsonl"]) == ExitStatus.OTHER_END
    (tail,) = labelled(capsys.readouterr().out, "torn tail")
    assert f"line {len(whole.splitlines())} " in tail
    assert (folder / "log.jsonl").read_bytes() == whole[:-9]


@pytest.mark.parametrize("size", [1, 20])
def test_a_log_without_a_complete_record_is_no_success(
    folder: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    run()
    cut = (folder / "log.jsonl").read_bytes()[:size]
    (folder / "log.jsonl").write_bytes(cut)
    capsys.readouterr()
    assert main(["replay", "log.jsonl"]) == ExitStatus.UNUSABLE
    output, errors = capsys.readouterr()
    assert output == ""
    assert "log.jsonl holds no complete record" in errors
    assert (folder / "log.jsonl").read_bytes() == cut


def test_a_file_that_is_no_log_is_called_so_and_nobody_is_told_to_cut_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("# Notes\n\nBuy milk.\n")
    for arguments in (
        ["replay", "README.md"],
        ["run", "x", "--provider", "scripted:script.json", "--log", "README.md"],
    ):
        assert main(arguments) == ExitStatus.UNUSABLE
        errors = capsys.readouterr().err
        assert "README.md is not a log of loopkernel (line 1 is not a record)" in errors
        assert "Nothing was changed" in errors
        assert "cut it" not in errors


@pytest.mark.parametrize(
    "command",
    [
        ["log", "bare.log"],
        ["replay", "bare.log"],
        ["replay", "bare.log", "--json"],
        ["whatif", "bare.log", "--policy", "claude"],
        ["view", "bare.log"],
        ["diagnose", "bare.log"],
        ["repair", "bare.log", "--out", "new.jsonl"],
        ["continue", "bare.log", "--model", "scripted:script.json"],
        ["resume", "./bare.log"],
        ["fork", "bare.log", "--at", "3"],
        ["run", "x", "--model", "scripted:script.json", "--log", "bare.log"],
    ],
    ids=lambda command: " ".join(command[:1]),
)
def test_records_that_no_store_has_written_are_called_so_by_each_command(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    run()
    records = read_log(folder / "log.jsonl").records
    (folder / "bare.log").write_text("".join(f"{record_to_text(record)}\n" for record in records))
    capsys.readouterr()
    assert main(command) == ExitStatus.UNUSABLE
    errors = capsys.readouterr().err
    assert "bare.log holds bare records, without the number and the checksum of a store" in errors
    assert "is not a record" not in errors
    assert "damaged" not in errors
    assert ("JsonlStore(path).append" in errors) is (command[0] != "run")


def test_a_log_that_is_damaged_in_its_first_line_is_not_called_a_recording(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be handed on to a command that refuses it as well."""
    run()
    log = folder / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"n":1,', b'"m":1,', 1))
    capsys.readouterr()
    assert main(["log", "log.jsonl"]) == ExitStatus.UNUSABLE
    errors = capsys.readouterr().err
    assert "log.jsonl is not a log of loopkernel (line 1 is not a record)" in errors
    assert "recording" not in errors


@settings(max_examples=20)
@given(st.data())
def test_whatever_is_wrong_with_a_log_it_is_told_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("damaged") / "log.jsonl"
    assert run(log=str(log)) == 0
    content = bytearray(log.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    log.write_bytes(content)
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", errors)
        status = main(["replay", str(log)])
    if place == len(content) - 1:  # without its newline the last line is a torn tail
        assert status == ExitStatus.OTHER_END
    else:
        assert status == ExitStatus.UNUSABLE
        assert any(words in errors.getvalue() for words in ("(byte ", "line 1 is not a record"))
        assert "Nothing was changed" in errors.getvalue()


# --- what is compared ---


@pytest.fixture
def witnessed(folder: Path) -> Witnessed:
    run()
    records = read_log(folder / "log.jsonl").records
    steps = fold(records)
    events = tuple(effect for step in steps for effect in step.effects if is_event(effect))
    return Witnessed(records=records, events=events, state=steps[-1].after)


def test_a_run_and_its_own_log_do_not_differ(witnessed: Witnessed) -> None:
    assert first_difference(witnessed, fold(witnessed.records)) is None


def test_every_kind_of_difference_is_found(witnessed: Witnessed) -> None:
    replayed = fold(witnessed.records)
    told = [
        first_difference(witnessed, replayed[:-1]),
        first_difference(witnessed, [*replayed, replayed[-1]]),
        first_difference(witnessed, [evolve(replayed[0], effects=()), *replayed[1:]]),
        first_difference(
            witnessed, [evolve(replayed[0], context=evolve(replayed[0].context, now_ms=-1)), *replayed[1:]]
        ),
        first_difference(evolve(witnessed, state=Initial()), replayed),
        first_difference(evolve(witnessed, events=witnessed.events[1:]), replayed),
    ]
    assert None not in told
    assert len(set(told)) == 6


def test_a_difference_is_told_and_exits_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forgetful(self: JsonlStore, records: object, durable: bool) -> None:
        """Writes nothing."""

    monkeypatch.setattr(JsonlStore, "append", forgetful)
    assert run() == ExitStatus.OTHER_END
    assert "NOT identical" in labelled(capsys.readouterr().out, "replayed")[0]
