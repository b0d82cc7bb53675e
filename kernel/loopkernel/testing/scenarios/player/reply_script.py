"""A scripted reply as the reports of a model call."""

from collections.abc import Iterable, Mapping
from typing import assert_never, final

from attrs import frozen

from loopkernel.data.blocks import RawInput
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.words import ErrorClass
from loopkernel.testing.scenarios.data.world import (
    CallPiece,
    JsonValue,
    ModelCompletes,
    ModelEndsEarly,
    ModelEntry,
    ModelFails,
    ModelHangs,
    ReasoningPiece,
    ScriptedCall,
    TextPiece,
    UsagePiece,
)


@final
@frozen
class DelayedDelta:
    """A delta that comes `delay_ms` after its operation started."""

    delay_ms: int
    delta: Delta


@final
@frozen
class Reply:
    """The reports of a model call in their order, and the scenario's names of its calls in the same order."""

    reports: tuple[DelayedDelta, ...]
    calls: tuple[str, ...]


def reply_of(entry: ModelEntry, operation: ModelOperation, model: str) -> Reply:
    """What an entry of the script makes of the model call `operation`, asked of `model`."""
    script = _Script(entry, operation)
    for piece in sorted(entry.pieces, key=lambda piece: piece.at_ms):
        match piece:
            case TextPiece():
                script.add(piece.at_ms, ModelText(operation, piece.text))
            case ReasoningPiece():
                script.add(piece.at_ms, ModelReasoning(operation, piece.text))
            case CallPiece() if _is_cut(entry, piece.call):
                continue  # it is never complete: what there is of it comes with the end
            case CallPiece():
                script.add_call(piece.at_ms, piece.call)
            case UsagePiece():
                script.add(piece.at_ms, ModelUsage(operation, piece.usage))
            case _:
                assert_never(piece)
    if isinstance(entry.ending, ModelCompletes) or not entry.pieces:
        script.add_the_rest()
    script.end()
    if script.reports:
        script.reports.insert(0, DelayedDelta(script.reports[0].delay_ms, ModelStarted(operation, model)))
    return Reply(tuple(script.reports), tuple(script.names))


def _is_cut(entry: ModelEntry, call: str) -> bool:
    return isinstance(entry.ending, ModelCompletes) and entry.ending.cut == call


class _Script:
    """The reports so far."""

    def __init__(self, entry: ModelEntry, operation: ModelOperation) -> None:
        self.entry = entry
        self.operation = operation
        self.reports: list[DelayedDelta] = []
        self.names: list[str] = []
        self._streamed: set[str] = set()
        self._end_ms = max([entry.takes_ms, *(piece.at_ms for piece in entry.pieces)])

    def add(self, at_ms: int, delta: Delta) -> None:
        self.reports.append(DelayedDelta(at_ms, delta))

    def add_call(self, at_ms: int, name: str) -> None:
        """The call of that name is complete: the kernel's to answer, or one that the provider runs."""
        self._streamed.add(name)
        for call in self.entry.calls:
            if call.name == name:
                self.names.append(name)
                self.add(at_ms, _call(self.operation, call, self.entry))
        for call in self.entry.server_calls:
            if call.name == name:
                server_call = ModelServerCall(
                    self.operation, provider_id=call.id, tool=call.tool, input=Json.of(call.input)
                )
                self.add(at_ms, server_call)

    def add_the_rest(self) -> None:
        """All that no piece has streamed comes at the end; a call whose arguments are cut comes last."""
        pieces = self.entry.pieces
        thought = _beyond(self.entry.reasoning, (p.text for p in pieces if isinstance(p, ReasoningPiece)))
        said = _beyond(self.entry.text, (piece.text for piece in pieces if isinstance(piece, TextPiece)))
        if thought:
            self.add(self._end_ms, ModelReasoning(self.operation, thought))
        if said:
            self.add(self._end_ms, ModelText(self.operation, said))
        cut = self.entry.ending.cut if isinstance(self.entry.ending, ModelCompletes) else None
        rest = [call.name for call in (*self.entry.server_calls, *self.entry.calls)]
        for name in sorted(rest, key=lambda name: name == cut):
            if name not in self._streamed:
                self.add_call(self._end_ms, name)

    def end(self) -> None:
        """The completion or failure. A stream that ends early is what an adapter reports as `network`."""
        usage = self.entry.usage or NO_USAGE
        match self.entry.ending:
            case ModelCompletes(stop, cut):
                redaction = self.entry.redaction
                end = ModelCompleted(self.operation, stop, usage, cut_call=cut is not None, redaction=redaction)
                self.add(self._end_ms, end)
            case ModelFails(error, retry_after_ms, unfinished):
                failed = ModelFailed(
                    self.operation,
                    error=error,
                    message="the scripted failure",
                    retry_after_ms=retry_after_ms,
                    usage=usage,
                    unfinished=unfinished,
                )
                self.add(self._end_ms, failed)
            case ModelEndsEarly():
                failed = ModelFailed(
                    self.operation,
                    error=ErrorClass.NETWORK,
                    message="the stream ended without a completion",
                    usage=usage,
                )
                self.add(self._end_ms, failed)
            case ModelHangs():
                pass
            case other:
                assert_never(other)


def _call(operation: ModelOperation, call: ScriptedCall, entry: ModelEntry) -> ModelCall:
    provider_ids = {other.name: other.id for other in entry.calls}
    given = Json.of(_referring(call.input, provider_ids)) if call.raw is None else RawInput(call.raw)
    if isinstance(given, Json) and _is_cut(entry, call.name):
        given = RawInput(given.text[:-1])  # what there is of it does not parse, so that no driver can start it early
    return ModelCall(
        operation,
        provider_id=call.id,
        tool=call.tool,
        input=given,
        after=tuple(provider_ids.get(name, name) for name in call.after),
    )


def _referring(value: JsonValue, provider_ids: Mapping[str, str]) -> JsonValue:
    """The input as the model gives it: it knows calls by the provider's ids, and a scenario by its own names too."""
    if isinstance(value, list):
        return [_referring(part, provider_ids) for part in value]
    if not isinstance(value, dict):
        return value
    source = value.get("$result")
    if len(value) == 1 and isinstance(source, str):
        return {"$result": provider_ids.get(source, source)}
    return {key: _referring(part, provider_ids) for key, part in value.items()}


def _beyond(whole: str, pieces: Iterable[str]) -> str:
    """What of the text has not streamed in pieces: the rest where they begin it, else all of it."""
    return whole.removeprefix("".join(pieces))
