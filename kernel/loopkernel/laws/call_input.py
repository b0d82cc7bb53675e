"""What a call depends on, and what its tool is to get: read from the call and the answers before it.

A second opinion beside the algorithm `references`: which calls are meant by which ids, and what stands for a reference.
"""

from collections.abc import Iterator, Mapping
from typing import final

from attrs import frozen

from loopkernel.data.blocks import RawInput, ToolCall, text_of
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.words import CallStatus

_REFERENCE = "$result"
_IN_TEXT = '"$result"'


@final
@frozen
class Source:
    """A call that another depends on, as it is named there; no place: no earlier call has the id (rule CALL-1)."""

    name: str
    place: int | None


def named_sources(given: Json | RawInput) -> tuple[str, ...]:
    """The ids under `$result`, where that is the only key of its object."""
    return tuple(dict.fromkeys(name for name in _referred(given) if isinstance(name, str)))


def refers(given: Json | RawInput) -> bool:
    """Whether the input holds a reference that nothing has resolved."""
    return bool(named_sources(given))


def names_no_call(given: Json | RawInput) -> bool:
    """Whether a reference in the input is none that could name a call."""
    return any(not isinstance(name, str) for name in _referred(given))


def _referred(given: Json | RawInput) -> Iterator[JsonValue]:
    if isinstance(given, RawInput) or _IN_TEXT not in given.text:
        return
    waiting: list[JsonValue] = [given.value()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if list(value) == [_REFERENCE]:
                yield value[_REFERENCE]
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def depends(call: ToolCall) -> tuple[str, ...]:
    """The ids of the calls that the call depends on: declared, and referred to."""
    return tuple(dict.fromkeys((*call.after, *named_sources(call.input))))


def sources_of(ledger: Ledger, place: int) -> tuple[Source, ...]:
    """The calls that the call at `place` depends on: of each id the latest call before it."""
    wanted = depends(ledger.entries[place].call)
    if not wanted:
        return ()
    latest = dict.fromkeys(wanted, -1)
    for earlier in range(place):
        name = ledger.entries[earlier].call.provider_id
        if name in latest:
            latest[name] = earlier
    return tuple(Source(name, None if found < 0 else found) for name, found in latest.items())


def to_run_with(ledger: Ledger, place: int) -> Json | None:
    """The input that the tool of the call is to get; None where it is not known, or never will be."""
    entry = ledger.entries[place]
    if entry.person.edit is not None:
        return entry.person.edit.input
    if entry.hooks.input is not None:
        return entry.hooks.input
    return with_outputs(ledger, place, entry.call.input)


def with_outputs(ledger: Ledger, place: int, given: Json | RawInput) -> Json | None:
    """The input, of the call at `place`, with the outputs that it refers to; None where one of them is not there."""
    if isinstance(given, RawInput) or names_no_call(given):
        return None
    names = named_sources(given)
    if not names:
        return given
    outputs: dict[str, str] = {}
    for earlier in range(place):
        entry = ledger.entries[earlier]
        if entry.call.provider_id in names:
            outputs.pop(entry.call.provider_id, None)
            if entry.status is CallStatus.DONE:
                outputs[entry.call.provider_id] = output_of(entry)
    if len(outputs) < len(names):
        return None
    return Json.of(_filled(given.value(), outputs))


def output_of(entry: LedgerEntry) -> str:
    """What the call returned, as text: in full, and without a note of what a person has changed."""
    if entry.output is not None:
        return text_of(entry.output)
    return "" if entry.result is None else text_of(entry.result.content)


def _filled(value: JsonValue, outputs: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_filled(part, outputs) for part in value]
    if isinstance(value, dict):
        name = value.get(_REFERENCE)
        if len(value) == 1 and isinstance(name, str):
            return outputs[name]
        return {key: _filled(part, outputs) for key, part in value.items()}
    return value
