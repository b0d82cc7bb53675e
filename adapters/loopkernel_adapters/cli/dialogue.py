"""What waits for a person, put to the person one at a time: a call to approve, or the question of a running tool."""

import asyncio
import json
from collections.abc import Sequence
from typing import assert_never

from loopkernel.data.blocks import RawInput
from loopkernel.data.errors import CodecError
from loopkernel.data.events import EditRefused, Event, Refused
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.states import Confirming
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, Tool
from loopkernel.data.user_deltas import AnswerQuestion, Approve, Correct, Reject, RememberTool
from loopkernel.data.words import CallStatus, RefusalReason, UserAction
from loopkernel.planning.redaction import REDACTED, redacted_call_input
from loopkernel.replay import LogRecord

from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.driver.asyncio_driver import Driver

LONGEST_SHOWN = 2_000  # characters of an input or a question; all of it is shown on request
NOBODY = "Nobody could be asked: there is no input from a person, or no more of it."

Answer = Approve | Reject | Correct | AnswerQuestion


class Dialogue:
    """Asks the person behind `answers`, on the screen. `see` observes the driver, whose `records` are looked at."""

    def __init__(self, answers: LineInput, screen: Screen, records: Sequence[LogRecord]) -> None:
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

    async def attend(self, driver: Driver) -> None:
        """Have the first call that waits answered; or return as soon as it waits no longer, for whatever reason."""
        state = driver.state
        entry = first_waiting(driver)
        if entry is None or not isinstance(state, Confirming):
            return
        answer = await self._answer_in_time(driver, entry, state.session.settings.tools)
        if answer is None:
            self._screen.end_stream()
        else:
            await self._send(driver, answer)

    async def _answer_in_time(self, driver: Driver, entry: LedgerEntry, tools: tuple[Tool, ...]) -> Answer | None:
        """The answer; None when the call has stopped waiting."""
        asking = asyncio.ensure_future(self._answer(entry, tools))
        settled = asyncio.ensure_future(self._settled(driver, entry.call.id))
        try:
            await asyncio.wait({asking, settled}, return_when=asyncio.FIRST_COMPLETED)
            return None if settled.done() else asking.result()
        finally:
            asking.cancel()
            settled.cancel()
            await asyncio.wait({asking, settled})

    async def _settled(self, driver: Driver, call: CallId) -> None:
        """Wait until the call is no longer the first that waits."""
        while (entry := first_waiting(driver)) is not None and entry.call.id == call:
            self._moved.clear()
            await self._moved.wait()

    async def _send(self, driver: Driver, answer: Answer) -> None:
        """Give the answer to the kernel, and tell why it is not taken."""
        before = len(self._records)
        self._refusal = None
        await driver.send(answer)
        if self._refusal is None:
            return
        checked = [record.delta for record in self._records[before:] if isinstance(record.delta, ToolChecked)]
        faults = [check.verdict.why for check in checked if isinstance(check.verdict, InvalidCall)]
        self._tell(f"refused, since it is {self._refusal.value}{''.join(f': {why}' for why in faults)}")

    # --- the questions ---

    async def _answer(self, entry: LedgerEntry, tools: tuple[Tool, ...]) -> Answer:
        self._answers.forget_typing()
        if entry.question is not None:
            return await self._answer_question(entry.call.id, entry.question)
        call, given = entry.call.id, shown_input(entry.given)
        self._screen.labelled("tool", entry.tool)
        self._screen.labelled("input", in_one_line(given, LONGEST_SHOWN, "; answer `show` to see all of it"))
        self._screen.labelled("because", why_asked(entry.tool, tools))
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
            self._tell(f"the new input {'; '.join(fault.problem for fault in error.faults)}")
            return None

    async def _answer_question(self, call: CallId, question: str) -> AnswerQuestion:
        line = await self._ask(f"{in_one_line(question, LONGEST_SHOWN)} (an empty line declines)")
        if line is None:
            self._tell("declined: there is no input, so nobody can be asked")
        return AnswerQuestion(call=call, value=Json.of(line.strip()) if line and line.strip() else None)

    def _reject_unasked(self, call: CallId) -> Reject:
        self._tell("rejected: there is no input, so nobody can be asked")
        return Reject(call=call, why=NOBODY)

    async def _ask(self, text: str) -> str | None:
        self._screen.ask("answer", text)
        line = await self._answers.line()
        self._screen.answered(line, echoed=self._answers.is_terminal)
        return line

    def _tell(self, text: str) -> None:
        self._screen.labelled("", text)


def first_waiting(driver: Driver) -> LedgerEntry | None:
    """The first call that waits for a person, where nothing else is under way."""
    state = driver.state
    if not isinstance(state, Confirming):
        return None
    return next((entry for entry in state.ledger.entries if entry.status is CallStatus.BLOCKED_ON_USER), None)


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
