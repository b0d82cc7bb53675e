"""What can be asked over HTTP, as data: routes are made of it, bodies are judged by it, and clients are told it."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import InputFate, RefusalReason

Schema = dict[str, JsonValue]

STREAM = "text/event-stream"
LONGEST_TEXT = 1_000_000  # characters of a message
LONGEST_ID = 100
MOST_BYTES = 4_000_000  # of a body
MOST_AG_UI_BYTES = 32_000_000  # its clients send all messages each time, with their pictures
MOST_LISTED = 1_000

RUN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_ID - 1}}}")
RUN_ID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
    "maxLength": LONGEST_ID,
    "description": "The id of a run.",
}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT, "description": "What is said."}
_KEY: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_ID,
    "description": "Any text that no other message has: said twice with one key, a message is taken once.",
}


def _object(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    listed: list[JsonValue] = [*required]
    return {"type": "object", "properties": properties, "required": listed, "additionalProperties": False}


_ANSWERS: list[JsonValue] = ["yes", "always", "no", "edit", "say", "decline", "rerun", "cancel", "done"]
BEGUN = _object({"run": RUN_ID, "text": _TEXT, "key": _KEY})
SAID = _object({"text": _TEXT, "key": _KEY}, ("text",))
EDITED = _object({"message": {"type": "integer", "minimum": 1}, "text": _TEXT, "key": _KEY}, ("message", "text"))
CANCELLED = _object({"call": {"type": "string", "description": "One call; without it, all that is under way."}})
FORKED = _object({"at": {"type": "integer", "minimum": 1, "description": "After which record of the log."}}, ("at",))
ANSWERED = _object(
    {
        "asked": {"type": "string", "description": "The id of exactly the question that is answered."},
        "answer": {"enum": _ANSWERS, "description": "One of the `answers` of the question."},
        "why": {"type": "string", "maxLength": LONGEST_TEXT, "description": "Beside `no`: told to the model."},
        "text": {"type": "string", "maxLength": LONGEST_TEXT, "description": "Beside `say` and `done`."},
        "input": {"type": "object", "description": "Beside `edit`: the whole new input."},
    },
    ("asked", "answer"),
)

_RUN = _object({"run": RUN_ID}, ("run",))
_WAITING = _object(
    {
        "asked": {"type": "string"},
        "call": {"type": "string"},
        "tool": {"type": "string"},
        "input": {"description": "Exactly what will run."},
        "question": {"type": ["string", "null"], "description": "What a running tool asks; else it is an approval."},
        "after_crash": {"type": "boolean", "description": "Nobody knows how far it came before a crash."},
        "answers": {"type": "array", "items": {"enum": _ANSWERS}},
    },
    ("asked", "call", "tool", "input", "question", "after_crash", "answers"),
)
_STATUS = _object(
    {
        "run": RUN_ID,
        "state": {"type": "string", "description": "Where the loop stands, as specs/states.md names it."},
        "reason": {"type": ["string", "null"], "description": "Why the last turn ended."},
        "text": {"type": "string", "description": "The last text of the model."},
        "usage": _object({"input": {"type": "integer"}, "output": {"type": "integer"}}, ("input", "output")),
        "waiting": {"type": "array", "items": _WAITING},
        "last_event": {"type": ["string", "null"], "description": "Send it as Last-Event-ID to hear what follows."},
    },
    ("run", "state", "reason", "text", "usage", "waiting", "last_event"),
)
_FATE = _object({"run": RUN_ID, "fate": {"enum": [fate.value for fate in InputFate]}}, ("run", "fate"))
_LIST = _object(
    {
        "runs": {
            "type": "array",
            "items": _object(
                {
                    "run": RUN_ID,
                    "records": {"type": "integer"},
                    "first_ms": {"type": "integer"},
                    "last_ms": {"type": "integer"},
                },
                ("run", "records", "first_ms", "last_ms"),
            ),
        },
        "total": {"type": "integer"},
    },
    ("runs", "total"),
)
ERROR = _object({"error": {"type": "string"}, "message": {"type": "string"}}, ("error", "message"))
_MOST: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 30}
_WITHIN: Schema = {
    "type": "string",
    "pattern": "^[0-9]+[.][0-9]+(/[0-9]+[.][0-9]+)*$",
    "description": "The events of a sub-agent: that of the call of this id, or of a path of such, as 2.1/1.1.",
}
_AG_UI: Schema = {"type": "object", "description": "RunAgentInput of the Agent User Interaction Protocol."}
_REASONS = ", ".join(reason.value for reason in RefusalReason)


@frozen
class Operation:
    """One thing that can be asked. `answer` is the schema of what comes back; a text: the type of a stream."""

    method: str
    path: str
    name: str
    summary: str
    status: int = field(default=200, kw_only=True)
    body: Schema | None = field(default=None, kw_only=True)
    most_bytes: int = field(default=MOST_BYTES, kw_only=True)
    answer: Schema | str = field(default=STREAM, kw_only=True)
    headers: Mapping[str, str] = field(factory=lambda: MappingProxyType({}), kw_only=True)
    query: Mapping[str, Schema] = field(factory=lambda: MappingProxyType({}), kw_only=True)


def _get(path: str, name: str, summary: str, answer: Schema | str, **query: Schema) -> Operation:
    return Operation("GET", path, name, summary, answer=answer, query=query)


def _post(path: str, name: str, summary: str, body: Schema, answer: Schema | str, status: int = 200) -> Operation:
    return Operation("POST", path, name, summary, body=body, answer=answer, status=status)


OPERATIONS = (
    _get("/runs", "list_runs", "The latest runs, the latest last.", _LIST, most=_MOST),
    _post("/runs", "start", "Begin a run, and say something in it.", BEGUN, _RUN, 201),
    _get("/runs/{run}", "status", "Where a run stands, and what waits for a person.", _STATUS),
    Operation(
        "GET",
        "/runs/{run}/events",
        "events",
        "What happens in a run, from its beginning on, or behind Last-Event-ID; and what follows.",
        headers={"Last-Event-ID": "The id of the last event that the client has."},
        query={"within": _WITHIN},
    ),
    _post("/runs/{run}/say", "say", f"Say something. Refused with 409 and one of: {_REASONS}.", SAID, _FATE),
    _post("/runs/{run}/steer", "steer", "Say something that the next request already tells the model.", SAID, _FATE),
    _post("/runs/{run}/enqueue", "enqueue", "Say something after the turn that is under way.", SAID, _FATE),
    _post(
        "/runs/{run}/edit", "edit", "Replace an earlier message of the user, and drop what followed it.", EDITED, _FATE
    ),
    _post("/runs/{run}/cancel", "cancel", "Stop what is under way.", CANCELLED, _RUN),
    _post(
        "/runs/{run}/answer",
        "answer",
        "Answer a call that waits for a person: exactly the one that was shown.",
        ANSWERED,
        _RUN,
    ),
    _post("/runs/{run}/fork", "fork", "A new run that leaves this one after a record of its log.", FORKED, _RUN, 201),
    Operation(
        "POST",
        "/ag-ui",
        "ag_ui",
        "One run of AG-UI: what its clients send, and its events.",
        body=_AG_UI,
        most_bytes=MOST_AG_UI_BYTES,
    ),
    _get("/openapi.json", "openapi", "This description.", {"type": "object"}),
)
