"""Calls that wait for a person, put to a program far away, and its answers, each bound to exactly what was asked.

A question has an id that is made of all that it shows: which call, which tool, which input, and why it waits. An answer
names that id. So an answer to another question, or to this one before its input was changed, answers nothing.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping

from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    Approve,
    CallAnswer,
    Correct,
    CrashAnswerKind,
    Reject,
    RememberTool,
)
from loopkernel_adapters.sessions.waiting_calls import WaitingCall, answer_in_full

LENGTH = 32  # hexadecimal digits of an id

# What may be said to each kind of question, and the one field that may stand beside it.
TO_APPROVAL: Mapping[str, str | None] = {"yes": None, "always": None, "no": "why", "edit": "input"}
TO_QUESTION: Mapping[str, str | None] = {"say": "text", "decline": None}
AFTER_CRASH: Mapping[str, str | None] = {"rerun": None, "cancel": None, "done": "text"}


class NoAnswer(ValueError):
    """What was given does not answer the question. The message says why."""


def address_of(call: WaitingCall) -> str:
    """How the call is named: its id, behind those of the calls whose sub-agents it was made in."""
    return "/".join(map(str, call.path))


def asked_id(call: WaitingCall, run: str) -> str:
    """The id of the question: another one for each other question."""
    asked = [run, address_of(call), call.tool, _kind(call), _given(call), call.question, call.after_crash]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:LENGTH]


def asked_as_json(call: WaitingCall, run: str) -> dict[str, JsonValue]:
    """The question: what is asked, exactly, and what may be said to it."""
    return {
        "asked": asked_id(call, run),
        "call": address_of(call),
        "tool": call.tool,
        "input": call.input.value() if isinstance(call.input, Json) else call.input.text,
        "question": call.question,
        "after_crash": call.after_crash,
        "answers": list(asked_words(call)),
    }


def call_asked(calls: Iterable[WaitingCall], run: str, asked: object) -> WaitingCall | None:
    """The call whose question has that id; None: none of them has."""
    return next((call for call in calls if asked_id(call, run) == asked), None)


def answer_to(call: WaitingCall, given: Mapping[str, JsonValue]) -> CallAnswer:
    """The answer in full. `given` has the word as `answer`, and what stands beside it. Raises NoAnswer."""
    words, word = asked_words(call), given.get("answer")
    if not isinstance(word, str) or word not in words:
        raise NoAnswer(f"the answer to this question is one of {', '.join(words)}")
    beside = words[word]
    others = given.keys() - {"asked", "answer", beside}
    if others:
        raise NoAnswer(f"this is not part of the answer {word}: {', '.join(sorted(others))}")
    value = "" if beside is None else given.get(beside, "")
    last = call.path[-1]
    if word == "edit":
        if not isinstance(value, dict):
            raise NoAnswer("input is to be the whole new input, an object")
        return Correct(call=last, input=Json.of(value))
    if not isinstance(value, str):
        raise NoAnswer(f"{beside} is to be a text")
    if call.question is not None:
        return answer_in_full(call, value if word == "say" else None)
    if call.after_crash:
        return AnswerAfterCrash(call=last, kind=CrashAnswerKind(word), text=value)
    if word == "no":
        return Reject(call=last, why=value)
    return Approve(call=last, remember=RememberTool() if word == "always" else None)


def asked_words(call: WaitingCall) -> Mapping[str, str | None]:
    """What may be said to the question, each with the field that may stand beside it."""
    if call.question is not None:
        return TO_QUESTION
    return AFTER_CRASH if call.after_crash else TO_APPROVAL


def _kind(call: WaitingCall) -> str:
    return "arguments that do not parse" if isinstance(call.input, RawInput) else "input"


def _given(call: WaitingCall) -> str:
    return call.input.text
