"""The document that a page shows: one run or several, and how two of them part."""

from collections.abc import Sequence

from attrs import frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.views.table import rows

from loopkernel_adapters.viewing.run import RunDocument
from loopkernel_adapters.viewing.shown import one_line


@frozen(kw_only=True)
class Sides:
    """Two runs of a document, by their places, side by side: the step of each at which they part, and that in words."""

    left: int
    right: int
    steps: tuple[int, int]
    text: str


def document_of(
    title: str,
    runs: Sequence[RunDocument],
    sides: Sides | None = None,
    figures: JsonValue = None,
    asked_every_ms: int | None = None,
    asked: JsonValue = None,
) -> dict[str, JsonValue]:
    """All of it, as plain data. `asked_every_ms`: how often the page asks for what is new; None: never.

    `asked` is what waits for a person.
    """
    return {
        "title": one_line(title, 300),
        "runs": [run.as_json() for run in runs],
        "states": {row.state: list(row.seen) for row in rows()},
        "sides": None if sides is None else _sides(sides),
        "figures": figures,
        "live": None if asked_every_ms is None else {"every": asked_every_ms, "asked": asked},
    }


def _sides(sides: Sides) -> JsonValue:
    return {
        "left": sides.left,
        "right": sides.right,
        "steps": list(sides.steps),
        "text": one_line(sides.text, 300),
    }
