"""`--json`: every line is an object, the last is the result, and what asks is answered by lines or denied."""

from pathlib import Path

import pytest

from tests.adapters.cli.sessions import CHAT, MODEL, CommandLine, calls, says, script, shell, writes

RUN = ("run", "go", *MODEL, "--json")


def test_a_run_is_told_as_objects_and_the_result_is_the_last(loopkernel: CommandLine) -> None:
    Path("notes.txt").write_text("\x7f\u2028 bell \x07")
    script({"text": "Look.", **calls("read_file", path="notes.txt")}, says("Done \x1b."))
    ended = loopkernel(*RUN)
    first, *_, last = ended.objects()
    assert (ended.status, ended.err) == (0, "")
    assert first["type"] == "run"
    assert last["type"] == "result"
    assert (last["status"], last["outcome"], last["text"]) == (0, "model_stop", "Done \x1b.")
    assert last["run"] == first["run"]
    assert ended.out.isascii()
    kinds = {line["event"]["type"] for line in ended.objects_of("event") if isinstance(line["event"], dict)}
    assert {"run-started", "message-added", "reply-grew", "tool-ended", "turn-ended"} <= kinds


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("answer", "written"),
    [
        ('"yes"', {"a": "x"}),
        ('"always"', {"a": "x"}),
        ('"no"', {}),
        ('"no", "why": "never"', {}),
        ('"edit", "input": {"path": "b", "text": "y"}', {"b": "y"}),
    ],
)
def test_what_asks_is_answered_by_an_object_that_names_the_call(
    loopkernel: CommandLine, answer: str, written: dict[str, str]
) -> None:
    script(writes("a"), says("Done."))
    ended = loopkernel(*RUN, lines=(f'{{"call": "1.1", "answer": {answer}}}',))
    (asked,) = ended.objects_of("ask")
    assert asked["call"] == "1.1"
    assert asked["tool"] == "write_file"
    assert {name: Path(name).read_text() for name in "ab" if Path(name).exists()} == written


YES = '{"call": "1.1", "answer": "yes"}'


@pytest.mark.parametrize(
    "line",
    [
        "",
        "yes",
        "always",
        "maybe",
        "{",
        "[]",
        'edit {"path": "b", "text": "y"}',
        '{"answer": "yes"}',
        '{"call": "1.2", "answer": "yes"}',
        '{"call": "1.1", "answer": "y"}',
        '{"call": "1.1", "answer": true}',
        '{"call": "1.1", "answer": "yes", "input": {}}',
        '{"call": "1.1", "answer": "no", "why": 3}',
        '{"call": "1.1", "answer": "edit"}',
        '{"call": "1.1", "answer": "edit", "input": "b"}',
        '{"call": "1.1", "answer": "rerun"}',
        '{"call": "1.1", "call": "1.1", "answer": "yes"}',
        '{"call": "1.1"}',
    ],
)
def test_what_is_no_answer_is_told_and_asked_again(loopkernel: CommandLine, line: str) -> None:
    script(writes("a"), says("Done."))
    ended = loopkernel(*RUN, lines=(line,))
    assert not Path("a").exists()
    assert len(ended.objects_of("note")) == 1
    ended = loopkernel(*RUN, lines=(line, YES))
    assert len(ended.objects_of("ask")) == 2
    assert Path("a").exists()


@pytest.mark.rule("ASK-4")
def test_an_answer_that_came_before_its_question_is_neither_that_nor_a_message(loopkernel: CommandLine) -> None:
    script(writes("a"), says("As you like."))
    ended = loopkernel(*CHAT, "--json", lines=(f"write it\n{YES}",))
    assert not Path("a").exists()
    notes = [str(note["text"]) for note in ended.objects_of("note")]
    assert "came before the question" in notes[0]
    assert "no question waits for this answer" in notes[1]
    assert loopkernel("log", "last").labelled("user") == ["write it"]


def test_a_message_at_a_question_waits_for_the_end_of_the_turn(loopkernel: CommandLine) -> None:
    script(writes("a"), says("Done."), says("Then that."))
    ended = loopkernel(*CHAT, "--json", lines=("write it", '{"say": "and then?"}', YES))
    assert Path("a").exists()
    assert ended.objects()[-1]["text"] == "Then that."
    assert loopkernel("log", "last").labelled("user") == ["write it", "and then?"]


def test_without_a_line_every_call_that_asks_is_denied(loopkernel: CommandLine) -> None:
    script(writes("a"), shell("touch b"), says("Nothing then."))
    ended = loopkernel(*RUN)
    assert ended.status == 0
    assert len(ended.objects_of("ask")) == 2
    assert not Path("a").exists()
    assert not Path("b").exists()


def test_a_chat_is_told_when_it_may_say_something(loopkernel: CommandLine) -> None:
    script(says("one"), writes("a"), says("two"))
    ended = loopkernel(
        *CHAT, "--json", lines=("hello", "/queue", "write it", "/mode", YES.replace("1.1", "2.1"), "/quit")
    )
    assert ended.status == 0
    assert len(ended.objects_of("ready")) == 4
    assert ended.objects_of("note")[0]["text"] == "the queue is empty"
    assert Path("a").exists()
    assert ended.objects()[-1]["text"] == "two"


def test_a_run_that_is_gone_on_with_is_told_as_objects_too(loopkernel: CommandLine) -> None:
    script(says("one"))
    loopkernel(*CHAT, lines=("hello",))
    ended = loopkernel("resume", "last", "--json")
    assert ended.objects()[-1]["type"] == "result"
    assert ended.objects()[-1]["text"] == "one"


@pytest.mark.rule("RESUME-1")
def test_a_session_that_is_gone_on_with_takes_further_lines(loopkernel: CommandLine) -> None:
    script(says("one"))
    loopkernel(*CHAT, lines=("hello",))
    script(says("two"), says("three"))
    ended = loopkernel("resume", "last", "--json", lines=('{"say": "and\\nthen?"}', '{"say": 3}', "/quit"))
    assert (ended.status, len(ended.objects_of("ready"))) == (0, 3)
    assert ended.objects()[-1]["text"] == "three"
    assert loopkernel("log", "last").labelled("user")[1:] == ["and / then?", '{"say": 3}']


def test_a_session_tells_at_its_beginning_what_it_goes_by(loopkernel: CommandLine, folder: Path) -> None:
    script(says("one"))
    for command in (CHAT, ("resume", "last", "--approve", "always", "--tools", "files")):
        (told,) = loopkernel(*command, "--json").objects_of("run")
        shown = loopkernel(*command).out
        assert (told["models"], told["workspace"]) == (["scripted"], str(folder))
        assert told["mode"] == ("default" if command is CHAT else "bypass")
        assert ("shell" in str(told["tools"])) == (command is CHAT)
        assert all(
            part in shown for part in ("model scripted\n", f"tools in {folder}: read_file", f"mode {told['mode']}")
        )


def test_a_run_in_a_file_of_its_own_is_gone_on_with_by_its_path(loopkernel: CommandLine, folder: Path) -> None:
    script(says("one"))
    (told,) = loopkernel("run", "go", *MODEL, "--json", "--log", "log.jsonl").objects_of("run")
    assert str(told["resume"]).endswith(f"resume {folder / 'log.jsonl'}")


@pytest.mark.parametrize(
    "options", [("--policy", "absent"), ("--model", "oracle:x"), ("--workspace", "absent"), ("--store", "nonsense")]
)
def test_a_failure_is_the_result(loopkernel: CommandLine, options: tuple[str, ...]) -> None:
    ended = loopkernel("run", "go", "--json", *MODEL, *options)
    (result,) = ended.objects()
    assert (ended.status, result["status"], result["type"]) == (2, 2, "result")
    assert str(result["error"]) in ended.err


def test_a_turn_that_fails_is_the_result_too(loopkernel: CommandLine) -> None:
    script({"fails": "auth", "message": "bad key"})
    ended = loopkernel(*RUN)
    assert ended.status == 1
    assert ended.objects()[-1]["outcome"] == "error"
    (failed,) = [line for line in ended.objects_of("event") if "reply-failed" in str(line["event"])]
    assert failed["cause"] == "bad key"
