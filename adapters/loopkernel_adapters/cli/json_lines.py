"""`--json`: what happens, and what is asked, as one JSON object a line; the result is the last of them.

`docs/json-protocol.md` has the protocol for those who write programs, and its version; a test holds this to the page's
schema. An answer names its call, and counts for the "ask" that came before it alone: a line that was there already when
the call was asked about is none.
"""

import json
from collections.abc import Sequence

from loopkernel.codec import effects_to_text
from loopkernel.data.errors import CodecError
from loopkernel.data.events import Event, TurnEnded
from loopkernel.data.json_text import Json, JsonValue, parse_json
from loopkernel.data.ledgers import CrashWait
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Done, State
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    Correct,
    CrashAnswerKind,
    Reject,
    RememberTool,
)
from loopkernel.data.words import TurnEndReason
from loopkernel.later_typing import override

from loopkernel_adapters.cli.dialogue import (
    EARLY,
    NOBODY,
    Answer,
    CommandTaken,
    Dialogue,
    WaitingCall,
    why_asked,
)
from loopkernel_adapters.cli.introduction import introduction_as_json
from loopkernel_adapters.cli.line_input import Heard
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.session import Played, Teller, Workbench
from loopkernel_adapters.cli.shown_text import given_text
from loopkernel_adapters.cli.summary import status_of
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.cli.words import cause_of
from loopkernel_adapters.driver.children import last_said
from loopkernel_adapters.optional_ports import Address

Object = dict[str, JsonValue]

PROTOCOL = 1  # its version: a change that a program would notice makes it another


def put(screen: Screen, line: Object) -> None:
    """Write the object as one line, in ASCII."""
    screen.line(json.dumps(line))


class JsonTeller(Teller):
    """Writes each event as the codec does. `records` is the log so far, which has the cause of a failure."""

    def __init__(self, screen: Screen, records: Sequence[LogRecord]) -> None:
        self._screen = screen
        self._records = records

    @override
    def event(self, event: Event, state: State, within: Address = ()) -> None:
        line: Object = {"type": "event"}
        if within:
            line["within"] = list(map(str, within))
        elif cause := cause_of(event, self._records):
            line["cause"] = cause
        put(self._screen, {**line, "event": event_as_json(event)})


def event_as_json(event: Event) -> JsonValue:
    """The event as data."""
    found: JsonValue = json.loads(effects_to_text((event,)))
    return found[0] if isinstance(found, list) else found


def tell_beginning(bench: Workbench, screen: Screen) -> None:
    """Which run it is, what it goes by, and how it can be gone on with."""
    put(screen, {"type": "run", "protocol": PROTOCOL, **introduction_as_json(bench)})


def tell_result(played: Played, bench: Workbench, screen: Screen, left: bool = False) -> ExitStatus:
    """How it ended; the exit status. `left`: whoever gives the input has left a session that could go on."""
    state, events = played.witnessed.state, played.witnessed.events
    ends = [event for event in events if isinstance(event, TurnEnded)]
    status = status_of(ends[-1].reason if ends else None, played.ended_by)
    if left and not ends and played.ended_by is None:
        status = ExitStatus.NATURAL_END
    _put_result(screen, status, ends[-1].reason if ends else None, state, bench.run)
    return status


def tell_over(state: Done, run: str, screen: Screen) -> ExitStatus:
    """That the run was over before, and how; the exit status."""
    status = status_of(state.reason)
    _put_result(screen, status, state.reason, state, run)
    return status


def _put_result(screen: Screen, status: ExitStatus, reason: TurnEndReason | None, state: State, run: str) -> None:
    usage = state.session.usage if state.session is not None else NO_USAGE
    put(
        screen,
        {
            "type": "result",
            "status": int(status),
            "outcome": None if reason is None else reason.value,
            "state": type(state).__name__,
            "run": run,
            "text": last_said(state),
            "usage": {"input": usage.input, "output": usage.output},
        },
    )


def message_in(line: str) -> str:
    """The message that a line is: the text of {"say": TEXT}, or the line as it is."""
    said = said_in_object(line)
    return (line if said is None else said).strip()


def said_in_object(line: str) -> str | None:
    """The text of {"say": TEXT}; None of another line."""
    try:
        given = parse_json(line) if line.lstrip().startswith("{") else None
    except CodecError:
        given = None
    text = given.get("say") if isinstance(given, dict) and len(given) == 1 else None
    return text if isinstance(text, str) else None


def tell_failure(message: str, screen: Screen) -> None:
    """That it could not go on."""
    put(screen, {"type": "result", "status": int(ExitStatus.UNUSABLE), "outcome": None, "error": message})


class JsonDialogue(Dialogue):
    """Asks a program: an object of what is asked, and a line in return. Without one, everything is denied."""

    @override
    async def _answer(self, waiting: WaitingCall) -> Answer:
        entry = waiting.entry
        asked: Object = {"type": "ask", "call": in_words(waiting.address), "tool": entry.tool}
        if entry.question is not None:
            asked["question"] = entry.question
        else:
            asked["input"] = given_text(entry.given)
            asked["because"] = why_asked(entry.tool, waiting.tools)
        if isinstance(entry.person.wait, CrashWait):
            asked["because"] = "it was running when the process ended; answer done, rerun or cancel"
        while True:
            await self._set_aside()
            put(self._screen, asked)
            heard = await self._answers.answer()
            if heard is None:
                self._at_end()
                return _denied(waiting)
            answer = await self._answer_in(heard, waiting)
            if answer is not None:
                return answer

    async def _answer_in(self, heard: Heard, waiting: WaitingCall) -> Answer | None:
        """The answer, or None where there is none and the reason has been told. Raises CommandTaken."""
        if heard.early:
            self._tell(EARLY)
            return None
        said = said_in_object(heard.text)
        if self._keep is not None and said is not None:
            await self._keep(said)
            raise CommandTaken
        if await self._takes(heard.text):
            raise CommandTaken
        try:
            return read_answer(heard.text, waiting)
        except (CodecError, NoAnswer) as error:
            self._tell(f"no answer: {error}")
            return None

    @override
    def _tell(self, text: str) -> None:
        put(self._screen, {"type": "note", "text": text})


def _denied(waiting: WaitingCall) -> Answer:
    call = waiting.entry.call.id
    if waiting.entry.question is not None:
        return AnswerQuestion(call=call, value=None)
    if isinstance(waiting.entry.person.wait, CrashWait):
        return AnswerAfterCrash(call=call, kind=CrashAnswerKind.CANCEL)
    return Reject(call=call, why=NOBODY)


class NoAnswer(ValueError):
    """A line does not answer what is asked; the reason, in words."""


# What may stand beside the call and the answer.
_BESIDE = {"yes": (), "always": (), "no": ("why",), "edit": ("input",), "done": ("text",), "rerun": (), "cancel": ()}


def is_answer(line: str) -> bool:
    """Whether the line is an answer to a call, whichever."""
    try:
        given = parse_json(line) if line.lstrip().startswith("{") else None
    except CodecError:
        return False
    return isinstance(given, dict) and {"call", "answer"} <= given.keys()


def read_answer(line: str, waiting: WaitingCall) -> Answer:
    """What the line says of the call. Raises NoAnswer, and CodecError for JSON that is none."""
    asked, call = in_words(waiting.address), waiting.entry.call.id
    given = parse_json(line) if line.lstrip().startswith("{") else None
    if not isinstance(given, dict) or "answer" not in given:
        raise NoAnswer(f'give an object that names the call: {{"call": "{asked}", "answer": ...}}')
    if given.get("call") != asked:
        raise NoAnswer(f'"call" has to be "{asked}", the call that is asked about')
    if waiting.entry.question is not None:
        _demand_only(given, ())
        return AnswerQuestion(call=call, value=None if given["answer"] is None else Json.of(given["answer"]))
    word = given["answer"]
    after_crash = isinstance(waiting.entry.person.wait, CrashWait)
    words = [kind.value for kind in CrashAnswerKind] if after_crash else ["yes", "always", "no", "edit"]
    if not isinstance(word, str) or word not in words:
        raise NoAnswer(f'"answer" has to be one of {", ".join(words)}')
    _demand_only(given, _BESIDE[word])
    beside = next(iter(_BESIDE[word]), None)
    text = "" if beside is None else given.get(beside, "")
    if word == "edit":
        if not isinstance(text, dict):
            raise NoAnswer('"input" has to be the new input, an object')
        return Correct(call=call, input=Json.of(text))
    if not isinstance(text, str):
        raise NoAnswer(f'"{beside}" has to be a text')
    if after_crash:
        return AnswerAfterCrash(call=call, kind=CrashAnswerKind(word), text=text)
    if word == "no":
        return Reject(call=call, why=text)
    return Approve(call=call, remember=RememberTool() if word == "always" else None)


def _demand_only(given: Object, beside: tuple[str, ...]) -> None:
    others = given.keys() - {"call", "answer", *beside}
    if others:
        raise NoAnswer(f"this is not part of the answer: {', '.join(sorted(others))}")
