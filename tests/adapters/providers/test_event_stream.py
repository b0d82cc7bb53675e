"""Server-sent events: the grammar of the standard, however the bytes come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel_adapters.providers.event_stream import DamagedStream, EventReader, ServerEvent

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.one_of(
    st.sampled_from(
        ["", ":", ": a comment", "data", "data:", "event:", "id: 5", "retry: 10", "other: x", "data:  two"]
    ),
    st.builds("data: {}".format, st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=6)),
    st.builds("event: {}".format, st.sampled_from(["a", "b"])),
)


def all_at_once(text: str) -> list[ServerEvent]:
    """The standard's own algorithm over the whole text."""
    events: list[ServerEvent] = []
    name, data = "", list[str]()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if line == "":
            events += [ServerEvent(name, "\n".join(data))] if data else []
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


@settings(max_examples=settings().max_examples * 8)
@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=12), data=st.data())
def test_events_are_those_of_the_standard_in_any_pieces(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    # A return that ends a line, before an empty line that ends with a line feed, is a pair: so it is read, too.
    body = "".join(line + end for line, end in lines)
    raw = body.encode()
    places = sorted(data.draw(st.sets(st.integers(0, len(raw)))))
    reader = EventReader()
    events = [event for a, b in zip([0, *places], [*places, len(raw)], strict=True) for event in reader.feed(raw[a:b])]
    assert events == all_at_once(body)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_split_anywhere_even_within_a_line_break_the_events_are_the_same(end: str) -> None:
    raw = end.join(["event: a", "data: 1", "data: ü", "", "event: b", "data: 2", "", ""]).encode()
    for place in range(len(raw)):
        reader = EventReader()
        events = [*reader.feed(raw[:place]), *reader.feed(raw[place:])]
        assert events == [ServerEvent("a", "1\nü"), ServerEvent("b", "2")], place


def test_an_event_comes_as_soon_as_it_is_whole() -> None:
    reader = EventReader()
    assert list(reader.feed(b"event: a\r\ndata: 1\r\n\r")) == [ServerEvent("a", "1")]
    assert list(reader.feed(b"\ndata: 2\n")) == []
    assert list(reader.feed(b"\n")) == [ServerEvent("", "2")]
    assert list(reader.feed(b"data: 3")) == []
    assert reader.end() == [ServerEvent("", "3")]
    assert reader.end() == []


@pytest.mark.parametrize("body", [b"data: \xff\n", b"data: \xc3\n", b"data: \xed\xa0\xbd\n"])
def test_what_is_not_utf_8_is_damage(body: bytes) -> None:
    with pytest.raises(DamagedStream, match="not UTF-8"):
        list(EventReader().feed(body))


def test_an_event_beyond_all_bounds_is_damage_and_many_within_them_are_not() -> None:
    reader = EventReader(largest=64)
    for _ in range(100):
        assert len(list(reader.feed(b"data: 12345678901234567890\n\n"))) == 1
    with pytest.raises(DamagedStream, match="larger than 64 bytes"):
        for _ in range(100):
            list(reader.feed(b"data: 1"))
