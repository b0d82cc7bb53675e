"""`loopkernel run`: what it shows, how it exits, and that bad input never gives a traceback."""

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.threads import Thread
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.replaying import fold
from loopkernel_adapters.cli import models
from loopkernel_adapters.cli.arguments import command_line
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.summary import NATURAL_ENDS
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers import named
from loopkernel_adapters.providers.local import provider as local
from loopkernel_adapters.providers.named import ProviderByModel
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log
from typing_extensions import override

from tests.adapters.cli.cli_world import FILES, READ_NOTES, labelled, prepare, run, write_script


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace and a script in it."""
    return prepare(tmp_path, monkeypatch)


@pytest.mark.rule("RESUME-1")
def test_a_run_shows_each_event_and_that_its_log_and_the_laws_agree(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == ExitStatus.NATURAL_END
    output, errors = capsys.readouterr()
    assert errors == ""
    assert labelled(output, "user") == ["Read notes.txt."]
    assert labelled(output, "model") == ["Let me look.", "It says: buy milk."]
    assert labelled(output, "result 1.1") == ["done: buy milk"]
    assert labelled(output, "turn") == ["ended: model_stop; 0 tokens in, 0 out"]
    assert labelled(output, "outcome") == ["model_stop, after 2 requests and 1 tool run"]
    assert labelled(output, "log") == [str(folder / "log.jsonl")]
    steps = fold(read_log(folder / "log.jsonl").records)
    effects = sum(len(step.effects) for step in steps)
    (replayed,) = labelled(output, "replayed")
    assert replayed == f"{len(steps)} deltas: identical (the state and all {effects} effects, byte for byte)"
    (laws,) = labelled(output, "laws")
    assert laws.endswith("all held")
    for kind in ("step", "trace", "pair"):
        assert f" {kind}" in laws


def test_without_a_log_the_run_is_kept_in_the_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "Read it.", "--workspace", "workspace", "--model", "scripted:script.json", *FILES]
    assert main(arguments) == ExitStatus.NATURAL_END
    (log,) = labelled(capsys.readouterr().out, "log")
    run_id = log.split()[1]
    assert log == f"run {run_id} in sqlite:.loopkernel/runs.sqlite"
    assert (folder / ".loopkernel" / "runs.sqlite").stat().st_mode & 0o077 == 0
    assert main(["replay", run_id]) == ExitStatus.NATURAL_END


@pytest.mark.rule("LIMIT-1")
def test_a_turn_that_is_cut_short_exits_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--max-turns", "1") == ExitStatus.OTHER_END
    assert labelled(capsys.readouterr().out, "outcome") == ["max_turns, after 1 request and 1 tool run"]


def test_a_script_that_ends_too_early_ends_the_turn_as_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_script(folder, [{"calls": [READ_NOTES]}])
    assert run() == ExitStatus.OTHER_END
    output = capsys.readouterr().out
    assert "the script ends with reply 1, and this is model call 2" in labelled(output, "error")[0]
    assert labelled(output, "outcome")[0].startswith("error")


@pytest.mark.rule("RETRY-7")
def test_an_error_that_nothing_recovers_is_told_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_script(folder, [{"text": "I was", "fails": "overloaded", "message": "too many requests"}])
    assert run("--retries", "0") == ExitStatus.OTHER_END
    output, errors = capsys.readouterr()
    assert errors == ""
    assert labelled(output, "reply") == [
        "1: failed, overloaded: the service of the model has too much to do",
        "1: retracted; what was shown of it does not count",
    ]
    assert labelled(output, "error") == ["overloaded: too many requests; try again later, or with another model"]
    assert labelled(output, "outcome") == ["error, after 1 request and 0 tool runs"]


@pytest.mark.rule("RETRY-6")
def test_another_model_is_asked_when_the_first_fails_for_good(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flaky.json").write_text('[{"fails": "server"}]')
    arguments = ["--provider", "scripted:flaky.json", "--retries", "0", "--max-total-tokens", "1000"]
    assert run(*arguments, "--fallback-model", "scripted:script.json") == ExitStatus.NATURAL_END
    assert labelled(capsys.readouterr().out, "model") == ["Let me look.", "It says: buy milk."]


def test_a_model_that_nobody_offers_is_a_bad_request() -> None:
    async def ask() -> list[ModelDelta]:
        provider = ProviderByModel({})
        asked = Request(
            number=ModelOperation(1),
            reason=RequestReason.USER,
            model="oracle",
            instructions="",
            tools=(),
            thread=Thread(),
            max_output_tokens=None,
        )
        return [delta async for delta in provider.stream(asked, ModelOperation(1))]

    (failed,) = asyncio.run(ask())
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.BAD_REQUEST
    assert "oracle" in failed.message


def test_a_call_that_leaves_the_workspace_is_answered_and_the_loop_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "secret.txt").write_text("the secret")
    (folder / "workspace" / "link").symlink_to(folder / "secret.txt")
    paths = ["../secret.txt", "link", str(folder / "secret.txt")]
    write_script(
        folder,
        [
            {"calls": [{"tool": "read_file", "input": {"path": path}} for path in paths]},
            {"calls": [{"tool": "delete_file", "input": {}}]},
            {"text": "I cannot."},
        ],
    )
    assert run() == ExitStatus.NATURAL_END
    output = capsys.readouterr().out
    assert "the secret" not in output
    assert output.count("error: The input of this call") == 2
    assert 'error: "link" is, or lies in, a link' in output
    assert 'There is no tool named "delete_file"' in output


def test_only_ends_that_somebody_chose_are_natural() -> None:
    assert TurnEndReason.MODEL_STOP in NATURAL_ENDS
    assert not NATURAL_ENDS & {TurnEndReason.ERROR, TurnEndReason.MAX_TURNS, TurnEndReason.USER_ABORT}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", " "], "the task is empty"),
        (["run", "x", "--workspace", "absent"], "the workspace absent cannot be opened"),
        (["run", "x", "--workspace", "script.json"], "the workspace script.json cannot be opened"),
        (["run", "x", "--provider", "oracle"], "there is no provider 'oracle'"),
        (["run", "x", "--provider", "scripted:absent"], "the script absent cannot be read"),
        (["run", "x", "--provider", "scripted:."], "the script . cannot be read"),
        (["run", "x", "--provider", "scripted:bad.json"], "$[0].calls[0]"),
        (["run", "x", "--provider", "scripted:no.json"], "not JSON"),
        (["run", "x", "--provider", "scripted:latin.json"], "not UTF-8"),
        (["run", "x", "--provider", "scripted:script.json", "--log", "absent/log"], "the log absent/log"),
        (["run", "x", "--provider", "scripted:script.json", "--log", "workspace"], "the log"),
        (["run", "x", "--provider", "scripted:script.json", "--log", "script.json"], "is not a log of loopkernel"),
        (["run", "x", "--max-turns", "0"], "not a whole number"),
        (["run", "x", "--max-turns", "many"], "not a whole number"),
        (["run", "x", "--max-total-tokens", "0"], "not a whole number"),
        (["run", "x", "--retries", "-1"], "not a whole number"),
        (
            ["run", "x", "--provider", "scripted:script.json", "--fallback-model", "oracle"],
            "there is no provider 'oracle'",
        ),
        (["run", "x", "--provider", "scripted:fails.json"], "$[0].fails is none of"),
        (["run", "x", "--approve", "maybe"], "none of ask, always, never"),
        (["run"], "TASK"),
        (["sing"], "Unknown command"),
        ([], "say which command is meant"),
        (["--bogus"], "run, chat, resume"),
        (["replay", "absent.jsonl"], "the log absent.jsonl cannot be read"),
        (["replay", "absent"], "there are no runs in sqlite:.loopkernel/runs.sqlite"),
        (["replay", "workspace"], "there is no recording in workspace"),
        (["replay", "/dev/zero"], "is not a regular file"),
        (["replay", "script.json"], "line 1 is not a record"),
        (["replay", "empty"], "nothing to replay"),
    ],
)
def test_bad_input_is_told_in_words(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    (folder / "bad.json").write_text('[{"calls": [{"input": {}}]}]')
    (folder / "no.json").write_text("{")
    (folder / "fails.json").write_text('[{"fails": "badly"}]')
    (folder / "latin.json").write_bytes(b'["\xe9"]')
    (folder / "empty").touch()
    assert main(arguments) == ExitStatus.UNUSABLE
    output, errors = capsys.readouterr()
    assert output == ""
    assert told in errors
    assert "Traceback" not in errors


def test_without_a_model_it_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setattr(local, "MODEL_PACKAGE", "a_package_that_nobody_has")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = set(folder.iterdir())
    for arguments in (["run", "x", "--workspace", "workspace"], ["demo"]):
        assert main(arguments) == ExitStatus.UNUSABLE
        told = capsys.readouterr().err
        assert "`make run`" in told
        assert "pip install 'loopkernel[local]'" in told
        assert "--model anthropic:MODEL" in told
    assert set(folder.iterdir()) == before


def test_every_help_tells_the_exit_statuses_and_an_example_and_the_version_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = "run chat resume runs log replay diagnose repair continue fork demo"
    for arguments in ([], *([name] for name in names.split())):
        assert main([*arguments, "--help"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "exit status: 0 " in told
        example = told.partition("for example: loopkernel ")[2].partition(" exit status:")[0]
        command, _, _ = command_line().parse_args(shlex.split(example), print_error=False, exit_on_error=False)
        assert command.__name__.rstrip("_") in (arguments or ["run"])
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("loopkernel ")


def test_no_model_is_loaded_for_a_log_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(named, "find_model", lambda: folder)
    monkeypatch.setattr(local.LocalProvider, "load", loaded.append)
    assert main(["run", "x", "--workspace", "workspace", "--log", "absent/log.jsonl"]) == ExitStatus.UNUSABLE
    assert "the log absent/log.jsonl" in capsys.readouterr().err
    assert loaded == []


def test_a_huge_task_is_shown_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(task="word " * 20_000) == ExitStatus.NATURAL_END
    assert max(map(len, capsys.readouterr().out.splitlines())) < 400


def test_a_log_that_is_used_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    kept = (folder / "log.jsonl").read_bytes()
    assert run() == ExitStatus.UNUSABLE
    assert "already holds a run" in capsys.readouterr().err
    assert (folder / "log.jsonl").read_bytes() == kept


def test_a_log_that_is_open_elsewhere_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = JsonlStore(folder / "log.jsonl")
    assert run() == ExitStatus.UNUSABLE
    store.close()
    assert "is open for writing elsewhere" in capsys.readouterr().err


def test_a_place_where_no_log_can_be_made_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".loopkernel").touch()
    arguments = ["run", "x", "--workspace", "workspace", "--provider", "scripted:script.json", *FILES]
    assert main(arguments) == ExitStatus.UNUSABLE
    assert "--log FILE" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_stops_the_run_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run() == ExitStatus.UNUSABLE
    assert "No space left on device" in capsys.readouterr().err


# --- Ctrl-C ---


class InterruptedProvider(Provider):
    """Speaks, gets the process interrupted so many times, and then waits for ever."""

    def __init__(self, interrupts: int) -> None:
        self.interrupts = interrupts

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        yield ModelText(operation, "I begin")
        for _ in range(self.interrupts):
            signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
        yield ModelCompleted(operation, StopReason.END_TURN)


@pytest.mark.rule("CANCEL-1")
@pytest.mark.parametrize(
    ("interrupts", "told", "outcome"),
    [(1, "cancelling", ("user_abort",)), (2, "quitting", ("user_abort", "no turn has ended"))],
)
def test_ctrl_c_cancels_and_a_second_one_quits(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interrupts: int,
    told: str,
    outcome: tuple[str, ...],
) -> None:
    @contextmanager
    def interrupted(wanted: str, base_url: str | None) -> Iterator[tuple[Provider, str]]:
        yield InterruptedProvider(interrupts), "patient"

    monkeypatch.setattr(models, "opened_model", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    assert run() == ExitStatus.OTHER_END
    output = capsys.readouterr().out
    assert told in labelled(output, "interrupt")[-1]
    assert labelled(output, "outcome")[0].startswith(outcome)
    assert "identical" in labelled(output, "replayed")[0]
    assert labelled(output, "laws")[0].endswith("all held")
    assert signal.getsignal(signal.SIGINT) == handler
    assert main(["replay", "log.jsonl"]) == ExitStatus.NATURAL_END
