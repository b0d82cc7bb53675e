"""Calls to be scheduled, drawn at random, and what it means that two of them clash: by comparing all their claims."""

from hypothesis import strategies as st
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.loop.algorithms.scheduling import Claimant

READ, WRITE = AccessMode.READ, AccessMode.WRITE
WRITES_A, READS_A, FREE = Claimant((Claim("a", WRITE),)), Claimant((Claim("a", READ),)), Claimant(())


def _key(absolute: bool, parts: list[str]) -> str:
    """A canonical key: `/` and `.` are the roots."""
    return ("/" if absolute else "") + "/".join(parts) or "."


segments = st.lists(st.sampled_from(("a", "b", "ab")), max_size=3)
keys = st.builds(_key, st.booleans(), segments)
claims = st.builds(Claim, keys, st.sampled_from(AccessMode))
claimants = st.builds(
    Claimant,
    st.lists(claims, max_size=2).map(tuple) | st.lists(claims, max_size=2).map(tuple) | st.none(),
    st.sampled_from((False, False, False, True)),
)


def path(key: str) -> tuple[str, ...]:
    """The key as its root and the segments below it."""
    root = "/" if key.startswith("/") else "."
    return (root, *(part for part in key.split("/") if part not in ("", ".")))


def contains(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or lies in it."""
    return path(inner)[: len(path(outer))] == path(outer)


def clashing(one: Claim, other: Claim, last_write: bool = False) -> bool:
    """Whether two claims are of one resource, with a writer; or, with `last_write`, with one writer and one reader."""
    writers = [claim for claim in (one, other) if claim.mode is WRITE]
    same = contains(one.key, other.key) or contains(other.key, one.key)
    return same and (len(writers) == 1 or (len(writers) == 2 and not last_write))


def conflicting(one: Claimant, other: Claimant, last_write: bool = False) -> bool:
    """Whether two calls must not overlap."""
    if one.serial or other.serial or one.claims is None or other.claims is None:
        return True
    return any(clashing(mine, theirs, last_write) for mine in one.claims for theirs in other.claims)
