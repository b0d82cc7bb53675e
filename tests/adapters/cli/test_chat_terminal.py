"""`loopkernel chat` at a terminal: heard while it is busy, cancelled by Ctrl-C, left by a second one or by Ctrl-D.

The agent is kept busy by a shell command that reads a pipe with a name, which the test writes to.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.adapters.cli.pseudo_terminal import END_OF_INPUT, INTERRUPT, XTERM, Person, at_a_terminal
from tests.adapters.cli.sessions import CHAT, CommandLine, Ended, Gate, says, script, writes

ALWAYS = (*CHAT, "--approve", "always")
WELCOME = "Ctrl-D leaves"
QUESTION = "show? "
DUMB = {"TERM": "dumb"}  # which has no prompt that is edited


@contextmanager
def chatting(*arguments: str, variables: Mapping[str, str] = XTERM) -> Iterator[Person]:
    """A person who has been greeted."""
    with at_a_terminal(*arguments, variables=variables) as person:
        person.wait_for(WELCOME)
        person.wait_for("you  ")
        yield person


def shown_by(person: Person) -> Ended:
    """What the terminal has shown."""
    assert "Traceback" not in person.shown
    return Ended(0, "\n".join(person.lines()), "")


@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
def test_what_is_typed_while_it_is_busy_waits_in_the_queue_and_a_steer_does_not(
    loopkernel: CommandLine, gate: Gate
) -> None:
    script(gate.call(), says("The gate is open."), says("Yes, next."))
    with chatting(*ALWAYS) as person:
        person.type(b"open the gate\n")
        gate.wait()
        person.type(b"and what is next?\n")
        person.wait_for("message 1 waits for the end of the turn")
        person.type(b"/steer hurry\n")
        person.type(b"/queue\n")
        person.wait_for("a steering message: hurry")
        person.wait_for("message 1: and what is next?")
        gate.open()
        person.wait_for("Yes, next.")
        person.wait_for("you  ")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
        ended = shown_by(person)
    assert ended.labelled("steer") == ["message 1 goes into the turn"]
    assert ended.labelled("queue")[-1] == "message 1 starts a turn"
    assert "hurry" in ended.labelled("you")
    told = loopkernel("log", "last")
    assert told.labelled("user") == ["open the gate", "hurry", "and what is next?"]
    assert [line.partition(";")[0] for line in told.labelled("turn")] == ["ended: model_stop"] * 2


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("INPUT-2")
def test_ctrl_c_cancels_the_turn_and_what_is_said_next_goes_before_the_queue(
    loopkernel: CommandLine, gate: Gate
) -> None:
    script(gate.call(), says("Never mind."), says("Now that."))
    with chatting(*ALWAYS) as person:
        person.type(b"open the gate\n")
        gate.wait()
        person.type(b"and then?\n")
        person.wait_for("message 1 waits for the end of the turn")
        person.type(INTERRUPT)
        person.wait_for("cancelled by you (user:cancelled)")
        person.wait_for("1 message in the queue: taken after what you say next")
        person.wait_for("you  ")
        person.type(b"leave it\n")
        person.wait_for("Never mind.")
        person.wait_for("Now that.")
        person.wait_for("you  ")
        person.type(INTERRUPT)  # the first one again: the person has gone on
        person.wait_for("press Ctrl-C again to leave")
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
        assert "go on" in shown_by(person).out
    assert loopkernel("log", "last").labelled("user") == ["open the gate", "leave it", "and then?"]
    assert loopkernel("replay", "last").status == 0


def test_a_text_that_is_pasted_is_one_message_and_no_answer_to_what_is_asked_meanwhile(loopkernel: CommandLine) -> None:
    script(writes("a"), says("Done."))
    with chatting(*CHAT) as person:
        person.type(b"Look:\n\n  /usr/bin \xf0\x9f\x8e\x89\nyes\n/queue\n")
        person.wait_for(QUESTION)
        person.type(b"no\n")
        person.wait_for("Done.")
        person.wait_for("you  ")
        person.type(b"/quit\n")
        assert person.wait_for_end() == 0
        assert not Path("a").exists()
        assert "the queue is empty" in person.shown  # a command is not part of it
    assert loopkernel("log", "last").labelled("user") == ["Look: /  /   /usr/bin 🎉 / yes"]


def test_a_line_that_the_terminal_has_cut_is_not_sent(loopkernel: CommandLine) -> None:
    script(says("Hello."))
    with chatting(*CHAT, variables=DUMB) as person:
        for _ in range(3):
            person.type(b"x" * 2_000)
        person.type(b"\n")
        person.wait_for("the terminal cuts a line after 4095 bytes, so nothing was sent")
        person.wait_for("you  ")
        person.type(b"short\n")
        person.wait_for("Hello.")
        person.wait_for("you  ")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    assert loopkernel("log", "last").labelled("user") == ["short"]


def test_ctrl_c_twice_with_nothing_under_way_leaves_and_says_no_more_than_that(loopkernel: CommandLine) -> None:
    script(says("never"))
    with chatting(*CHAT) as person:
        person.type(INTERRUPT)
        person.wait_for("nothing is under way")
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
        assert shown_by(person).labelled("interrupt")[1:] == ["quitting"]


def test_a_steer_that_comes_to_nothing_waits_for_the_next_turn_and_says_so(loopkernel: CommandLine, gate: Gate) -> None:
    script(gate.call(), says("never"))
    with chatting(*ALWAYS) as person:
        person.type(b"open the gate\n")
        gate.wait()
        person.type(b"/steer to the left\n/cancel\n")
        person.wait_for("message 1 waits for the end of your next turn")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0


@pytest.mark.parametrize("state", ["busy", "asked"])
def test_a_second_ctrl_c_leaves(loopkernel: CommandLine, gate: Gate, state: str) -> None:
    script(gate.call() if state == "busy" else writes("a"), says("never"))
    options = ALWAYS if state == "busy" else CHAT
    with chatting(*options) as person:
        person.type(b"go\n")
        if state == "busy":
            gate.wait()
        else:
            person.wait_for(QUESTION)
        person.type(INTERRUPT)
        person.wait_for("cancelling")
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
        shown_by(person)
    assert not Path("a").exists()
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("RESUME-3")
def test_ctrl_d_at_a_question_leaves_it_open_and_resume_asks_it_again(loopkernel: CommandLine) -> None:
    script(writes("a"), says("Done."))
    with chatting(*CHAT) as person:
        person.type(b"write it\n")
        person.wait_for(QUESTION)
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    script(says("Done."))
    with at_a_terminal("resume", "last") as person:
        person.wait_for("write_file")
        person.wait_for("waits for you")
        person.wait_for(QUESTION)
        person.type(b"yes\n")
        person.wait_for("Done.")
        person.wait_for("you  ")
        person.type(b"/quit\n")
        assert person.wait_for_end() == 0
        shown_by(person)
    assert Path("a").read_text() == "x"
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("RETRY-4")
@pytest.mark.parametrize("typed", [b"/retry\n", b"something else\n", b"/dismiss\n"])
def test_while_a_retry_counts_down_the_person_is_heard(loopkernel: CommandLine, typed: bytes) -> None:
    script({"fails": "overloaded"}, says("Here I am."))
    with chatting(*CHAT) as person:
        person.type(b"hello\n")
        person.wait_for("retrying in 5 s (retry 1 of 5), then 10 s")
        person.wait_for("/retry, /dismiss or another message")
        person.type(typed)
        if typed != b"/dismiss\n":
            person.wait_for("Here I am.")
        person.wait_for("you  ")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
        shown_by(person)
    said = ["hello", "something else"] if typed.startswith(b"some") else ["hello"]
    assert loopkernel("log", "last").labelled("user") == said


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP)])
def test_a_signal_that_ends_the_process_leaves_in_order(
    loopkernel: CommandLine, gate: Gate, numbers: tuple[signal.Signals, ...]
) -> None:
    script(gate.call())
    with chatting(*ALWAYS) as person:
        person.type(b"go\n")
        gate.wait()
        for number in numbers:
            person.process.send_signal(number)
        assert person.wait_for_end() == 1
        ended = shown_by(person)
    told = {line.removeprefix("ended by ") for line in ended.labelled("interrupt")[:-1]}
    assert len(told) == 1  # of those that come at once, any may be first
    assert told <= {number.name for number in numbers}
    assert ended.labelled("go on") != []
    assert loopkernel("replay", "last").status == 0


def test_what_was_typed_before_a_question_does_not_answer_it(loopkernel: CommandLine, gate: Gate) -> None:
    script(gate.call(), writes("a"), says("Done."))
    with chatting(*CHAT) as person:
        person.type(b"go\n")
        person.wait_for(QUESTION)
        person.type(b"yes\n")
        gate.wait()
        person.type(b"yes")  # without an end
        gate.open()
        person.wait_for("press Enter to end that")
        person.wait_for(QUESTION)
        person.type(b"\n")
        person.wait_for("that line was begun before")
        person.wait_for(QUESTION)
        person.type(b"no\n")
        person.wait_for("Done.")
        person.wait_for("you  ")
        person.type(END_OF_INPUT)
        person.wait_for_end()
    assert not Path("a").exists()


# --- the prompt that is edited ---


def test_a_text_that_is_pasted_is_not_sent_before_enter_and_a_line_is_edited(loopkernel: CommandLine) -> None:
    script(writes("a"), says("Done."))
    with chatting(*CHAT) as person:
        person.type(b"\x1b[200~write\nit yes\x1b[201~")
        person.wait_for("it yes")
        person.type(b"\x1b[D\x1b[D\x1b[Dand \r")  # three to the left
        person.wait_for(QUESTION)
        person.type(b"\x1b[200~yes\nyes\x1b[201~")
        person.type(b"\r")
        person.wait_for("none of the answers")
        person.wait_for(QUESTION)
        person.type(b"no\r")
        person.wait_for("Done.")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    assert not Path("a").exists()
    assert loopkernel("log", "last").labelled("user") == ["write / it and yes"]


def test_what_was_said_is_there_in_the_next_session_for_its_owner_alone_and_answers_nothing(
    loopkernel: CommandLine, folder: Path
) -> None:
    state = {**XTERM, "XDG_STATE_HOME": str(folder / "state")}
    script(says("Hello."), name="first.json")
    with chatting("chat", "--model", "scripted:first.json", variables=state) as person:
        person.type(b"yes\r")
        person.wait_for("Hello.")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    kept = folder / "state" / "loopkernel" / "history"
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    script(writes("a"), says("Done."))
    with chatting(*CHAT, variables=state) as person:
        person.type(b"\x1b[A")
        person.wait_for("yes")
        person.type(b"\r")
        person.wait_for(QUESTION)
        person.type(b"\x1b[A\r")  # brings nothing back
        person.wait_for("none of the answers")
        person.wait_for(QUESTION)
        person.type(b"no\r")
        person.wait_for("Done.")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
    assert not Path("a").exists()
    assert loopkernel("log", "last").labelled("user") == ["yes"]
    assert kept.read_text().count("+") == 2  # the answers are not kept


# What keys bring back was meant for something else: a line that was cut, one that was undone, and a macro that ends
# its line by itself.
TYPED_BEFORE = {
    "yank": (b"yes\x15go\r", b"\x19\r"),
    "undo": (b"yes\x15go\r", b"\x1f\r"),
    "undo twice": (b"yes\x15go\r", b"\x1f\x1f\r"),
    "macro": (b"\x18(yes\r\x18)\x15", b"\x18e\r"),
    "history": (b"yes\r", b"\x1b[A\r"),
    "search": (b"yes\r", b"\x12e\r"),
    "quoted": (b"yes\r", b"\x11\x19\r"),
    "completed": (b"go\r", b"w\t\x1b[D\x1b[D\x1b[D\x08\r"),
    "operated": (b"yes\r", b"\x1b[A\x0f\r"),
}


@pytest.mark.parametrize("keys", TYPED_BEFORE.values(), ids=TYPED_BEFORE)
def test_no_key_brings_an_answer_back(loopkernel: CommandLine, folder: Path, keys: tuple[bytes, bytes]) -> None:
    before, at_the_question = keys
    script(writes("a"), says("Done."))
    (folder / "wyes").write_text("a file that could be completed")
    with chatting(*CHAT) as person:
        person.type(before)
        person.wait_for(QUESTION)
        person.type(at_the_question)
        person.wait_for("because")
        person.wait_for(QUESTION)
        person.type(b"no\r")
        person.wait_for("Done.")
        person.type(END_OF_INPUT)
        assert person.wait_for_end() == 0
        assert "Traceback" not in person.shown
    assert not Path("a").exists()
