"""What loop detection remembers of a turn (rule LIMIT-3): the calls since the last user message, and what was found."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import final

from attrs import field

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.value_classes import frozen

_DERIVED: Mapping[str, bool] = MappingProxyType({"derived": True})


def _text(value: JsonValue) -> str:
    """A text for the value: equal for equal JSON, whatever the order of keys."""
    return f'"{value}' if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _safe_texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple([safe_text(text) for text in texts])


@final
@frozen(field_transformer=checked_fields)
class WatchedCall:
    """A call that the model made; its input is None if it does not parse.

    `alike` counts the watched calls that are similar to it, itself included. `parts` follow from the input: the keys of
    an object in order, None of another value; and a text for each value, equal for equal JSON.
    """

    tool: str
    input: Json | None
    alike: int = 1
    parts: tuple[tuple[str, ...] | None, tuple[str, ...]] = field(init=False, eq=False, repr=False, metadata=_DERIVED)

    @parts.default
    def _parts_of_input(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        if self.input is None:
            return None, ()
        parsed = self.input.value()
        if not isinstance(parsed, dict):
            return None, (_text(parsed),)
        keys = sorted(parsed)
        return tuple(keys), tuple([_text(parsed[key]) for key in keys])


@final
@frozen(field_transformer=checked_fields)
class DisabledTool:
    """A tool that the next `rounds` requests do not offer, the one about to be made included."""

    tool: str
    rounds: int


@final
@frozen(kw_only=True)
class Watch:
    """The last calls, oldest first, the tools that were noted, and the tools that are not offered for now.

    `due`: a round has passed since it was last looked at.
    """

    calls: tuple[WatchedCall, ...] = ()
    noted: tuple[str, ...] = field(default=(), converter=_safe_texts)
    disabled: tuple[DisabledTool, ...] = ()
    due: bool = False

    def marked(self, *, due: bool) -> "Watch":
        """This watch, due to be looked at or not."""
        return Watch(calls=self.calls, noted=self.noted, disabled=self.disabled, due=due)
