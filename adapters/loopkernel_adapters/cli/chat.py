"""`loopkernel chat`: a session at a terminal or behind a pipe, which can be left and gone on with."""

import asyncio
import enum
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from loopkernel.data.choices import Lifetime
from loopkernel.data.events import Event
from loopkernel.data.states import Backoff, Cancelled, Confirming, Done, Idle, Initial
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import ChangeMode, Enqueue, UserDelta
from loopkernel.later_typing import override

from loopkernel_adapters.cli.chat_commands import (
    APPROVALS,
    Leave,
    Lines,
    NoCommand,
    approvals_command,
    folded,
    is_command,
    left_by_mode,
    meant,
)
from loopkernel_adapters.cli.chat_view import ChatView
from loopkernel_adapters.cli.dialogue import Commands, Dialogue, Keep, first_waiting
from loopkernel_adapters.cli.interrupts import Interrupts
from loopkernel_adapters.cli.introduction import introduction
from loopkernel_adapters.cli.json_lines import (
    JsonDialogue,
    JsonTeller,
    is_answer,
    message_in,
    put,
    tell_beginning,
    tell_result,
)
from loopkernel_adapters.cli.line_input import LONGEST_TYPED, LineInput, standard_input
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.run import said
from loopkernel_adapters.cli.screen import INSTALL, NoScreen, Screen, for_questions
from loopkernel_adapters.cli.session import Conversation, Played, Workbench, begun, play
from loopkernel_adapters.cli.summary import status_of, tell_resumption
from loopkernel_adapters.cli.words import counted, used_told
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.stores.seals import state_folder

AT_REST = (Idle, Cancelled, Initial)
WAITING = "wait, or type /retry, /dismiss or another message"
NO_COMMAND = "there is no such command: /help lists them; a message that begins so needs a space before it"
CUT = (
    f"the terminal cuts a line after {LONGEST_TYPED} bytes, so nothing was sent: put so long a text into a file of the "
    "workspace, and name the file; or begin the chat behind a pipe"
)


class Turn(enum.Enum):
    """Whose turn it is."""

    RESTING = "the person's, who may say anything"
    ASKING = "the person's, who is asked"
    BUSY = "the agent's"
    OVER = "nobody's"


class Voice(Protocol):
    """What a chat says beside the events."""

    def listen(self) -> None:
        """Say that a message is wanted."""
        ...

    def heard(self, line: str | None) -> None:
        """The line that was typed."""
        ...

    def message(self, line: str) -> str:
        """The message that the line is."""
        ...

    def tell(self, text: str) -> None:
        """Say this."""
        ...


class ScreenVoice(Voice):
    """Says it on the screen."""

    def __init__(self, screen: Screen, view: ChatView, is_terminal: bool) -> None:
        self._screen = screen
        self._view = view
        self._is_terminal = is_terminal

    @override
    def listen(self) -> None:
        self._screen.prompt("you")

    @override
    def heard(self, line: str | None) -> None:
        self._screen.answered(line, echoed=self._is_terminal)
        if line is not None:
            self._view.typed(self._screen.hide(line))

    @override
    def message(self, line: str) -> str:
        return line.strip()

    @override
    def tell(self, text: str) -> None:
        columns, _ = self._screen.size()
        for line in folded(text, columns):
            self._screen.line(line)


class JsonVoice(Voice):
    """Says it to a program."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    @override
    def listen(self) -> None:
        put(self._screen, {"type": "ready"})

    @override
    def heard(self, line: str | None) -> None:
        """The program knows."""

    @override
    def message(self, line: str) -> str:
        if is_answer(line):
            self.tell("no question waits for this answer, so it was dropped; answer when you are asked")
            return ""
        return message_in(line)

    @override
    def tell(self, text: str) -> None:
        put(self._screen, {"type": "note", "text": text})


class Chat(Conversation):
    """Hears the person at all times, at a terminal; what a pipe holds is read when something is wanted.

    A line is a message, a command or an answer, by what is the case when it has been typed. `dialogue` makes the one
    that asks, of what takes commands, of what is done at the end of the input, and of what keeps a line for later.
    `left`: the person has left.
    """

    def __init__(
        self,
        opening: tuple[UserDelta, ...],
        answers: LineInput,
        voice: Voice,
        dialogue: Callable[[Commands, Callable[[], None], Keep], Dialogue],
    ) -> None:
        self.left = False
        self._dialogue = dialogue(self._command_there, self._end, self._keep)
        self._opening = opening
        self._answers = answers
        self._voice = voice
        self._moved = asyncio.Event()
        self._hinted: Timer | None = None
        self._driver: Driver | None = None

    @override
    def see(self, event: Event) -> None:
        self._moved.set()
        self._dialogue.see(event)

    @override
    def see_of_child(self, within: Address, event: Event) -> None:
        self._moved.set()
        self._dialogue.see_of_child(within, event)

    @override
    async def hold(self, driver: Driver, interrupts: Interrupts) -> None:
        self._driver = driver
        try:
            async with self._answers.open():
                for delta in self._opening:
                    await driver.send(delta)
                while (turn := _turn(driver)) is not Turn.OVER:
                    if turn is Turn.ASKING:
                        await self._dialogue.attend(driver)
                    elif (line := await self._line_of(driver, turn)) is not None:
                        interrupts.forget()
                        await self._take(line, driver)
        except Leave:
            self.left = True

    async def _line_of(self, driver: Driver, turn: Turn) -> str | None:
        """The next line, or None as soon as it is another's turn. Raises Leave, or as the driver's `over`."""
        counting = _countdown(driver)
        if counting is not None and counting != self._hinted and self._answers.is_terminal:
            self._voice.tell(WAITING)
        self._hinted = counting
        reads = turn is Turn.RESTING or self._answers.is_terminal
        reading = asyncio.ensure_future(self._read(turn)) if reads else None
        changed = asyncio.ensure_future(self._changed(driver, turn, counting))
        failed = asyncio.ensure_future(driver.over())
        tasks = {task for task in (reading, changed, failed) if task is not None}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            return reading.result() if reading is not None and reading.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, turn: Turn) -> str:
        if turn is Turn.RESTING:
            self._voice.listen()
        line = await self._answers.message(is_command)
        self._voice.heard(line)
        if line is None:
            raise Leave
        if self._answers.cuts_lines and any(len(part.encode()) >= LONGEST_TYPED for part in line.split("\n")):
            self._voice.tell(CUT)
            return ""
        return line

    async def _changed(self, driver: Driver, turn: Turn, counting: Timer | None) -> None:
        """Wait until it is another's turn, or another countdown has begun."""
        while _turn(driver) is turn and _countdown(driver) == counting:
            self._moved.clear()
            await self._moved.wait()

    async def _take(self, line: str, driver: Driver) -> None:
        """Do what the line means now."""
        if line.startswith("/"):
            if not await self._command(line, driver):
                self._voice.tell(NO_COMMAND)
        elif text := self._voice.message(line):
            speaks = isinstance(driver.state, (*AT_REST, Backoff))
            await driver.send(said(text) if speaks else Enqueue(content=said(text).content))

    async def _command(self, line: str, driver: Driver) -> bool:
        """Carry the command out; False where it is none. Raises Leave."""
        if line.split()[:1] == [APPROVALS]:
            for shown in await approvals_command(line, driver):
                self._voice.tell(shown)
            return True
        found = meant(line, driver.state)
        if isinstance(found, NoCommand):
            return False
        if isinstance(found, Lines):
            for shown in found.lines:
                self._voice.tell(shown)
        else:
            await driver.send(found)
            session = driver.state.session
            if isinstance(found, ChangeMode) and session is not None:  # which no event tells
                self._voice.tell(f"the mode is {session.settings.policy.approval_mode.value} now")
                for left in left_by_mode(driver):
                    self._voice.tell(left)
        return True

    async def _command_there(self, line: str) -> bool:
        """The same in the place of an answer."""
        return line.startswith("/") and self._driver is not None and await self._command(line, self._driver)

    async def _keep(self, line: str) -> None:
        """Let the line be a message for the end of the turn."""
        if self._driver is not None:
            await self._driver.send(Enqueue(content=said(line).content))

    def _end(self) -> None:
        """Where a person ends the input at a question, that is to leave: the question stays open."""
        if self._answers.is_terminal:
            raise Leave


def _turn(driver: Driver) -> Turn:
    state = driver.state
    if isinstance(state, Done):
        return Turn.OVER
    if isinstance(state, AT_REST):
        return Turn.RESTING
    return Turn.ASKING if isinstance(state, Confirming) and first_waiting(driver) is not None else Turn.BUSY


def _countdown(driver: Driver) -> Timer | None:
    return driver.state.timer if isinstance(driver.state, Backoff) else None


def chat(options: Options, screen: Screen) -> ExitStatus:
    """Hold a new session. Raises Unusable when it cannot begin or the log cannot be written."""
    with ExitStack() as resources:
        bench = begun(options, Lifetime.SESSION, resources)
        return play_chat(bench, (), options, screen)


def play_chat(bench: Workbench, opening: tuple[UserDelta, ...], options: Options, screen: Screen) -> ExitStatus:
    """Hold the session, and say how it can be gone on with. Raises Unusable."""
    records = bench.store.records
    if options.json:
        answers, silent = standard_input(), NoScreen()
        conversation = Chat(opening, answers, JsonVoice(screen), partial(JsonDialogue, answers, screen, records))
        begun_told = partial(tell_beginning, bench, screen)
        played = play(bench, conversation, (JsonTeller(screen, records),), silent, begun_told)
        return tell_result(played, bench, screen, conversation.left)
    answers, screen = _heard_and_shown(bench, screen)
    shown = for_questions(screen) if answers.is_terminal else screen
    screen.hide = shown.hide = bench.secrets.hide
    view = ChatView(screen, records)
    voice = ScreenVoice(shown, view, answers.is_terminal)
    conversation = Chat(opening, answers, voice, partial(Dialogue, answers, shown, records))

    def announce() -> None:
        screen.labelled("chat", f"session {bench.run}; /help tells what can be typed, Ctrl-D leaves")
        for line in introduction(bench):
            screen.labelled("", line)

    played = play(bench, conversation, (view,), screen, announce)
    return _tell_end(bench, played, conversation.left, answers.is_terminal, screen)


def _heard_and_shown(bench: Workbench, screen: Screen) -> tuple[LineInput, Screen]:
    """What a person types, and is shown: with a prompt below, where the terminal can move its cursor."""
    answers = standard_input()
    if not answers.is_terminal or not screen.paints or sys.stdout is None:
        return answers, screen
    try:
        from loopkernel_adapters.cli.completing import ChatCompleter
        from loopkernel_adapters.cli.prompt_input import PromptInput, kept_history
        from loopkernel_adapters.cli.prompt_screen import PromptScreen
    except ImportError as error:
        print(f"loopkernel: {error.name} is missing, so lines are not edited: {INSTALL}", file=sys.stderr)
        return answers, screen

    edited = PromptInput(ChatCompleter(bench.options.folder), kept_history(state_folder(os.environ)))
    edited.hide = bench.secrets.hide
    return edited, PromptScreen(sys.stdout, edited)


def _tell_end(bench: Workbench, played: Played, left: bool, by_hand: bool, screen: Screen) -> ExitStatus:
    """Say how to go on. A person who leaves is content; a program is told how the last turn ended."""
    state, place = played.witnessed.state, bench.place
    session = state.session
    screen.line()
    if session is not None:
        told = f"{counted(len(session.thread), 'message')}, {used_told(session)}"
        screen.labelled("session", f"{bench.run}: {told}")
    if isinstance(state, Done):
        screen.labelled("over", f"{state.reason.value}; nothing can be added to it")
        return status_of(state.reason, played.ended_by)
    tell_resumption(place, bench.run, screen)
    if not left or played.ended_by is not None:
        return ExitStatus.OTHER_END
    last = None if session is None else session.last_end
    return ExitStatus.NATURAL_END if by_hand or last is None else status_of(last)
