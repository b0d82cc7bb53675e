"""What differs between two vectors is found, whatever they share."""

from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.differences import different_items
from loopkernel.data.vector import WIDTH, Vector

# What is done to a vector: an item more, another item at a place, or only so many items from the front.
changes = st.lists(
    st.tuples(st.just("append"), st.integers(0, 9))
    | st.tuples(st.just("replace"), st.integers(0, 10_000))
    | st.tuples(st.just("first"), st.integers(0, 10_000)),
    max_size=6,
)
sizes = st.integers(0, 3 * WIDTH) | st.sampled_from((WIDTH**2, WIDTH**2 + 1, WIDTH**2 + 3 * WIDTH + 2))


def changed(vector: Vector[int], done: list[tuple[str, int]]) -> Vector[int]:
    """The vector after all that is done to it; a place that it does not have is taken from its size."""
    for what, number in done:
        size = vector.size
        if what == "append":
            vector = vector.append(number)
        elif what == "replace" and size:
            vector = vector.replace(number % size, -1)
        elif what == "first":
            vector = vector.first(number % (size + 1))
    return vector


@given(sizes, changes, changes)
@example(3 * WIDTH, [("first", 2 * WIDTH)], [("replace", 0)])
@example(2 * WIDTH, [("append", 1)], [("first", WIDTH)])
@example(WIDTH**3 + WIDTH + 1, [], [("first", 3)])  # two levels higher than the other
def test_the_places_that_differ_are_found_in_order(
    size: int, left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    base = Vector.of([number % 200 for number in range(size)])  # small numbers: what is equal is the very same
    one, other = changed(base, left), changed(base, right)
    differences = different_items(one, other)
    longer = max(one.size, other.size)
    pairs = zip([*one, *[None] * (longer - one.size)], [*other, *[None] * (longer - other.size)], strict=True)
    expected = [(place, old, new) for place, (old, new) in enumerate(pairs) if old != new]
    assert list(differences) == expected
