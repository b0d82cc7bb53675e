"""`loopkernel chat` behind a pipe: each line is a message, a command or an answer, and it can be gone on with."""

from pathlib import Path

import pytest
from loopkernel_adapters.cli import line_input

from tests.adapters.cli.sessions import CHAT, CommandLine, calls, says, script, shell, writes


def test_each_line_is_a_message_with_a_turn_of_its_own(loopkernel: CommandLine) -> None:
    script(says("one"), says("two"))
    ended = loopkernel(*CHAT, lines=("hello", "", "and again"))
    assert (ended.status, ended.err) == (0, "")
    assert ended.labelled("model") == ["one", "two"]
    assert ended.labelled("you")[:2] == ["hello", ""]


@pytest.mark.rule("ASK-3")
def test_a_call_is_approved_rejected_edited_and_approved_for_good(loopkernel: CommandLine, folder: Path) -> None:
    names = ("a", "b", "c", "d", "e")
    script(*(writes(name) for name in names), says("Done."))
    answers = ("yes", "no not this one", 'edit {"path": "mine", "text": "y"}', "always")
    ended = loopkernel(*CHAT, lines=("write them", *answers))
    assert ended.status == 0
    assert {name for name in (*names, "mine") if (folder / name).exists()} == {"a", "mine", "d", "e"}
    assert len(ended.labelled("because")) == 4
    assert "not this one" in ended.labelled("result 2.1")[0]


def test_where_the_input_ends_at_a_question_the_call_is_rejected(loopkernel: CommandLine, folder: Path) -> None:
    script(writes("a"), says("As you like."))
    ended = loopkernel(*CHAT, lines=("write it",))
    assert not (folder / "a").exists()
    assert "there is no input, so nobody can be asked" in ended.out
    assert ended.labelled("model") == ["As you like."]


def test_a_command_in_the_place_of_an_answer_is_carried_out_and_the_question_asked_again(
    loopkernel: CommandLine, folder: Path
) -> None:
    script(writes("a"), says("Done."))
    ended = loopkernel(*CHAT, lines=("write it", "/queue", "/nonsense", "/mode", "yes"))
    assert "the queue is empty" in ended.out
    assert "the mode is default" in ended.out
    assert "answer with one of these words" in ended.out
    assert (folder / "a").exists()


@pytest.mark.rule("ASK-4")
def test_lines_that_were_in_the_pipe_before_a_question_are_messages_and_no_answer(
    loopkernel: CommandLine, folder: Path
) -> None:
    script(writes("a"), says("As you like."), says("Yes what?"), says("Always what?"))
    ended = loopkernel(*CHAT, lines=("write it\nyes\nalways", "no"))
    assert not (folder / "a").exists()
    assert "2 lines came before the question, and can be no answer to it: kept for later, as messages" in ended.out
    assert loopkernel("log", "last").labelled("user") == ["write it", "yes", "always"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_line_that_is_no_answer_is_a_message_for_later_only_on_request(loopkernel: CommandLine, kept: bool) -> None:
    script(writes("a"), says("As you like."), says("I will."))
    keep = ("/later", "/later") if kept else ()
    ended = loopkernel(*CHAT, lines=("write it", "always remember this", *keep, "no"))
    assert "it is dropped, unless you type /later" in ended.out
    assert ("there is no line to keep" in ended.out) == kept  # the second time
    said = ["write it", "always remember this"] if kept else ["write it"]
    assert loopkernel("log", "last").labelled("user") == said


def test_later_needs_a_question(loopkernel: CommandLine) -> None:
    script(says("never"))
    assert "there is no line to keep" in loopkernel(*CHAT, lines=("/later",)).out


@pytest.mark.rule("CANCEL-2")
def test_a_cancel_at_a_question_answers_the_call_and_ends_the_turn(loopkernel: CommandLine, folder: Path) -> None:
    script(writes("a"), says("Here again."))
    ended = loopkernel(*CHAT, lines=("write it", "/cancel", "and now?"))
    assert not (folder / "a").exists()
    assert ended.labelled("cancelled") == ["cancelled by you (user:cancelled)"]
    assert ended.labelled("model") == ["Here again."]


@pytest.mark.rule("ASK-5")
def test_a_change_of_mode_answers_what_waits(loopkernel: CommandLine, folder: Path) -> None:
    script(writes("a"), writes("b"), says("Done."))
    loopkernel(*CHAT, lines=("write it", "/mode accept_edits"))
    assert (folder / "a").exists()
    assert (folder / "b").exists()


@pytest.mark.rule("ASK-1")
def test_in_mode_plan_nothing_is_changed(loopkernel: CommandLine, folder: Path) -> None:
    script(writes("a"), shell("touch b"), calls("list_files"), says("That is the plan."))
    ended = loopkernel(*CHAT, lines=("/mode plan", "look around"))
    assert "the mode is plan now" in ended.out
    assert [path.name for path in folder.iterdir() if path.name in "ab"] == []
    assert ended.labelled("result 3.1")[0].startswith("done")
    assert ended.labelled("model") == ["That is the plan."]


@pytest.mark.rule("INPUT-4")
def test_an_edited_message_takes_the_place_of_the_old_one(loopkernel: CommandLine) -> None:
    script(says("one"), says("two"), says("three"), says("four"))
    lines = ("hello", "and you?", "/edit", "/edit and me?", "/edit #1 salut", "/edit #99 no", "/edit #1", "/edit")
    ended = loopkernel(*CHAT, lines=lines)
    assert ended.labelled("model") == ["one", "two", "three", "four"]
    assert "#1 hello\n#3 and you?\n" in ended.out
    assert ended.out.count("hello") == 2  # nobody said it again
    assert " salut\nreplace one" in ended.out  # the only one that is left
    assert ended.labelled("refused") == ["edit: there is nothing that it could be about"]
    assert "say what it shall be" in ended.out


@pytest.mark.rule("RETRY-5")
def test_after_an_error_the_person_retries_or_dismisses_it(loopkernel: CommandLine) -> None:
    script({"fails": "auth", "message": "bad key"}, says("Here I am."))
    ended = loopkernel(*CHAT, lines=("hello", "/retry"))
    assert ended.labelled("error")[0].startswith("auth: bad key")
    assert "/retry asks the model again" in ended.out
    assert ended.labelled("model") == ["Here I am."]
    assert ended.status == 0
    script({"fails": "auth", "message": "bad key"})
    ended = loopkernel(*CHAT, lines=("hello", "/dismiss"))
    assert ended.labelled("error")[1:] == ["cleared"]
    assert ended.status == 1  # for whoever gives the lines: the last turn has failed


def test_what_is_no_command_is_told_and_not_said(loopkernel: CommandLine) -> None:
    script(says("A path."))
    ended = loopkernel(*CHAT, lines=("/etc/hosts", "/steer", "/queue drop nonsense", "/mode nonsense", " /etc/hosts"))
    assert "there is no such command" in ended.out
    assert "say what: /steer TEXT" in ended.out
    assert "/queue drop N" in ended.out
    assert "choose one with /mode" in ended.out
    assert ended.labelled("model") == ["A path."]


def test_a_line_that_is_too_long_is_told_and_not_dropped(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_input, "LONGEST_LINE", 1)
    monkeypatch.setattr(line_input, "_PIECE", 1)
    script(says("one"))
    ended = loopkernel(*CHAT, lines=("hello",))
    assert ended.status == 2
    assert "the input holds a line of more than 1 bytes" in ended.err
    assert ended.out.endswith("\n")


def test_quit_leaves_and_help_tells_every_command(loopkernel: CommandLine) -> None:
    script(says("never"))
    ended = loopkernel(*CHAT, lines=("/help", "/quit", "hello"))
    told = "steer cancel retry dismiss compact mode model usage queue edit help quit"
    assert [command for command in told.split() if f"  /{command} " not in ended.out] == []
    assert ended.labelled("model") == []
    assert ended.status == 0


def test_model_and_usage_are_told(loopkernel: CommandLine) -> None:
    script(says("one"))
    ended = loopkernel(*CHAT, "--max-total-tokens", "500", lines=("/usage", "/model"))
    assert "0 tokens in, 0 out so far; at most 500 tokens in all" in ended.out
    assert "the model is scripted; to go on with another one" in ended.out


def test_the_session_says_how_it_is_gone_on_with_and_it_is(loopkernel: CommandLine) -> None:
    script(says("one"))
    (go_on,) = loopkernel(*CHAT, lines=("hello",)).labelled("go on")
    *_, command, run = go_on.split()
    assert command == "resume"
    script(says("two"))
    ended = loopkernel("resume", run, lines=("and you?",))  # with the model that it began with
    assert ended.labelled("model") == ["two"]
    assert ended.labelled("run")[0] == f"{run}, session of 2 messages"
    assert ended.labelled("open") == ["nothing: it waits for what you say"]
    assert loopkernel("replay", run).status == 0


def test_what_models_and_tools_say_cannot_move_the_terminal(loopkernel: CommandLine) -> None:
    script({"text": "\x1b[2J\x9b1m\u202ehello", **calls("write_file", path="\x1b]0;x\x07", text="")}, says("\x07"))
    ended = loopkernel(*CHAT, lines=("\x1b[A go", "no \x1b[31m"))
    assert not set(ended.out) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "\\u001b[2J" in ended.out


@pytest.mark.rule("TOOL-12")
def test_a_secret_is_shown_nowhere(loopkernel: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "tweet-tweet-1234")
    Path("notes.txt").write_text("the key is tweet-tweet-1234")
    command = "printf %s {{secret:key}} | wc -c; printf %s {{secret:key}}"
    script(calls("read_file", path="notes.txt"), shell(command), says("It is tweet-tweet-1234."))
    options = ("--secret", "key=CANARY", "--approve", "always")
    for ended in (
        loopkernel(*CHAT, *options, lines=("what is tweet-tweet-1234?",)),
        loopkernel("log", "last"),
        loopkernel("log", "last", "--json"),
        loopkernel("runs", "--json"),
    ):
        assert ended.status == 0
        assert "tweet" not in ended.out + ended.err
        assert "{{secret:key}}" in ended.out
    files = [path for path in (folder / ".loopkernel").rglob("*") if path.is_file()]
    assert [path for path in files if b"tweet-tweet" in path.read_bytes()] == []
    assert loopkernel("log", "last").labelled("result 2.1")[0].startswith("done: 16")  # the tool got the value
