"""The pictures of the documents: made from the sources as they are, shown somewhere, small, and whole by themselves."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.drawing.states import PLACES, edges
from scripts.pictures import drawn

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
NAMES = ("states.svg", "terminal.svg", "timeline.svg")
MOST_BYTES = 40_000


def test_what_is_the_same_each_time_is_as_the_sources_make_it() -> None:
    for name, picture in drawn().items():
        assert (PICTURES / name).read_text(encoding="utf-8") == picture, "make it anew: make pictures"


def test_each_state_that_an_edge_leads_to_has_a_place() -> None:
    assert {state for edge in edges() for state in edge} == set(PLACES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_small_and_stands_alone(name: str) -> None:
    content = (PICTURES / name).read_bytes()
    assert len(content) <= MOST_BYTES
    words = content.decode("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|url\((?!#)|<script|<image|@import", words)
    assert ElementTree.fromstring(content).findall(".//{http://www.w3.org/2000/svg}text")


def test_each_picture_is_shown() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "specs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([a-z]+\.svg)", page.read_text(encoding="utf-8"))}
    assert shown == set(NAMES) == {picture.name for picture in PICTURES.iterdir()}
