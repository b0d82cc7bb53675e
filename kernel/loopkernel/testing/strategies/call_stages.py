"""The calls of a reply while they are drawn, one after the other, each at a stage that the calls before it allow."""

import enum
from collections.abc import Sequence

from attrs import Factory, define, evolve, field
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.blocks import RawInput, ToolCall
from loopkernel.data.children import ChildCall, ChildRun, Reservation
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.hook_calls import CallHooks, OpenHook, RunEnd
from loopkernel.data.ids import CheckOperation, HookOperation, ModelOperation, OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import (
    NOBODY,
    ApprovalWait,
    ChildWait,
    CrashWait,
    Edit,
    Ledger,
    LedgerEntry,
    Links,
    Person,
    QuestionWait,
)
from loopkernel.data.policy import Hook
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Claim, EffectClass, InvalidCall, UnknownTool, Verdict
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, HookPoint, TimerPurpose, UserAction
from loopkernel.loop.algorithms.references import has_references, resolved, sources
from loopkernel.testing.strategies.conversation import (
    claims,
    result_of,
    tool_outputs,
    tool_results,
    valid_calls,
)
from loopkernel.testing.strategies.deltas import child_calls
from loopkernel.testing.strategies.numbers import Numbers
from loopkernel.testing.strategies.values import (
    counts,
    json_texts,
    safe_names,
    texts,
)


class Stage(enum.Enum):
    """How far a call is."""

    CHECKING = "checking"
    FAULTY = "faulty"  # and not answered yet, since its reply still streams
    READY = "ready"
    RUNNING = "running"
    APPROVAL = "approval"
    EDITING = "editing"
    QUESTION = "question"
    HOOKED = "hooked"  # before its run
    LOOKED_AT = "looked at"  # by hooks, after its run
    CHILD = "child"
    CHILD_ASKS = "child asks"
    CRASHED = "crashed"
    ANSWERED = "answered"
    LEASED = "leased"  # answered, and its run has not stopped
    BACKGROUND = "background"  # answered, and its run goes on


_BEFORE_A_RUN = (Stage.READY, Stage.CHECKING)
_SHOWN = (Stage.APPROVAL, Stage.CRASHED)
OVER = (Stage.ANSWERED, Stage.LEASED, Stage.BACKGROUND)
_HOOKS = (Stage.HOOKED, Stage.LOOKED_AT)
STREAMING = (*_BEFORE_A_RUN, Stage.FAULTY, Stage.RUNNING, Stage.QUESTION, *_HOOKS, *OVER)
WORKING = (
    *(*_BEFORE_A_RUN, Stage.RUNNING, *_SHOWN, Stage.EDITING, Stage.QUESTION, *OVER),
    *(*_HOOKS, Stage.CHILD, Stage.CHILD_ASKS),
)
ASKING = (Stage.READY, *_SHOWN, Stage.QUESTION, Stage.CHILD_ASKS, *OVER)
DISPATCHING = (Stage.READY, Stage.CHILD, Stage.CHILD, Stage.CHILD_ASKS, *_SHOWN, *OVER)
RELEASED = (*_SHOWN, *OVER)


@define
class BuiltCalls:
    """What the calls of a reply have in common while they are drawn, one after the other."""

    draw: DrawFn
    numbers: Numbers
    first: dict[OperationKind, int] = field(init=False)
    places: dict[OperationKind, list[int]] = Factory(lambda: {kind: [] for kind in OperationKind})
    entries: list[LedgerEntry] = Factory(list)
    held: list[HeldRun] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self.first = {kind: number + 1 for kind, number in self.numbers.newest.items()}

    def note(self, kind: OperationKind, number: int) -> None:
        """The operation belongs to the call that is drawn now."""
        places, index = self.places[kind], number - self.first[kind]
        places.extend([-1] * (index - len(places)))
        places.append(len(self.entries))

    def add(self, call: ToolCall, wanted: Stage) -> None:
        """One more call, as near to the wanted stage as the calls before it let it be."""
        links, faulty = _links(call, self.entries)
        entry = LedgerEntry(call=call, links=links)
        stage = _possible(wanted, entry, faulty, self.entries)
        if faulty:
            entry = evolve(entry, verdict=InvalidCall("a"))
        elif links is not None and links.refers and _all_done(links, self.entries) and isinstance(call.input, Json):
            outputs = {self.entries[place].call.provider_id: self.draw(texts) for place in links.sources}
            entry = evolve(entry, links=evolve(links, resolved=resolved(call.input, outputs)))
        self.entries.append(self.at(entry, stage, faulty))

    # --- the stages -------------------------------------------------------------------------------------

    def at(self, entry: LedgerEntry, stage: Stage, faulty: bool) -> LedgerEntry:
        """The call at that stage."""
        draw = self.draw
        if stage is Stage.CHECKING:
            return evolve(entry, check=self.check())
        if draw(st.booleans()) and not faulty:
            self.numbers.reported(OperationKind.CHECK, self.check())  # else the verdict came with the call
        if stage is Stage.FAULTY:
            return entry if faulty else evolve(entry, verdict=draw(_faults))
        if not faulty:
            entry = evolve(entry, verdict=draw(valid_calls))
        if stage is Stage.ANSWERED and (faulty or not _all_done(entry.links, self.entries) or draw(st.booleans())):
            return self.answered(entry)
        if stage in (Stage.APPROVAL, Stage.EDITING):
            return self.waiting(entry, stage)
        if not _all_done(entry.links, self.entries):
            return entry  # nobody is asked about a call before it could start
        entry = evolve(entry, person=draw(_persons(entry)))
        if draw(st.booleans()):
            entry = evolve(entry, hooks=draw(_hooks_before))
        if stage is Stage.HOOKED:
            # Nobody is asked about a call before its hooks are.
            return evolve(entry, person=NOBODY, hooks=evolve(entry.hooks, left=(), open=self.hook()))
        return entry if stage is Stage.READY else self.run(entry, stage)

    def hook(self, point: HookPoint = HookPoint.BEFORE_TOOL) -> OpenHook:
        """A hook that is asked about the call that is drawn now."""
        number = self.numbers.mint(OperationKind.HOOK)
        self.note(OperationKind.HOOK, number)
        timer = self.timer(TimerPurpose.HOOK_TIMEOUT)
        left = tuple(Hook(point=point, name=name, gated=True) for name in self.draw(_names_of_hooks))
        hook = Hook(point=point, name=self.draw(safe_names), gated=True)
        return OpenHook(operation=HookOperation(number), hook=hook, left=left, timer=timer)

    def check(self) -> CheckOperation:
        number = self.numbers.mint(OperationKind.CHECK)
        self.note(OperationKind.CHECK, number)
        return CheckOperation(number)

    def waiting(self, entry: LedgerEntry, stage: Stage) -> LedgerEntry:
        """A person is to approve the call, or an edit of it is being checked."""
        edit = self.draw(_edits) if stage is Stage.EDITING else None
        return evolve(
            entry,
            status=CallStatus.BLOCKED_ON_USER,
            check=None if edit is None else self.check(),
            person=Person(wait=ApprovalWait(edit), asked=True),
            timer=self.timer(TimerPurpose.APPROVAL_TIMEOUT),
        )

    def timer(self, purpose: TimerPurpose) -> Timer | None:
        if not self.draw(st.booleans()):
            return None
        timer = self.numbers.mint_timer(self.draw, purpose)
        self.note(OperationKind.TIMER, timer.operation)
        return timer

    def run(self, entry: LedgerEntry, stage: Stage) -> LedgerEntry:
        """The call has run once or twice, and is as far as `stage` says."""
        draw, runs = self.draw, self.draw(st.integers(1, 2))
        operation = self.started()
        if runs == 2:
            self.numbers.cut_short(OperationKind.RUN, operation)
            operation = self.started()
        progress = Vector.of(draw(st.lists(texts, max_size=1)))
        entry = evolve(entry, operation=operation, runs=runs, effect=draw(effects), progress=progress)
        if stage in (Stage.CHILD, Stage.CHILD_ASKS):
            return self.child(entry, stage)
        if stage is Stage.LOOKED_AT:
            self.numbers.reported(OperationKind.RUN, operation)
            end = RunEnd(status=draw(st.sampled_from((CallStatus.DONE, CallStatus.ERROR))), output=draw(tool_outputs))
            gate = self.hook(HookPoint.AFTER_TOOL)
            hooks = CallHooks(open=gate, left=(), input=entry.hooks.input, end=end, retries=draw(st.integers(0, 3)))
            return evolve(entry, status=CallStatus.IN_PROGRESS, hooks=hooks)
        if stage is Stage.RUNNING:
            return evolve(entry, status=CallStatus.IN_PROGRESS, timer=self.timer(TimerPurpose.TOOL_TIMEOUT))
        if stage is Stage.QUESTION:
            wait = QuestionWait(draw(texts), draw(st.none() | counts))
            person = evolve(entry.person, wait=wait, asked=True, answered=False)
            return evolve(entry, status=CallStatus.BLOCKED_ON_USER, person=person)
        if stage is Stage.CRASHED:
            self.numbers.cut_short(OperationKind.RUN, operation)
            person = evolve(entry.person, wait=CrashWait(), asked=True, answered=False)
            return evolve(entry, status=CallStatus.BLOCKED_ON_USER, person=person)
        if stage is Stage.ANSWERED:
            self.numbers.reported(OperationKind.RUN, operation)
        else:
            self.held.append(self.holding(entry, stage))
        return self.answered(entry)

    def child(self, entry: LedgerEntry, stage: Stage) -> LedgerEntry:
        """A sub-agent runs for the call, and waits for a person or not."""
        draw = self.draw
        entry = evolve(entry, child=draw(child_runs), progress=Vector())
        if stage is Stage.CHILD:
            return evolve(entry, status=CallStatus.IN_PROGRESS, timer=self.timer(TimerPurpose.CHILD_TIMEOUT))
        wait = ChildWait(draw(_asked_by_child), draw(st.none() | counts))
        person = evolve(entry.person, wait=wait, asked=True, answered=False)
        return evolve(entry, status=CallStatus.BLOCKED_ON_USER, person=person)

    def started(self) -> RunOperation:
        operation = self.numbers.mint_run()
        self.note(OperationKind.RUN, operation)
        return operation

    def holding(self, entry: LedgerEntry, stage: Stage) -> HeldRun:
        """The run of an answered call that has not stopped, or goes on in the background."""
        assert entry.operation is not None
        grace = None
        if stage is Stage.LEASED:
            self.numbers.cut_short(OperationKind.RUN, entry.operation)
            grace = self.numbers.mint_timer(self.draw, TimerPurpose.GRACE)
        return HeldRun(
            operation=entry.operation,
            call=entry.call.id,
            tool=entry.tool,
            input=entry.given if isinstance(entry.given, Json) else Json.of(None),
            runs=entry.runs,
            claims=self.draw(claimed),
            grace=grace,
            effect=entry.effect or EffectClass.DANGEROUS,
            handle=self.draw(st.booleans()),
        )

    def answered(self, entry: LedgerEntry) -> LedgerEntry:
        """The call with an answer: an error, if it could not run, and any other wise."""
        result = result_of(entry.call, self.draw(tool_results))
        status = result.status
        if isinstance(entry.verdict, InvalidCall) or _unreachable(entry.links, self.entries):
            status = CallStatus.ERROR
        elif status is CallStatus.DONE and not _all_done(entry.links, self.entries):
            status = CallStatus.CANCELLED
        result = evolve(result, status=status, ran=entry.runs > 0, decided=entry.person.answered)
        output = self.draw(st.none() | st.just(result.content)) if entry.runs else None
        return evolve(entry, status=status, result=result, output=output)

    # --- the whole --------------------------------------------------------------------------------------

    def ledger(self, reply: ModelOperation) -> Ledger:
        """The ledger, its counts counted."""
        entries, places = self.entries, self.places
        statuses = [entry.status for entry in entries]
        return Ledger(
            reply=reply,
            entries=Vector.of(entries),
            unanswered=sum(entry.is_open for entry in entries),
            running=statuses.count(CallStatus.IN_PROGRESS),
            waiting=statuses.count(CallStatus.BLOCKED_ON_USER),
            asking=sum(isinstance(entry.person.wait, QuestionWait | ChildWait) for entry in entries),
            checking=sum(entry.check is not None for entry in entries),
            children=sum(one.child is not None and one.status is CallStatus.IN_PROGRESS for one in entries),
            hooked=sum(one.hooks.open is not None and one.status is CallStatus.QUEUED for one in entries),
            linked=any(entry.links is not None for entry in entries),
            first_check=self.first[OperationKind.CHECK],
            first_run=self.first[OperationKind.RUN],
            first_timer=self.first[OperationKind.TIMER],
            first_hook=self.first[OperationKind.HOOK],
            checked=Vector.of(places[OperationKind.CHECK]),
            started=Vector.of(places[OperationKind.RUN]),
            timed=Vector.of(places[OperationKind.TIMER]),
            gated=Vector.of(places[OperationKind.HOOK]),
        )


_names_of_hooks = st.lists(safe_names, max_size=1)
# A hook has changed the input, or left it; all of them have been asked.
_hooks_before: SearchStrategy[CallHooks] = st.builds(CallHooks, left=st.just(()), input=st.none() | json_texts)
reservations: SearchStrategy[Reservation] = st.builds(
    Reservation,
    tokens=st.none() | st.integers(1, 4),  # the least that a policy can allow
    cost_usd=st.none() | st.sampled_from((0.0, 0.5)),
    tool_calls=st.none() | counts,
)
child_runs: SearchStrategy[ChildRun] = st.builds(
    ChildRun, session_id=st.sampled_from(("s/1.1", "t")), reserved=reservations, text=texts
)
_asked_by_child: SearchStrategy[tuple[ChildCall, ...]] = st.lists(child_calls, min_size=1, max_size=2, unique=True).map(
    tuple
)
effects: SearchStrategy[EffectClass] = st.sampled_from(EffectClass)
_faults: SearchStrategy[Verdict] = st.sampled_from((UnknownTool(), InvalidCall("a")))
claimed: SearchStrategy[tuple[Claim, ...] | None] = st.none() | st.lists(claims, max_size=2).map(tuple)
_edits: SearchStrategy[Edit] = st.builds(
    Edit, action=st.sampled_from((UserAction.CORRECT, UserAction.SWAP)), tool=safe_names, input=json_texts
)


def _persons(entry: LedgerEntry) -> SearchStrategy[Person]:
    """What a person had to do with a call that may start: nothing, or it was shown, approved, edited."""
    if isinstance(entry.call.input, RawInput):
        return st.just(NOBODY)
    approved = st.builds(
        Person, asked=st.just(True), answered=st.just(True), approved=st.just(True), edit=st.none() | _edits
    )
    return st.one_of(st.just(NOBODY), st.just(Person(asked=True)), approved)


def _links(call: ToolCall, earlier: Sequence[LedgerEntry]) -> tuple[Links | None, bool]:
    """What the call depends on, and whether it can never run (rule CALL-1)."""
    if isinstance(call.input, RawInput):
        return None, True
    if not call.after and not has_references(call.input):
        return None, False
    places = {entry.call.provider_id: place for place, entry in enumerate(earlier)}
    found = sources(places, call.provider_id, call.after, call.input)
    return Links(sources=found.places, refers=has_references(call.input)), bool(found.faults)


def _all_done(links: Links | None, earlier: Sequence[LedgerEntry]) -> bool:
    return links is None or all(earlier[place].status is CallStatus.DONE for place in links.sources)


def _unreachable(links: Links | None, earlier: Sequence[LedgerEntry]) -> bool:
    """Whether a call that it depends on has ended otherwise than as done (rule CALL-3)."""
    return links is not None and any(
        not earlier[place].is_open and earlier[place].status is not CallStatus.DONE for place in links.sources
    )


def _possible(wanted: Stage, entry: LedgerEntry, faulty: bool, earlier: Sequence[LedgerEntry]) -> Stage:
    """The wanted stage, where the call can be there; else the nearest."""
    if faulty:
        return wanted if wanted is Stage.FAULTY else Stage.ANSWERED
    if _unreachable(entry.links, earlier):
        return Stage.ANSWERED
    if _all_done(entry.links, earlier) or wanted in (*_BEFORE_A_RUN, Stage.FAULTY, Stage.ANSWERED):
        return wanted
    return Stage.ANSWERED if wanted in (*_SHOWN, *OVER) else Stage.CHECKING
