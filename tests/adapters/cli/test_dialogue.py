"""`loopkernel run` and the person: what is shown before a call runs, what can be answered, and what becomes of it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.states import Confirming
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.data.user_deltas import CancelAll
from loopkernel_adapters.cli import dialogue as dialogue_module
from loopkernel_adapters.cli import run as run_command
from loopkernel_adapters.cli import session
from loopkernel_adapters.cli.dialogue import Dialogue, first_waiting, said_after_crash_in, why_asked
from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.ports import RunContext, Tools
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool, Registry

from tests.adapters.cli.answering import Answering
from tests.adapters.cli.cli_world import labelled, prepare, run, write_script
from tests.adapters.driver.people_world import a_world, asked

Answered = Callable[..., str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace and a script in it."""
    return prepare(tmp_path, monkeypatch)


def a_call(path: str = "new.txt", text: str = "hello") -> dict[str, object]:
    return {"tool": "write_file", "input": {"path": path, "text": text}}


# Sentences, pieces and first letters of answers: each was one once, or is next to one.
NO_ANSWERS = (
    "a",
    "a note on this file would help",
    "always remember that this is read-only",
    "always.",
    "yes please do it",
    "yes.",
    "ye",
    "yess",
    "y y",
    "approve",
    "e",
    'e {"path":"a","text":"b"}',
    "s",
    "n o",
    "nothing of the kind",
    "reject",
    "show me",
    "maybe",
    "yes\u200b",
    "\uff59\uff45\uff53",
    "",
)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Answered:
    """Runs these calls, one in each reply, with these lines, each when it is asked for; what was shown."""

    def play(*lines: str, calls: list[dict[str, object]], options: tuple[str, ...] = ()) -> str:
        write_script(folder, [*({"calls": [call]} for call in calls), {"text": "Done."}])
        answers = Answering(*lines)
        monkeypatch.setattr(run_command, "standard_input", lambda: answers)
        try:
            status = run(*options)
        finally:
            answers.close()
        output, errors = capsys.readouterr()
        assert errors == ""
        assert "identical" in labelled(output, "replayed")[0]
        assert labelled(output, "outcome")[0].startswith("model_stop")
        assert status == ExitStatus.NATURAL_END
        return output

    return play


def written(folder: Path) -> dict[str, str]:
    """What the files of the workspace hold, but for the one that was there."""
    paths = (folder / "workspace").iterdir()
    return {path.name: path.read_text() for path in paths if path.name != "notes.txt"}


# --- approvals ---


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize("word", ["y", "yes", "YES", " Yes "])
def test_an_approved_call_runs_once(answered: Answered, folder: Path, word: str) -> None:
    output = answered(word, "no", calls=[a_call(), a_call("other.txt")])
    assert written(folder) == {"new.txt": "hello"}
    assert labelled(output, "ask 1.1") == ["waits for approval"]
    assert labelled(output, "tool") == ["write_file"] * 2
    assert labelled(output, "input")[1:] == [
        '{"path": "new.txt", "text": "hello"}',
        '{"path": "other.txt", "text": "hello"}',
    ]
    assert labelled(output, "because") == ["this tool changes what it names, and its profile asks each time"] * 2


@pytest.mark.rule("ASK-3")
def test_always_approves_each_call_of_the_tool(answered: Answered, folder: Path) -> None:
    output = answered("always", calls=[a_call(), a_call("other.txt"), a_call("third.txt")])
    assert sorted(written(folder)) == ["new.txt", "other.txt", "third.txt"]
    assert len(labelled(output, "because")) == 1


@pytest.mark.rule("ASK-7")
@pytest.mark.parametrize(
    ("line", "why"),
    [("n", ""), ("No.", ""), ("no  not in this folder ", "not in this folder"), ("no, not here", "not here")],
)
def test_a_rejected_call_does_not_run_and_the_model_is_told_why(
    answered: Answered, folder: Path, line: str, why: str
) -> None:
    output = answered(line, calls=[a_call()])
    assert written(folder) == {}
    (result,) = labelled(output, "result 1.1")
    assert result.startswith("rejected-by-user")
    assert ("They said" in result) == bool(why)
    assert why in result


@pytest.mark.rule("ASK-3")
def test_an_edited_call_runs_with_the_new_input(answered: Answered, folder: Path) -> None:
    answered('edit {"path":"mine.txt","text":"x"}', calls=[a_call()])
    assert written(folder) == {"mine.txt": "x"}


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('edit {"path":"../out.txt","text":"x"}', 'refused, since it is invalid: "../out.txt" holds `..`'),
        ('edit {"path":3}', 'refused, since it is invalid: $.path: must be of type string; $: lacks "text"'),
        ("edit {", "the new input is not JSON: the text ends too early"),
        ('edit {"path":"a","path":"b"}', "the new input at $.path is given 2 times"),
        ("edit", "give the new input too"),
        ("edit 5", "the new input has to be an object"),
        *((line, "answer with one of these words") for line in NO_ANSWERS),
    ],
)
def test_what_is_not_taken_is_told_and_asked_again(answered: Answered, folder: Path, line: str, told: str) -> None:
    output = answered(line, "yes", calls=[a_call()])
    assert told in output
    assert written(folder) == {"new.txt": "hello"}


@pytest.mark.parametrize("lines", [[], ["edit {"]])
def test_where_the_input_has_ended_every_call_is_rejected(answered: Answered, folder: Path, lines: list[str]) -> None:
    output = answered(*lines, calls=[a_call(), a_call("other.txt")])
    assert written(folder) == {}
    assert output.count("rejected: there is no input, so nobody can be asked") == 2
    for call in ("1.1", "2.1"):
        assert "Nobody could be asked" in labelled(output, f"result {call}")[0]


@pytest.mark.rule("ASK-1")
def test_nobody_is_asked_where_the_options_say_so(answered: Answered, folder: Path) -> None:
    output = answered("no", calls=[a_call()], options=("--approve", "always"))
    assert written(folder) == {"new.txt": "hello"}
    assert labelled(output, "because") == []
    output = answered("yes", calls=[a_call("never.txt")], options=("--approve", "never", "--log", "second.jsonl"))
    assert "never.txt" not in written(folder)
    assert labelled(output, "because") == []
    assert "denied by policy" in labelled(output, "result 1.1")[0]


def test_a_long_input_is_shown_by_its_two_ends_and_whole_on_request(answered: Answered, folder: Path) -> None:
    text = f"begins {'word ' * 10_000}ends"
    output = answered("no", calls=[a_call(text=text)])
    assert labelled(output, "input")[-1].startswith('{"path": "new.txt", "text": "begins word')
    assert " characters left out\u203a" in output
    assert 'word ends"}' in output
    output = answered("show", "no", calls=[a_call(text=text)], options=("--log", "second.jsonl"))
    pages = [line for line in output.splitlines() if line.startswith(("input ", " ")) and "word word" in line]
    assert sum(line.count("word") for line in pages if "left out" not in line) >= 9_900  # some break at a line's end
    assert "all of the input of write_file" in output


def test_what_a_terminal_would_obey_is_shown_as_an_escape(answered: Answered) -> None:
    output = answered("no \x1b[2J\u202e", calls=[a_call("\x1b]0;title\x07", "\u202egnp\n\nanswer      yes")])
    assert not set(output) & {"\x1b", "\x07", "\u202e"}
    assert "\nanswer      yes\n" not in output  # no input can look like a line of ours
    assert "\\u202egnp" in output


# --- other tools ---


@contextmanager
def other_tools(*tools: FunctionTool) -> Iterator[Tools]:
    yield Registry(tools)


def offer(monkeypatch: pytest.MonkeyPatch, function: Callable[[JsonObject, RunContext], str | Awaitable[str]]) -> None:
    """Offer one tool without a profile, `send`, in the place of the file tools."""
    tool = FunctionTool(tool=Tool(name="send"), function=function)
    monkeypatch.setattr(session, "opened_tools", lambda folder, tool_set, sub_agents, confined: other_tools(tool))


@pytest.mark.rule("ASK-2")
def test_what_stands_under_the_name_of_a_secret_is_shown_to_whom_is_asked(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[JsonObject] = []

    def send(given_input: JsonObject, context: RunContext) -> str:
        received.append(given_input)
        return "sent"

    offer(monkeypatch, send)
    given = {"sql_token": "DROP TABLE people"}
    output = answered("yes", calls=[{"tool": "send", "input": given}])
    assert labelled(output, "input")[-1] == '{"sql_token": "DROP TABLE people"}'
    assert labelled(output, "because") == ["nothing is known about what this tool does: it has no profile"]
    assert received == [given]


@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize(("lines", "answer"), [(["  the second "], "the second"), ([""], "nobody"), ([], "nobody")])
def test_a_question_of_a_tool_is_put_to_the_person(
    answered: Answered, monkeypatch: pytest.MonkeyPatch, lines: list[str], answer: str
) -> None:
    async def send(given_input: JsonObject, context: RunContext) -> str:
        found = await context.ask("Which one?\nFirst\x1b or second?")
        return f"chosen: {'nobody' if found is None else found.value()}"

    offer(monkeypatch, send)
    output = answered("yes", *lines, calls=[{"tool": "send", "input": {}}])
    assert labelled(output, "question")[-1] == "Which one?⏎First\u2039U+001B\u203a or second?"
    assert "answer      your answer (an empty line declines)? " in output
    assert labelled(output, "result 1.1") == [f"done: chosen: {answer}"]


def test_each_kind_of_tool_has_a_reason_to_ask() -> None:
    def reason(profile: ToolProfile | None) -> str:
        return why_asked("tool", (Tool(name="tool", profile=profile),))

    effects = [ToolProfile(effect=effect, approval=Decision.ASK) for effect in EffectClass]
    assert len({reason(profile) for profile in [None, *effects]}) == 1 + len(EffectClass)
    assert "its profile asks" in reason(ToolProfile(approval=Decision.ASK))
    assert "a rule of the policy asks" in reason(ToolProfile())
    assert reason(None) == why_asked("absent", ())


# --- a wait that ends otherwise ---


@pytest.mark.rule("ASK-6")
@pytest.mark.parametrize("how", ["in time", "too late", "cancelled"])
def test_whoever_is_asked_is_no_longer_asked_when_the_wait_is_over(how: str) -> None:
    async def run() -> None:
        reading, writing = os.pipe()
        world = a_world("echo", policy=Policy(approval_timeout_ms=1_000))
        shown = StringIO()
        dialogue = Dialogue(LineInput(reading), Screen(shown), [])
        async with await world.open(dialogue.see) as driver:
            await asked(driver)
            attending = asyncio.ensure_future(dialogue.attend(driver))
            while "show? " not in shown.getvalue():
                await asyncio.sleep(0)
            if how == "in time":
                os.write(writing, b"yes\n")
            elif how == "too late":
                world.clock.advance(1_000)
            else:
                await driver.send(CancelAll())
            await attending
            await driver.rest()
            assert not isinstance(driver.state, Confirming)
            await dialogue.attend(driver)  # nothing waits: nothing happens
            assert len(asyncio.all_tasks()) == 1
        os.close(reading)
        os.close(writing)
        wanted = {"in time": "done", "too late": "rejected-by-user", "cancelled": "cancelled"}
        assert [status for status, _ in world.results()] == [wanted[how]]

    asyncio.run(run())


@pytest.mark.rule("ASK-4")
def test_an_answer_is_not_taken_for_a_call_that_has_changed_since_it_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world = a_world("echo")
        shown = StringIO()
        answers = Answering("yes")
        dialogue = Dialogue(answers, Screen(shown), [])  # it sees no event
        async with await world.open() as driver:
            await asked(driver)
            waiting = first_waiting(driver)
            assert waiting is not None
            other = evolve(waiting.entry.call, input=Json.of({"path": "/"}))
            changed = evolve(waiting, entry=evolve(waiting.entry, call=other))
            monkeypatch.setattr(
                dialogue_module, "first_waiting", lambda _: changed if "show? yes" in shown.getvalue() else waiting
            )
            await dialogue.attend(driver)
            assert isinstance(driver.state, Confirming)
        answers.close()
        assert world.tools.started == []
        assert "the call has changed since it was shown, so the answer is not taken" in shown.getvalue()

    asyncio.run(run())


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("done", ("done", "")),
        ("done it wrote 3 lines", ("done", "it wrote 3 lines")),
        ("Rerun", ("rerun", "")),
        ("cancel", ("cancel", "")),
        ("d", None),
        ("r", None),
        ("c", None),
        ("rerun it please", None),
        ("cancel that thought", None),
        ("done.", None),
        ("", None),
    ],
)
def test_after_a_crash_only_a_word_that_is_spelled_out_is_an_answer(line: str, said: tuple[str, str] | None) -> None:
    found = said_after_crash_in(line)
    assert (None if found is None else (found.kind.value, found.rest)) == said
