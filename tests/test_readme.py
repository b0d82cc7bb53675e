"""The README keeps its word: its examples are short, run, and print what it says; its links and commands exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from loopkernel_adapters.cli.arguments import command_line

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def lines(text: str) -> list[str]:
    """The lines, without what stands blank at their ends."""
    return [line.rstrip() for line in text.strip().splitlines()]


# Each command, with what it cannot do without.
COMMANDS: dict[str, list[str]] = {
    "run": ["x"],
    "chat": [],
    "completion": ["bash"],
    "acp": [],
    "serve": [],
    "mcp": [],
    "worker": [],
    "send": ["x"],
    "resume": ["x"],
    "runs": [],
    "approvals": ["x"],
    "log": ["x"],
    "why": ["x"],
    "policy": ["show", "claude"],
    "doctor": [],
    "view": ["x"],
    "replay": ["x"],
    "whatif": ["x"],
    "diagnose": ["x"],
    "repair": ["x", "--out", "y"],
    "continue": ["x"],
    "fork": ["x", "--at", "1"],
    "conform": [],
    "demo": [],
}
EXAMPLES = list(zip(blocks("python"), blocks("text"), strict=True))


@pytest.mark.parametrize(
    ("example", "printed"), EXAMPLES, ids=["agent", "tool", "output", "loop", "retries", "limits", "forks"]
)
def test_an_example_is_at_most_fifteen_lines_and_prints_what_the_readme_shows(example: str, printed: str) -> None:
    assert len(example.strip().splitlines()) <= 15
    run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert lines(run.stdout) == lines(printed)


def test_the_driver_of_the_embedding_page_runs_as_it_stands() -> None:
    page = (ROOT / "specs" / "embedding.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("ReplyEnded MessageAdded TurnEnded -> Idle\n")


def test_every_link_leads_to_a_file_of_the_tree() -> None:
    """In full, since a registry of packages shows the page too, and knows nothing of what stands beside it."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = f"{project['urls']['Homepage']}/blob/main/"
    own = [link.removeprefix(home) for link in links if link.startswith(home)]
    assert len(own) > 8
    assert [link for link in own if not (ROOT / link).exists()] == []


def test_every_make_command_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    commands = set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", README, flags=re.MULTILINE))
    named = {first or second for first, second in commands}
    assert {"run", "test", "check", "fuzz", "bench"} <= named
    assert named <= targets


def test_every_command_of_the_command_line_is_shown_and_every_one_that_is_shown_exists() -> None:
    shown = re.findall(r"\.venv/bin/loopkernel ([a-z]+)([^\n`]*)", README)
    assert {"chat", "run", "runs", "log", "resume", "replay"} <= {command for command, _ in shown}
    options = set(re.findall(r"`(--[a-z-]+)", README)) - {"--help"}
    for name, rest in COMMANDS.items():
        command_line().parse_args([name, *rest], print_error=False, exit_on_error=False)
    assert {command for command, _ in shown} <= set(COMMANDS)
    apps = [command_line()[name] for name in COMMANDS if name != "policy"]
    known = {name for app in apps for each in app.assemble_argument_collection() for name in each.names}
    assert options <= known
    assert {"--model", "--policy", "--store"} <= options
