"""The table of states: its edges are read from the return types of the handlers, so it cannot drift from them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from attrs import frozen

from loopkernel.loop.phases import (
    at_rest,
    backoff,
    compacting,
    executing,
    finishing,
    handing_off,
    initial,
    streaming,
    thinking,
)

# The parameters of handlers differ by state, which no one callable type says: only their hints are read.
Handler = Callable[..., Any]

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "Initial": initial.on_initial,
        "Idle": at_rest.on_idle,
        "Thinking": thinking.on_thinking,
        "Streaming": streaming.on_streaming,
        "Executing": executing.on_executing,
        "Confirming": executing.on_confirming,
        "Dispatching": executing.on_dispatching,
        "Compacting": compacting.on_compacting,
        "Backoff": backoff.on_backoff,
        "Finishing": finishing.on_finishing,
        "HandingOff": handing_off.on_handing_off,
        "Cancelled": at_rest.on_cancelled,
        "Done": at_rest.on_done,
    }
)
ENTRIES: Mapping[str, Handler] = MappingProxyType(
    {
        "Thinking": thinking.enter_thinking,
        "Executing": executing.enter_executing,
        "Finishing": finishing.enter_finishing,
    }
)


@frozen
class Row:
    """A state: where its handler goes directly, where entering it leads, and what can be seen after a step."""

    state: str
    direct: tuple[str, ...]
    entry: tuple[str, ...]
    seen: tuple[str, ...]


def targets(handler: Handler) -> tuple[str, ...]:
    """The states that the handler's return type names, in the order of the table.

    Not in the order of the type: two unions of the same states are equal, and the interpreter may give either.
    """
    (union,) = get_args(get_type_hints(handler)["return"])
    named = {kind.__name__ for kind in get_args(union) or (union,)}
    return tuple(state for state in HANDLERS if state in named)


def rows() -> tuple[Row, ...]:
    """The whole table, a row for each state."""
    return tuple(
        Row(state, targets(handler), targets(ENTRIES[state]) if state in ENTRIES else (), _seen(targets(handler)))
        for state, handler in HANDLERS.items()
    )


def _seen(direct: tuple[str, ...]) -> tuple[str, ...]:
    """The states that a step can end in: the closure over the entries of those that it goes to directly."""
    reached: list[str] = []
    waiting = list(direct)
    while waiting:
        state = waiting.pop(0)
        if state not in reached:
            reached.append(state)
            waiting.extend(targets(ENTRIES[state]) if state in ENTRIES else ())
    return tuple(state for state in HANDLERS if state in reached)


def as_markdown() -> str:
    """The table as it stands in specs/states.md."""
    lines = ["| state | handler goes to | entering it leads to | a step from it can end in |", "|---|---|---|---|"]
    for row in rows():
        cells = (", ".join(part) or "waits at once" for part in (row.direct, row.entry, row.seen))
        lines.append(f"| {row.state} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_diagram() -> str:
    """The edges as a Mermaid state diagram: what a step can lead to, and what is passed through within one."""
    lines = ["stateDiagram-v2", "    [*] --> Initial"]
    for row in rows():
        lines.extend(f"    {row.state} --> {other}" for other in row.direct if other != row.state)
        passed = [other for other in row.entry if other not in (row.state, *row.direct)]
        lines.extend(f"    {row.state} --> {other}: entering" for other in passed)
    lines.append("    Done --> [*]")
    return "\n".join(lines) + "\n"
