"""Whatever is typed, pasted or piped, and whenever: a call runs only if a person gave an exact word for exactly it.

The judge reads the keys and the screen by itself, and imports nothing that the dialogue reads lines by.
"""

import asyncio
import json
import os
import pty
import select
from collections.abc import Iterator
from io import StringIO

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json
from loopkernel.data.states import Confirming
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.prompt_input import PromptInput
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import DummyOutput
from typing_extensions import override

from tests.adapters.driver.driver_world import ASKS, FunctionTools, World, echo
from tests.adapters.driver.people_world import asked

CALLS = 3
GRACE, PASTE = 0.5, 0.05  # seconds, as the help tells them
LINES, PROMPT, PIPE = "a terminal that gives lines", "a prompt that is edited", "a pipe"
KINDS = (LINES, PROMPT, PIPE)


@frozen
class Typed:
    """One key, or one byte of a pipe."""

    at: float
    key: str


@frozen
class Put:
    """The question about the call with this number has come on the screen."""

    at: float
    call: int


@frozen
class Line:
    """Keys up to Enter: which event began it, when, and how long nothing came behind it."""

    text: str
    first: int
    begun: float
    ended: int
    silence: float


class Room:
    """A person or a program that types by a virtual clock, and a screen that is watched."""

    def __init__(self, typed: list[tuple[float, str]], kind: str) -> None:
        self.now = 0.0
        self.events: list[Typed | Put] = []
        self.reading = False
        self._shows_keys = kind == LINES
        self._person, self.program = pty.openpty() if kind == LINES else os.pipe()[::-1]
        self.keys = open(self.program, encoding="utf-8", closefd=False)  # noqa: SIM115 - it closes nothing
        self._open = True
        moment = 0.0
        self._typed: list[tuple[float, str]] = []
        for gap, keys in typed:
            moment += gap
            self._typed.append((moment, keys))

    async def pause(self, seconds: float) -> None:
        end = self.now + seconds
        while self._typed and self._typed[0][0] <= end:
            self.type_next()
        self.now = max(self.now, end)
        await asyncio.sleep(0)

    def type_next(self) -> bool:
        """What is typed next; False when that is the end."""
        if not self._typed:
            self.close()
            return False
        moment, keys = self._typed.pop(0)
        self.now = max(self.now, moment)
        self.events.extend(Typed(self.now, key) for key in keys)
        os.write(self._person, keys.encode())
        if self._shows_keys:  # the terminal has the keys when it has shown them
            shown = 0
            while shown < len(keys) + keys.count("\n"):
                assert select.select([self._person], [], [], 60)[0]
                shown += len(os.read(self._person, 65_536))
        return True

    def type_ahead(self) -> None:
        while self._typed and self._typed[0][0] <= 0:
            self.type_next()

    async def sit(self) -> None:
        """Type on whenever whoever asks waits for it."""
        while True:
            for _ in range(8):
                await asyncio.sleep(0)
            if self.reading and not select.select([self.program], [], [], 0)[0] and not self.type_next():
                return

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._person)


class Watched(StringIO):
    """Notes when a question is put, and for which call."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self._room = room
        self._call = 0

    @override
    def write(self, text: str) -> int:
        for call in range(1, CALLS + 1):
            if f'{{"n": {call}}}' in text and text.startswith("input "):
                self._call = call
        if "yes, no" in text:
            self._room.events.append(Put(self._room.now, self._call))
        return super().write(text)


class Noticed(LineInput):
    """Tells when it waits for somebody to type."""

    def __init__(self, room: Room) -> None:
        super().__init__(room.program, pause=room.pause)
        self._room = room

    @override
    async def _read_more(self) -> None:
        self._room.reading = True
        try:
            await super()._read_more()
        finally:
            self._room.reading = False


class NoticedPrompt(PromptInput):
    """The same, of the prompt that is edited."""

    def __init__(self, room: Room) -> None:
        super().__init__(keys=Vt100Input(room.keys), output=DummyOutput(), pause=room.pause)
        self._room = room

    @override
    async def _next(self) -> None:
        self._room.reading = True
        try:
            await super()._next()
        finally:
            self._room.reading = False


def lines_of(events: list[Typed | Put]) -> Iterator[Line]:
    """What was typed, in lines."""
    keys = [(number, event) for number, event in enumerate(events) if isinstance(event, Typed)]
    begun: tuple[int, Typed] | None = None
    text = ""
    for place, (number, event) in enumerate(keys):
        begun = begun or (number, event)
        if event.key != "\n":
            text += event.key
            continue
        following = keys[place + 1][1].at if place + 1 < len(keys) else float("inf")
        yield Line(text, begun[0], begun[1].at, number, following - event.at)
        begun, text = None, ""


def question_of(line: Line, events: list[Typed | Put], kind: str) -> int | None:
    """The call that the line can be an answer to, by when it was typed."""
    puts = [(number, event) for number, event in enumerate(events) if isinstance(event, Put)]
    before = [(number, event) for number, event in puts if number < line.ended]
    if not before:
        return None
    number, last = before[-1]
    in_time = number < line.first and (kind == PIPE or line.begun >= last.at + GRACE)
    alone = kind == PIPE or line.silence > PASTE
    return last.call if in_time and alone else None


def consents(events: list[Typed | Put], kind: str) -> tuple[set[str], bool]:
    """The inputs that were consented to, and whether that was for every call."""
    allowed: set[str] = set()
    for line in lines_of(events):
        call = question_of(line, events, kind)
        word = line.text.strip().lower()
        if call is None:
            continue
        if word in ("y", "yes"):
            allowed.add(json.dumps({"n": call}))
        elif word == "always":
            return allowed, True
        elif word.startswith("edit "):
            try:
                allowed.add(json.dumps(json.loads(line.text.strip()[5:])))
            except ValueError:
                continue
    return allowed, False


async def attended(driver: Driver, dialogue: Dialogue) -> None:
    while isinstance(driver.state, Confirming):
        await dialogue.attend(driver)
        await driver.rest()


def played(typed: list[tuple[float, str]], kind: str) -> tuple[list[str], list[Typed | Put]]:
    """The inputs that ran, and what was typed and asked."""

    async def play() -> list[str]:
        calls = (("echo", Json.of({"n": number})) for number in range(1, CALLS + 1))
        world = World([call_reply(*calls), text_reply("b")], tools=FunctionTools(ASKS, echo=echo))
        answers = NoticedPrompt(room) if kind == PROMPT else Noticed(room)
        dialogue = Dialogue(answers, Screen(Watched(room)), [])
        async with await world.open(dialogue.see) as driver, answers.open():
            await asked(driver)
            room.type_ahead()
            sitting = asyncio.ensure_future(room.sit())
            await attended(driver, dialogue)
            sitting.cancel()
            await asyncio.wait({sitting})
        return [json.dumps(run.input.value()) for run in world.tools.started]

    room = Room(typed, kind)
    try:
        return asyncio.run(play()), room.events
    finally:
        room.close()
        os.close(room.program)


PIECES = [
    "y",
    "yes",
    "yes\n",
    "YES \n",
    "y\n",
    "always\n",
    "always remember this\n",
    "a\n",
    "a note would help\n",
    "no\n",
    "no, not this\n",
    "ye",
    "s\n",
    "\n",
    "show\n",
    'edit {"n": 7}\n',
    'edit {"n"',
    ": 8}\n",
    "yes\nyes\n",
    "look:\nyes\nalways\n",
    "yes please\n",
    "/compact\n",
    "I think that\nyes",
]
KEYS = st.sampled_from(PIECES) | st.text("yesalwnodit \n{}:7", min_size=1, max_size=8)
GAPS = st.sampled_from([0.0, 0.0, 0.01, 0.04, 0.06, 0.2, 0.45, 0.55, 1.0, 5.0])


@pytest.mark.rule("ASK-4")
@pytest.mark.parametrize("kind", KINDS)
@given(typed=st.lists(st.tuples(GAPS, KEYS), max_size=8))
def test_a_call_runs_only_if_an_exact_word_was_given_for_exactly_it(kind: str, typed: list[tuple[float, str]]) -> None:
    ran, events = played(typed, kind)
    allowed, every = consents(events, kind)
    assert every or set(ran) <= allowed


ANSWERS = {"yes\n": [1], "Y\n": [1], "no\n": [], "no, never\n": [], 'edit {"n": 9}\n': [9], "always\n": [1, 2, 3]}


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize("kind", KINDS)
@given(answers=st.lists(st.sampled_from([*ANSWERS, "what?\n", "show\n"]), max_size=6))
def test_whoever_takes_the_time_to_answer_is_obeyed(kind: str, answers: list[str]) -> None:
    wanted: list[int] = []
    call = 1
    for answer in answers:
        if answer in ANSWERS and call <= CALLS:
            runs = ANSWERS[answer]
            wanted += range(call, CALLS + 1) if len(runs) == CALLS else [call] if runs == [1] else runs
            call += CALLS if len(runs) == CALLS else 1
    ran, _ = played([(2.0, answer) for answer in answers], kind)
    assert sorted(ran) == sorted(json.dumps({"n": number}) for number in wanted)


@pytest.mark.parametrize(
    ("typed", "by_hand"),
    [
        pytest.param([(0.0, "yes\n")], True, id="typed before the question"),
        pytest.param([(0.0, "yes"), (2.0, "\n")], True, id="begun before the question"),
        pytest.param([(0.0, "I think "), (2.0, "yes\n")], True, id="the rest of a line that was begun before"),
        pytest.param([(0.1, "yes\n")], True, id="within half a second"),
        pytest.param([(0.4, "y"), (0.4, "es\n")], True, id="begun within half a second"),
        pytest.param([(2.0, "yes\nand more\n")], True, id="pasted"),
        pytest.param([(2.0, "yes\nand more")], True, id="pasted without an end"),
        pytest.param([(2.0, "yes\n"), (0.04, "y")], True, id="pasted in pieces"),
        pytest.param([(2.0, "yes")], True, id="without Enter"),
        pytest.param([(2.0, "always remember this\n")], True, id="a sentence"),
        pytest.param([(0.0, "yes\nyes\nyes\n")], False, id="in the pipe before the question"),
        pytest.param([(0.0, "yes\n")], False, id="one line in the pipe before the question"),
        pytest.param([(0.0, "ye"), (2.0, "s\n")], False, id="begun in the pipe before the question"),
        pytest.param([(2.0, "yes\nand\nmore\n")], False, id="piped with more behind it"),
        pytest.param([(2.0, "yes")], False, id="a line of a pipe that has no end"),
    ],
)
def test_what_only_looks_like_consent_runs_nothing(typed: list[tuple[float, str]], by_hand: bool) -> None:
    for kind in (LINES, PROMPT) if by_hand else (PIPE,):
        ran, _ = played(typed, kind)
        assert ran == []
