"""The way of a newcomer, with real processes in an empty folder; what each command imports; the demonstration."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel.data.json_text import Json
from loopkernel_adapters.cli import models
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply

from tests.adapters.cli.answering import answered_by_a_program
from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.sessions import CommandLine, Ended, says, script, writes

# What a look at the runs has no use for.
HEAVY = {"anthropic", "openai", "mcp", "httpx2", "pydantic", "jsonschema", "hypothesis", "yaml", "xllamacpp"}


def ran(*arguments: str, answers: tuple[str, ...] = ()) -> Ended:
    """The command line in a process of its own, and these answers, each when it is asked for."""
    ended = answered_by_a_program([*COMMAND, *arguments], "show? ", *answers)
    assert "Traceback" not in ended.stdout + ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_from_an_empty_folder_to_a_session_that_is_gone_on_with(loopkernel: CommandLine, folder: Path) -> None:
    script(writes("poem.txt", "roses"), says("It is written."))
    begun = ran("run", "Write a poem.", "--model", "scripted:script.json", answers=("yes",))
    assert (begun.status, begun.err) == (0, "")
    assert Path("poem.txt").read_text() == "roses"
    listed = ran("runs")
    assert "Write a poem." in listed.out
    assert "idle" in listed.out
    told = loopkernel("log", "last")
    assert told.labelled("model") == ["It is written."]
    (go_on,) = begun.labelled("go on")
    script(says("A short one."))
    advised = shlex.split(go_on)  # what is advised can be pasted
    resumed = subprocess.run(advised, capture_output=True, text=True, input="What kind of poem?\n")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert "A short one." in resumed.stdout
    assert loopkernel("replay", "last").labelled("laws")[0].endswith("all held")
    assert sorted(path.name for path in folder.iterdir()) == [".loopkernel", "poem.txt", "script.json"]


IMPORTS = """
import sys
from loopkernel_adapters.cli.main import main
try:
    main({arguments!r})
finally:
    print("imported", *sorted({{name.partition(".")[0] for name in sys.modules}} & {heavy!r}))
    print("testing", "loopkernel.testing" in sys.modules, "asyncio" in sys.modules)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["runs"]])
def test_a_look_imports_next_to_nothing(loopkernel: CommandLine, arguments: list[str]) -> None:
    script(says("one"))
    loopkernel("run", "go", "--model", "scripted:script.json")
    program = IMPORTS.format(arguments=arguments, heavy=HEAVY)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.splitlines()[-2] == "imported"
    _, testing, eventful = ended.stdout.splitlines()[-1].split()
    assert testing == "False"
    assert eventful == "False" or arguments != ["--help"]


def test_the_demonstration_runs_on_a_workspace_of_its_own(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [call_reply(("read_file", Json.of({"path": "notes.txt"}))), text_reply("The meeting is on Tuesday.")]

    @contextmanager
    def small_model(wanted: str, base_url: str | None) -> Iterator[tuple[Provider, str]]:
        assert wanted == "local"
        yield ScriptedProvider(replies), "small"

    monkeypatch.setattr(models, "opened_model", small_model)
    ended = loopkernel("demo")
    assert ended.status == 0
    assert ended.labelled("model") == ["The meeting is on Tuesday."]
    (again,) = [line for line in ended.out.splitlines() if line.startswith("See it again: ")]
    assert loopkernel("replay", shlex.split(again)[-1]).status == 0
