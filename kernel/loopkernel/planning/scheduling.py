"""Which calls may start, and what each of the others waits for (rules TOOL-2 and TOOL-3)."""

from collections.abc import Iterable
from typing import assert_never

from attrs import frozen

from loopkernel.data.choices import Schedule
from loopkernel.data.tools import AccessMode, Claim


@frozen
class Claimant:
    """A call as the schedule sees it. `claims` is None when its resources are not known."""

    position: int
    claims: tuple[Claim, ...] | None
    serial: bool = False


def only_reads(call: Claimant) -> bool:
    """Whether the call's resources are known, and it writes none; two such calls never conflict."""
    if call.serial or call.claims is None:
        return False
    return all(claim.mode is AccessMode.READ for claim in call.claims)


def conflict(one: Claimant, other: Claimant) -> bool:
    """Whether two calls must not overlap: either serial, or one resource with a writer (rule TOOL-2)."""
    if one.serial or other.serial or one.claims is None or other.claims is None:
        return True
    return any(_clash(mine, theirs) for mine in one.claims for theirs in other.claims)


def _clash(mine: Claim, theirs: Claim) -> bool:
    if mine.mode is AccessMode.READ and theirs.mode is AccessMode.READ:
        return False
    return _within(mine.key, theirs.key) or _within(theirs.key, mine.key)


def _within(inner: str, outer: str) -> bool:
    """Whether the resource `inner` is `outer`, or lies in it; `.` holds every relative key."""
    if inner == outer or (outer == "." and not inner.startswith("/")):
        return True
    return inner.startswith(outer if outer.endswith("/") else outer + "/")


def waits_for(schedule: Schedule, candidate: Claimant, earlier: Iterable[Claimant]) -> Claimant | None:
    """The first of the earlier calls, all of them unanswered, that holds the candidate back; None if none does.

    `batches`, `read_runs` and `all` are held to the order of `serial` until they are built.
    """
    match schedule:
        case Schedule.GRAPH:
            return next((call for call in earlier if conflict(call, candidate)), None)
        case Schedule.SERIAL | Schedule.BATCHES | Schedule.READ_RUNS | Schedule.ALL:
            return next(iter(earlier), None)
        case _:
            assert_never(schedule)
