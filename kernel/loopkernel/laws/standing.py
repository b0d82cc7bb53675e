"""Where the calls of a reply stand: who is in the way of whom, and which batch each is in.

A second opinion beside the scheduler: it reads the calls, the settings and the held runs, and no plan. Each look at
a ledger costs the number of open calls and of the keys that they use; where nothing conflicts and no order is kept,
the number of calls that name others.
"""

from collections.abc import Iterator
from typing import assert_never, final

from attrs import frozen

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import EarlyStart, OutputCalls, RunCalls, Schedule, WriteConflict
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, UnknownTool, ValidCall
from loopkernel.data.words import CallStatus
from loopkernel.laws.keys_in_use import Claims, KeysInUse, claims_of
from loopkernel.laws.places import Places
from loopkernel.laws.views import effect_of, tool_named
from loopkernel.planning.approval import decide


@final
@frozen
class InTheWay:
    """A call that another stands behind, and how: a sentence about that call."""

    call: CallId
    how: str


@final
class Standing:
    """A ledger under its session's settings: for each open call, by place, one that is in its way, if any is.

    `places` are those of the ledger's calls, where they are known already.
    """

    def __init__(self, ledger: Ledger, session: Session, *, streaming: bool, places: Places | None = None) -> None:
        self.ledger = ledger
        self.session = session
        self.settings = session.settings
        self.places = Places().of(ledger) if places is None else places
        self._claims: dict[int, Claims] = {}
        by_batch = self.settings.policy.schedule is Schedule.BATCHES
        self._batches = tuple(batches_of(ledger, session)) if by_batch else ()
        self.undecided = None if streaming else undecided_output(ledger, self.settings)
        self.in_the_way = dict((*self._conflicts(), *self._orders(), *self._sources(), *self._undecided()))

    def gives_output(self, entry: LedgerEntry) -> bool:
        """Whether the call gives the output: it is taken, never run (rule CALL-5); one that has run is not."""
        return entry.tool == self.settings.policy.output_tool and not entry.runs

    def _may_run(self, entry: LedgerEntry) -> bool:
        """Whether the call is open, and not known to be answered without a run: those hold nobody back."""
        never = isinstance(entry.verdict, InvalidCall | UnknownTool) or self.gives_output(entry)
        return entry.is_open and not never and entry.hooks.blocked is None

    # --- rule TOOL-2: what conflicts ---------------------------------------------------------------------

    def _conflicts(self) -> Iterator[tuple[int, InTheWay]]:
        """Earlier calls that may run, any that runs or is to run again, and runs that are answered and not stopped.

        A call that is to run again after a restart stands where it stood: behind what runs, and nothing else.
        """
        if self.settings.policy.schedule is Schedule.ALL:
            return
        held, later, earlier, running = (self._no_keys() for _ in range(4))
        for run in self.session.held:
            held.add(run.call, run.claims)
        may_run = [(place, entry) for place, entry in self._open() if self._may_run(entry)]
        for place, entry in reversed(may_run):
            yield from self._clash(place, later if not runs_again(entry) else running)
            if entry.is_running:
                running.add(entry.call.id, self.claims_at(place))
            if entry.is_running or runs_again(entry):
                later.add(entry.call.id, self.claims_at(place))
        running = self._no_keys()
        for place, entry in may_run:
            stopping = held.conflicting(self.claims_at(place))
            if stopping is not None:
                yield place, InTheWay(stopping, f"it conflicts with call {stopping}, which has not stopped")
            yield from self._clash(place, earlier if not runs_again(entry) else running)
            earlier.add(entry.call.id, self.claims_at(place))
            if entry.is_running:
                running.add(entry.call.id, self.claims_at(place))

    def _open(self) -> Iterator[tuple[int, LedgerEntry]]:
        """The open calls, in order."""
        return ((place, self.ledger.entries[place]) for place in sorted(self.places.open))

    def _clash(self, place: int, keys: KeysInUse) -> Iterator[tuple[int, InTheWay]]:
        other = keys.conflicting(self.claims_at(place))
        if other is not None:
            what = "is running" if self.ledger.entries[other.position - 1].is_running else "has not started yet"
            yield place, InTheWay(other, f"it conflicts with call {other}, which {what}")

    def _no_keys(self) -> KeysInUse:
        return KeysInUse(writers_overlap=self.settings.policy.write_conflict is WriteConflict.LAST_WRITE)

    def clash(self, place: int, claims: Claims) -> bool:
        """Whether the call at `place` must not overlap with something that uses these."""
        if self.settings.policy.schedule is Schedule.ALL:
            return False
        keys = self._no_keys()
        keys.add(self.ledger.entries[place].call.id, claims)
        return keys.conflicting(self.claims_at(place)) is not None

    def conflicts(self, place: int, other: int) -> bool:
        """Whether the call at `place` stands behind that other since the two must not overlap."""
        entry, before = self.ledger.entries[place], self.ledger.entries[other]
        if place == other or not (self._may_run(before) and self._may_run(entry)):
            return False
        first = before.is_running or (not runs_again(entry) and (other < place or runs_again(before)))
        return first and self.clash(place, self.claims_at(other))

    def claims_at(self, place: int) -> Claims:
        """What the call at `place` uses; nothing once it is answered."""
        if place not in self._claims:
            entry = self.ledger.entries[place]
            self._claims[place] = claims_of(entry, self.settings) if entry.is_open else ()
        return self._claims[place]

    # --- rule TOOL-3: the order of the schedule ----------------------------------------------------------

    def _orders(self) -> Iterator[tuple[int, InTheWay]]:
        if self.settings.policy.schedule in (Schedule.GRAPH, Schedule.ALL):
            return
        first: int | None = None  # the place of the first open call
        parting: int | None = None  # of the first one that is no running read
        for place, entry in self._open():
            if not self._may_run(entry):
                continue
            for before in (first, parting):
                if before is not None and self.goes_first(before, place):
                    call = self.ledger.entries[before].call.id
                    yield place, InTheWay(call, f"the schedule puts it behind call {call}, which is open")
            first = place if first is None else first
            if parting is None and not (entry.is_running and self._reads(entry)):
                parting = place

    def goes_first(self, other: int, place: int) -> bool:
        """Whether the schedule lets that other, earlier call go first, whatever the two use."""
        entry, before = self.ledger.entries[place], self.ledger.entries[other]
        if other >= place or not self._may_run(before) or not self._may_run(entry):
            return False
        schedule = self.settings.policy.schedule
        match schedule:
            case Schedule.SERIAL:
                return True
            case Schedule.READ_RUNS:
                return not (self._reads(entry) and self._reads(before) and before.is_running)
            case Schedule.BATCHES:
                one, two = self._batches[other], self._batches[place]
                return one is not None and two is not None and one < two
            case Schedule.GRAPH | Schedule.ALL:
                return False
            case _:
                assert_never(schedule)

    def _reads(self, entry: LedgerEntry) -> bool:
        """Whether the call only reads: what has started is what its tool was then."""
        effect = effect_of(self.settings, entry.tool) if entry.effect is None else entry.effect
        return effect is EffectClass.READ_ONLY

    # --- rule CALL-1: dependencies -----------------------------------------------------------------------

    def _sources(self) -> Iterator[tuple[int, InTheWay]]:
        for place in sorted(self.places.dependent):
            for source in self.places.sources(place):
                if source.place is not None:
                    needed = self.ledger.entries[source.place]
                    if needed.status is not CallStatus.DONE:
                        how = "is open" if needed.is_open else f"has ended as {needed.status.value}"
                        yield place, InTheWay(needed.call.id, f"it depends on call {needed.call.id}, which {how}")

    def needs(self, place: int, other: int) -> bool:
        """Whether the call at `place` depends on that other, which is open."""
        entry = self.ledger.entries[other]
        return entry.is_open and any(source.place == other for source in self.places.sources(place))

    # --- rule CALL-5: the output in the place of the others --------------------------------------------------

    def _undecided(self) -> Iterator[tuple[int, InTheWay]]:
        if self.undecided is not None:
            for place, entry in self._open():
                if not entry.is_running and entry.call.id != self.undecided:
                    yield place, InTheWay(self.undecided, f"call {self.undecided} may give the output in its place")

    def waits_for_others(self) -> bool:
        """Whether an output call lets others run first: some that do not wait, at any remove, for one themselves."""
        if self.settings.policy.output_calls is OutputCalls.SKIP:
            return False
        behind: list[int] = []
        for place, entry in self._open():
            if not self.gives_output(entry) and not any(self._is_kept_by(place, other) for other in behind):
                return True
            behind.append(place)
        return False

    def _is_kept_by(self, place: int, other: int) -> bool:
        """Whether the call at `place` waits for that other, not only since it is not checked yet (rule TOOL-18)."""
        if self.ledger.entries[place].verdict is None:
            return self.needs(place, other) or self.goes_first(other, place)
        return self.is_behind(place, other)

    def is_behind(self, place: int, other: int) -> bool:
        """Whether the call at `place` waits for that other, for whatever reason."""
        return self.needs(place, other) or self.conflicts(place, other) or self.goes_first(other, place)

    def children(self) -> Iterator[LedgerEntry]:
        """The calls whose sub-agents are under way, in order."""
        return (self.ledger.entries[place] for place in sorted(self.places.children))

    # --- slots -------------------------------------------------------------------------------------------

    @property
    def slots_taken(self) -> int:
        """How many runs are started and not answered, those with a question among them."""
        return len(self.places.running)

    @property
    def slot_free(self) -> bool:
        """Whether one more run may start."""
        return self.settings.policy.max_parallel is None or self.slot_is_left

    @property
    def slot_is_left(self) -> bool:
        """Whether there are so many slots, and one is free."""
        limit = self.settings.policy.max_parallel
        return limit is not None and self.slots_taken < limit


def runs_again(entry: LedgerEntry) -> bool:
    """Whether the call had started before a restart, and is to start, or has started, once more."""
    if entry.status is CallStatus.QUEUED:
        return entry.runs > 0
    return entry.is_running and entry.runs > 1


def batches_of(ledger: Ledger, session: Session, fixed: Ledger | None = None) -> Iterator[int | None]:
    """The batch of each call, by the place of its first; None where a call is passed over, or it is too early to say.

    A batch that a call is in stays: with `fixed`, only those that it had in that ledger; the others are drawn here.
    What a run that has not stopped uses is what it took.
    """
    settings = session.settings
    overlap = settings.policy.write_conflict is WriteConflict.LAST_WRITE
    held = {run.call: run.claims for run in session.held}
    current: int | None = None
    too_early = False
    members = KeysInUse(writers_overlap=overlap)
    for place, entry in enumerate(ledger.entries):
        known = entry.batch
        if fixed is not None:
            known = fixed.entries[place].batch if place < len(fixed.entries) else None
        claims = held[entry.call.id] if entry.call.id in held else claims_of(entry, settings)
        if known is None:
            too_early = too_early or (entry.check is not None and entry.verdict is None)
            if too_early or not entry.is_open or not isinstance(entry.verdict, ValidCall):
                yield None
                continue
        joins = current is not None and members.conflicting(claims) is None
        mine = known if known is not None else current if joins and current is not None else place
        if mine != current:
            current, members = mine, KeysInUse(writers_overlap=overlap)
        members.add(entry.call.id, claims)
        yield mine


def undecided_output(ledger: Ledger, settings: Settings) -> CallId | None:
    """The call that gives the output, where others are skipped for one, before its first check has answered."""
    policy = settings.policy
    if policy.output_tool is None or policy.output_calls is not OutputCalls.SKIP:
        return None
    for entry in ledger.entries:
        resolved = entry.links is not None and entry.links.resolved is not None
        if entry.is_open and entry.tool == policy.output_tool and entry.verdict is None and not resolved:
            return entry.call.id
    return None


def may_stream_early(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the policy and the profile let the call start while its reply streams (rule TOOL-9)."""
    policy, tool = settings.policy, tool_named(settings, entry.tool)
    if policy.early_start is not EarlyStart.GATED or policy.run_calls is RunCalls.STOP_REASON:
        return False
    if tool is None or tool.profile is None or (tool.profile.child and policy.child.depth < 1):
        return False
    return tool.profile.early and tool.profile.effect is not EffectClass.DANGEROUS


def decision_on(entry: LedgerEntry, settings: Settings) -> Decision:
    """ASK-1 for the call as it is now, with the approval it has; one of a tool that is not offered cannot run."""
    tool = tool_named(settings, entry.tool)
    if tool is None or isinstance(entry.given, RawInput):
        return Decision.DENY
    claims = entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None
    return decide(
        settings.policy,
        settings.remembered,
        tool,
        entry.given,
        approved=entry.person.approved,
        doubted=entry.person.doubted,
        claims=claims,
        tools=settings.tools,
    )
