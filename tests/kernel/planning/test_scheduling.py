"""Which calls may overlap, and which earlier call holds one back; judged against a model over path segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import Schedule
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.planning.scheduling import Claimant, conflict, only_reads, waits_for

segments = st.lists(st.sampled_from(("a", "b", "ab")), max_size=3)
keys = st.builds(lambda absolute, parts: _key(absolute, parts), st.booleans(), segments)
claims = st.builds(Claim, keys, st.sampled_from(AccessMode))
claimants = st.builds(
    Claimant,
    st.integers(0, 9),
    st.none() | st.lists(claims, max_size=2).map(tuple),
    st.sampled_from((False, False, False, True)),
)


def _key(absolute: bool, parts: list[str]) -> str:
    """A canonical key: `/` and `.` are the roots."""
    return ("/" if absolute else "") + "/".join(parts) or "."


def path(key: str) -> tuple[str, ...]:
    """The key as its root and the segments below it."""
    root = "/" if key.startswith("/") else "."
    return (root, *(part for part in key.split("/") if part not in ("", ".")))


def contains(outer: str, inner: str) -> bool:
    return path(inner)[: len(path(outer))] == path(outer)


def overlapping(one: Claim, other: Claim) -> bool:
    return contains(one.key, other.key) or contains(other.key, one.key)


def model_of_conflict(one: Claimant, other: Claimant) -> bool:
    if one.serial or other.serial or one.claims is None or other.claims is None:
        return True
    return any(
        overlapping(mine, theirs) and AccessMode.WRITE in (mine.mode, theirs.mode)
        for mine in one.claims
        for theirs in other.claims
    )


@pytest.mark.rule("TOOL-2")
@given(claimants, claimants)
def test_calls_conflict_when_they_share_a_resource_that_one_of_them_writes(one: Claimant, other: Claimant) -> None:
    assert conflict(one, other) == conflict(other, one) == model_of_conflict(one, other)


@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("a/b", "a", True),
        ("a", "a", True),
        ("ab", "a", False),
        ("a/b", "a/c", False),
        (".", "a", True),
        ("/", "/a", True),
        ("/", "a", False),
        (".", "/a", False),
    ],
)
@pytest.mark.parametrize("modes", [(mode, other) for mode in AccessMode for other in AccessMode])
def test_a_folder_contains_what_lies_in_it(
    one: str, other: str, clash: bool, modes: tuple[AccessMode, AccessMode]
) -> None:
    mine, theirs = Claimant(0, (Claim(one, modes[0]),)), Claimant(1, (Claim(other, modes[1]),))
    assert conflict(mine, theirs) == (clash and AccessMode.WRITE in modes)


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-1")
def test_a_serial_call_and_one_of_unknown_resources_conflict_with_all() -> None:
    free = Claimant(0, ())
    assert not conflict(free, free)
    assert conflict(free, Claimant(1, None))
    assert conflict(free, Claimant(1, (), serial=True))


@pytest.mark.rule("TOOL-2")
@given(claimants, claimants)
def test_calls_that_only_read_are_known_and_never_conflict(one: Claimant, other: Claimant) -> None:
    writes = one.claims is not None and any(claim.mode is AccessMode.WRITE for claim in one.claims)
    assert only_reads(one) == (not one.serial and one.claims is not None and not writes)
    assert not (only_reads(one) and only_reads(other) and conflict(one, other))


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-18")
@given(st.sampled_from(Schedule), claimants, st.lists(claimants, max_size=4))
def test_a_call_waits_for_the_first_that_is_in_its_way(
    schedule: Schedule, candidate: Claimant, earlier: list[Claimant]
) -> None:
    if schedule is Schedule.GRAPH:
        in_its_way = [call for call in earlier if model_of_conflict(call, candidate)]
    else:
        in_its_way = earlier
    assert waits_for(schedule, candidate, iter(earlier)) == (in_its_way[0] if in_its_way else None)
