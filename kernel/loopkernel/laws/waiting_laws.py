"""The step law about explanations: WHY. It is the witness of PARALLEL: each reason that is told must be true."""

import re
from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait
from loopkernel.data.states import State, Streaming
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.data.waits import (
    ForAnswer,
    ForApproval,
    ForCheck,
    ForChild,
    ForConflict,
    ForHook,
    ForMore,
    ForOthers,
    ForOwnResult,
    ForReply,
    ForShare,
    ForSlot,
    ForSource,
    ForTurn,
    ForWord,
    Reason,
    Wait,
)
from loopkernel.data.words import CallStatus
from loopkernel.laws.reports import Findings, Judged
from loopkernel.laws.retakes import met
from loopkernel.laws.schedule_laws import idle_wait
from loopkernel.laws.shadow.memory import Memory
from loopkernel.laws.shadow.standing import Standing, decision_on
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.uses import Claims
from loopkernel.laws.shares import is_reserved
from loopkernel.laws.views import entry_of_call, named

_RULE_ID = re.compile(r"[A-Z]+-[0-9]+")


def why(step: JudgedStep, judged: Judged) -> Findings:
    """`explain` names delta and rule of every effect, in order, and what every waiting call really waits for."""
    # What waits in a state that stays has been judged.
    due = step.after is not step.before and step.memory.has_earned(step.after)
    try:
        told = judged.explain(step.before, step.context)
        waits = told.waits if due else ()
    except Exception as error:  # whatever it is: an explanation that raises explains nothing
        if step.retake.raised:
            return None  # there is no such step to explain, which TOTAL says
        return [f"explain raises {type(error).__name__} for {met(step.record)}: {error}"]
    found: list[str] = []
    if tuple(cause.effect for cause in told.causes) != step.effects:
        names = ", ".join(type(cause.effect).__name__ for cause in told.causes)
        found.append(f"the effects of {met(step.record)} are not those explained: {names or 'none'}")
    for cause in told.causes:
        if cause.delta != step.delta:
            found.append(f"{type(cause.effect).__name__} is put down to another delta")
        if not (_RULE_ID.fullmatch(cause.rule) and cause.because.strip()):
            found.append(f"{type(cause.effect).__name__} is explained by no rule")
    if due:
        found.extend(_untrue(waits, step.memory, step.after))
    return found


def _untrue(waits: tuple[Wait, ...], memory: Memory, state: State) -> Iterator[str]:
    """What is wrong with the reasons: none where there is one, or one that does not hold in the state."""
    standing = memory.standing(state)
    reasons = {wait.call: wait.reasons for wait in waits}
    if standing is not None:
        for place in sorted(standing.places.open):
            told = reasons.pop(standing.ledger.entries[place].call.id, ())
            yield from _untrue_of(told, standing, place, state)
            yield from _miscounted(told, standing, place, memory)
    yield from (f"call {call} is said to wait, and is not open" for call in reasons)


def _untrue_of(told: tuple[Reason, ...], standing: Standing, place: int, state: State) -> Iterator[str]:
    call = standing.ledger.entries[place].call
    if not told and not list(idle_wait(standing, place, state)):
        yield f"{named(call)} waits, and nothing says for what"
    for reason in told:
        if not is_true(reason, standing, place, state):
            yield f"{named(call)} is said to wait {reason}, which is not so"


def is_true(reason: Reason, standing: Standing, place: int, state: State) -> bool:
    """Whether the call at `place` waits for this."""
    entry, settings = standing.ledger.entries[place], standing.session.settings
    match reason:
        case ForReply():
            return isinstance(state, Streaming) and entry.status is CallStatus.QUEUED
        case ForCheck():
            return entry.check is not None
        case ForOwnResult():
            return entry.status is CallStatus.IN_PROGRESS and entry.hooks.open is None
        case ForHook():
            return entry.hooks.open is not None and entry.hooks.open.hook.name == reason.name
        case ForChild():
            return isinstance(entry.person.wait, ChildWait) and entry.person.wait.asked == reason.asked
        case ForApproval():
            to_ask = not entry.person.approved and decision_on(entry, settings) is Decision.ASK
            return isinstance(entry.person.wait, ApprovalWait) or (entry.status is CallStatus.QUEUED and to_ask)
        case ForAnswer():
            return entry.person.wait is not None and entry.question == reason.question
        case ForWord():
            return isinstance(entry.person.wait, CrashWait)
        case ForSource():
            return any(standing.needs(place, other) for other in _places_of(standing, reason.call))
        case ForConflict():
            return _conflicts(reason, standing, place)
        case ForTurn():
            if reason.call == standing.undecided:
                return standing.in_the_way(place) is not None
            before = _places_of(standing, reason.call)
            return any(standing.goes_first(other, place) and not standing.conflicts(place, other) for other in before)
        case ForMore():
            return reason.calls > 0
        case ForSlot():
            limit = settings.policy.max_parallel
            return reason.slots == limit and not standing.slot_free
        case ForShare():
            return entry.status is CallStatus.QUEUED and is_reserved(entry, standing.children(), standing.session)
        case ForOthers():
            return standing.gives_output(entry) and standing.waits_for_others()
        case _:
            assert_never(reason)


def _places_of(standing: Standing, call: CallId) -> tuple[int, ...]:
    """The place of the call; none if it is of another reply."""
    return () if entry_of_call(standing.ledger, call) is None else (call.position - 1,)


def _conflicts(reason: ForConflict, standing: Standing, place: int) -> bool:
    """Whether the calls must not overlap, the other is in the way, and both use the key that is named."""
    if reason.stopping:
        held = (run.claims for run in standing.session.held if run.call == reason.call)
        return any(standing.clash(place, _named(reason, claims)) for claims in held if _uses(reason, claims))
    for other in _places_of(standing, reason.call):
        claims = standing.claims_at(other)
        if standing.conflicts(place, other) and _uses(reason, claims):
            return standing.clash(place, _named(reason, claims))
    return False


def _uses(reason: ForConflict, claims: Claims) -> bool:
    """Whether what is named is among the claims."""
    return reason.key is None or bool(_named(reason, claims))


def _named(reason: ForConflict, claims: Claims) -> Claims:
    """What is named of the claims; all of them if nothing is."""
    if reason.key is None:
        return claims
    mode = AccessMode.WRITE if reason.writes else AccessMode.READ
    return tuple(claim for claim in claims or () if claim.key == reason.key and claim.mode is mode)


def _miscounted(told: tuple[Reason, ...], standing: Standing, place: int, memory: Memory) -> Iterator[str]:
    """Those that are counted and not named are in the way too. Of a call in its check it is not known who is."""
    more = sum(reason.calls for reason in told if isinstance(reason, ForMore))
    entry = standing.ledger.entries[place]
    if not more or entry.check is not None or not memory.may_look(len(standing.ledger.entries)):
        return
    named_calls = {reason.call for reason in told if isinstance(reason, ForSource | ForConflict | ForTurn)}
    others = sum(
        standing.is_behind(place, other) or _conflicts(ForConflict(one.call.id, None, True, True), standing, place)
        for other, one in enumerate(standing.ledger.entries)
        if one.call.id not in named_calls
    )
    held = sum(run.call.reply != standing.ledger.reply for run in standing.session.held)
    if not others <= more <= others + held:
        yield f"{named(entry.call)} is said to wait for {more} more calls, and it is {others}"
