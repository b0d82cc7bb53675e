"""The persistent vector against a list, and the growing set against a set, over random operations."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.vector import WIDTH, GrowingSet, Vector

# Sizes around every place where the shape changes: the tail is full, a leaf is full, the trie grows a level.
EDGES = [size + step for size in (0, WIDTH, 2 * WIDTH, WIDTH**2, WIDTH**2 + WIDTH) for step in (-1, 0, 1)]
sizes = st.sampled_from([size for size in EDGES if size >= 0]) | st.integers(0, 200)
BEYOND_TWO_LEVELS = WIDTH**3 + 6 * WIDTH + 1


@given(sizes, st.data())
def test_a_vector_is_a_list(size: int, data: st.DataObject) -> None:
    model = list(range(size))
    vector = Vector.of(model)
    for _ in range(data.draw(st.integers(0, 5))):
        index = data.draw(st.integers(0, size))
        if index == size:
            model.append(-1)
            vector = vector.append(-1)
            size += 1
        else:
            model[index] = -2
            vector = vector.replace(index, -2)
    assert list(vector) == model
    assert len(vector) == len(model)
    assert [vector[index] for index in range(len(model))] == model
    start = data.draw(st.integers(-1, len(model) + 1))
    assert list(vector.since(start)) == model[max(start, 0) :]


@given(sizes, st.data())
def test_what_grows_from_a_vector_leaves_it_as_it_was(size: int, data: st.DataObject) -> None:
    vector = Vector.of(range(size))
    vector.append(-1)
    vector.append(-2)
    if size:
        vector.replace(data.draw(st.integers(0, size - 1)), -3)
    assert list(vector) == list(range(size))


@given(sizes)
def test_equal_contents_make_equal_vectors_with_equal_hashes(size: int) -> None:
    one = Vector.of(range(size))
    other = Vector.of([-1] * size)
    assert (one == other) is (size == 0)
    for index in range(size):
        other = other.replace(index, index)
    assert one == other
    assert hash(one) == hash(other)


@given(sizes, st.integers(-300, 3_000))
@example(3, 3)
@example(0, 0)
def test_an_index_outside_is_refused(size: int, index: int) -> None:
    vector = Vector.of(range(size))
    if 0 <= index < size:
        assert vector[index] == index
        return
    with pytest.raises(IndexError, match=rf"index {index} is outside a vector of {size} items"):
        vector[index]
    with pytest.raises(IndexError, match=rf"index {index} is outside a vector of {size} items"):
        vector.replace(index, 0)


def test_a_vector_deeper_than_two_levels_is_a_list() -> None:
    model = list(range(BEYOND_TWO_LEVELS))
    vector = Vector.of(model)
    assert vector.depth == 2
    assert list(vector) == model
    assert all(vector[index] == index for index in model)
    for index in (0, WIDTH, WIDTH**2, WIDTH**3 - 1, WIDTH**3, BEYOND_TWO_LEVELS - 1):
        model[index] = -1
        vector = vector.replace(index, -1)
    assert list(vector) == model
    assert list(vector.since(WIDTH**3)) == model[WIDTH**3 :]


@given(st.integers(0, WIDTH * 3), st.data())
def test_the_first_items_are_the_vector_of_them(size: int, data: st.DataObject) -> None:
    vector = Vector.of(range(size))
    length = data.draw(st.integers(0, size))
    assert vector.first(length) == Vector.of(range(length))
    assert vector.first(length).append(-1) == Vector.of([*range(length), -1])


@pytest.mark.parametrize(
    "length",
    [
        *(0, 1, WIDTH, WIDTH + 1, WIDTH**2, WIDTH**2 + WIDTH, WIDTH**2 + WIDTH + 1, 2 * WIDTH**2 + 1, WIDTH**3),
        WIDTH**3 + 5 * WIDTH + 1,
    ],
)
def test_a_deep_vector_gets_the_shape_of_a_short_one(length: int) -> None:
    assert Vector.of(range(BEYOND_TWO_LEVELS)).first(length) == Vector.of(range(length))


members = st.lists(st.integers(-5, 40), max_size=80)


@given(members)
def test_a_growing_set_is_a_set(items: list[int]) -> None:
    model: set[int] = set()
    grown: GrowingSet[int] = GrowingSet()
    for item in items:
        before = grown
        grown = grown.add(item)
        assert (grown is before) is (item in model)
        assert len(before) == len(model)
        model.add(item)
    assert list(grown) == sorted(model)
    assert len(grown) == len(model)
    assert all((item in grown) is (item in model) for item in range(-6, 42))


@given(members, st.randoms(use_true_random=False))
def test_the_order_of_adding_does_not_matter(items: list[int], random: Random) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    one, other = GrowingSet.of(items), GrowingSet.of(shuffled)
    assert one == other
    assert hash(one) == hash(other)
    assert list(one) == list(other)
    assert one != other.add(41)


@given(st.lists(st.text(max_size=2)))
def test_texts_are_sorted_by_code_point(items: list[str]) -> None:
    assert list(GrowingSet.of(items)) == sorted(set(items))


@given(st.integers(0, 500))
def test_a_growing_set_keeps_few_parts(count: int) -> None:
    assert len(GrowingSet.of(range(count)).parts) <= count.bit_length()


def test_a_growing_set_is_no_frozen_set() -> None:
    assert GrowingSet.of([1]) != frozenset({1})


@given(st.integers(0, 5_000), st.integers(0, 5_000))
@example(0, 0)
@example(1_024, 1_024)
@example(1_025, 1_024)
@example(2_048, 1_056)
@example(4_000, 33)
def test_the_first_items_are_a_vector_like_any_other(size: int, length: int) -> None:
    length = min(size, length)
    first = Vector.of(range(size)).first(length)
    assert list(first) == list(range(length))
    assert first == Vector.of(range(length))
    assert list(first.append(-1)) == [*range(length), -1]
