"""A run that goes on, with its sub-agents: told anew by what the logs hold now, and what waits for a person in it.

What is asked is told beside the run and not in it, and never shortened: a question that is too long to be shown whole
cannot be answered here.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue, parse_json
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.user_deltas import CallAnswer

from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.sessions.asked_calls import address_of, answer_to, asked_id, asked_words, call_asked
from loopkernel_adapters.sessions.waiting_calls import WaitingCall, calls_waiting
from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.run import Note, RunDocument
from loopkernel_adapters.viewing.shown import editable, visible

ASKED_EVERY_MS = 1_000
LONGEST_ASKED = 100_000  # characters of an input that can be shown whole
HERE = ("yes", "always", "no", "edit", "say", "decline", "rerun", "cancel")  # what can be answered in the page

Log = Sequence[LogRecord]


class NotAnswered(Exception):
    """The question cannot be answered here, or not now. The message says why, and what to do."""


@frozen(kw_only=True)
class Looking:
    """How a run is looked at: its log, those of its sub-agents by their names, what is wrong with one, and who answers.

    `answer` has exactly that call answered, wherever the run is; None: nobody can here. It raises NotAnswered.
    """

    read: Callable[[], Log]
    read_sub_agents: Callable[[], Mapping[str, Log]] = dict
    judge: Callable[[Log], Sequence[Note]] | None = None
    answer: Callable[[WaitingCall, CallAnswer], None] | None = None


class LiveRun:
    """The documents of a run and of its sub-agents, as their logs are each time that they are looked at."""

    def __init__(self, name: str, looking: Looking) -> None:
        self._name, self._looking = name, looking
        self._by_name = {name: RunDocument(name=name)}  # the run itself first, and a new one last
        self._judged: dict[str, int] = {}  # how long each was when it was judged
        self._lock = threading.Lock()

    @property
    def _documents(self) -> list[RunDocument]:
        return list(self._by_name.values())

    def whole(self) -> dict[str, JsonValue]:
        """All of it so far."""
        with self._lock:
            self._catch_up()
            return document_of(
                self._name, self._documents, asked_every_ms=ASKED_EVERY_MS, asked=[*map(self._shown, self._waiting())]
            )

    def news(self, since: Sequence[int]) -> JsonValue:
        """What is new since so many steps of each document; documents that are new as a whole; and what is asked."""
        with self._lock:
            self._catch_up()
            known = self._documents[: len(since)]
            return {
                "runs": [each.news(min(at, each.length)) for each, at in zip(known, since, strict=False)],
                "more": [each.as_json() for each in self._documents[len(since) :]],
                "asked": [*map(self._shown, self._waiting())],
            }

    def edited(self, given: Mapping[str, JsonValue]) -> JsonValue:
        """Another input for the call that is named, as it would run: shown whole, with an id that is made of it.

        Raises as `answer`.
        """
        call = self._asked(given)
        changed = _changed(call, given)
        return {"input": visible(_text_of(changed), LONGEST_ASKED), "shown": asked_id(changed, self._name)}

    def answer(self, given: Mapping[str, JsonValue]) -> None:
        """Answer exactly the question that is named. Raises NotAnswered, and NoAnswer.

        An `edit` has the `text` of the new input, and the id under which that was `shown`.
        """
        call = self._asked(given)
        if self._looking.answer is None or given.get("answer") not in HERE:
            raise NotAnswered(f"the answer is one of {', '.join(HERE)}")
        if given.get("answer") == "edit":
            changed = _changed(call, given)
            if given.get("shown") != asked_id(changed, self._name):
                raise NotAnswered("this is not the input that was shown; have it shown again")
            assert isinstance(changed.input, Json)  # it was read from JSON
            given = {"answer": "edit", "input": changed.input.value()}
        self._looking.answer(call, answer_to(call, given))

    def _asked(self, given: Mapping[str, JsonValue]) -> WaitingCall:
        with self._lock:
            self._catch_up()
            call = call_asked(self._waiting(), self._name, given.get("asked"))
        if call is None:
            raise NotAnswered("nothing waits that was asked so; look at what is asked now")
        if self._looking.answer is None or not _whole(call):
            raise NotAnswered("this cannot be answered here; answer it where the run goes on")
        return call

    def _catch_up(self) -> None:
        logs = {self._name: self._looking.read(), **self._looking.read_sub_agents()}
        for name, log in logs.items():
            self._take(self._by_name.setdefault(name, RunDocument(name=name)), log)

    def _take(self, document: RunDocument, log: Log) -> None:
        """What is new of it. A log is judged when it has not grown since the last look, so not while it streams."""
        before = document.length
        document.take(log[before:])
        judge, grown = self._looking.judge, document.length > before > 0
        if judge is not None and not grown and self._judged.get(document.name) != document.length:
            self._judged[document.name] = document.length
            document.notes[:] = judge(log)

    def _waiting(self) -> tuple[WaitingCall, ...]:
        states = [each.state for each in self._documents]
        sessions = {state.session.settings.session_id: state for state in states if state.session is not None}

        def state_of(within: Address) -> State | None:
            state: State | None = states[0]
            for call in within:
                if state is None or state.session is None:
                    return None
                settings = state.session.settings
                state = sessions.get(f"{settings.session_id}/{settings.lineage}/{call}")
            return state

        return calls_waiting(state_of)

    def _shown(self, call: WaitingCall) -> JsonValue:
        """The question as it is shown: all of it, with each character that nobody sees made visible."""
        can = self._looking.answer is not None and _whole(call)
        answers: list[JsonValue] = [word for word in asked_words(call) if can and word in HERE]
        return {
            "asked": asked_id(call, self._name),
            "call": address_of(call),
            "tool": visible(call.tool, LONGEST_ASKED),
            "input": visible(_text_of(call), LONGEST_ASKED),
            "editable": editable(_text_of(call)) if "edit" in answers else None,
            "question": None if call.question is None else visible(call.question, LONGEST_ASKED),
            "after_crash": call.after_crash,
            "answers": answers,
        }


def _changed(call: WaitingCall, given: Mapping[str, JsonValue]) -> WaitingCall:
    """The call with the input that is given as text. Raises NotAnswered where that is none, or cannot be shown."""
    text = given.get("text")
    try:
        value = parse_json(text) if isinstance(text, str) else None
    except CodecError as error:
        raise NotAnswered(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotAnswered('an input is an object of JSON, as {"path": "notes.txt"}')
    changed = evolve(call, input=Json.of(value))
    if not _whole(changed):
        raise NotAnswered("this is too long to be shown whole, so it cannot be let run here")
    return changed


def _text_of(call: WaitingCall) -> str:
    if isinstance(call.input, RawInput):
        return call.input.text
    assert isinstance(call.input, Json)  # it is the one or the other
    return json.dumps(call.input.value(), ensure_ascii=False, indent=2)


def _whole(call: WaitingCall) -> bool:
    """Whether all of the question can be shown."""
    return all(len(text) <= LONGEST_ASKED for text in (_text_of(call), call.tool, call.question or ""))
