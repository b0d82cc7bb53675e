"""Which calls of a reply may start, and what each of the others waits for (rules TOOL-2 and TOOL-3); usable alone.

A plan is grown call by call (`add`, and `know` where what a call touches is found later), and told what happens
(`start`, `end`, `stop`). `look` says what a call waits for; `next_candidate` which call to look at. Each of them costs
about the number of resource keys of the call, whatever the number of calls.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from loopkernel.data.choices import Schedule
from loopkernel.data.plans import Plan, Users
from loopkernel.data.text_map import TextMap
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.data.value_classes import frozen
from loopkernel.data.vector import Vector

NONE = Users()


@frozen
class Claimant:
    """What a call uses. `claims` is None where that is not known: it then conflicts with every other call."""

    claims: tuple[Claim, ...] | None
    serial: bool = False

    @property
    def alone(self) -> bool:
        """Whether it conflicts with every other call."""
        return self.serial or self.claims is None


# --- conflicts ------------------------------------------------------------------------------------------


def conflict(one: Claimant, other: Claimant, *, last_write: bool = False) -> bool:
    """Whether two calls must not overlap: either serial, or one resource with a writer (rule TOOL-2).

    With `last_write` two writers may (rule CALL-6).
    """
    if one.serial or other.serial or one.claims is None or other.claims is None:
        return True
    return any(_clash(mine, theirs, last_write) for mine in one.claims for theirs in other.claims)


def clash_of(one: Claimant, other: Claimant, *, last_write: bool = False) -> Claim | None:
    """The first claim of `one` that clashes with one of `other`; None if none does, or either may use anything."""
    theirs = other.claims or ()
    return next((mine for mine in one.claims or () if any(_clash(mine, its, last_write) for its in theirs)), None)


def _clash(mine: Claim, theirs: Claim, last_write: bool) -> bool:
    writers = (mine.mode is AccessMode.WRITE) + (theirs.mode is AccessMode.WRITE)
    if writers == 0 or (writers == 2 and last_write):
        return False
    return mine.key == theirs.key or mine.key in containers(theirs.key) or theirs.key in containers(mine.key)


def containers(key: str) -> tuple[str, ...]:
    """The keys that contain the key: its folders, `/` of an absolute one, `.` of any other."""
    found: list[str] = [] if key.startswith("/") or key == "." else ["."]
    place = key.find("/")
    while place >= 0:
        if place:
            found.append(key[:place])
        if place + 1 < len(key):
            found.append(key[: place + 1])
        place = key.find("/", place + 1)
    return tuple(found)


def _conflicting(plan: Plan, claims: tuple[Claim, ...]) -> int:
    """The calls whose known claims conflict with these."""
    found = plan.alone
    for claim in claims:
        reads = claim.mode is AccessMode.READ
        for users in _users(plan, claim.key):
            if reads:
                found |= users.writers
            else:
                found |= users.readers if plan.last_write else users.readers | users.writers
    return found


def _users(plan: Plan, key: str) -> Iterator[Users]:
    """Who uses the resource, what lies in it, or what it lies in."""
    yield plan.below.get(key) or NONE
    for container in containers(key):
        yield plan.at.get(container) or NONE


def conflicting_calls(plan: Plan, place: int) -> int:
    """The mask of the calls that conflict with the call at `place`, ended ones among them."""
    if plan.alone >> place & 1:
        return plan.known & ~(1 << place)
    return _conflicting(plan, plan.claims[place]) & ~(1 << place)


# --- a plan grows ---------------------------------------------------------------------------------------


def add(
    plan: Plan,
    claimant: Claimant | None,
    *,
    reads: bool = False,
    passive: bool = False,
    sources: Iterable[int] = (),
    batch: int | None = None,
) -> Plan:
    """One more call. No claimant: what it uses is not known yet, and nothing that may conflict starts before it.

    `reads`: its tool only reads. `passive`: it never runs, and holds no other back but its dependents. `sources`: the
    places that it depends on. `batch`: the first place of its batch, where that has been settled before.
    """
    place = len(plan.claims)
    bit = 1 << place
    needs = 0
    dependents = plan.dependents.append(0)
    for source in sources:
        needs |= 1 << source
        dependents = dependents.replace(source, dependents[source] | bit)
    touches_nothing = claimant is not None and claimant.claims == () and not claimant.serial
    plan = plan.updated(
        open=plan.open | bit,
        known=plan.known | bit if touches_nothing else plan.known,
        reads=plan.reads | bit if reads else plan.reads,
        passive=plan.passive | bit if passive else plan.passive,
        candidates=plan.candidates | bit,
        claims=plan.claims.append(()),
        sources=plan.sources.append(needs),
        dependents=dependents,
        watchers=plan.watchers.append(0),
        batches=plan.batches.append(-1 if batch is None else batch),
        drawn=plan.drawn if batch is None else plan.drawn | bit,
    )
    return plan if claimant is None or touches_nothing else know(plan, place, claimant)


def know(plan: Plan, place: int, claimant: Claimant) -> Plan:
    """What the call at `place` uses is found. It may be told again where it was not known before."""
    bit = 1 << place
    plan = look_again(plan, bit | plan.watchers[place])
    watchers = _unwatched(plan, place)
    if claimant.claims is None or claimant.serial:
        return plan.updated(known=plan.known | bit, alone=plan.alone | bit, watchers=watchers)
    at, below = plan.at, plan.below
    for claim in claimant.claims:
        at = _used(at, claim.key, claim.mode, bit)
        below = _used(below, claim.key, claim.mode, bit)
        for key in containers(claim.key):
            below = _used(below, key, claim.mode, bit)
    return plan.updated(
        known=plan.known | bit,
        alone=plan.alone & ~bit,
        at=at,
        below=below,
        claims=plan.claims.replace(place, claimant.claims),
        watchers=watchers,
    )


def _used(users: TextMap[Users], key: str, mode: AccessMode, bit: int) -> TextMap[Users]:
    known = users.get(key) or NONE
    if mode is AccessMode.READ:
        return users.put(key, Users(known.readers | bit, known.writers))
    return users.put(key, Users(known.readers, known.writers | bit))


def pass_over(plan: Plan, place: int) -> Plan:
    """The call will never run: it holds no other back but its dependents, and those that it held are looked at."""
    bit = 1 << place
    passed = plan.updated(passive=plan.passive | bit, watchers=_unwatched(plan, place))
    return look_again(passed, plan.watchers[place])


# --- what a call waits for ------------------------------------------------------------------------------


def blockers(plan: Plan, place: int) -> int:
    """The mask of the calls that the call at `place` waits for (rule TOOL-3); 0 if it may start."""
    bit = 1 << place
    waits = plan.sources[place] & plan.open
    earlier = plan.open & ~plan.passive & (bit - 1)
    match plan.schedule:
        case Schedule.GRAPH:
            pass
        case Schedule.ALL:
            return waits
        case Schedule.SERIAL:
            waits |= earlier
        case Schedule.READ_RUNS:
            together = plan.running & plan.reads if plan.reads & bit else 0
            waits |= earlier & ~together
        case Schedule.BATCHES:
            waits |= earlier & ((1 << max(plan.batches[place], 0)) - 1)
        case _:
            assert_never(plan.schedule)
    conflicts = conflicting_calls(plan, place)
    if plan.restarting & bit:
        return waits | conflicts & (plan.running | plan.held)
    waits |= conflicts & (earlier | plan.running | plan.held | plan.restarting)
    return waits | (earlier & ~plan.known)


def look(plan: Plan, place: int) -> tuple[Plan, bool]:
    """Whether the candidate may start; if not, it is looked at again when what it waits for has ended."""
    bit = 1 << place
    waits = blockers(plan, place)
    candidates = plan.candidates & ~bit
    if waits == 0:
        return plan.updated(candidates=candidates, allowed=plan.allowed | bit), True
    last = waits.bit_length() - 1  # the latest: in a chain of conflicts each call then wakes one other
    watchers = plan.watchers.replace(last, plan.watchers[last] | bit)
    return plan.updated(candidates=candidates, allowed=plan.allowed & ~bit, watchers=watchers), False


def next_candidate(plan: Plan, *, slot_free: bool) -> int | None:
    """The first call to look at, or that may start once more slots are free; None if there is none."""
    waiting = plan.candidates | plan.allowed if slot_free else plan.candidates
    return first_of(waiting)


def start_all(plan: Plan, slots: int | None = None) -> tuple[Plan, tuple[int, ...]]:
    """Every call that may start is started, the earliest first, as far as `slots` allow; and their places."""
    started: list[int] = []
    while True:
        free = slots is None or len(started) < slots
        place = next_candidate(plan, slot_free=free)
        if place is None:
            return plan, tuple(started)
        if plan.candidates >> place & 1:
            plan, may_start = look(plan, place)
            if not (may_start and free):
                continue
        plan = start(plan, place)
        started.append(place)


def first_of(mask: int) -> int | None:
    """The first place of a mask."""
    return (mask & -mask).bit_length() - 1 if mask else None


def places_of(mask: int) -> Iterator[int]:
    """The places of a mask, in order."""
    while mask:
        first = mask & -mask
        yield first.bit_length() - 1
        mask ^= first


# --- what happens ---------------------------------------------------------------------------------------


def start(plan: Plan, place: int) -> Plan:
    """The call has started. In runs of reads the next read may follow at once."""
    bit = 1 << place
    woken = plan.watchers[place] if plan.schedule is Schedule.READ_RUNS else 0
    return plan.updated(
        running=plan.running | bit,
        restarting=plan.restarting & ~bit,
        allowed=plan.allowed & ~bit,
        candidates=(plan.candidates & ~bit) | (woken & plan.open),
        watchers=_unwatched(plan, place) if woken else plan.watchers,
    )


def wait(plan: Plan, place: int) -> Plan:
    """The call waits for a person, and is not looked at until `look_again`."""
    bit = 1 << place
    return plan.updated(allowed=plan.allowed & ~bit, candidates=plan.candidates & ~bit)


def park(plan: Plan, place: int) -> Plan:
    """The call waits for a run of another reply, and is not looked at until `unpark`."""
    bit = 1 << place
    return plan.updated(allowed=plan.allowed & ~bit, candidates=plan.candidates & ~bit, parked=plan.parked | bit)


def unpark(plan: Plan) -> Plan:
    """A run of another reply has stopped: the calls that waited for one are looked at again."""
    return look_again(plan.updated(parked=0), plan.parked) if plan.parked else plan


def look_again(plan: Plan, places: int) -> Plan:
    """The open calls of the mask are to be looked at."""
    candidates = plan.candidates | (places & plan.open & ~plan.running)
    return plan if candidates == plan.candidates else plan.updated(candidates=candidates)


def end(plan: Plan, place: int, *, stopped: bool = True) -> Plan:
    """The call has ended. One that has not `stopped` keeps its resources until `stop`."""
    bit = 1 << place
    still_open = plan.open & ~bit
    return plan.updated(
        open=still_open,
        running=plan.running & ~bit,
        restarting=plan.restarting & ~bit,
        held=plan.held if stopped else plan.held | bit,
        allowed=plan.allowed & ~bit,
        candidates=((plan.candidates & ~bit) | plan.watchers[place]) & still_open & ~plan.running,
        watchers=_unwatched(plan, place),
    )


def stop(plan: Plan, place: int) -> Plan:
    """The run of a call that had ended has stopped: its resources are free."""
    bit = 1 << place
    return plan.updated(
        held=plan.held & ~bit,
        candidates=(plan.candidates | plan.watchers[place]) & plan.open & ~plan.running,
        watchers=_unwatched(plan, place),
    )


def _unwatched(plan: Plan, place: int) -> Vector[int]:
    """The watchers once those of the call are woken. They watch anew when they are looked at, or wait no longer.

    One that stayed would wake a second time a call that has been asked about since.
    """
    return plan.watchers.replace(place, 0) if plan.watchers[place] else plan.watchers


# --- batches --------------------------------------------------------------------------------------------


def draw(plan: Plan, place: int) -> Plan:
    """The call at `place` joins the current batch, or closes it and begins another (rule TOOL-3)."""
    members = (plan.drawn >> plan.batch) << plan.batch
    first = place if conflicting_calls(plan, place) & members or not plan.drawn else plan.batch
    return plan.updated(
        drawn=plan.drawn | 1 << place,
        batches=plan.batches.replace(place, first),
        batched=place + 1,
        batch=first,
    )


def batches(calls: Sequence[Claimant]) -> tuple[tuple[int, ...], ...]:
    """The calls, by their places, in greedy batches that keep their order: no two of a batch conflict."""
    plan = Plan(schedule=Schedule.BATCHES)
    found: list[list[int]] = []
    for place, call in enumerate(calls):
        plan = draw(add(plan, call), place)
        if plan.batch == place:
            found.append([])
        found[-1].append(place)
    return tuple(map(tuple, found))


def read_runs(reads: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """The calls, by their places: neighbours that only read together, every other call alone."""
    found: list[list[int]] = []
    for place, only_reads in enumerate(reads):
        if only_reads and place and reads[place - 1]:
            found[-1].append(place)
        else:
            found.append([place])
    return tuple(map(tuple, found))
