"""A person's word on a call: approval, rejection, edits, answers to questions (section ASK and rule TOOL-19)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import OnReject
from loopkernel.data.effects import AnswerTool
from loopkernel.data.events import ApprovalRemembered, EditRefused, QuestionAsked, Refused
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import (
    ApprovalWait,
    ChildWait,
    CrashWait,
    Edit,
    Ledger,
    LedgerEntry,
    Person,
    QuestionWait,
)
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import Decision, ValidCall, Verdict
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    Correct,
    CrashAnswerKind,
    Reject,
    Remember,
    RememberCall,
    RememberPattern,
    RememberTool,
    Remembrance,
    Swap,
)
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TimerPurpose, UserAction
from loopkernel.loop.algorithms.approval import decide, resource_in_the_way
from loopkernel.loop.algorithms.children import starts_child
from loopkernel.loop.algorithms.references import has_references, resolved, sources
from loopkernel.loop.algorithms.scheduling import look_again
from loopkernel.loop.algorithms.wording import REJECTED_BY_TIME, denied_text, rejected_text, unknown_tool_text
from loopkernel.loop.calls.children import tell_children
from loopkernel.loop.calls.ledger import (
    answer_of,
    ask_check,
    checked_claims,
    close,
    error_result,
    forget_check,
    offered,
    outputs_of,
    set_timer,
)
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.stopping import cancel_unstarted, open_place, stop_call
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.gates.refusals import answer_refusal, refusal


def answer_call(draft: CallsDraft, delta: CallAnswer) -> CallsDraft | Refused:
    """A person's word on a call, taken or refused with a reason (rule ASK-2)."""
    place = open_place(draft.ledger, delta.call)
    wait = None if place is None else draft.ledger.entries[place].person.wait
    if place is None or wait is None:
        return refusal(delta, answer_refusal(draft.session, draft.ledger, delta.call))
    match wait:
        case ApprovalWait():
            return _answer_approval(draft, place, wait, delta)
        case QuestionWait():
            return _answer_question(draft, place, wait, delta)
        case CrashWait():
            return _answer_crash(draft, place, delta)
        case ChildWait():  # the answer is to a call of the sub-agent, and goes there
            return refusal(delta, RefusalReason.INVALID)
        case _:
            assert_never(wait)


# --- approvals ------------------------------------------------------------------------------------------


def _answer_approval(draft: CallsDraft, place: int, wait: ApprovalWait, delta: CallAnswer) -> CallsDraft | Refused:
    if wait.edit is not None:
        return refusal(delta, RefusalReason.DUPLICATE)
    match delta:
        case Approve():
            return _approve(draft, place, delta)
        case Reject():
            return _reject(draft, place, None, delta.why)
        case Correct():
            tool = draft.ledger.entries[place].tool
            return _edit(draft, place, Edit(action=UserAction.CORRECT, tool=tool, input=delta.input), delta)
        case Swap():
            return _edit(draft, place, Edit(action=UserAction.SWAP, tool=delta.tool, input=delta.input), delta)
        case AnswerQuestion() | AnswerAfterCrash():
            return refusal(delta, RefusalReason.INVALID)
        case _:
            assert_never(delta)


def _answered(entry: LedgerEntry) -> LedgerEntry:
    """The call, answered by a person."""
    return evolve(entry, person=evolve(entry.person, answered=True))


def _approve(draft: CallsDraft, place: int, delta: Approve) -> CallsDraft:
    """The call may run, exactly as it was shown; an approval that is remembered may let others run too (ASK-5)."""
    entry = draft.ledger.entries[place]
    draft = _queued_again(draft, place, evolve(entry.person, answered=True, approved=True))
    if delta.remember is None or not isinstance(entry.given, Json):
        return draft
    remembered = _remembered(entry.tool, entry.given, delta.remember)
    settings = evolve(draft.session.settings, remembered=(*draft.session.settings.remembered, remembered))
    draft = draft.with_session(evolve(draft.session, settings=settings))
    draft = draft.tell(ApprovalRemembered(delta.call, delta.remember))
    return reconsider(tell_children(draft, Remember(remembered)))


def _remembered(tool: str, given: Json, remember: Remembrance) -> Remembered:
    match remember:
        case RememberCall():
            return RememberedCall(tool, given)
        case RememberTool():
            return RememberedTool(tool)
        case RememberPattern():
            return RememberedPattern(tool, remember.fields)
        case _:
            assert_never(remember)


def _queued_again(draft: CallsDraft, place: int, person: Person) -> CallsDraft:
    """The call no longer waits for a person: it takes its place in the schedule again."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    queued = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(person, wait=None))
    plan = None if ledger.plan is None else look_again(ledger.plan, 1 << place)
    ledger = ledger.updated(ledger.entries.replace(place, queued), waiting=ledger.waiting - 1, plan=plan)
    return draft.with_ledger(ledger).close_timer(entry.timer)


def reconsider(draft: CallsDraft) -> CallsDraft:
    """Rules, mode, tools or remembered approvals have changed: all that waits is decided on anew (rule ASK-5)."""
    draft = draft.with_ledger(forget_plan(draft.ledger))
    if not draft.ledger.waiting:
        return draft
    settings = draft.session.settings
    for place in range(draft.ledger.entries.size):
        entry = draft.ledger.entries[place]
        wait, given = entry.person.wait, entry.given
        if not isinstance(wait, ApprovalWait) or wait.edit is not None or not isinstance(given, Json):
            continue
        tool = offered(settings, entry.tool)
        claims, tools = checked_claims(entry), settings.tools
        decision, why = Decision.DENY, unknown_tool_text(entry.tool)
        if tool is not None:
            doubted = entry.person.doubted
            decision = decide(
                settings.policy, settings.remembered, tool, given, doubted=doubted, claims=claims, tools=tools
            )
        if decision is Decision.ALLOW:
            draft = _queued_again(draft, place, entry.person)
        elif decision is Decision.DENY:
            if tool is not None:
                found = resource_in_the_way(settings.policy, tool, given, claims=claims, tools=tools)
                why = denied_text(entry.tool, found)
            draft = close(draft, place, error_result(entry, why))
    return draft


# --- rejections -----------------------------------------------------------------------------------------


def _reject(draft: CallsDraft, place: int, reason: CancelReason | None, why: str) -> CallsDraft:
    """The call does not run; what becomes of the others, policy says (rule ASK-7)."""
    entry = draft.ledger.entries[place]
    if reason is None:
        entry = _answered(entry)
    text = rejected_text(why) if reason is None else REJECTED_BY_TIME
    result = answer_of(entry, CallStatus.REJECTED_BY_USER, (TextBlock(text),), reason)
    draft = close(forget_check(draft.put(place, entry), place), place, result)
    match draft.session.settings.policy.on_reject:
        case OnReject.CONTINUE:
            return draft
        case OnReject.SKIP_REST | OnReject.HALT:
            return cancel_unstarted(draft, CancelReason.REJECTED)
        case other:
            assert_never(other)


def approval_is_late(draft: CallsDraft, place: int) -> CallsDraft:
    """Nobody approved the call in time: it counts as rejected (rule ASK-6)."""
    draft = draft.put(place, evolve(draft.ledger.entries[place], timer=None))
    return _reject(draft, place, CancelReason.TIMEOUT, "")


# --- edits ----------------------------------------------------------------------------------------------


def _edit(draft: CallsDraft, place: int, edit: Edit, delta: Correct | Swap) -> CallsDraft | Refused:
    """The edited call is checked before anything else is done with it (rules ASK-3 and TOOL-18)."""
    given = _with_outputs(draft.ledger, place, edit.input)
    if given is None:
        return refusal(delta, RefusalReason.INVALID)
    entry = draft.ledger.entries[place]
    wait = ApprovalWait(evolve(edit, input=given))
    draft = draft.put(place, evolve(entry, person=evolve(entry.person, wait=wait)))
    return ask_check(draft, place, edit.tool, given)


def _with_outputs(ledger: Ledger, place: int, given: Json) -> Json | None:
    """The input with the outputs that it refers to; None where one of them is not there."""
    if not has_references(given):
        return given
    earlier = {ledger.entries[before].call.provider_id: before for before in range(place)}
    found = sources(earlier, ledger.entries[place].call.provider_id, (), given)
    if found.faults or any(ledger.entries[source].status is not CallStatus.DONE for source in found.places):
        return None
    return resolved(given, outputs_of(ledger, found.places))


def take_edit_verdict(draft: CallsDraft, place: int, edit: Edit, verdict: Verdict) -> CallsDraft:
    """An edit was checked: it takes the call's place, behind every call that has started, or it is refused."""
    entry, settings, ledger = draft.ledger.entries[place], draft.session.settings, draft.ledger
    tool = offered(settings, edit.tool)
    refused: RefusalReason | None = None
    too_deep = tool is not None and starts_child(tool) and settings.policy.child.depth < 1
    if not isinstance(verdict, ValidCall) or tool is None or too_deep:
        refused = RefusalReason.INVALID
    elif (
        decide(
            settings.policy,
            settings.remembered,
            tool,
            edit.input,
            claims=verdict.claims,
            tools=settings.tools,
        )
        is Decision.DENY
    ):
        refused = RefusalReason.DENIED
    checked = evolve(entry, check=None, verdict=verdict)
    if refused is not None:
        checked = evolve(entry, check=None, person=evolve(entry.person, wait=ApprovalWait()))
    entries = ledger.entries.replace(place, checked)
    draft = draft.with_ledger(ledger.updated(entries, checking=ledger.checking - 1, plan=ledger.plan))
    if refused is not None:
        return reconsider(draft.tell(EditRefused(entry.call.id, edit.action, refused)))
    draft = _queued_again(draft, place, evolve(entry.person, answered=True, approved=True, edit=edit))
    return draft.with_ledger(forget_plan(draft.ledger))


# --- questions ------------------------------------------------------------------------------------------


def ask_question(draft: CallsDraft, place: int, question: str) -> CallsDraft:
    """A running tool asks; its own time does not run meanwhile (rule TOOL-19)."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    before = entry.person.wait
    again = isinstance(before, QuestionWait)
    if isinstance(before, QuestionWait):
        left_ms = before.left_ms
    else:
        left_ms = None if entry.timer is None else max(entry.timer.deadline_ms - draft.stamp.now_ms, 0)
    person = evolve(entry.person, wait=QuestionWait(question, left_ms), asked=True)
    asking = evolve(entry, status=CallStatus.BLOCKED_ON_USER, timer=None, person=person)
    ledger = ledger.updated(
        ledger.entries.replace(place, asking),
        running=ledger.running - (not again),
        waiting=ledger.waiting + (not again),
        asking=ledger.asking + (not again),
        plan=ledger.plan,
    )
    return draft.with_ledger(ledger).close_timer(entry.timer).tell(QuestionAsked(entry.call.id, question))


def _answer_question(draft: CallsDraft, place: int, wait: QuestionWait, delta: CallAnswer) -> CallsDraft | Refused:
    match delta:
        case AnswerQuestion():
            value = delta.value
        case Reject():
            value = None
        case Approve() | Correct() | Swap() | AnswerAfterCrash():
            return refusal(delta, RefusalReason.INVALID)
        case _:
            assert_never(delta)
    ledger = draft.ledger
    entry = ledger.entries[place]
    running = evolve(entry, status=CallStatus.IN_PROGRESS, person=evolve(entry.person, wait=None, answered=True))
    ledger = ledger.updated(
        ledger.entries.replace(place, running),
        running=ledger.running + 1,
        waiting=ledger.waiting - 1,
        asking=ledger.asking - 1,
        plan=ledger.plan,
    )
    draft = draft.with_ledger(ledger)
    if entry.operation is not None:
        draft = draft.tell(AnswerTool(operation=entry.operation, value=value))
    if wait.left_ms is None:
        return draft
    return set_timer(draft, place, TimerPurpose.TOOL_TIMEOUT, draft.stamp.now_ms + wait.left_ms)


# --- after a crash --------------------------------------------------------------------------------------


def _answer_crash(draft: CallsDraft, place: int, delta: CallAnswer) -> CallsDraft | Refused:
    """What becomes of a dangerous run that a restart found in flight; only a person lets it start again (RESUME-4)."""
    if not isinstance(delta, AnswerAfterCrash):
        return refusal(delta, RefusalReason.INVALID)
    entry = _answered(draft.ledger.entries[place])
    draft = draft.put(place, entry)
    match delta.kind:
        case CrashAnswerKind.DONE:
            return close(draft, place, answer_of(entry, CallStatus.DONE, (TextBlock(delta.text),)))
        case CrashAnswerKind.CANCEL:
            return stop_call(draft, place, CancelReason.SAFETY)
        case CrashAnswerKind.RERUN:
            return _queued_again(draft, place, evolve(entry.person, approved=True))
        case _:
            assert_never(delta.kind)
