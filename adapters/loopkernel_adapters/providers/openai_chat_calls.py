"""Tool calls that come in fragments, several at once, told apart by what servers happen to send.

The API gives each fragment an index, and the id and the name in the first fragment of a call. Servers leave the index
out, give every call the index 0, repeat or change the id with each fragment, or send a whole call at once.
"""

import json

from loopkernel.data.blocks import RawInput
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall

from loopkernel_adapters.providers.kept_text import KeptText
from loopkernel_adapters.providers.openai_errors import UnreadableStream
from loopkernel_adapters.providers.openai_fields import JsonObject, call_input, members, number, text
from loopkernel_adapters.providers.openai_names import ToolNames

_COST_OF_CALL = 500  # characters, as which a call counts beside its own


class _OpenCall:
    """A call as far as it has come."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.given = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether the arguments are an object to which nothing can be added."""
        arguments = self.arguments
        return arguments.rstrip().endswith("}") and isinstance(call_input(arguments, cut=True), Json)

    def goes_on(self, call_id: str, name: str, piece: str) -> bool:
        """Whether a fragment with this id and name belongs to this call, at whose place it stands."""
        if not name or not self.name:
            return True
        if name != self.name:
            return False
        # The name once more: repeated, or that of another call of the same tool.
        same_id = not call_id or not self.id or call_id == self.id
        if self.is_whole():
            return same_id and not piece.strip()
        return same_id or bool(self.arguments.strip())


class CallFragments:
    """The calls of one reply, in the order in which they began."""

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._names = names
        self._calls: list[_OpenCall] = []
        self._kept = KeptText()

    def add(self, fragment: JsonObject) -> tuple[str, bool]:
        """Take the next fragment; the text that it adds to the arguments of its call, and whether it begins the call.

        Raises UnreadableStream where it adds to a call that was whole and has been given, and TooMuchKept.
        """
        function = members(fragment.get("function"))
        index, call_id, name = number(fragment.get("index")), text(fragment.get("id")), text(function.get("name"))
        arguments = function.get("arguments")
        piece = json.dumps(arguments) if isinstance(arguments, dict) else text(arguments)
        self._kept.add(len(piece) + len(call_id) + len(name))
        call = self._call_of(index, call_id, name, piece)
        begins = call is None
        if call is None:
            call = _OpenCall(index)
            self._calls.append(call)
            self._kept.add(_COST_OF_CALL)
        call.id = call.id or call_id
        call.name = call.name or name
        if call.given and piece.strip():
            raise UnreadableStream(f"the arguments of call {call.id or call.name} go on behind their end")
        call.pieces.append(piece)
        return piece, begins

    def _call_of(self, index: int | None, call_id: str, name: str, piece: str) -> _OpenCall | None:
        """The call that a fragment goes on with; None where it begins one."""
        if index is None:
            named = [call for call in self._calls if call_id and call.id == call_id]
            found = named[-1] if named else self._calls[-1] if self._calls else None
        else:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
        return found if found is not None and found.goes_on(call_id, name, piece) else None

    def whole(self) -> list[ModelCall]:
        """The calls that are certain to be complete and were not given yet: those before the last, in order."""
        given: list[ModelCall] = []
        for call in self._calls[:-1]:
            if not call.given:
                if not call.is_whole():
                    break  # in the order of the model: none goes before another
                given.append(self._give(call, cut=False))
        return given

    def rest(self, cut: bool) -> tuple[list[ModelCall], bool]:
        """The calls that are left, now that the reply has ended; and whether the last call of all is a cut one.

        In a reply that was `cut` at its limit, arguments that are not a whole object are cut ones.
        """
        open_calls = [call for call in self._calls if not call.given and (call.name or call.arguments.strip())]
        rest = [self._give(call, cut) for call in open_calls]
        return rest, cut and bool(rest) and isinstance(rest[-1].input, RawInput)

    def _give(self, call: _OpenCall, cut: bool) -> ModelCall:
        call.given = True
        return ModelCall(
            operation=self._operation,
            provider_id=call.id or f"call_{self._calls.index(call) + 1}",
            tool=self._names.own(call.name),
            input=call_input(call.arguments, cut),
        )

    def __bool__(self) -> bool:
        return bool(self._calls)
