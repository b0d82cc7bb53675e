"""The states of the loop, and which leads to which, by the return types of the handlers; a run is shown in it."""

from collections.abc import Sequence
from math import hypot

from loopkernel import LogRecord, fold
from loopkernel.views.table import rows

from scripts.drawing.svg import INK, SOFT, framed, text

WIDTH, HEIGHT = 860, 470
BOX_WIDTH, BOX_HEIGHT = 108, 34
PLACES = {  # the middle of each
    "Initial": (90, 80),
    "Idle": (430, 80),
    "HandingOff": (770, 80),
    "Thinking": (430, 190),
    "Compacting": (770, 190),
    "Backoff": (90, 250),
    "Streaming": (260, 310),
    "Executing": (600, 310),
    "Confirming": (770, 290),
    "Dispatching": (770, 370),
    "Finishing": (430, 400),
    "Cancelled": (600, 135),
    "Done": (670, 430),
}
QUIET, SEEN, ENTERED = "#c3c9d4", "#3b6fd4", "#e3ecfb"


def edges() -> dict[tuple[str, str], bool]:
    """Each edge between two states, and whether it is taken only on entering the first."""
    found: dict[tuple[str, str], bool] = {}
    for row in rows():
        found |= {(row.state, other): True for other in row.entry if other != row.state}
        found |= {(row.state, other): False for other in row.direct if other != row.state}
    return found


def drawn_states(run: Sequence[LogRecord]) -> str:
    """The picture, with the states marked that the run was seen in."""
    seen = {type(step.after).__name__ for step in fold(run)}
    parts = [
        *(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
            for name, colour in (("quiet", QUIET), ("seen", SEEN))
        ),
        text(16, 28, "The states of the loop", size=15),
        text(16, 456, "blue: seen in the run of the time line; dashed: passed within one step", fill=SOFT, size=12),
    ]
    ordered = sorted(edges().items(), key=lambda edge: edge[0][0] in seen and edge[0][1] in seen)
    for (source, target), entering in ordered:
        marked = source in seen and target in seen
        look = f'stroke="{SEEN if marked else QUIET}" marker-end="url(#{"seen" if marked else "quiet"})"'
        dashes = ' stroke-dasharray="4 3"' if entering else ""
        parts.append(f'<path d="{_way(PLACES[source], PLACES[target])}" fill="none" {look}{dashes}/>')
    for state, (x, y) in PLACES.items():
        look = f'fill="{ENTERED if state in seen else "#ffffff"}" stroke="{SEEN if state in seen else SOFT}"'
        corner = f'x="{x - BOX_WIDTH / 2:g}" y="{y - BOX_HEIGHT / 2:g}"'
        parts.append(f'<rect {corner} width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8" {look}/>')
        parts.append(text(x, y + 5, state, fill=INK, anchor="middle"))
    return framed(WIDTH, HEIGHT, "The states of the loop", parts)


def _way(source: tuple[int, int], target: tuple[int, int]) -> str:
    """A bent line from box to box; there and back are bent to different sides."""
    (x, y), (to_x, to_y) = source, target
    length = hypot(to_x - x, to_y - y)
    bend = min(44, length / 7)
    middle_x, middle_y = (x + to_x) / 2 - (to_y - y) / length * bend, (y + to_y) / 2 + (to_x - x) / length * bend
    begin, end = _at_edge(source, (middle_x, middle_y), 0), _at_edge(target, (middle_x, middle_y), 2)
    return f"M{begin[0]:.0f} {begin[1]:.0f}Q{middle_x:.0f} {middle_y:.0f} {end[0]:.0f} {end[1]:.0f}"


def _at_edge(box: tuple[int, int], towards: tuple[float, float], gap: float) -> tuple[float, float]:
    """Where the line from the middle of the box to that point leaves the box."""
    x, y = towards[0] - box[0], towards[1] - box[1]
    sides = [(BOX_WIDTH / 2 + gap) / abs(x)] if x else []
    part = min([*sides, *([(BOX_HEIGHT / 2 + gap) / abs(y)] if y else [])])
    return box[0] + x * part, box[1] + y * part
