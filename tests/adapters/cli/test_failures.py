"""Whatever goes wrong is told in words: what, where, and what to do next. Nobody ever sees a traceback."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopkernel.codec import policy_to_text
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.words import StopReason
from loopkernel_adapters.cli import commands, listing, models
from loopkernel_adapters.cli.outcomes import ExitStatus, told_in_words
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.local import provider as local
from typing_extensions import override

from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.pseudo_terminal import at_a_terminal
from tests.adapters.cli.sessions import CHAT, MODEL, CommandLine, calls, says, script

FORESEEN = "something that nobody foresaw"


@pytest.fixture(autouse=True)
def nothing_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and no embedded model: nothing here asks a real one."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local, "MODEL_PACKAGE", "a_package_that_nobody_has")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "anthropic:claude"], "put it into the environment as ANTHROPIC_API_KEY"),
        (["--model", "openai:gpt"], "put it into the environment as OPENAI_API_KEY"),
        (["--model", "openai:"], "names nothing behind the colon"),
        (["--model", "oracle"], "choose one of: local, scripted:FILE"),
        (["--model", ""], "it is empty"),
        (["--model", "recorded:absent"], "the log absent cannot be read"),
        (["--model", "recorded:pipe"], "it is not a regular file"),
        (["--model", "scripted:pipe"], "the script pipe is not a regular file"),
        (["--base-url", "localhost"], "begins neither with http:// nor with https://"),
        (
            ["--policy", "strict"],
            "choose default, amp, amodal, claude, strands, calls, claude-document, or name",
        ),
        (["--policy", "policy.json"], "$.value.max_turns: must be a finite number of at least 0, and is -1"),
        (["--policy", "words.txt"], "the policy words.txt cannot be used"),
        (["--policy", "bare.json"], '{"loopkernel":"policy","version":'),
        (["--max-turns", "x"], "not a whole number from 1 to"),
        (["--policy", "."], "it is not a regular file"),
        (["--instructions", "@absent"], "the instructions absent cannot be read"),
        (["--instructions", "@latin.txt"], "is not UTF-8 at byte 0"),
        (["--secret", "x"], "as in TOKEN=GITHUB_TOKEN"),
        (["--secret", "x=NO_SUCH_VARIABLE"], "there is no environment variable"),
        (["--secret", "x=SHORT"], "fewer than 4 characters"),
        (["--secret", "x y=LONG_ENOUGH"], "cannot be the name of a secret"),
        (["--workspace", "words.txt"], "name a folder with --workspace DIR"),
        (["--store", "memory", "--log", "a"], "Mutually exclusive"),
        (["--workspace", "a\0b"], "NUL character"),
    ],
)
@pytest.mark.parametrize("command", [("run", "go"), ("chat",)])
def test_what_is_wrong_with_an_option_is_told(
    loopkernel: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    command: tuple[str, ...],
    arguments: list[str],
    told: str,
) -> None:
    Path("policy.json").write_text(policy_to_text(Policy(max_turns=77)).replace("77", "-1"))
    Path("words.txt").write_text("be kind")
    Path("bare.json").write_text('{"max_turns": 7}')
    Path("latin.txt").write_bytes(b"\xe9")
    os.mkfifo("pipe")  # that nobody writes: to read it would never end
    for name, value in (("SHORT", "abc"), ("LONG_ENOUGH", "long enough")):
        monkeypatch.setenv(name, value)
    script(says("Yes?"))
    ended = loopkernel(*command, *MODEL, *arguments)
    assert ended.status == ExitStatus.UNUSABLE
    assert told in ended.err
    assert FORESEEN not in ended.err
    assert "long enough" not in ended.err
    assert not Path(".loopkernel").exists()  # nothing is made for a run that cannot begin


def test_without_what_judges_the_inputs_of_tools_its_extra_is_named(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    script(says("never"))
    ended = loopkernel("run", "go", *MODEL)
    assert ended.status == ExitStatus.UNUSABLE
    assert "pip install 'loopkernel[tools]'" in ended.err


@pytest.mark.parametrize("extra", ["anthropic", "openai"])
def test_a_missing_extra_is_named(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    monkeypatch.setenv(f"{extra.upper()}_API_KEY", "key-of-nobody")
    monkeypatch.setitem(sys.modules, extra, None)
    for name in [name for name in sys.modules if name.startswith(f"loopkernel_adapters.providers.{extra}")]:
        monkeypatch.delitem(sys.modules, name)
    ended = loopkernel("run", "go", "--model", f"{extra}:large")
    assert ended.status == ExitStatus.UNUSABLE
    assert f"pip install 'loopkernel[{extra}]'" in ended.err
    assert "key-of-nobody" not in ended.err


@pytest.mark.parametrize("name", ["default", "amp", "amodal", "claude", "strands", "calls"])
def test_every_preset_is_a_policy_to_run_under(loopkernel: CommandLine, name: str) -> None:
    script(calls("list_files"), says("Done."))
    assert loopkernel("run", "go", *MODEL, "--policy", name).status == ExitStatus.NATURAL_END
    assert loopkernel("replay", "last").status == ExitStatus.NATURAL_END


def test_instructions_are_given_as_text_or_as_a_file(loopkernel: CommandLine) -> None:
    Path("words.txt").write_text("be kind")
    for given_words in ("be kind", "@words.txt"):
        script(says("Yes."))
        loopkernel("run", "go", *MODEL, "--instructions", given_words)
        assert '"instructions":"be kind"' in loopkernel("log", "last", "--json").out


def test_a_folder_that_is_gone_is_told(loopkernel: CommandLine, folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    for arguments in (("run", "go", "--model", "scripted:x"), ("chat",), ("runs",), ("log", "last"), ("resume", "x")):
        ended = loopkernel(*arguments)
        assert (ended.status, ended.out) == (ExitStatus.UNUSABLE, "")
        assert "the folder that you are in cannot be found" in ended.err
        assert "go to one that is there" in ended.err


def test_what_nobody_foresaw_is_told_in_one_line(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unspeakable(RuntimeError):
        @override
        def __str__(self) -> str:
            raise ValueError("not even this")

    for error in (RuntimeError("the sky\nfalls \x1b[2J"), RecursionError("deep"), Unspeakable()):

        def fail(*_: object, failing: BaseException = error, **__: object) -> None:
            raise failing

        monkeypatch.setattr(listing, "list_runs", fail)
        ended = loopkernel("runs")
        assert (ended.status, ended.out) == (ExitStatus.UNUSABLE, "")
        assert ended.err.startswith(f"loopkernel: {FORESEEN}: {type(error).__name__}")
        assert ended.err.count("\n") == 1
        assert "\x1b" not in ended.err
    assert commands.run_command_line(["--version"]) == 0


# --- as a process ---


def ran(command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line, called by a shell as the command says (`"$@"` is the command line), as for most people."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", command, "sh", *COMMAND, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
    )


@pytest.mark.parametrize(
    ("shell", "arguments"),
    [
        ('"$@" | true', ["--help"]),
        ('"$@" | true', ["log", "last"]),
        ('"$@" >&-', ["runs"]),
        ('"$@" >/dev/full', ["--help"]),
        ('"$@" >/dev/full', ["run", "go", *MODEL, "--json"]),
        ('"$@" 2>&-', ["log", "absent"]),
        ('"$@" 2>/dev/full', ["nonsense"]),
        ('COLUMNS=1 "$@"', ["resume", "--help"]),
    ],
)
def test_an_output_that_nobody_takes_is_no_traceback(loopkernel: CommandLine, shell: str, arguments: list[str]) -> None:
    script(says("one"))
    loopkernel("run", "go", *MODEL)
    ended = ran(shell, *arguments)
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "Exception" not in ended.stderr
    if ">/dev/full" in shell and "2>" not in shell:
        assert "No space left on device" in ended.stderr


def test_a_disk_that_is_full_stops_the_run_in_words(loopkernel: CommandLine) -> None:
    script(says("word " * 20_000))
    ended = ran('ulimit -f 128; exec "$@"', "run", "go", *MODEL)  # no file may grow beyond that
    assert ended.returncode == ExitStatus.UNUSABLE
    assert "Traceback" not in ended.stderr
    assert "the run was stopped: the log cannot be written" in ended.stderr
    assert ".loopkernel/runs.sqlite" in ended.stderr
    assert "Errno" not in ended.stderr
    assert "go on with" in ended.stderr
    assert loopkernel("log", "last").status == ExitStatus.NATURAL_END  # what was recorded is whole


def test_a_terminal_of_one_column_is_enough() -> None:
    script(says("one"))
    with at_a_terminal(*CHAT, size=(1, 1)) as person:
        person.wait_for("you  ")
        person.type(b"hi\n")
        person.wait_for("one")
        person.wait_for("you  ")
        person.type(b"/quit\n")
        assert person.wait_for_end() == 0
        assert "Traceback" not in person.shown


# --- anything at all ---

WORDS = [
    "run",
    "chat",
    "resume",
    "runs",
    "log",
    "replay",
    "demo",
    "last",
    "go",
    "--json",
    "--sub-agents",
    "",
    "-",
    "--",
]
OPTIONS = [
    "--model",
    "--policy",
    "--workspace",
    "--store",
    "--log",
    "--approve",
    "--secret",
    "--instructions",
    "--tools",
]
OPTIONS += ["--max-turns", "--retries", "--fallback-model", "--max-total-tokens", "--help", "--version"]
VALUES = [
    "scripted:script.json",
    "scripted:",
    "recorded:one.jsonl",
    "local",
    "sqlite:runs.sqlite",
    "jsonl:logs",
    "memory",
]
VALUES += [
    "one.jsonl",
    "script.json",
    ".",
    "/dev/null",
    "claude",
    "ask",
    "never",
    "0",
    "1",
    "all",
    "@script.json",
    "a=PATH",
]
ARGUMENT = st.sampled_from([*WORDS, *OPTIONS, *VALUES]) | st.text(max_size=5)
BEGINNINGS = [
    ["run", "go", *MODEL],
    ["chat", *MODEL],
    ["resume", "last", *MODEL],
    ["log", "last"],
    ["runs"],
    [],
]
LINES = st.sampled_from(["hello", "/queue", "/mode plan", "/edit x", "/retry", "/nonsense", "yes", "no", "\x1b", ""])
ANYTHING = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@ANYTHING
@given(beginning=st.sampled_from(BEGINNINGS), more=st.lists(ARGUMENT, max_size=4), lines=st.lists(LINES, max_size=4))
def test_whatever_is_typed_is_answered_in_words(
    loopkernel: CommandLine, beginning: list[str], more: list[str], lines: list[str]
) -> None:
    script(calls("write_file", path="a", text="x"), says("one"))
    ended = loopkernel(*beginning, *more, lines=tuple(lines))
    assert ended.status in tuple(ExitStatus)
    assert FORESEEN not in ended.err


@settings(ANYTHING, max_examples=max(1, settings().max_examples // 8))  # each is nine commands
@given(
    content=st.binary(max_size=200) | st.text(max_size=50).map(str.encode),
    place=st.integers(0, 20_000),
    whole=st.booleans(),
)
def test_whatever_a_file_holds_is_answered_in_words(
    loopkernel: CommandLine, content: bytes, place: int, whole: bool
) -> None:
    """A file of garbage, or a good one with garbage in it, as everything that can be named."""
    script(says("one"), name="good.json")
    for path in (Path("good.sqlite"), Path("good.jsonl")):
        if not path.exists():
            where = ("--store", f"sqlite:{path}") if path.suffix == ".sqlite" else ("--log", str(path))
            loopkernel("run", "go", "--model", "scripted:good.json", *where)
    for kind in ("sqlite", "jsonl", "json"):
        good = Path(f"good.{kind}").read_bytes()
        cut = place % len(good)
        Path(f"bad.{kind}").write_bytes(content if whole else good[:cut] + content + good[cut + len(content) :])
    used = (
        ("run", "go", "--model", "scripted:bad.json", "--store", "memory"),
        ("run", "go", "--model", "scripted:good.json", "--policy", "bad.json", "--store", "memory"),
        ("run", "go", "--model", "scripted:good.json", "--instructions", "@bad.jsonl", "--store", "memory"),
        ("run", "go", "--model", "scripted:good.json", "--log", "bad.jsonl"),
        ("replay", "bad.jsonl"),
        ("log", "bad.jsonl", "--json"),
        ("runs", "--store", "sqlite:bad.sqlite"),
        ("replay", "last", "--store", "sqlite:bad.sqlite"),
        ("resume", "last", "--model", "scripted:good.json", "--store", "sqlite:bad.sqlite"),
    )
    for arguments in used:
        ended = loopkernel(*arguments)
        assert ended.status in tuple(ExitStatus), arguments
        assert FORESEEN not in ended.err, (arguments, ended.err)


class CannotClose(Provider):
    """Its reply is whole, and letting go of it fails."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        try:
            yield ModelText(operation, "I am done.")
            yield ModelCompleted(operation, StopReason.END_TURN)
        finally:
            raise RuntimeError("it is stuck \x1b[2J")


def test_a_fault_that_stops_nothing_is_told_in_one_line(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stuck(wanted: str, base_url: str | None) -> Iterator[tuple[Provider, str]]:
        yield CannotClose(), "stuck"

    monkeypatch.setattr(models, "opened_model", stuck)
    ended = loopkernel("run", "go", *MODEL)
    assert ended.status == ExitStatus.NATURAL_END
    assert ended.err.count("\n") == 1
    assert "could not close the stream of a reply; the run goes on: RuntimeError: it is stuck \\u001b[2J" in ended.err


def test_what_fails_in_a_thread_or_while_it_is_thrown_away_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Sticky:
        def __del__(self) -> None:
            raise RuntimeError("cannot go")

    def fail() -> None:
        raise ValueError("lost")

    before = (threading.excepthook, sys.unraisablehook)
    with told_in_words():
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        Sticky()
        gc.collect()
    assert (threading.excepthook, sys.unraisablehook) == before
    one, other = capsys.readouterr().err.splitlines()
    assert one.startswith("loopkernel: something failed beside the run: ValueError: lost")
    assert other.startswith("loopkernel: something could not be let go of: RuntimeError: cannot go")
