"""The trace law about the word of a person: ASKED.

A witness follows, from what the person sent and what was refused of it, which call may run with which input. What it
believes of a call is bound to the tool and the input that the person saw, or gave instead.
"""

from collections.abc import Iterator
from typing import final

from attrs import evolve

from loopkernel.data.blocks import RawInput, ToolResult
from loopkernel.data.choices import ApprovalMode, OnReject
from loopkernel.data.effects import StartChild
from loopkernel.data.events import EditRefused, ToolEnded
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import Claim, Decision, Tool, ValidCall
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    Approve,
    Correct,
    CrashAnswerKind,
    Forget,
    Reject,
    Remember,
    RememberCall,
    RememberTool,
    Swap,
)
from loopkernel.data.words import CallStatus, RefusalReason, StopReason, TimerPurpose
from loopkernel.laws.accounts.approvals import decided
from loopkernel.laws.call_hooks import HooksOfCalls
from loopkernel.laws.call_input import sources_of, with_outputs
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.shadow.standing import decision_on
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import Start, call_of_timer, calls_kept, entry_of_call, held_in, tool_named

Ran = tuple[str, Json | RawInput]  # a tool, and its input


@final
class AskedLaw:
    """What starts is allowed, or a person has approved exactly that; what was rejected never starts."""

    def __init__(self, start: State) -> None:
        self._words, self._hooks = WordsOfPerson(start), HooksOfCalls(start)

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        yield from self._words.take(step)
        yield from _remembered_otherwise(step)
        yield from _left_by_a_rejection(step)
        yield from self._hooks.take(step)
        yield from denied_without_rule(step)
        for effect in step.effects:
            if isinstance(effect, Start) and not _goes_on(effect, step):
                starts = f"call {effect.call} ({effect.tool}) starts"
                yield from (f"{starts}, {wrong}" for wrong in self._words.judge(effect, step))


def _goes_on(start: Start, step: JudgedStep) -> bool:
    """Whether it is a sub-agent that goes on with its run, and no setting was given with the restart (RESUME-7)."""
    delta = step.delta
    given = isinstance(delta, Resumed) and (
        delta.doubted or delta.policy is not None or delta.tools is not None or delta.remembered is not None
    )
    return isinstance(start, StartChild) and start.resumed and not given


@final
class WordsOfPerson:
    """What a person has said of each call."""

    def __init__(self, start: State) -> None:
        self._approved: dict[CallId, Ran] = {}
        self._edits: dict[CallId, Ran] = {}  # in their check
        self._rejected: set[CallId] = set()
        self._doubted: set[CallId] = set()  # found open in a log that nobody vouches for
        for run in () if start.session is None else start.session.held:
            if run.approved:
                self._approved[run.call] = run.tool, run.input
        for entry in entries_in(start):
            if entry.person.doubted:
                self._doubted.add(entry.call.id)
            if entry.person.approved:
                self._approved[entry.call.id] = entry.tool, entry.given
            if isinstance(entry.person.wait, ApprovalWait) and entry.person.wait.edit is not None:
                edit = entry.person.wait.edit
                self._edits[entry.call.id] = edit.tool, edit.input

    def take(self, step: JudgedStep) -> Iterator[str]:
        """The words after this step, and what is wrong with how they were taken."""
        for effect in step.effects:
            if isinstance(effect, EditRefused):
                self._edits.pop(effect.call, None)
        delta, ledger = step.taken, step.calls_before
        if isinstance(delta, Resumed) and delta.doubted:
            self._approved.clear()
            self._edits.clear()
            self._doubted.update(entry.call.id for entry in entries_in(step.before))
            self._doubted.update(run.call for run in step.held_before)
        if isinstance(delta, TimerFired):
            self._rejected.update(_out_of_time(delta, step.before))
        if not isinstance(delta, Approve | Reject | Correct | Swap | AnswerAfterCrash) or ledger is None:
            return
        entry = entry_of_call(ledger, delta.call)
        if entry is None or entry.person.wait is None:
            yield f"a word on call {delta.call} is taken, and nobody was asked about it"
        else:
            yield from self._answer(delta, entry, ledger)

    def _answer(
        self, delta: Approve | Reject | Correct | Swap | AnswerAfterCrash, entry: LedgerEntry, ledger: Ledger
    ) -> Iterator[str]:
        wait = entry.person.wait
        if isinstance(wait, CrashWait) and isinstance(delta, AnswerAfterCrash):
            if delta.kind is CrashAnswerKind.RERUN:
                self._approved[delta.call] = entry.tool, entry.given
            else:
                self._rejected.add(delta.call)
        if not isinstance(wait, ApprovalWait) or wait.edit is not None:
            return
        if isinstance(delta, Approve):
            self._approved[delta.call] = entry.tool, entry.given
        elif isinstance(delta, Reject):
            self._rejected.add(delta.call)
        elif isinstance(delta, AnswerAfterCrash):
            yield f"call {delta.call} waits for an approval, and an answer after a crash is taken"
        else:
            given = with_outputs(ledger, delta.call.position - 1, delta.input)
            if given is None:
                yield f"an edit of call {delta.call} is taken that refers to an output which is not there"
            else:
                self._edits[delta.call] = (delta.tool if isinstance(delta, Swap) else entry.tool), given

    def judge(self, start: Start, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this start."""
        if start.call in self._rejected:
            yield "and a person has rejected it"
            return
        approved = self.approve(start)
        doubted = start.call in self._doubted and not approved
        decision = _decision_on_doubted(start, step.after) if doubted else _decision(start, step.after, approved)
        if decision is not Decision.ALLOW:
            said = self._approved.get(start.call, self._edits.get(start.call))
            other = "" if said is None else f"; a person has approved {said[0]} with {said[1].text}"
            yield f"decided: {decision.value}{other}"

    def approve(self, start: Start) -> bool:
        """Whether a person has let exactly this call run."""
        return (start.tool, start.input) in (self._approved.get(start.call), self._edits.get(start.call))


def _out_of_time(fired: TimerFired, state: State) -> Iterator[CallId]:
    """The call that nobody has approved in time, which counts as rejected (rule ASK-6)."""
    entry = call_of_timer(state, fired.operation)
    timer = None if entry is None else entry.timer
    if entry is not None and timer is not None and timer.purpose is TimerPurpose.APPROVAL_TIMEOUT:
        yield entry.call.id


def _decision_on_doubted(start: Start, state: State) -> Decision:
    """RESUME-8: whatever would allow the call, it is asked about, unless the person has all asking left out now."""
    decision = _decision(start, state, approved=True)
    bypassed = state.session is not None and state.session.settings.policy.approval_mode is ApprovalMode.BYPASS
    return Decision.ASK if decision is Decision.ALLOW and not bypassed else decision


def _decision(start: Start, state: State, approved: bool) -> Decision:
    """ASK-1, under the settings that hold when the call starts; a tool that is not offered has no profile."""
    if state.session is None:
        return Decision.DENY
    settings = state.session.settings
    tool = tool_named(settings, start.tool) or Tool(name=start.tool)
    return decided(
        settings.policy,
        settings.remembered,
        tool,
        start.input,
        approved=approved,
        claims=_claims(start, state),
        tools=settings.tools,
    )


def _claims(start: Start, state: State) -> tuple[Claim, ...] | None:
    """What the call that starts was found to use: by its last check, or, in the background, what its run holds."""
    entry = entry_of_call(calls_kept(state), start.call)
    if entry is not None and entry.operation == start.operation:
        return entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None
    return next((run.claims for run in held_in(state) if run.operation == start.operation), None)


def _left_by_a_rejection(step: JudgedStep) -> Iterator[str]:
    """ASK-7: where a rejection is one of the rest too, no call of the reply stays open that has not started."""
    before, ledger = step.session_before, step.calls
    if before is None or before.settings.policy.on_reject is OnReject.CONTINUE or ledger is None:
        return
    if any(end.status is CallStatus.REJECTED_BY_USER and end.call.reply == ledger.reply for end in step.ends):
        for entry in ledger.entries:
            if entry.is_open and entry.runs == 0:
                yield f"call {entry.call.id} is left to start, and another call was rejected"


def _remembered_otherwise(step: JudgedStep) -> Iterator[str]:
    """ASK-3: an approval is remembered, or forgotten, when and as a person says so, and not otherwise."""
    before, after = step.session_before, step.session
    if after is None or before is None or isinstance(step.delta, Created):
        return
    old, new = before.settings.remembered, after.settings.remembered
    expected, delta = old, step.taken
    if isinstance(delta, Approve):
        said = _remembered_by(delta, step.before)
        expected = old if said is None else (*old, said)
    elif isinstance(delta, Resumed):
        expected = delta.remembered if delta.remembered is not None else () if delta.doubted else old
    elif isinstance(delta, Remember):
        expected = old if delta.remembered in old else (*old, delta.remembered)
    elif isinstance(delta, Forget):
        expected = () if delta.remembered is None else tuple(each for each in old if each != delta.remembered)
    if new != expected:
        yield f"{len(new)} approvals are remembered, and a person has said it of {len(expected)}, or of others"


def _remembered_by(approval: Approve, before: State) -> Remembered | None:
    """What is to be remembered by this word of a person on a call."""
    entry, remember = entry_of_call(calls_kept(before), approval.call), approval.remember
    if entry is None or remember is None or not isinstance(entry.given, Json):
        return None
    if isinstance(remember, RememberTool):
        return RememberedTool(entry.tool)
    if isinstance(remember, RememberCall):
        return RememberedCall(entry.tool, entry.given)
    return RememberedPattern(entry.tool, remember.fields)


# --- what is denied is denied by a rule, a profile or a mode (rule ASK-1), and not without any ---------


def denied_without_rule(step: JudgedStep) -> Iterator[str]:
    """The calls, and the edits of calls, that this step refuses though they may run, or may be asked about."""
    session = step.session
    for effect in step.effects:
        if session is None:
            return
        if isinstance(effect, EditRefused):
            entry = _as_edited(entry_of_call(step.calls_before, effect.call), step)
            if entry is None:
                yield f"an edit of call {effect.call} is refused, and no verdict on it has come"
            elif effect.reason is RefusalReason.DENIED and decision_on(entry, session.settings) is not Decision.DENY:
                yield f"an edit of call {effect.call} is refused as denied, and nothing denies it"
        elif isinstance(effect, ToolEnded) and _is_refused(effect.result):
            before = entry_of_call(step.calls_before, effect.result.call)
            if before is not None and (before.hooks.open is not None or before.hooks.blocked is not None):
                continue  # it is for a hook to say
            ledger = step.calls
            entry = entry_of_call(ledger, effect.result.call)
            if entry is None:  # the reply is over with this step
                ledger = step.calls_before
                entry = _as_checked(entry_of_call(ledger, effect.result.call), step)
            if entry is not None and ledger is not None and _may_run(entry, ledger, step, session.settings):
                yield f"call {entry.call.id} ({entry.tool}) is refused, and nothing denies it"


def _is_refused(result: ToolResult) -> bool:
    """Whether the call is answered with an error in the place of a run."""
    return result.status is CallStatus.ERROR and not result.ran and result.reason is None


def _as_edited(entry: LedgerEntry | None, step: JudgedStep) -> LedgerEntry | None:
    """The call with the edit of a person that this step's verdict is on; None where it is on none."""
    delta, wait = step.delta, None if entry is None else entry.person.wait
    if entry is None or not isinstance(delta, ToolChecked) or entry.check != delta.operation:
        return None
    if not isinstance(wait, ApprovalWait) or wait.edit is None:
        return None
    return evolve(entry, verdict=delta.verdict, person=evolve(entry.person, approved=True, edit=wait.edit))


def _as_checked(entry: LedgerEntry | None, step: JudgedStep) -> LedgerEntry | None:
    """The call with the verdict, or the word of a person, that has come with this step."""
    delta = step.delta
    if entry is None:
        return None
    if isinstance(delta, ToolChecked) and entry.check == delta.operation:
        return _as_edited(entry, step) or evolve(entry, verdict=delta.verdict)
    approved = isinstance(delta, Approve | AnswerAfterCrash) and delta.call == entry.call.id
    return evolve(entry, person=evolve(entry.person, approved=True)) if approved else entry


def _may_run(entry: LedgerEntry, ledger: Ledger, step: JudgedStep, settings: Settings) -> bool:
    """Whether the call is valid, no hook blocks it, its sources are done, and it is allowed or to be asked about."""
    delta, tool = step.delta, tool_named(settings, entry.tool)
    if not isinstance(entry.verdict, ValidCall) or entry.hooks.blocked is not None:
        return False
    if isinstance(delta, ModelCompleted) and delta.stop is StopReason.MAX_TOKENS:
        return False  # its arguments were cut
    if tool is not None and tool.profile is not None and tool.profile.child and settings.policy.child.depth < 1:
        return False
    places = (source.place for source in sources_of(ledger, entry.call.id.position - 1))
    if any(place is None or ledger.entries[place].status is not CallStatus.DONE for place in places):
        return False
    return decision_on(entry, settings) is not Decision.DENY
