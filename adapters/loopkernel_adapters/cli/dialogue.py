"""What waits for a person, put to the person one at a time: a call to approve, or the question of a running tool."""

import asyncio
import enum
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import assert_never

from attrs import frozen
from loopkernel.data.errors import CodecError
from loopkernel.data.events import EditRefused, Event, Refused
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ChildWait, CrashWait, LedgerEntry
from loopkernel.data.states import Confirming
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, Tool
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CompactNow,
    Correct,
    CrashAnswerKind,
    Reject,
    RememberTool,
)
from loopkernel.data.words import CallStatus, RefusalReason, UserAction
from loopkernel.replaying import LogRecord

from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.screen import LABEL_WIDTH, Screen, printable
from loopkernel_adapters.cli.shown_text import (
    Marked,
    Parts,
    fitted,
    lines_of,
    parts_of,
    told_name,
    warnings_of,
    wrapped,
)
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.optional_ports import Address, NoSuchAgent

# --- what a line says in answer --------------------------------------------------------------------------
# An exact word, or nothing: a sentence that begins with one is not consent.


class Word(enum.Enum):
    """What can be answered to a call that asks."""

    YES = "yes"
    NO = "no"
    ALWAYS = "always"
    EDIT = "edit"
    SHOW = "show"


@frozen
class Said:
    """A word, and what stands behind it."""

    word: Word
    rest: str = ""


@frozen
class SaidAfterCrash:
    """The same after a crash."""

    kind: CrashAnswerKind
    rest: str = ""


_ALONE = {
    "y": Word.YES,
    "yes": Word.YES,
    "n": Word.NO,
    "no": Word.NO,
    "always": Word.ALWAYS,
    "edit": Word.EDIT,
    "show": Word.SHOW,
}
_NO_WHY = re.compile(r"no[\s,.;:!]+(.*)", re.IGNORECASE | re.DOTALL)
_EDIT = re.compile(r"edit\s+(.+)", re.IGNORECASE | re.DOTALL)
_DONE = re.compile(r"done\s+(.+)", re.IGNORECASE | re.DOTALL)


def said_in(line: str) -> Said | None:
    """What the line says of a call that asks; None when it is none of the answers."""
    text = line.strip()
    alone = _ALONE.get(text.lower())
    if alone is not None:
        return Said(alone)
    if found := _NO_WHY.fullmatch(text):
        return Said(Word.NO, found[1].strip())
    if found := _EDIT.fullmatch(text):
        return Said(Word.EDIT, found[1])
    return None


def said_after_crash_in(line: str) -> SaidAfterCrash | None:
    """The same of a call that was running when the process ended."""
    text = line.strip()
    for kind in CrashAnswerKind:
        if text.lower() == kind.value:
            return SaidAfterCrash(kind)
    found = _DONE.fullmatch(text)
    return None if found is None else SaidAfterCrash(CrashAnswerKind.DONE, found[1])


def corrected(call: CallId, text: str) -> Correct:
    """The call with the new input that the text says. Raises ValueError, in words, when it is not an input."""
    if not text:
        raise ValueError('give the new input too, as JSON in one line: edit {"name": "value"}')
    try:
        value = Json.parse(text)
    except CodecError as error:
        where = {fault: "" if fault.path == "$" else f" at {fault.path}" for fault in error.faults}
        words = "; ".join(f"the new input{place} {fault.problem}" for fault, place in where.items())
        raise ValueError(words) from error
    if not isinstance(value.value(), dict):
        raise ValueError('the new input has to be an object: edit {"name": "value"}')
    return Correct(call=call, input=value)


# --- a call, as the person is shown it -------------------------------------------------------------------
# Never more than the terminal shows at one time.

_LEAST_LINES = 3  # for the input, however small the terminal is


@frozen
class AskedCall:
    """A call, put on the screen with the reason why it asks and with what can be answered."""

    entry: LedgerEntry
    because: str
    screen: Screen

    @property
    def name(self) -> str:
        """The name of its tool, within a line."""
        return told_name(self.entry.tool, self.screen.shows)

    def put(self, prompt: str) -> None:
        """Show it in so few lines that the prompt stands below it on one screen."""
        width, most = room(self.screen)
        name = Marked(self.entry.tool, shows=self.screen.shows)
        odd = "; ".join(warnings_of([name, *self._parts()]))
        warned = wrapped(odd, width)[: most // 4] if odd else []
        named, reasons = fitted([name], width, 2), wrapped(self.because, width)
        taken = len(named) + len(warned) + len(reasons) + len(wrapped(prompt, width))
        self.screen.block("tool", named)
        self.screen.block("input", fitted(self._parts(), width, max(most - taken, _LEAST_LINES)))
        self.screen.block("beware", warned)
        self.screen.block("because", reasons)

    def pages(self, prompt: str) -> Sequence[Sequence[str]]:
        """All of the input, in pages that leave room for the prompt."""
        width, most = room(self.screen)
        lines = lines_of(self._parts(), width, by_lines=True)
        below = len(wrapped(prompt, width)) + len(wrapped(self._below(1_000, 1_000), width))
        size = max(most - below, _LEAST_LINES) if self.screen.is_seen else len(lines)
        return [lines[start : start + size] for start in range(0, len(lines), size)]

    def put_page(self, number: int, prompt: str) -> None:
        """Show one of the pages; behind the last comes the first."""
        pages = self.pages(prompt)
        place = number % len(pages)
        self.screen.block("input", pages[place])
        self.screen.block("", wrapped(self._below(place + 1, len(pages)), room(self.screen)[0]))

    def _below(self, number: int, pages: int) -> str:
        about = f"all of the input of {self.name}"
        return f"({about}, page {number} of {pages}; `show` shows the next)" if pages > 1 else f"({about})"

    def _parts(self) -> Parts:
        return parts_of(self.entry.given, self.screen.hide, self.screen.shows)


def room(screen: Screen) -> tuple[int, int]:
    """The columns behind the label, and the lines that are left for a question: one is the sub-agent's, one is free."""
    columns, lines = screen.size()
    return columns - LABEL_WIDTH - 2, lines - 2


# --- the dialogue ----------------------------------------------------------------------------------------

NOBODY = "Nobody could be asked: there is no input from a person, or no more of it."

COMPACT = "/compact"  # typed in the place of an answer
LATER = "/later"  # the same: keeps the line before it, which was not an answer
NO_WORD = "that is none of the answers: answer with one of these words, and nothing else"
AFTER_CRASH = "it was running when the process ended; nobody knows how far it came"

Answer = Approve | Reject | Correct | AnswerQuestion | AnswerAfterCrash | CompactNow

# Takes a line in the place of an answer, and returns whether it was one for it.
Commands = Callable[[str], Awaitable[bool]]
# Keeps a line as a message for the end of the turn.
Keep = Callable[[str], Awaitable[None]]

TOO_SOON = "that was typed before anybody can have read the question, so it is not an answer"
BEGUN = "you were typing when the question came: press Enter to end that line, which is not an answer; then answer"
EARLY = "that line was begun before the question, so it is not an answer"
SEVERAL = "that came with more lines behind it, as a pasted text does, so it is not an answer"


class CommandTaken(Exception):
    """A command was typed in the place of an answer, and carried out: what waits has to be looked at anew."""


async def no_commands(line: str) -> bool:
    """Takes none."""
    return False


def decline() -> None:
    """What follows when nobody can answer any more: each answer then says no."""


@frozen
class WaitingCall:
    """A call that waits for a person, in the session or in one of its sub-agents, and the tools that it is one of."""

    within: Address
    entry: LedgerEntry
    tools: tuple[Tool, ...]

    @property
    def address(self) -> Address:
        """The calls down to this one."""
        return (*self.within, self.entry.call.id)

    def is_shown_by(self, other: "WaitingCall | None") -> bool:
        """Whether whoever has been shown the other one has been shown this one."""
        return other is not None and self.address == other.address and _asked(self.entry) == _asked(other.entry)


def _asked(entry: LedgerEntry) -> tuple[object, ...]:
    """What of a call an answer is about."""
    return entry.tool, entry.given, entry.question, type(entry.person.wait)


class Dialogue:
    """Asks the person behind `answers`, on the screen. `see` observes the driver, whose `records` are looked at.

    A line that `commands` takes is not an answer. `at_end` is called when the input has ended, and may raise. `keep`
    takes lines that are not answers, where there is a later to keep them for.
    """

    def __init__(
        self,
        answers: LineInput,
        screen: Screen,
        records: Sequence[LogRecord],
        commands: Commands = no_commands,
        at_end: Callable[[], None] = decline,
        keep: Keep | None = None,
    ) -> None:
        self._keep = keep
        self._dropped: str | None = None  # the line that was not an answer
        self._commands = commands
        self._at_end = at_end
        self._answers = answers
        self._screen = screen
        self._records = records
        self._moved = asyncio.Event()
        self._refusal: RefusalReason | None = None

    def see(self, event: Event) -> None:
        """Note that something has happened, and whether it is that an answer was refused."""
        self._moved.set()
        if isinstance(event, EditRefused) or (isinstance(event, Refused) and event.action is not UserAction.REPORT):
            self._refusal = event.reason

    def see_of_child(self, within: Address, event: Event) -> None:
        """The same, for an event of a sub-agent."""
        self.see(event)

    async def attend(self, driver: Driver) -> None:
        """Have the first call that waits answered; or return as soon as it waits no longer, for whatever reason."""
        waiting = first_waiting(driver)
        if waiting is None:
            return
        answer = await self._answer_in_time(driver, waiting)
        if answer is None:
            self._screen.end_stream()
        elif isinstance(answer, CompactNow) or not _has_changed(driver, waiting):
            await self._send(driver, answer, waiting.within)
        else:
            self._tell("the call has changed since it was shown, so the answer is not taken; here it is as it is now")

    async def _answer_in_time(self, driver: Driver, waiting: WaitingCall) -> Answer | None:
        """The answer; None when the call has stopped waiting, or may have, by a command."""
        asking = asyncio.ensure_future(self._answer(waiting))
        settled = asyncio.ensure_future(self._settled(driver, waiting))
        try:
            await asyncio.wait({asking, settled}, return_when=asyncio.FIRST_COMPLETED)
            return None if settled.done() else asking.result()
        except CommandTaken:
            return None
        finally:
            asking.cancel()
            settled.cancel()
            await asyncio.wait({asking, settled})

    async def _settled(self, driver: Driver, waiting: WaitingCall) -> None:
        """Wait until the call, as it was shown, is no longer the first that waits."""
        while waiting.is_shown_by(first_waiting(driver)):
            self._moved.clear()
            await self._moved.wait()

    async def _send(self, driver: Driver, answer: Answer, within: Address) -> None:
        """Give the answer to the kernel that it is for, and tell why it is not taken."""
        before = len(self._records)
        self._refusal = None
        try:
            await driver.send(answer, () if isinstance(answer, CompactNow) else within)
        except NoSuchAgent as error:
            self._tell(f"too late: {error}")
        if self._refusal is not None:
            checked = [record.delta for record in self._records[before:] if isinstance(record.delta, ToolChecked)]
            faults = [check.verdict.why for check in checked if isinstance(check.verdict, InvalidCall)]
            self._tell(f"refused, since it is {self._refusal.value}{''.join(f': {why}' for why in faults)}")
        elif isinstance(answer, CompactNow):
            self._tell("the conversation is made shorter before the next request")

    # --- the questions ---

    async def _answer(self, waiting: WaitingCall) -> Answer:
        entry = waiting.entry
        if entry.question is not None:
            return await self._answer_question(waiting, entry.question)
        if isinstance(entry.person.wait, CrashWait):
            return await self._answer_after_crash(waiting)
        call = AskedCall(entry, why_asked(entry.tool, waiting.tools), self._screen)
        prompt = f"yes, no [WHY], always (each {call.name} from now on), edit [JSON], show"
        page: int | None = None
        while True:
            line = await self._line(waiting, prompt, partial(_put, call, prompt, page))
            if line is None:
                self._tell("rejected: there is no input, so nobody can be asked")
                return Reject(call=entry.call.id, why=NOBODY)
            if line.strip() == COMPACT:
                return CompactNow()
            said = said_in(line)
            if said is None:
                self._refuse(line, NO_WORD)
                continue
            match said.word:
                case Word.YES:
                    return Approve(call=entry.call.id)
                case Word.ALWAYS:
                    return Approve(call=entry.call.id, remember=RememberTool())
                case Word.NO:
                    return Reject(call=entry.call.id, why=said.rest)
                case Word.EDIT:
                    edited = self._edited(entry.call.id, said.rest)
                    if edited is not None:
                        return edited
                case Word.SHOW:
                    page = 0 if page is None else page + 1
                case _:
                    assert_never(said.word)

    def _edited(self, call: CallId, text: str) -> Correct | None:
        """The call with the new input that the text says; None when it is not an input."""
        try:
            return corrected(call, text)
        except ValueError as error:
            self._tell(str(error))
            return None

    async def _answer_question(self, waiting: WaitingCall, question: str) -> AnswerQuestion:
        def put() -> None:
            width, most = room(self._screen)
            parts = [Marked(self._screen.hide(question), shows=self._screen.shows)]
            odd = "; ".join(warnings_of(parts))
            warned = wrapped(odd, width)[: most // 4] if odd else []
            self._screen.block("question", fitted(parts, width, most - len(warned) - 3))
            self._screen.block("beware", warned)

        line = await self._line(waiting, "your answer (an empty line declines)", put)
        if line is None:
            self._tell("declined: there is no input, so nobody can be asked")
        text = (line or "").strip()
        return AnswerQuestion(call=waiting.entry.call.id, value=Json.of(text) if text else None)

    async def _answer_after_crash(self, waiting: WaitingCall) -> AnswerAfterCrash:
        entry, prompt = waiting.entry, "done [WHAT IT GAVE], rerun, cancel"
        call = AskedCall(entry, AFTER_CRASH, self._screen)
        while True:
            line = await self._line(waiting, prompt, partial(call.put, prompt))
            said = said_after_crash_in("cancel" if line is None else line)
            if said is not None:
                return AnswerAfterCrash(call=entry.call.id, kind=said.kind, text=said.rest)
            self._refuse(line or "", NO_WORD)

    # --- lines ---

    async def _line(self, waiting: WaitingCall, prompt: str, put: Callable[[], None]) -> str | None:
        """A line that was begun after the question was put, and came alone; None at the end of the input."""
        while True:
            await self._set_aside()
            if waiting.within:
                about = f"of call {in_words(waiting.within)}, for its call {waiting.entry.call.id}"
                self._screen.labelled("sub-agent", about)
            put()
            self._ask(prompt)
            if typed := await self._answers.first_moments():
                self._screen.answered("", echoed=True)
                self._refuse("\n".join(typed), TOO_SOON)
                continue
            if self._answers.has_begun and self._answers.is_terminal:
                self._screen.end_stream()
                self._tell(BEGUN)
                put()
                self._ask(prompt)
            self._screen.listen()
            heard = await self._answers.answer()
            self._screen.answered(None if heard is None else heard.text, echoed=self._answers.is_terminal)
            if heard is None:
                self._at_end()
                return None
            if heard.early or heard.several:
                self._refuse(heard.text, EARLY if heard.early else SEVERAL)
            elif await self._takes(heard.text):
                raise CommandTaken
            else:
                return heard.text

    def _ask(self, prompt: str) -> None:
        self._screen.ask_in_lines("answer", wrapped(prompt, room(self._screen)[0]))

    async def _set_aside(self) -> None:
        """Let no line answer that has come by now."""
        lines = [line for line in await self._answers.set_aside() if line.strip()]
        if not lines:
            return
        came = f"{counted(len(lines), 'line')} came before the question, and can be no answer to it"
        if self._keep is None:
            self._tell(f"{came}: not taken")
        else:
            self._answers.keep(lines)
            self._tell(f"{came}: kept for later, as {'messages' if len(lines) > 1 else 'a message'}")

    async def _takes(self, line: str) -> bool:
        """Whether the line is a command, which is carried out."""
        if self._keep is None or line.strip() != LATER:
            return await self._commands(line)
        dropped, self._dropped = self._dropped, None
        if dropped is None:
            self._tell("there is no line to keep")
        else:
            await self._keep(dropped)
        return True

    def _refuse(self, line: str, why: str) -> None:
        """Tell that the line is not an answer; it is dropped, unless the person wants to keep it."""
        if not line.strip():
            self._tell(why)
        elif self._keep is None:
            self._tell(f"{why}; it was not taken")
        else:
            self._dropped = line
            self._tell(f"{why}; it is dropped, unless you type {LATER}: that keeps it as a message for later")

    def _tell(self, text: str) -> None:
        self._screen.block("", wrapped(printable(text), room(self._screen)[0]))


def _put(call: AskedCall, prompt: str, page: int | None) -> None:
    """Show the call, or a page of its input."""
    if page is None:
        call.put(prompt)
    else:
        call.put_page(page, prompt)


def _has_changed(driver: Driver, shown: WaitingCall) -> bool:
    """Whether the call waits, but is another one than was shown."""
    waiting = first_waiting(driver)
    return waiting is not None and waiting.address == shown.address and not waiting.is_shown_by(shown)


def first_waiting(driver: Driver) -> WaitingCall | None:
    """The first call that waits for a person, where nothing else is under way."""
    return _first_within(driver, ()) if isinstance(driver.state, Confirming) else None


def _first_within(driver: Driver, within: Address) -> WaitingCall | None:
    state = driver.state_of(within)
    if not isinstance(state, WITH_CALLS):
        return None
    for entry in state.ledger.entries:
        if isinstance(entry.person.wait, ChildWait):
            found = _first_within(driver, (*within, entry.call.id))
            if found is not None:
                return found
        elif entry.status is CallStatus.BLOCKED_ON_USER:
            return WaitingCall(within, entry, state.session.settings.tools)
    return None


def why_asked(name: str, tools: tuple[Tool, ...]) -> str:
    """Why a call of the tool is not just run."""
    profile = next((tool.profile for tool in tools if tool.name == name), None)
    if profile is None:
        return "nothing is known about what this tool does: it has no profile"
    asks = "its profile asks" if profile.approval is Decision.ASK else "a rule of the policy asks"
    match profile.effect:
        case EffectClass.READ_ONLY:
            return f"{asks} each time, though this tool only reads"
        case EffectClass.IDEMPOTENT:
            return f"this tool changes what it names, and {asks} each time"
        case EffectClass.DANGEROUS:
            return f"what this tool does may not be undone, and {asks} each time"
        case _:
            assert_never(profile.effect)
