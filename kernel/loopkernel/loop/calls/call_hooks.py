"""Hooks around a call: asked before it runs, and about its end before it is answered (rules TOOL-5 and HOOK-1)."""

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.hook_calls import NO_HOOKS, CallHooks, HookContext, OpenHook
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.policy import Hook
from loopkernel.data.sessions import Session
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, HookPoint
from loopkernel.loop.algorithms.budget import budget_reached, may_call
from loopkernel.loop.algorithms.scheduling import look_again
from loopkernel.loop.calls.claims import class_of
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import noted
from loopkernel.loop.calls.starting import start_run
from loopkernel.loop.gates.hooks import MAX_RETRIES, abort_hook, ask_again, ask_hooks, context, forget_hook, hooks_at
from loopkernel.loop.gates.timers import close_timer


def ask_before_run(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered | None:
    """The hooks that are still to be asked before the call runs; None where none is left.

    A call that a person has edited, or that has run, was looked at by hooks before that.
    """
    entry = ledger.entries[place]
    left = entry.hooks.left
    if left is None:
        left = hooks_at(session.settings.policy, HookPoint.BEFORE_TOOL)
    if not left or entry.person.edit is not None or entry.runs:
        return None
    return ask_about(ledger, session, place, left, HookPoint.BEFORE_TOOL, now_ms)


def ask_about(
    ledger: Ledger, session: Session, place: int, hooks: tuple[Hook, ...], point: HookPoint, now_ms: int
) -> Ledgered:
    """These hooks of the point, in turn, up to the first that is gated."""
    entry = ledger.entries[place]
    asked = ask_hooks(session, hooks, _about(session, entry, point), now_ms)
    return Ledgered(_with_gate(ledger, place, asked.gate), asked.session, asked.effects)


def ask_call_hook_again(ledger: Ledger, session: Session, place: int, gate: OpenHook, now_ms: int) -> Ledgered:
    """The process was restarted: the hook of the call that was being asked is asked again."""
    about = _about(session, ledger.entries[place], gate.hook.point)
    asked = ask_again(session, gate, about, now_ms)
    return Ledgered(_with_gate(_without_gate(ledger, place), place, asked.gate), asked.session, asked.effects)


def release(ledger: Ledger, place: int, gate: OpenHook) -> Ledger:
    """The hook has answered, or is asked no longer: before its run the call takes its place in the schedule again."""
    ledger = _without_gate(ledger, place)
    entry = ledger.entries[place]
    if entry.status is not CallStatus.QUEUED:
        return ledger
    queued = entry.with_hooks(evolve(entry.hooks, left=gate.left))
    plan = None if ledger.plan is None else look_again(ledger.plan, 1 << place)
    return ledger.updated(ledger.entries.replace(place, queued), plan=plan)


def abort_call_hook(ledger: Ledger, session: Session, place: int) -> tuple[Ledger, Session, tuple[Effect, ...]]:
    """The open hook of the call, if any, is stopped."""
    gate = ledger.entries[place].hooks.open
    if gate is None:
        return ledger, session, ()
    session, aborted = abort_hook(session, gate)
    return _without_gate(ledger, place), session, aborted


def forget_call_hook(ledger: Ledger, session: Session, place: int) -> tuple[Ledger, Session]:
    """The open hook of the call, if any, is of no more interest, and nobody is told."""
    gate = ledger.entries[place].hooks.open
    return (ledger, session) if gate is None else (_without_gate(ledger, place), forget_hook(session, gate))


def forget_hooks_before_runs(ledger: Ledger, session: Session) -> tuple[Ledger, Session]:
    """The process has died in which hooks were asked about calls that will not run."""
    for place in range(ledger.entries.size):
        if ledger.entries[place].status is CallStatus.QUEUED:
            ledger, session = forget_call_hook(ledger, session, place)
    return ledger, session


def _about(session: Session, entry: LedgerEntry, point: HookPoint) -> HookContext:
    about = context(session, point)
    return evolve(about, call=entry.call.id, tool=entry.tool, input=entry.given, end=entry.hooks.end)


def _with_gate(ledger: Ledger, place: int, gate: OpenHook | None) -> Ledger:
    """The ledger with a hook that is asked about the call; None: all of the point have been asked."""
    entry = ledger.entries[place]
    queued = entry.status is CallStatus.QUEUED
    hooks = evolve(entry.hooks, open=gate, left=() if queued else entry.hooks.left)
    entry = entry.with_hooks(hooks)
    if gate is None:
        return ledger.put(place, entry)
    gated = noted(ledger.gated, gate.operation - ledger.first_hook, place)
    timed = ledger.timed
    if gate.timer is not None:
        timed = noted(timed, gate.timer.operation - ledger.first_timer, place)
    return ledger.updated(
        ledger.entries.replace(place, entry), plan=ledger.plan, hooked=ledger.hooked + queued, gated=gated, timed=timed
    )


def _without_gate(ledger: Ledger, place: int) -> Ledger:
    entry = ledger.entries[place]
    queued = entry.status is CallStatus.QUEUED and entry.hooks.open is not None
    hooks: CallHooks = evolve(entry.hooks, open=None) if entry.hooks is not NO_HOOKS else NO_HOOKS
    entries = ledger.entries.replace(place, entry.with_hooks(hooks))
    return ledger.updated(entries, plan=ledger.plan, hooked=ledger.hooked - queued)


# --- the end of a run -----------------------------------------------------------------------------------


def stop_time(ledger: Ledger, place: int) -> tuple[Ledger, tuple[Effect, ...]]:
    """The run has ended, and only hooks are between it and its answer: nothing bounds it, and it asks nobody."""
    entry = ledger.entries[place]
    asking = entry.status is CallStatus.BLOCKED_ON_USER
    person = evolve(entry.person, wait=None) if asking else entry.person
    ended = evolve(entry, status=CallStatus.IN_PROGRESS, timer=None, person=person)
    ledger = ledger.updated(
        ledger.entries.replace(place, ended),
        plan=ledger.plan,
        running=ledger.running + asking,
        waiting=ledger.waiting - asking,
        asking=ledger.asking - asking,
        children=ledger.children + (asking and entry.child is not None),
    )
    return ledger, close_timer(entry.timer)


def may_repeat(ledger: Ledger, session: Session, place: int, now_ms: int) -> bool:
    """Whether a hook may have the run repeated: never a dangerous one, and only so often (rules HOOK-2, RESUME-4).

    Nor is one repeated once a budget is spent: nothing new starts then (rule LIMIT-2).
    """
    entry, settings = ledger.entries[place], session.settings
    policy = settings.policy
    effect = class_of(settings, entry.tool).worst(entry.effect)
    if entry.child is not None or effect is EffectClass.DANGEROUS or entry.hooks.retries >= MAX_RETRIES:
        return False
    spent = budget_reached(policy, session.usage, now_ms - ledger.opened_ms)
    return spent is None and may_call(policy, session.started)


def repeat_run(ledger: Ledger, session: Session, place: int, given: Json, now_ms: int) -> Ledgered:
    """The call runs once more, as it did, in the place that it holds."""
    entry = ledger.entries[place]
    hooks = CallHooks(left=(), input=entry.hooks.input, retries=entry.hooks.retries + 1)
    ledger = evolve(ledger.put(place, evolve(entry, hooks=hooks)), running=ledger.running - 1)
    return start_run(ledger, session, place, given, now_ms)
