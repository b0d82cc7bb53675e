"""For a model that cannot be made to call a tool: where one is forced, a text that is a JSON object is its input.

    provider = ForcedOutput(provider)

Nothing else changes: a reply with a call, or with any other text, passes as it is, and whether the input is valid is
judged as that of any call (rule CALL-5).

Whether a text is an object shows at its end. So it is held, but only as long as it may be one, and in place of each
piece that is held comes a sign of life. What is not text passes at once; other content lets go of the text before it,
and an object that had begun there is then a text.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol, assert_never, final, runtime_checkable

from loopkernel.data.effects import Request
from loopkernel.data.errors import CodecError
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, parse_json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider

MOST_HELD = 1_000_000  # characters, an empty piece counts as one: beyond that, a text is not an input but a flood
_BLANK = " \t\n\r"  # what JSON allows before an object


@final
class ForcedOutput(Provider):
    """A provider whose replies to a request that forces a tool are looked at before they are passed on."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        held = None if request.forced_tool is None else _Held(request.forced_tool)
        deltas = self._provider.stream(request, operation)
        try:
            async for delta in deltas:
                for told in (delta,) if held is None else held.take(delta):
                    yield told
            for told in () if held is None else held.let_go():
                yield told
        except Exception:
            for told in () if held is None else held.let_go():
                yield told
            raise
        finally:
            if isinstance(deltas, _Closable):
                await deltas.aclose()


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> object: ...


class _Held:
    """The text of a reply that may be the input of the tool, as far as it has come."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._pieces: list[ModelText] = []
        self._size = 0
        self._begun = False  # an object has begun in what is held
        self._ruled_out = False  # the reply holds a call, or other text

    def take(self, delta: ModelDelta) -> Iterator[ModelDelta]:
        """What passes on now."""
        match delta:
            case ModelStarted() | ModelUsage():  # these may come in the midst of a text
                yield delta
            case ModelText():
                if self._hold(delta):
                    yield ModelUsage(delta.operation, NO_USAGE)  # a sign of life; it adds nothing to what is known
                else:
                    yield from self.let_go()
                    self._ruled_out = True
                    yield delta
            case ModelCompleted():
                yield from with_forced_call(self._tool, self._given_up(), delta)
            case ModelCall():
                yield from self.let_go()
                self._ruled_out = True
                yield delta
            case ModelReasoning() | ModelInput() | ModelOpaque() | ModelServerCall() | ModelFailed():
                yield from self.let_go()
                yield delta
            case _:
                assert_never(delta)

    def let_go(self) -> Iterator[ModelDelta]:
        """What is held, as the text that it is. Where it was not blank, the rest of the reply passes as it comes."""
        self._ruled_out = self._ruled_out or self._begun
        yield from self._given_up()

    def _hold(self, piece: ModelText) -> bool:
        """Hold it, if the text may be an object with it."""
        size = self._size + max(len(piece.text), 1)
        text = piece.text.lstrip(_BLANK)
        if self._ruled_out or size > MOST_HELD or not (self._begun or not text or text.startswith("{")):
            return False
        self._pieces.append(piece)
        self._size, self._begun = size, self._begun or bool(text)
        return True

    def _given_up(self) -> tuple[ModelText, ...]:
        pieces, self._pieces, self._size = tuple(self._pieces), [], 0
        return pieces


def with_forced_call(tool: str, pieces: Sequence[ModelText], end: ModelCompleted) -> Iterator[ModelDelta]:
    """The pieces and the end of a reply; a JSON object that ends the turn is a call in that place."""
    found = _json_object("".join(piece.text for piece in pieces)) if end.stop is StopReason.END_TURN else None
    if found is None:
        yield from pieces
        yield end
        return
    yield ModelCall(end.operation, provider_id=f"forced_{end.operation}", tool=tool, input=found)
    yield ModelCompleted(end.operation, StopReason.TOOL_USE, end.usage, redaction=end.redaction)


def _json_object(text: str) -> Json | None:
    try:
        value = parse_json(text)
    except CodecError:
        return None
    return Json.of(value) if isinstance(value, dict) else None
