"""Step laws about the schedule: NO-CONFLICT and PARALLEL.

What conflicts is told by an index of the keys in use, and not by comparing calls in pairs: a second opinion
beside the scheduler, which costs the number of keys. Each step that starts a call, or leaves one waiting,
looks once at the calls of its reply.
"""

from collections.abc import Iterator
from typing import assert_never, final

from loopkernel.data.choices import NoProfile, Schedule, WriteConflict
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.policy import Policy
from loopkernel.data.states import Confirming, Dispatching, Executing, State
from loopkernel.data.tools import AccessMode, Claim, InvalidCall, UnknownTool, ValidCall
from loopkernel.data.words import CallStatus
from loopkernel.laws.reports import Findings
from loopkernel.laws.views import ledger_in, named, tool_named
from loopkernel.replay import StepRecord


@final
class KeysInUse:
    """The resources that some calls use, and which call uses each; None stands for no call."""

    def __init__(self, *, writers_overlap: bool = False) -> None:
        self._writers_overlap = writers_overlap
        self._any: CallId | None = None  # a call that uses anything
        self._alone: CallId | None = None  # a call that conflicts with every other
        self._at: dict[tuple[str, AccessMode], CallId] = {}
        self._below: dict[tuple[str, AccessMode], CallId] = {}  # at the key or within it

    def add(self, call: CallId, claims: tuple[Claim, ...] | None) -> None:
        """The call uses these; None: conflicts with everything."""
        self._any = self._any or call
        if claims is None:
            self._alone = self._alone or call
            return
        for claim in claims:
            self._at.setdefault((claim.key, claim.mode), call)
            for key in (claim.key, *holders(claim.key)):
                self._below.setdefault((key, claim.mode), call)

    def conflicting(self, claims: tuple[Claim, ...] | None) -> CallId | None:
        """A call that a call with these claims must not overlap (rule TOOL-2)."""
        if claims is None:
            return self._any
        if self._alone is not None:
            return self._alone
        for claim in claims:
            for mode in self._modes_against(claim.mode):
                users = [self._below.get((claim.key, mode))]
                users.extend(self._at.get((key, mode)) for key in holders(claim.key))
                for user in users:
                    if user is not None:
                        return user
        return None

    def _modes_against(self, mode: AccessMode) -> tuple[AccessMode, ...]:
        if mode is AccessMode.READ:
            return (AccessMode.WRITE,)
        return (AccessMode.READ,) if self._writers_overlap else (AccessMode.READ, AccessMode.WRITE)


def holders(key: str) -> Iterator[str]:
    """The keys that contain the key: its folders, `/` of an absolute one, `.` of any other."""
    for place, character in enumerate(key):
        if character == "/":
            yield key[:place]
            if place + 1 < len(key):
                yield key[: place + 1]
    if not key.startswith("/") and key != ".":
        yield "."


def claims_of(entry: LedgerEntry, state: State, policy: Policy) -> tuple[Claim, ...] | None:
    """What the call uses; None where it conflicts with everything, not known included (rules TOOL-1, TOOL-2)."""
    tool = tool_named(state, entry.call.tool)
    if tool is not None and tool.profile is None:
        return () if policy.no_profile is NoProfile.NO_CONFLICT else None
    if tool is not None and tool.profile is not None and tool.profile.serial:
        return None
    return entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None


def no_conflict(record: StepRecord) -> Findings:
    """Each call that starts conflicts with none that runs, and passes by none that it must stand behind."""
    started = {effect.call for effect in record.effects if isinstance(effect, StartTool)}
    state, ledger = record.after, ledger_in(record.after)
    if not started or ledger is None or state.session is None:
        return None
    policy = state.session.settings.policy
    earlier = KeysInUse(writers_overlap=policy.write_conflict is WriteConflict.LAST_WRITE)
    found: list[str] = []
    for entry in ledger.entries:
        if not entry.is_open:
            continue
        claims = None if policy.schedule is Schedule.SERIAL else claims_of(entry, state, policy)
        if policy.schedule is not Schedule.ALL and entry.status is CallStatus.IN_PROGRESS:
            found.extend(_conflicts(entry, claims, earlier, started, ledger))
        earlier.add(entry.call.id, claims)
    return found


def _conflicts(
    entry: LedgerEntry,
    claims: tuple[Claim, ...] | None,
    earlier: KeysInUse,
    started: set[CallId],
    ledger: Ledger,
) -> Iterator[str]:
    """The earlier open call that a running call must not overlap, where one of the two has started now."""
    blocking = earlier.conflicting(claims)
    if blocking is None or not (entry.call.id in started or blocking in started):
        return
    before = ledger.entries[blocking.position - 1]
    what = "is running" if before.status is CallStatus.IN_PROGRESS else "has not started yet"
    yield f"{named(entry.call)} runs, but it conflicts with {named(before.call)}, which {what}"


def parallel(record: StepRecord) -> Findings:
    """Each call that waits for its start has a reason: a check, the schedule, or no free slot."""
    state = record.after
    if not isinstance(state, Executing | Confirming | Dispatching):
        return None
    if state.ledger.unanswered == 0 or not any(entry.status is CallStatus.QUEUED for entry in state.ledger.entries):
        return None
    policy = state.session.settings.policy
    running = sum(entry.status is CallStatus.IN_PROGRESS for entry in state.ledger.entries)
    slots_taken = policy.max_parallel is not None and running >= policy.max_parallel
    earlier = KeysInUse()
    found: list[str] = []
    for entry in state.ledger.entries:
        if not entry.is_open:
            continue
        claims = claims_of(entry, state, policy)
        if entry.status is CallStatus.QUEUED:
            found.extend(_idle_wait(entry, claims, earlier, slots_taken, policy.schedule))
        earlier.add(entry.call.id, claims)
    return found


def _idle_wait(
    entry: LedgerEntry,
    claims: tuple[Claim, ...] | None,
    earlier: KeysInUse,
    slots_taken: bool,
    schedule: Schedule,
) -> Iterator[str]:
    """What is wrong with this wait, if anything. Only `serial` and `graph` are built (rule TOOL-3)."""
    if entry.check is not None:
        return
    match entry.verdict:
        case None:
            yield f"{named(entry.call)} waits for a check that nobody was asked for"
        case UnknownTool() | InvalidCall():
            yield f"{named(entry.call)} may not run, but it waits instead of being answered"
        case ValidCall():
            # In the schedules that are held to the order of `serial`, anything open and earlier is a reason.
            held = earlier.conflicting(claims if schedule is Schedule.GRAPH else None)
            if held is None and not slots_taken:
                yield f"{named(entry.call)} waits for nothing: a slot is free, and no earlier call is in its way"
        case _:
            assert_never(entry.verdict)
