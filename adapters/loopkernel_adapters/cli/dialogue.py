"""What waits for a person, put to the person one at a time: a call to approve, or the question of a running tool."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

from attrs import frozen
from loopkernel.data.blocks import RawInput
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
from loopkernel.planning.redaction import REDACTED, redacted_call_input
from loopkernel.replay import LogRecord

from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.optional_ports import Address, NoSuchAgent

LONGEST_SHOWN = 2_000  # characters of an input or a question; all of it is shown on request
NOBODY = "Nobody could be asked: there is no input from a person, or no more of it."

COMPACT = "/compact"  # typed in the place of an answer

Answer = Approve | Reject | Correct | AnswerQuestion | AnswerAfterCrash | CompactNow

# Takes a line in the place of an answer, and returns whether it was one for it.
Commands = Callable[[str], Awaitable[bool]]


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


class Dialogue:
    """Asks the person behind `answers`, on the screen. `see` observes the driver, whose `records` are looked at.

    A line that `commands` takes is no answer. `at_end` is called when the input has ended, and may raise.
    """

    def __init__(
        self,
        answers: LineInput,
        screen: Screen,
        records: Sequence[LogRecord],
        commands: Commands = no_commands,
        at_end: Callable[[], None] = decline,
    ) -> None:
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
        else:
            await self._send(driver, answer, waiting.within)

    async def _answer_in_time(self, driver: Driver, waiting: WaitingCall) -> Answer | None:
        """The answer; None when the call has stopped waiting, or may have, by a command."""
        asking = asyncio.ensure_future(self._answer(waiting))
        settled = asyncio.ensure_future(self._settled(driver, waiting.address))
        try:
            await asyncio.wait({asking, settled}, return_when=asyncio.FIRST_COMPLETED)
            return None if settled.done() else asking.result()
        except CommandTaken:
            return None
        finally:
            asking.cancel()
            settled.cancel()
            await asyncio.wait({asking, settled})

    async def _settled(self, driver: Driver, address: Address) -> None:
        """Wait until the call is no longer the first that waits."""
        while (waiting := first_waiting(driver)) is not None and waiting.address == address:
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
        self._answers.forget_typing()
        if waiting.within:
            self._screen.labelled("sub-agent", f"of call {in_words(waiting.within)}, for its call {entry.call.id}")
        if entry.question is not None:
            return await self._answer_question(entry.call.id, entry.question)
        if isinstance(entry.person.wait, CrashWait):
            return await self._answer_after_crash(entry)
        call, given = entry.call.id, shown_input(entry.given)
        self._screen.labelled("tool", entry.tool)
        self._screen.labelled("input", in_one_line(given, LONGEST_SHOWN, "; answer `show` to see all of it"))
        self._screen.labelled("because", why_asked(entry.tool, waiting.tools))
        while True:
            line = await self._ask(f"yes, always (each {entry.tool} from now on), no [WHY], edit [JSON]?")
            if line is None:
                return self._reject_unasked(call)
            word, _, rest = line.strip().partition(" ")
            match word.lower().rstrip(",.;:!"):
                case "y" | "yes" | "approve":
                    return Approve(call=call)
                case "a" | "always":
                    return Approve(call=call, remember=RememberTool())
                case "n" | "no" | "reject":
                    return Reject(call=call, why=rest.strip())
                case "e" | "edit":
                    edited = await self._edit(call, rest.strip())
                    if edited is not None:
                        return edited
                case "s" | "show":
                    self._screen.line(given)
                case command if command == COMPACT:
                    return CompactNow()
                case _:
                    self._tell("answer with one of these words, or its first letter; `show` shows the whole input")

    async def _edit(self, call: CallId, text: str) -> Correct | Reject | None:
        """The call with the new input that the text says, or else that is asked for; None when it is no input."""
        line: str | None = text or await self._ask("the new input, as JSON in one line:")
        if line is None:
            return self._reject_unasked(call)
        if REDACTED in line:
            self._tell(f"the new input holds {REDACTED}, which is shown in the place of a value; give the value itself")
            return None
        try:
            return Correct(call=call, input=Json.parse(line))
        except CodecError as error:
            where = {fault: "" if fault.path == "$" else f" at {fault.path}" for fault in error.faults}
            self._tell("; ".join(f"the new input{place} {fault.problem}" for fault, place in where.items()))
            return None

    async def _answer_question(self, call: CallId, question: str) -> AnswerQuestion:
        line = await self._ask(f"{in_one_line(question, LONGEST_SHOWN)} (an empty line declines)")
        if line is None:
            self._tell("declined: there is no input, so nobody can be asked")
        return AnswerQuestion(call=call, value=Json.of(line.strip()) if line and line.strip() else None)

    async def _answer_after_crash(self, entry: LedgerEntry) -> AnswerAfterCrash:
        call = entry.call.id
        self._screen.labelled("tool", entry.tool)
        self._screen.labelled("input", in_one_line(shown_input(entry.given), LONGEST_SHOWN))
        self._screen.labelled("because", "it was running when the process ended; nobody knows how far it came")
        while True:
            line = await self._ask("done [WHAT IT GAVE], rerun, cancel?")
            word, _, rest = (line or "cancel").strip().partition(" ")
            match word.lower().rstrip(",.;:!"):
                case "d" | "done":
                    return AnswerAfterCrash(call=call, kind=CrashAnswerKind.DONE, text=rest.strip())
                case "r" | "rerun":
                    return AnswerAfterCrash(call=call, kind=CrashAnswerKind.RERUN)
                case "c" | "cancel":
                    return AnswerAfterCrash(call=call, kind=CrashAnswerKind.CANCEL)
                case _:
                    self._tell("answer with one of these words, or its first letter")

    def _reject_unasked(self, call: CallId) -> Reject:
        self._tell("rejected: there is no input, so nobody can be asked")
        return Reject(call=call, why=NOBODY)

    async def _ask(self, text: str) -> str | None:
        self._screen.ask("answer", text)
        line = await self._answers.line()
        self._screen.answered(line, echoed=self._answers.is_terminal)
        if line is None:
            self._at_end()
        elif await self._commands(line):
            raise CommandTaken
        return line

    def _tell(self, text: str) -> None:
        self._screen.labelled("", text)


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


def shown_input(given: Json | RawInput) -> str:
    """The input of a call as a person is shown it: without what secrets are in it, as readable as one line can be."""
    shown = redacted_call_input(given)
    return json.dumps(shown.value(), ensure_ascii=False) if isinstance(shown, Json) else shown.text


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
