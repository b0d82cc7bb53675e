"""What is said of wrong usage, in one line that harms nobody; and how the help looks where it is shown."""

import os
import subprocess
import sys

import pytest

from tests.adapters.cli.sessions import CommandLine, says, script

ESCAPE = "\x1b[31mred"
COMMON = ("--max-total-tokens N", "[NAME=]COMMAND|URL", "ask|always|never", "[WHY],", '{"call":')  # at any width
FITTING = ('[{"text": "Hello"}]', "{{secret:NAME}}")
SECRET = "a-secret-that-was-given-by-mistake"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["run", "x", "--bogus"], "Unknown option: --bogus"),
        (["run", "x", "--mod", "y"], "Did you mean --model?"),
        (["run", "x", "--no-json"], "Unknown option: --no-json"),
        (["run", "x", "--empty-mcp"], "Unknown option: --empty-mcp"),
        (["run", "x", "--task", "y"], "Unknown option: --task"),
        (["run", "x", "--options", "y"], "Unknown option: --options"),
        (["run", "- mend it"], "put -- before it"),
        (["run", "x", "--instructions", "- be brief"], "--instructions=VALUE"),
        (["run", "x", "--model"], "--model needs a value"),
        (["run", "x", "--model", ""], "--model: it is empty"),
        (["run", "x", "--approve", "none"], "none of ask, always, never"),
        (["run", "x", "--store", "memory", "--log", "x"], "{--store, --log}"),
        (["chat", "--sandbox", "--sandbox-network"], "{--sandbox, --sandbox-network}"),
        (["runs", "--all", "--limit", "3"], "{--limit, --all}"),
        (["log", "last", "--json", "--steps"], "{--json, --steps}"),
        (["view", "last", "--serve", "--html", "x"], "{--html, --serve}"),
        (["send", "r", "--cancel", "--waiting"], "{--cancel, --waiting}"),
        (["log", "last", "again"], "'again' is one word too many"),
        (["view"], "RUN is missing"),
        (["fork", "last"], "--at is missing"),
        (["policy"], "`loopkernel policy --help`"),
        (["policy", "dif", "a", "b"], 'Did you mean "diff"?'),
        (["completion", "csh"], '"fish"'),
        (["serve", "--port", "65536"], "give a number from 0 to 65535"),
        (["run", "x", "--secret", SECRET], "TOKEN=GITHUB_TOKEN"),
        (["run", "x", "--secret", f"NAME={SECRET}"], "no environment variable"),
        (["run", "x", f"--{ESCAPE}"], "Unknown option"),
        ([ESCAPE], "Unknown command"),
        (["run", "x", "--approve", ESCAPE], "none of ask, always, never"),
    ],
)
def test_wrong_usage_is_told_in_one_line_with_what_tells_more(
    loopkernel: CommandLine, typed: list[str], told: str
) -> None:
    ended = loopkernel(*typed)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert told in line
    assert "--help` " in line
    assert "\x1b" not in line
    assert SECRET not in line


@pytest.mark.parametrize(
    "typed",
    [
        ["run", "go", "--model", "scripted:script.json"],
        ["run", "--model", "scripted:script.json", "go"],
        ["run", "--model=scripted:script.json", "--", "--go"],
        ["run", "go", "--provider", "scripted:other.json", "--model", "scripted:script.json"],
        ["run", "go", "--model", "scripted:script.json", "--instructions=- be brief", "--mcp", "none"],
    ],
)
def test_options_stand_before_or_behind_and_the_last_one_counts(loopkernel: CommandLine, typed: list[str]) -> None:
    script(says("Gone."))
    ended = loopkernel(*typed)
    assert "Gone." in ended.out
    assert ended.status == 0


def test_a_program_is_told_of_wrong_usage_too(loopkernel: CommandLine) -> None:
    ended = loopkernel("run", "go", "--json", "--max-turns", "0")
    assert ended.status == 2
    assert '"error": "Invalid value for --max-turns' in ended.out


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_help_is_as_wide_as_the_terminal_and_shows_its_words_as_they_are(
    columns: int, variables: dict[str, str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loopkernel_adapters", "run", "--help"],
        env={**os.environ, "COLUMNS": str(columns), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert columns - 3 <= max(map(len, ended.stdout.splitlines())) <= columns
    assert "\x1b" not in ended.stdout
    said = " ".join(ended.stdout.split())
    assert ended.stdout.count("…") == 0  # nothing is cut
    assert all(words in said for words in (*COMMON, *(FITTING if columns == 100 else ())))


def test_help_that_nobody_reads_to_its_end_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    shown = [sys.executable, "-m", "loopkernel_adapters", "run", "--help"]
    ended = subprocess.run(shown, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("module", ["loopkernel", "loopkernel_adapters"])
def test_a_program_that_embeds_it_does_not_load_the_command_line(module: str) -> None:
    seen = f"import sys, {module}; print([name for name in ('cyclopts', 'rich') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
