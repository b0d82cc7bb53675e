"""Trace laws about the word of a person: ASKED and AT-MOST-ONCE.

A witness follows, from what the person sent and what was refused of it, which call may run with which input. What it
believes of a call is bound to the tool and the input that the person saw, or gave instead.
"""

from collections.abc import Iterator, Sequence
from typing import final

from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import Effect, StartChild, StartTool
from loopkernel.data.events import EditRefused
from loopkernel.data.ids import CallId, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Created, Forked, Resumed
from loopkernel.data.tools import Decision, EffectClass, Tool
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    Approve,
    Correct,
    CrashAnswerKind,
    Reject,
    RememberCall,
    RememberTool,
    Swap,
)
from loopkernel.data.words import CallStatus, TimerPurpose
from loopkernel.laws.call_input import with_outputs
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.reports import Breach
from loopkernel.laws.views import calls_kept, effect_of, entry_of_call, held_in, refuses, tool_named
from loopkernel.planning.approval import decide
from loopkernel.replay import StepRecord

Ran = tuple[str, Json]  # a tool, and its input
Start = StartTool | StartChild

# --- ASKED ----------------------------------------------------------------------------------------------


def asked(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """What starts is allowed, or a person has approved exactly that; what was rejected never starts."""
    if not records:
        return
    words = WordsOfPerson(records[0].before)
    for step, record in enumerate(records):
        for wrong in (*words.take(record), *_remembered_otherwise(record)):
            yield Breach("ASKED", step, wrong)
        for effect in record.effects:
            if isinstance(effect, Start):
                for wrong in words.judge(effect, record):
                    yield Breach("ASKED", step, f"call {effect.call} ({effect.tool}) starts, {wrong}")


@final
class WordsOfPerson:
    """What a person has said of each call."""

    def __init__(self, start: State) -> None:
        self._approved: dict[CallId, Ran] = {}
        self._edits: dict[CallId, Ran] = {}  # in their check
        self._rejected: set[CallId] = set()
        for entry in entries_in(start):
            seen = _seen(entry)
            if entry.person.approved and seen is not None:
                self._approved[entry.call.id] = seen
            if isinstance(entry.person.wait, ApprovalWait) and entry.person.wait.edit is not None:
                edit = entry.person.wait.edit
                self._edits[entry.call.id] = edit.tool, edit.input

    def take(self, record: StepRecord) -> Iterator[str]:
        """The words after this step, and what is wrong with how they were taken."""
        for effect in record.effects:
            if isinstance(effect, EditRefused):
                self._edits.pop(effect.call, None)
        if refuses(record):
            return
        delta, ledger = record.context.delta, calls_kept(record.before)
        if isinstance(delta, TimerFired):
            self._rejected.update(_out_of_time(delta, record.before))
        if not isinstance(delta, Approve | Reject | Correct | Swap | AnswerAfterCrash) or ledger is None:
            return
        entry = entry_of_call(ledger, delta.call)
        if entry is None or entry.person.wait is None:
            yield f"a word on call {delta.call} is taken, and nobody was asked about it"
        else:
            self._answer(delta, entry, ledger)

    def _answer(
        self, delta: Approve | Reject | Correct | Swap | AnswerAfterCrash, entry: LedgerEntry, ledger: Ledger
    ) -> None:
        wait, seen = entry.person.wait, _seen(entry)
        if isinstance(wait, CrashWait) and isinstance(delta, AnswerAfterCrash):
            if delta.kind is CrashAnswerKind.RERUN and seen is not None:
                self._approved[delta.call] = seen
            elif delta.kind is not CrashAnswerKind.RERUN:
                self._rejected.add(delta.call)
        if not isinstance(wait, ApprovalWait) or wait.edit is not None:
            return
        if isinstance(delta, Approve) and seen is not None:
            self._approved[delta.call] = seen
        elif isinstance(delta, Reject):
            self._rejected.add(delta.call)
        elif isinstance(delta, Correct | Swap):
            given = with_outputs(ledger, delta.call.position - 1, delta.input)
            if given is not None:
                self._edits[delta.call] = (delta.tool if isinstance(delta, Swap) else entry.tool), given

    def judge(self, start: Start, record: StepRecord) -> Iterator[str]:
        """What is wrong with this start."""
        if start.call in self._rejected:
            yield "and a person has rejected it"
            return
        ran = (start.tool, start.input)
        approved = ran in (self._approved.get(start.call), self._edits.get(start.call))
        decision = _decision(start, record.after, approved=approved)
        if decision is not Decision.ALLOW:
            said = self._approved.get(start.call, self._edits.get(start.call))
            other = "" if said is None else f"; a person has approved {said[0]} with {said[1].text}"
            yield f"decided: {decision.value}{other}"


def _out_of_time(fired: TimerFired, state: State) -> Iterator[CallId]:
    """The call that nobody has approved in time, which counts as rejected (rule ASK-6)."""
    for entry in entries_in(state):
        timer = entry.timer
        if timer is not None and timer.operation == fired.operation and timer.purpose is TimerPurpose.APPROVAL_TIMEOUT:
            yield entry.call.id


def _seen(entry: LedgerEntry) -> Ran | None:
    """What a person sees of the call: the tool and the input that it would run with."""
    return None if isinstance(entry.given, RawInput) else (entry.tool, entry.given)


def _decision(start: Start, state: State, *, approved: bool) -> Decision:
    """ASK-1, under the settings that hold when the call starts; a tool that is not offered has no profile."""
    if state.session is None:
        return Decision.DENY
    settings = state.session.settings
    tool = tool_named(settings, start.tool) or Tool(name=start.tool)
    return decide(settings.policy, settings.remembered, tool, start.input, approved=approved)


def _remembered_otherwise(record: StepRecord) -> Iterator[str]:
    """ASK-3: an approval is remembered when a person says so, for what they said, and not otherwise."""
    before, after = record.before.session, record.after.session
    if after is None or before is None or isinstance(record.context.delta, Created):
        return
    old, new = before.settings.remembered, after.settings.remembered
    expected = old
    delta = record.context.delta
    if isinstance(delta, Approve) and delta.remember is not None and not refuses(record):
        entry = entry_of_call(calls_kept(record.before), delta.call)
        seen = None if entry is None else _seen(entry)
        expected = old if seen is None else (*old, _to_remember(delta, *seen))
    if new is not old and new != expected:
        yield f"{len(new) - len(old)} approvals are remembered, and not what a person said"
    elif new != expected:
        yield "an approval is not remembered as a person said"


def _to_remember(approval: Approve, tool: str, given: Json) -> Remembered:
    remember = approval.remember
    if isinstance(remember, RememberTool):
        return RememberedTool(tool)
    if remember is None or isinstance(remember, RememberCall):
        return RememberedCall(tool, given)
    return RememberedPattern(tool, remember.fields)


# --- AT-MOST-ONCE -------------------------------------------------------------------------------------


def at_most_once(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """A call runs again only by a restart or a person, a dangerous one only by a person; ids and keys are its own."""
    if not records:
        return
    runs = RunsTold(records[0].before)
    for step, record in enumerate(records):
        for wrong in runs.allow(record):
            yield Breach("AT-MOST-ONCE", step, wrong)
        for effect in record.effects:
            for wrong in runs.take(effect, record.after):
                yield Breach("AT-MOST-ONCE", step, wrong)


@final
class RunsTold:
    """How often each call has run, and whose each run and each key is."""

    def __init__(self, start: State) -> None:
        self._runs: dict[CallId, int] = {}
        self._operations: dict[RunOperation, CallId] = {}
        self._keys: dict[str, CallId] = {}
        self._key_of: dict[CallId, str] = {}
        self._to_repeat: set[CallId] = set()  # calls that may run once more, and have not yet
        self._lineages = {_lineage(start)}
        self._dangerous = {entry.call.id for entry in entries_in(start) if entry.effect is EffectClass.DANGEROUS}
        for entry in entries_in(start):
            self._runs[entry.call.id] = entry.runs
            if entry.runs and entry.status is CallStatus.QUEUED:
                self._to_repeat.add(entry.call.id)
            if entry.operation is not None:
                self._operations[entry.operation] = entry.call.id
        for run in held_in(start):
            self._runs[run.call] = run.runs
            self._operations[run.operation] = run.call

    def allow(self, record: StepRecord) -> Iterator[str]:
        """After a crash, runs that may be repeated are, by a restart; a dangerous one only by a person (RESUME-3).

        A fork repeats nothing; its runs have keys of their own, since it has a name or number of its own.
        """
        delta, session = record.context.delta, record.before.session
        if refuses(record) or session is None:
            return
        if isinstance(delta, AnswerAfterCrash) and delta.kind is CrashAnswerKind.RERUN:
            self._to_repeat.add(delta.call)
        elif isinstance(delta, Acquired | Resumed):
            going = [(entry.call.id, entry.tool) for entry in entries_in(record.before) if entry.is_running]
            going.extend((run.call, run.tool) for run in held_in(record.before) if run.background)
            self._dangerous.update(call for call, tool in going if _is_dangerous(session.settings, tool))
            self._to_repeat.update(call for call, _ in going if call not in self._dangerous)
        elif isinstance(delta, Forked):
            self._to_repeat.clear()
            if _lineage(record.after) in self._lineages:
                yield "a fork has the name and the number of a lineage before it, and so the keys of its runs"
            self._lineages.add(_lineage(record.after))

    def take(self, effect: Effect, after: State) -> Iterator[str]:
        """What is wrong with this effect, if it starts something. What a run may do is what holds when it starts."""
        if isinstance(effect, StartTool):
            yield from self._repeated(effect)
            if self._keys.setdefault(effect.key, effect.call) != effect.call:
                yield f"call {effect.call} has the key of call {self._keys[effect.key]}"
            if self._key_of.setdefault(effect.call, effect.key) != effect.key:
                yield f"call {effect.call} starts again under another key than before"
        if isinstance(effect, Start):
            if effect.operation in self._operations:
                taken = self._operations[effect.operation]
                yield f"call {effect.call} starts as run {effect.operation}, which call {taken} has started as"
            self._operations[effect.operation] = effect.call
            if after.session is not None and _is_dangerous(after.session.settings, effect.tool):
                self._dangerous.add(effect.call)

    def _repeated(self, start: StartTool) -> Iterator[str]:
        before = self._runs.get(start.call, 0)
        self._runs[start.call] = before + 1
        if start.run != before + 1:
            yield f"call {start.call} ({start.tool}) starts as its run number {start.run}, after {before} runs"
        if before and start.call not in self._to_repeat:
            yield f"call {start.call} ({start.tool}) starts again, and neither a restart nor a person asks for it"
        self._to_repeat.discard(start.call)


def _is_dangerous(settings: Settings, tool: str) -> bool:
    return effect_of(settings, tool) is EffectClass.DANGEROUS


def _lineage(state: State) -> tuple[str, int] | None:
    """What tells a lineage from others, in the keys of its runs."""
    return None if state.session is None else (state.session.settings.session_id, state.session.settings.lineage)
