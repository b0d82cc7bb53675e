"""ARCHITECTURE.md keeps its word: its picture is that of the imports, and a call takes the way that is told."""

import re
from pathlib import PurePosixPath

from loopkernel.data.words import StopReason

from scripts.architecture_picture import arrows, picture, reduced
from tests.architecture.sources import ROOT
from tests.architecture.test_journey import functions_passed
from tests.kernel.building import asked, checked, completed, made_call, reads, succeeded

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
_STATION = re.compile(r"`((?:[a-z_]+/)?[a-z_]+)\.([a-z_]+)`")


def section(title: str) -> str:
    """The part of the page under a heading."""
    _, found, rest = PAGE.partition(f"## {title}\n")
    assert found, f"ARCHITECTURE.md has no section {title!r}"
    return rest.partition("\n## ")[0]


def test_the_picture_is_that_of_the_imports() -> None:
    (drawn,) = re.findall(r"^```mermaid\n.*?^```\n", PAGE, re.MULTILINE | re.DOTALL)
    assert drawn == picture(), "print it anew: python -m scripts.architecture_picture"


def test_every_room_of_the_picture_stands_in_the_table() -> None:
    cells = re.findall(r"^\| (`[^|]+`) \|", section("The rooms"), re.MULTILINE)
    told = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert {room for room in arrows() if not room.startswith("adapters.")} | {"adapters"} == told


def test_an_arrow_that_others_imply_is_left_out() -> None:
    one, two, three = frozenset({"b", "c"}), frozenset({"c"}), frozenset[str]()
    assert reduced({"a": one, "b": two, "c": three}) == {"a": frozenset({"b"}), "b": two, "c": three}


def test_a_call_passes_each_station_of_its_way() -> None:
    deltas = (made_call("read", verdict=None), completed(StopReason.TOOL_USE), checked(1, reads("a")), succeeded(1))
    passed, asks = functions_passed(asked(), deltas)
    places = {(PurePosixPath(code.co_filename).with_suffix(""), code.co_name) for code in passed}
    stations = _STATION.findall(section("The way of one call"))
    assert asks
    assert len(stations) > 10
    for module, function in stations:
        assert any(place.match(f"loop/{module}") and name == function for place, name in places), (module, function)
