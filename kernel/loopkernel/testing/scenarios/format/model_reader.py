"""Reads the model's entries: replies, their calls and pieces, and what happens instead of an answer."""

from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.testing.scenarios.data.world import (
    CallPiece,
    ModelCompletes,
    ModelEnding,
    ModelEndsEarly,
    ModelEntry,
    ModelFails,
    ModelHangs,
    Piece,
    ReasoningPiece,
    ScriptedCall,
    TextPiece,
    UsagePiece,
)
from loopkernel.testing.scenarios.format.fields import (
    Decoder,
    Fields,
    Place,
    integer,
    json_value,
    many,
    member,
    name,
    only_true,
    text,
    word,
)
from loopkernel.testing.scenarios.format.nodes import Node


def usage(node: Node, place: Place) -> Usage:
    """Token counts; those that are not given are 0."""
    fields = Fields(node, place)
    counts = Usage(
        input=fields.optional("input", integer(), 0),
        output=fields.optional("output", integer(), 0),
        cache_read=fields.optional("cache_read", integer(), 0),
        cache_write=fields.optional("cache_write", integer(), 0),
    )
    fields.finish()
    return counts


def call(node: Node, place: Place) -> ScriptedCall:
    """A call. The provider's id may be any text if `as` gives the scenario its own name for the call."""
    fields = Fields(node, place)
    fields.given("input", "raw")
    provider_id = fields.required("id", text if fields.has("as") else name, "")
    scripted = ScriptedCall(
        id=provider_id,
        name=fields.optional("as", name, provider_id),
        tool=fields.required("tool", text, ""),
        input=fields.optional("input", json_value, {}),
        raw=fields.optional("raw", text, None),
        after=fields.optional("after", many(name), ()),
    )
    fields.finish()
    return scripted


def _piece(node: Node, place: Place) -> Piece:
    fields = Fields(node, place)
    kind = fields.given("text", "reasoning", "call", "usage")
    at_ms = fields.optional("at_ms", integer(), 0)
    said = fields.optional("text", text, "")
    thought = fields.optional("reasoning", text, "")
    named = fields.optional("call", name, "")
    used = fields.optional("usage", usage, NO_USAGE)
    fields.finish()
    if kind is None:
        place.fault(node.line, "`text`, `reasoning`, `call` or `usage` is missing")
    if kind == "usage":
        return UsagePiece(at_ms, used)
    if kind == "call":
        return CallPiece(at_ms, named)
    return ReasoningPiece(at_ms, thought) if kind == "reasoning" else TextPiece(at_ms, said)


def _ending(fields: Fields, default: StopReason) -> ModelEnding:
    kind = fields.given("stop", "fails", "hangs", "ends")
    stop = fields.optional("stop", member(StopReason), default)
    cut = fields.optional("cut", name, None)
    error_class = fields.optional("fails", member(ErrorClass, ErrorClass.MAX_TOKENS), ErrorClass.UNKNOWN)
    retry_after_ms = fields.optional("retry_after_ms", integer(), None)
    fields.optional("hangs", only_true, None)
    fields.optional("ends", word("early"), "early")
    if cut is not None and (kind != "stop" or stop is not StopReason.MAX_TOKENS):
        fields.place.fault(fields.line, "`cut` goes with `stop: max_tokens`")
    if retry_after_ms is not None and kind != "fails":
        fields.place.fault(fields.line, "`retry_after_ms` goes with `fails`")
    match kind:
        case "fails":
            return ModelFails(error_class, retry_after_ms)
        case "hangs":
            return ModelHangs()
        case "ends":
            return ModelEndsEarly()
        case _:
            return ModelCompletes(stop, cut)


def _check_names(fields: Fields, entry: ModelEntry) -> None:
    """Pieces and `cut` name calls of the entry, and no two of its calls have one name."""
    names = [one.name for one in (*entry.calls, *entry.server_calls)]
    for twice in sorted({one for one in names if names.count(one) > 1}):
        fields.place.fault(fields.line, f"two calls are named `{twice}`; rename one of them with `as`")
    named = [piece.call for piece in entry.pieces if isinstance(piece, CallPiece)]
    if isinstance(entry.ending, ModelCompletes) and entry.ending.cut is not None:
        named.append(entry.ending.cut)
    for missing in sorted(set(named).difference(names)):
        fields.place.fault(fields.line, f"the call `{missing}` is not defined in `calls` of this entry")


def entry(node: Node, place: Place) -> ModelEntry:
    """The answer to one request."""
    fields = Fields(node, place)
    calls = fields.optional("calls", many(call), ())
    answer = ModelEntry(
        text=fields.optional("text", text, ""),
        reasoning=fields.optional("reasoning", text, ""),
        calls=calls,
        server_calls=fields.optional("server_calls", many(call), ()),
        usage=fields.optional("usage", usage, None),
        takes_ms=fields.optional("takes_ms", integer(), 0),
        pieces=fields.optional("pieces", many(_piece), ()),
        model_name=fields.optional("model_name", text, None),
        ending=_ending(fields, StopReason.TOOL_USE if calls else StopReason.END_TURN),
    )
    fields.finish()
    _check_names(fields, answer)
    return answer


entries: Decoder[tuple[ModelEntry, ...]] = many(entry)
