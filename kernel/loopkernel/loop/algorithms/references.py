"""References of a call to the outputs of earlier calls of its reply (rules CALL-1 and CALL-4); usable alone.

A reference is an object `{"$result": id}`, anywhere in the input of a call, where `id` is the provider's id of an
earlier call. It stands for the text of that call's output.
"""

from collections.abc import Iterator, Mapping, Sequence

from loopkernel.data.errors import quoted
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.value_classes import frozen

_KEY = "$result"
_KEY_IN_TEXT = f'"{_KEY}"'
_ON_ITSELF = "it depends on itself"
_NAMES_NO_CALL = f"a {_KEY_IN_TEXT} in it does not name a call: its value must be the id of an earlier call"


@frozen(kw_only=True)
class Sources:
    """The calls that a call depends on, by their places in the reply, each once and in order; and its faults.

    A fault is a sentence for the model, without a full stop. A call that has one can never run.
    """

    places: tuple[int, ...]
    faults: tuple[str, ...]


def has_references(call_input: Json) -> bool:
    """Whether the input holds a reference, or what is meant as one and names no call."""
    return _KEY_IN_TEXT in call_input.text and bool(_named(call_input))


def references(call_input: Json) -> tuple[str, ...]:
    """The provider ids that the input refers to, each once, in the order of the text."""
    return _ids(_named(call_input))


def sources(earlier: Mapping[str, int], provider_id: str, after: Sequence[str], call_input: Json) -> Sources:
    """What a call depends on: what it declares in `after`, and what its input refers to.

    `earlier` gives for the provider id of each earlier call of the reply its place, from 0; of several calls with one
    id the place of the latest. `provider_id` is the id of the call itself.
    """
    named = _named(call_input)
    places = set[int]()
    faults: list[str] = []
    for name in dict.fromkeys((*after, *_ids(named))):
        place = earlier.get(name)
        if place is not None:
            places.add(place)
        elif name == provider_id:
            faults.append(_ON_ITSELF)
        else:
            faults.append(f"it depends on {quoted(name)}, which no earlier call of this reply has")
    if not all(isinstance(value, str) for value in named):
        faults.append(_NAMES_NO_CALL)
    return Sources(places=tuple(sorted(places)), faults=tuple(faults))


def resolved(call_input: Json, outputs: Mapping[str, str]) -> Json:
    """The input with each reference replaced by the text of that output; the same object if there is none.

    `outputs` has the text of the output of every call that is referred to, by provider id; one that is missing is a
    mistake of the caller, and raises KeyError. What an output says is text, and never read as a reference again.
    """
    if not references(call_input):
        return call_input
    return Json.of_parsed(_filled(call_input.value(), outputs))


def _filled(value: JsonValue, outputs: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_filled(part, outputs) for part in value]
    if not isinstance(value, dict):
        return value
    name = value.get(_KEY)
    if isinstance(name, str) and len(value) == 1:
        return safe_text(outputs[name])
    return {key: _filled(part, outputs) for key, part in value.items()}


def _named(call_input: Json) -> list[JsonValue]:
    """What stands under each `$result` that is the only key of its object; a text, where it is a reference."""
    return list(_found(call_input.value())) if _KEY_IN_TEXT in call_input.text else []


def _found(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        if value.keys() == {_KEY}:
            yield value[_KEY]
        for part in value.values():
            yield from _found(part)
    elif isinstance(value, list):
        for part in value:
            yield from _found(part)


def _ids(named: list[JsonValue]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in named if isinstance(value, str)))
