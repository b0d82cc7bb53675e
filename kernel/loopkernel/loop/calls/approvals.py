"""A person's word on a call: approval, rejection, edits, answers to questions (section ASK and rule TOOL-19)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import OnReject
from loopkernel.data.effects import AnswerTool, Effect
from loopkernel.data.events import ApprovalRemembered, EditRefused, QuestionAsked
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
from loopkernel.data.sessions import Session
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
from loopkernel.loop.calls.claims import checked_claims, offered
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import answer_of, ask_check, close, drop_check, error_result, outputs_of
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.starting import set_timer
from loopkernel.loop.calls.stopping import cancel_others, open_place, stop_call
from loopkernel.loop.calls.telling import tell_children
from loopkernel.loop.gates.refusals import answer_refusal, refusal
from loopkernel.loop.gates.timers import close_timer


def answer_call(ledger: Ledger, session: Session, delta: CallAnswer, now_ms: int) -> Ledgered:
    """A person's word on a call, taken or refused with a reason (rule ASK-2)."""
    place = open_place(ledger, delta.call)
    wait = None if place is None else ledger.entries[place].person.wait
    if place is None or wait is None:
        return Ledgered(ledger, session, refusal(delta, answer_refusal(session, ledger, delta.call)))
    match wait:
        case ApprovalWait():
            return _answer_approval(ledger, session, place, wait, delta, now_ms)
        case QuestionWait():
            return _answer_question(ledger, session, place, wait, delta, now_ms)
        case CrashWait():
            return _answer_crash(ledger, session, place, delta, now_ms)
        case ChildWait():  # the answer is to a call of the sub-agent, and goes there
            return Ledgered(ledger, session, refusal(delta, RefusalReason.INVALID))
        case _:
            assert_never(wait)


# --- approvals ------------------------------------------------------------------------------------------


def _answer_approval(
    ledger: Ledger, session: Session, place: int, wait: ApprovalWait, delta: CallAnswer, now_ms: int
) -> Ledgered:
    if wait.edit is not None:
        return Ledgered(ledger, session, refusal(delta, RefusalReason.DUPLICATE))
    match delta:
        case Approve():
            return _approve(ledger, session, place, delta)
        case Reject():
            return _reject(ledger, session, place, None, delta.why, now_ms)
        case Correct():
            edit = Edit(action=UserAction.CORRECT, tool=ledger.entries[place].tool, input=delta.input)
            return _edit(ledger, session, place, edit, delta)
        case Swap():
            edit = Edit(action=UserAction.SWAP, tool=delta.tool, input=delta.input)
            return _edit(ledger, session, place, edit, delta)
        case AnswerQuestion() | AnswerAfterCrash():
            return Ledgered(ledger, session, refusal(delta, RefusalReason.INVALID))
        case _:
            assert_never(delta)


def _decided(entry: LedgerEntry) -> LedgerEntry:
    """The call, answered by a person."""
    return evolve(entry, person=evolve(entry.person, answered=True))


def _approve(ledger: Ledger, session: Session, place: int, delta: Approve) -> Ledgered:
    """The call may run, exactly as it was shown; an approval that is remembered may let others run too (ASK-5)."""
    entry = ledger.entries[place]
    ledger, effects = _released(ledger, place, evolve(entry.person, answered=True, approved=True))
    if delta.remember is None or not isinstance(entry.given, Json):
        return Ledgered(ledger, session, effects)
    remembered = _remembered(entry.tool, entry.given, delta.remember)
    settings = evolve(session.settings, remembered=(*session.settings.remembered, remembered))
    again = reconsider(ledger, evolve(session, settings=settings))
    ledger, passed_on = tell_children(again.ledger, Remember(remembered))
    told = (*effects, ApprovalRemembered(delta.call, delta.remember), *passed_on, *again.effects)
    return Ledgered(ledger, again.session, told)


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


def _released(ledger: Ledger, place: int, person: Person) -> tuple[Ledger, tuple[Effect, ...]]:
    """The call no longer waits for a person: it takes its place in the schedule again."""
    entry = ledger.entries[place]
    queued = evolve(entry, status=CallStatus.QUEUED, timer=None, person=evolve(person, wait=None))
    plan = None if ledger.plan is None else look_again(ledger.plan, 1 << place)
    ledger = evolve(ledger.put(place, queued), waiting=ledger.waiting - 1, plan=plan)
    return ledger, close_timer(entry.timer)


def reconsider(ledger: Ledger, session: Session) -> Ledgered:
    """Rules, mode, tools or remembered approvals have changed: all that waits is decided on anew (rule ASK-5)."""
    ledger = forget_plan(ledger)
    if not ledger.waiting:
        return Ledgered(ledger, session)
    effects: list[Effect] = []
    settings = session.settings
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        wait = entry.person.wait
        if not isinstance(wait, ApprovalWait) or wait.edit is not None or not isinstance(entry.given, Json):
            continue
        tool = offered(settings, entry.tool)
        claims, tools = checked_claims(entry), settings.tools
        decision = Decision.DENY
        if tool is not None:
            decision = decide(
                settings.policy,
                settings.remembered,
                tool,
                entry.given,
                doubted=entry.person.doubted,
                claims=claims,
                tools=tools,
            )
        if decision is Decision.ALLOW:
            ledger, released = _released(ledger, place, entry.person)
            effects.extend(released)
        elif decision is Decision.DENY:
            why = unknown_tool_text(entry.tool)
            if tool is not None:
                found = resource_in_the_way(settings.policy, tool, entry.given, claims=claims, tools=tools)
                why = denied_text(entry.tool, found)
            denied = close(ledger, session, place, error_result(entry, why))
            ledger, session = denied.ledger, denied.session
            effects.extend(denied.effects)
    return Ledgered(ledger, session, tuple(effects))


# --- rejections -----------------------------------------------------------------------------------------


def _reject(
    ledger: Ledger, session: Session, place: int, reason: CancelReason | None, why: str, now_ms: int
) -> Ledgered:
    """The call does not run; what becomes of the others, policy says (rule ASK-7)."""
    entry = ledger.entries[place]
    if reason is None:
        entry = _decided(entry)
    text = rejected_text(why) if reason is None else REJECTED_BY_TIME
    result = answer_of(entry, CallStatus.REJECTED_BY_USER, (TextBlock(text),), reason)
    ledger, session = drop_check(ledger.put(place, entry), session, place)
    closed = close(ledger, session, place, result)
    match session.settings.policy.on_reject:
        case OnReject.CONTINUE:
            return closed
        case OnReject.SKIP_REST | OnReject.HALT:
            skipped = cancel_others(closed.ledger, closed.session, CancelReason.REJECTED, now_ms, running=False)
            return Ledgered(skipped.ledger, skipped.session, (*closed.effects, *skipped.effects))
        case other:
            assert_never(other)


def approval_is_late(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """Nobody approved the call in time: it counts as rejected (rule ASK-6)."""
    entry = ledger.entries[place]
    ledger = ledger.put(place, evolve(entry, timer=None))
    return _reject(ledger, session, place, CancelReason.TIMEOUT, "", now_ms)


# --- edits ----------------------------------------------------------------------------------------------


def _edit(ledger: Ledger, session: Session, place: int, edit: Edit, delta: Correct | Swap) -> Ledgered:
    """The edited call is checked before anything else is done with it (rules ASK-3 and TOOL-18)."""
    given = _with_outputs(ledger, place, edit.input)
    if given is None:
        return Ledgered(ledger, session, refusal(delta, RefusalReason.INVALID))
    entry = ledger.entries[place]
    edit = evolve(edit, input=given)
    waiting = evolve(entry, person=evolve(entry.person, wait=ApprovalWait(edit)))
    return ask_check(ledger.put(place, waiting), session, place, edit.tool, given)


def _with_outputs(ledger: Ledger, place: int, given: Json) -> Json | None:
    """The input with the outputs that it refers to; None where one of them is not there."""
    if not has_references(given):
        return given
    earlier = {ledger.entries[before].call.provider_id: before for before in range(place)}
    found = sources(earlier, ledger.entries[place].call.provider_id, (), given)
    if found.faults or any(ledger.entries[source].status is not CallStatus.DONE for source in found.places):
        return None
    return resolved(given, outputs_of(ledger, found.places))


def take_edit_verdict(ledger: Ledger, session: Session, place: int, edit: Edit, verdict: Verdict) -> Ledgered:
    """An edit was checked: it takes the call's place, behind every call that has started, or it is refused."""
    entry, settings = ledger.entries[place], session.settings
    ledger = evolve(ledger, checking=ledger.checking - 1)
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
    if refused is not None:
        waiting = evolve(entry, check=None, person=evolve(entry.person, wait=ApprovalWait()))
        again = reconsider(ledger.put(place, waiting), session)
        told = EditRefused(entry.call.id, edit.action, refused)
        return Ledgered(again.ledger, again.session, (told, *again.effects))
    person = evolve(entry.person, answered=True, approved=True, edit=edit)
    ledger = ledger.put(place, evolve(entry, check=None, verdict=verdict))
    ledger, effects = _released(ledger, place, person)
    return Ledgered(forget_plan(ledger), session, effects)


# --- questions ------------------------------------------------------------------------------------------


def ask_question(ledger: Ledger, session: Session, place: int, question: str, now_ms: int) -> Ledgered:
    """A running tool asks; its own time does not run meanwhile (rule TOOL-19)."""
    entry = ledger.entries[place]
    before = entry.person.wait
    again = isinstance(before, QuestionWait)
    if isinstance(before, QuestionWait):
        left_ms = before.left_ms
    else:
        left_ms = None if entry.timer is None else max(entry.timer.deadline_ms - now_ms, 0)
    person = evolve(entry.person, wait=QuestionWait(question, left_ms), asked=True)
    asking = evolve(entry, status=CallStatus.BLOCKED_ON_USER, timer=None, person=person)
    ledger = evolve(
        ledger.put(place, asking),
        running=ledger.running - (not again),
        waiting=ledger.waiting + (not again),
        asking=ledger.asking + (not again),
    )
    return Ledgered(ledger, session, (*close_timer(entry.timer), QuestionAsked(entry.call.id, question)))


def _answer_question(
    ledger: Ledger, session: Session, place: int, wait: QuestionWait, delta: CallAnswer, now_ms: int
) -> Ledgered:
    match delta:
        case AnswerQuestion():
            value = delta.value
        case Reject():
            value = None
        case Approve() | Correct() | Swap() | AnswerAfterCrash():
            return Ledgered(ledger, session, refusal(delta, RefusalReason.INVALID))
        case _:
            assert_never(delta)
    entry = ledger.entries[place]
    person = evolve(entry.person, wait=None, answered=True)
    ledger = evolve(
        ledger.put(place, evolve(entry, status=CallStatus.IN_PROGRESS, person=person)),
        running=ledger.running + 1,
        waiting=ledger.waiting - 1,
        asking=ledger.asking - 1,
    )
    effects: tuple[Effect, ...] = ()
    if entry.operation is not None:
        effects = (AnswerTool(operation=entry.operation, value=value),)
    if wait.left_ms is None:
        return Ledgered(ledger, session, effects)
    timed = set_timer(ledger, session, place, TimerPurpose.TOOL_TIMEOUT, now_ms + wait.left_ms)
    return Ledgered(timed.ledger, timed.session, (*effects, *timed.effects))


# --- after a crash --------------------------------------------------------------------------------------


def _answer_crash(ledger: Ledger, session: Session, place: int, delta: CallAnswer, now_ms: int) -> Ledgered:
    """What becomes of a dangerous run that a restart found in flight; only a person lets it start again (RESUME-4)."""
    if not isinstance(delta, AnswerAfterCrash):
        return Ledgered(ledger, session, refusal(delta, RefusalReason.INVALID))
    entry = _decided(ledger.entries[place])
    ledger = ledger.put(place, entry)
    match delta.kind:
        case CrashAnswerKind.DONE:
            return close(ledger, session, place, answer_of(entry, CallStatus.DONE, (TextBlock(delta.text),)))
        case CrashAnswerKind.CANCEL:
            return stop_call(ledger, session, place, CancelReason.SAFETY, now_ms)
        case CrashAnswerKind.RERUN:
            ledger, effects = _released(ledger, place, evolve(entry.person, approved=True))
            return Ledgered(ledger, session, effects)
        case _:
            assert_never(delta.kind)
