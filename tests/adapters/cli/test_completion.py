"""What a shell completes, by the script that is printed for it: in a real shell, where one is here."""

import subprocess
from pathlib import Path

import pytest
from loopkernel_adapters.cli.completing import ChatCompleter
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.adapters.cli.sessions import CommandLine

COMPLETED = """
set -e
eval "$SCRIPT"
function_of() { complete -p loopkernel | sed 's/.*-F \\([^ ]*\\).*/\\1/'; }
COMP_WORDS=(%s)
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
$(function_of) loopkernel "${COMP_WORDS[COMP_CWORD]}" "" || true  # bash does not mind what it returns either
printf '%%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("loopkernel cha", {"chat"}),
        ("loopkernel re", {"resume", "replay", "repair"}),
        ("loopkernel chat --max-", {"--max-turns", "--max-total-tokens"}),
        ("loopkernel chat --approve a", {"ask", "always"}),
        ("loopkernel chat --workspace wo", {"workroom", "work.txt"}),
        ("loopkernel repair se", {"session.jsonl"}),
        ("loopkernel replay se", {"session.jsonl"}),
        ("loopkernel run x --policy se", {"session.jsonl"}),
        ("loopkernel policy d", {"diff"}),
        ("loopkernel completion b", {"bash"}),
    ],
)
def test_bash_completes_commands_options_choices_and_paths(
    loopkernel: CommandLine, typed: str, wanted: set[str]
) -> None:
    subprocess.run(["sh", "-c", "mkdir workroom; touch session.jsonl work.txt"], check=True)
    script = loopkernel("completion", "bash").out
    ended = subprocess.run(
        ["bash", "-c", COMPLETED % typed],
        env={"SCRIPT": script, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert ended.stderr == ""
    assert {line.strip().rstrip("/") for line in ended.stdout.split()} == wanted


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "#compdef loopkernel"), ("fish", "complete -c loopkernel")])
def test_other_shells_get_theirs(loopkernel: CommandLine, shell: str, sign: str) -> None:
    ended = loopkernel("completion", shell)
    assert ended.status == 0
    assert sign in ended.out
    assert all(name in ended.out for name in ("chat", "whatif", "--max-turns"))


def test_a_shell_that_is_not_known_is_told(loopkernel: CommandLine) -> None:
    ended = loopkernel("completion", "csh")
    assert ended.status == 2
    assert "bash" in ended.err


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("/que", ["/queue"]),
        ("/mode ac", ["/mode accept_edits"]),
        ("look at unus", ["look at unusual-name.txt"]),
        ("see /que", []),
        ("/steer look at unus", ["/steer look at unusual-name.txt"]),
    ],
)
def test_tab_completes_commands_modes_and_paths_in_a_chat(folder: Path, typed: str, wanted: list[str]) -> None:
    (folder / "unusual-name.txt").write_text("x")
    found = ChatCompleter(folder).get_completions(Document(typed), CompleteEvent(completion_requested=True))
    assert [typed[: len(typed) + each.start_position] + each.text for each in found] == wanted
