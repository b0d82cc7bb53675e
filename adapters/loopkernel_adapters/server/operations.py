"""What can be asked over HTTP, as data: routes are made of it, bodies are judged by it, and clients are told it."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import InputFate, RefusalReason

Schema = dict[str, JsonValue]

LONGEST_TEXT = 1_000_000  # characters of a message
LONGEST_ID = 100
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
NOTHING = _object({})
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
_REASONS = ", ".join(reason.value for reason in RefusalReason)


@frozen(kw_only=True)
class Operation:
    """One thing that can be asked. `answer` is the schema of what comes back; a text: the type of a stream."""

    method: str
    path: str
    name: str
    summary: str
    status: int = 200
    body: Schema | None = None
    answer: Schema | str = NOTHING
    headers: Mapping[str, str] = field(factory=lambda: MappingProxyType({}))
    query: Mapping[str, Schema] = field(factory=lambda: MappingProxyType({}))


OPERATIONS = (
    Operation(
        method="GET",
        path="/runs",
        name="list_runs",
        summary="The latest runs, the latest last.",
        query={"most": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 30}},
        answer=_LIST,
    ),
    Operation(
        method="POST",
        path="/runs",
        name="start",
        summary="Begin a run, and say something in it.",
        status=201,
        body=BEGUN,
        answer=_RUN,
    ),
    Operation(
        method="GET",
        path="/runs/{run}",
        name="status",
        summary="Where a run stands, and what waits for a person.",
        answer=_STATUS,
    ),
    Operation(
        method="GET",
        path="/runs/{run}/events",
        name="events",
        summary="What happens in a run, from its beginning on, or behind Last-Event-ID; and what follows.",
        answer="text/event-stream",
        headers={"Last-Event-ID": "The id of the last event that the client has."},
    ),
    Operation(
        method="POST",
        path="/runs/{run}/say",
        name="say",
        summary=f"Say something. Refused with 409 and one of: {_REASONS}.",
        body=SAID,
        answer=_FATE,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/steer",
        name="steer",
        summary="Say something that the next request already tells the model.",
        body=SAID,
        answer=_FATE,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/enqueue",
        name="enqueue",
        summary="Say something after the turn that is under way.",
        body=SAID,
        answer=_FATE,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/edit",
        name="edit",
        summary="Replace an earlier message of the user, and drop what followed it.",
        body=EDITED,
        answer=_FATE,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/cancel",
        name="cancel",
        summary="Stop what is under way.",
        body=CANCELLED,
        answer=_RUN,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/answer",
        name="answer",
        summary="Answer a call that waits for a person: exactly the one that was shown.",
        body=ANSWERED,
        answer=_RUN,
    ),
    Operation(
        method="POST",
        path="/runs/{run}/fork",
        name="fork",
        summary="A new run that leaves this one after a record of its log.",
        status=201,
        body=FORKED,
        answer=_RUN,
    ),
    Operation(
        method="POST",
        path="/ag-ui",
        name="ag_ui",
        summary="One run of AG-UI: what its clients send, and its events.",
        body={"type": "object", "description": "RunAgentInput of the Agent User Interaction Protocol."},
        answer="text/event-stream",
    ),
    Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        summary="This description.",
        answer={"type": "object"},
    ),
)
