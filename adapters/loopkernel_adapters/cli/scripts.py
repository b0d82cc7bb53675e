"""A scripted model's file: what it shall say, as JSON, for runs without a model.

    [{"calls": [{"tool": "read_file", "input": {"path": "notes.txt"}}]}, {"text": "It is about milk."}]

One object for each reply, with `text`, `calls`, or both. With `fails`, an error class such as `overloaded`, the request
fails after the text, with `message` and `retry_after_ms`, both optional.
"""

import re
from pathlib import Path

from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue, parse_json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.words import ErrorClass, StopReason

from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider
from loopkernel_adapters.tools.input_schema import input_faults

LARGEST_SCRIPT = 1_000_000  # bytes
_PIECES = re.compile(r"\s*\S+\s*")  # so that the text streams word by word

_SCRIPT_SCHEMA: dict[str, JsonValue] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "fails": {"type": "string", "enum": [error.value for error in ErrorClass]},
            "message": {"type": "string"},
            "retry_after_ms": {"type": "integer", "minimum": 0},
            "calls": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"tool": {"type": "string"}, "input": {}},
                    "required": ["tool", "input"],
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
}


def read_script(path: Path) -> ScriptedProvider:
    """The model that the file describes. Raises Unusable."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_SCRIPT + 1)
    except OSError as error:
        raise Unusable(f"the script {path} cannot be read: {error.strerror}; name another file") from error
    if len(content) > LARGEST_SCRIPT:
        raise Unusable(f"the script {path} is larger than {LARGEST_SCRIPT} bytes; name another file")
    try:
        script = parse_json(content.decode("utf-8"))
        faults = list(input_faults(_SCRIPT_SCHEMA, script))
        if faults:
            raise CodecError(faults)
    except UnicodeDecodeError as error:
        raise Unusable(f"the script {path} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except CodecError as error:
        raise Unusable(f"the script {path} is no list of replies: {error}") from error
    return ScriptedProvider([_reply(reply) for reply in script] if isinstance(script, list) else [])


def _reply(reply: JsonValue) -> list[ModelDelta]:
    fields = reply if isinstance(reply, dict) else {}
    deltas: list[ModelDelta] = [ModelText(ANY, piece) for piece in _PIECES.findall(str(fields.get("text", "")))]
    if "fails" in fields:
        after = fields.get("retry_after_ms")
        failed = ModelFailed(
            operation=ANY,
            error=ErrorClass(fields["fails"]),
            message=str(fields.get("message", "as the script says")),
            retry_after_ms=after if isinstance(after, int) else None,
        )
        return [*deltas, failed]
    calls = fields.get("calls", [])
    for number, call in enumerate(calls if isinstance(calls, list) else [], start=1):
        if isinstance(call, dict):
            tool_input = Json.of(call["input"])
            deltas.append(
                ModelCall(operation=ANY, provider_id=f"call-{number}", tool=str(call["tool"]), input=tool_input)
            )
    stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
    return [*deltas, ModelCompleted(ANY, stop)]
