"""The map from texts, against a dict: also where hashes meet in some of their bits, or in all of them."""

from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.text_map import TextMap
from typing_extensions import override


class Hashed(str):
    """A text with a hash of the test's choice."""

    __slots__ = ("code",)

    code: int

    @override
    def __hash__(self) -> int:
        return self.code


def hashed(text: str, code: int) -> Hashed:
    """The text, under that hash."""
    key = Hashed(text)
    key.code = code
    return key


# Hashes that part at the first, at a later, or at no level of the trie, whether positive or negative.
CODES = (0, 1, 31, 32, 33, 1 << 10, 33 << 10, 1 << 60, (1 << 60) + 1, -1, -2, -33, -(1 << 60))
texts = st.sampled_from("abcd")
keys = st.builds(hashed, texts, st.sampled_from(CODES)) | st.text(max_size=2)
puts = st.lists(st.tuples(keys, st.integers()), max_size=40)


@given(puts, st.lists(keys))
@example([(hashed("a", 0), 1), (hashed("b", 0), 2), (hashed("a", 0), 3)], [hashed("c", 0)])
@example([(hashed("a", 1 << 60), 1), (hashed("b", 0), 2)], [hashed("a", 0), hashed("b", 32)])
def test_a_map_holds_what_was_put_last(puts: list[tuple[str, int]], others: list[str]) -> None:
    found, expected = TextMap[int](), dict[tuple[str, int], int]()
    for key, value in puts:
        found = found.put(key, value)
        expected[str(key), hash(key)] = value
    for key in (*others, *(key for key, _ in puts)):
        assert found.get(key) == expected.get((str(key), hash(key)))


@given(puts, st.data())
def test_a_map_is_never_changed(puts: list[tuple[str, int]], data: st.DataObject) -> None:
    maps = [TextMap[int]()]
    for key, value in puts:
        maps.append(maps[-1].put(key, value))
    place = data.draw(st.integers(0, len(puts)))
    expected = {(str(key), hash(key)): value for key, value in puts[:place]}
    for key, _ in puts:
        assert maps[place].get(key) == expected.get((str(key), hash(key)))


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=80))
def test_a_map_of_plain_texts_is_as_a_dict(values: dict[str, int]) -> None:
    found = TextMap[int]()
    for key, value in values.items():
        found = found.put(key, value)
    assert all(found.get(key) == value for key, value in values.items())
    assert found.get("no such key") is None
