"""Commands for a shell: which are understood, by a table, by a real shell, and by a second opinion."""

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loopkernel.laws.accounts.reach import is_like_command
from loopkernel.loop.algorithms.commands import command_matches, words_of

pytestmark = pytest.mark.rule("ASK-1")

NOT_ONE_COMMAND = [
    "git status; rm -rf ~",
    "git status && rm -rf ~",
    "git status || rm a",
    "git status | sh",
    "git status & rm a",
    "git status &",
    "git status\nrm a",
    "git status\rrm a",
    "git status\n",
    "git $(rm a)",
    "git `rm a`",
    "git ${HOME}",
    "git $HOME",
    "git > a",
    "git < a",
    "git <(rm a)",
    "git (rm a)",
    "git {a,b}",
    "git a*",
    "git a?",
    "git [ab]",
    "git ~",
    "git !!",
    "git \\; rm",
    "git # status",
    "git 'a;b'",
    'git "$HOME"',
    'git "a`b`"',
    "git 'a",
    "A=1 git status",
    "git =ls",
    "",
    " ",
    "''",
    "git \u00a0status",
    "git caf\u00e9",
    "git \0",
]


@pytest.mark.parametrize("command", NOT_ONE_COMMAND)
def test_what_is_more_than_words_matches_no_pattern(command: str) -> None:
    assert words_of(command) is None
    assert not command_matches("git *", command)
    assert not command_matches("*", command)


@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("git status", "git status", True),
        ("git status", "git  status", False),
        ("git status; rm -rf ~", "git status; rm -rf ~", True),  # exactly what was allowed
        ("git *", "git status", True),
        ("git *", "git  log  -n 3 ", True),
        ("git *", "git", True),
        ("git *", "gitx status", False),
        ("git log *", "git status", False),
        ("git* status", "gitk status", True),
        ("* status", "git status", True),
        ("* status", "git log status", False),
        ("*", "make all", True),
        ("git commit -m *", "git commit -m 'all of it'", True),
        ("cat src/*", "cat src/a", True),
        ("cat src/*", "cat src/../etc/passwd", False),
        ("cat src/*", "cat src/a etc/b", False),
        ("cat *", "cat ../a", True),
        ("make  *", "make a", True),
    ],
)
def test_words_are_matched_one_by_one(pattern: str, command: str, matches: bool) -> None:
    assert command_matches(pattern, command) is matches


texts = st.text("ab.=-*/ \t'\"", max_size=9) | st.text(
    st.sampled_from("ab .=-/_:,+@%^!?*~#&|;<>()[]{}$`\\'\"\t\n\r\0é\u00a0"), max_size=8
)
patterns = st.lists(st.sampled_from(("a", "b", "a*", "*", "*b", "'a'", "")), min_size=1, max_size=4).map(" ".join)


@given(patterns, texts)
@example("*", "a 'b\tc'")
@example("a *", "a ''")
def test_two_opinions_agree_on_what_matches(pattern: str, command: str) -> None:
    assert command_matches(pattern, command) is is_like_command(pattern, command)


@settings(max_examples=10)
@given(st.lists(texts, min_size=150, max_size=150))
@example(["a 'b c'\"d\"e", "a ''", "a\tb", "a=b c", "-n a"])
def test_a_shell_makes_of_a_command_the_words_that_were_understood(commands: list[str]) -> None:
    understood = {command: words for command in commands if (words := words_of(command)) is not None}
    script = "\n".join(f"tell {command}" for command in understood)
    told = subprocess.run(
        ["/bin/sh", "-c", f"tell() {{ printf '%s\\001' \"$@\"; printf '\\002'; }}\n{script}"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert told.split("\2")[:-1] == ["".join(f"{word}\1" for word in words) for words in understood.values()]
