"""Draws the picture of ARCHITECTURE.md: the rooms of the project, and an arrow for each that rests on another.

    python -m scripts.architecture_picture

It is read from the imports of the sources. An arrow is left out where others lead the same way. A test compares the
picture on the page with what this prints.
"""

import graphlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache

from tests.architecture.sources import adapters, imports, kernel

Rooms = Mapping[str, frozenset[str]]

LOOP = "loopkernel.loop."
SHELL = "loopkernel_adapters"
# What holds nothing of its own, or nothing that a reader looks for; the public names are a door to all the rest.
_PUBLIC = ("loopkernel", "deltas", "effects", "events", "messages", "policy", "states", "tools", "adapters.public")
_UNSEEN = (*_PUBLIC, "loop", "later_typing", "public_names")
AGENT = "agent"  # at the top of the shell: it puts its rooms together; the others there are what all of them rest on


def room_of(module: str) -> str:
    """The room of the picture in which the module stands: a part of the loop, a package, or the top of one."""
    parts = module.split(".")
    if module.startswith(LOOP):
        return ".".join(parts[1:3])
    if parts[0] == SHELL:
        if len(parts) == 1:
            return "adapters.public"
        if parts[1] in _packages():
            return f"adapters.{parts[1]}"
        if parts[-1] == "__main__":
            return "adapters.cli"
        return "adapters.agent" if parts[-1] == AGENT else "adapters.ports"
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def _packages() -> frozenset[str]:
    return frozenset(source.module.split(".")[1] for source in adapters() if source.module.count(".") > 1)


def arrows() -> Rooms:
    """For each room those whose modules its own import."""
    found: dict[str, set[str]] = {}
    for source in (*kernel(), *adapters()):
        room = room_of(source.module)
        seen = found.setdefault(room, set())
        for each in imports(source):
            if each.module.partition(".")[0] in ("loopkernel", SHELL):
                seen.add(room_of(each.module))
    return {room: frozenset(below - {room, *_UNSEEN}) for room, below in found.items() if room not in _UNSEEN}


def reached(rooms: Rooms, start: Iterable[str]) -> frozenset[str]:
    """All rooms to which arrows lead from these, themselves included."""
    found: set[str] = set()
    left = list(start)
    while left:
        room = left.pop()
        if room not in found:
            found.add(room)
            left.extend(rooms.get(room, ()))
    return frozenset(found)


def reduced(rooms: Rooms) -> Rooms:
    """The arrows less those that a longer way makes needless. Raises CycleError where arrows make a circle."""
    graphlib.TopologicalSorter(rooms).prepare()
    return {
        room: frozenset(one for one in below if one not in reached(rooms, below - {one}))
        for room, below in rooms.items()
    }


def picture() -> str:
    """The picture as a Mermaid diagram, the rooms on which all rests at the bottom."""
    rooms = reduced(arrows())
    lines = ["```mermaid", "graph TD"]
    for title, chosen in (
        ("adapters", [room for room in rooms if room.startswith("adapters")]),
        ("kernel", [room for room in rooms if not room.startswith("adapters")]),
    ):
        lines.append(f"    subgraph {title}")
        lines.extend(f"        {_id(room)}[{room.removeprefix('adapters.')}]" for room in sorted(chosen))
        lines.append("    end")
    lines.extend(f"    {_id(room)} --> {_id(below)}" for room in sorted(rooms) for below in sorted(rooms[room]))
    return "\n".join([*lines, "```", ""])


def _id(room: str) -> str:
    return "".join(part.capitalize() for part in room.replace("_", ".").split("."))


if __name__ == "__main__":
    sys.stdout.write(picture())
