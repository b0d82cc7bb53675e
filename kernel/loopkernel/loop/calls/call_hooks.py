"""Hooks around a call: asked before it runs, and about its end before it is answered (rules TOOL-5 and HOOK-1)."""

from attrs import evolve

from loopkernel.data.hook_calls import NO_HOOKS, CallHooks, HookContext, OpenHook
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.policy import Hook
from loopkernel.data.sessions import Session
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, HookPoint
from loopkernel.loop.algorithms.budget import budget_reached, may_call
from loopkernel.loop.algorithms.scheduling import look_again
from loopkernel.loop.calls.ledger import class_of, noted, offered
from loopkernel.loop.calls.starting import start_run
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.gates.hooks import MAX_RETRIES, abort_gate, ask_again, ask_hooks, context, forget_gate, hooks_at


def hooks_before_run(entry: LedgerEntry, session: Session) -> tuple[Hook, ...]:
    """The hooks that are still to be asked before the call runs.

    A call that a person has edited, or that has run, was looked at by hooks before that.
    """
    left = entry.hooks.left
    if left is None and not session.settings.policy.hooks:
        return ()
    if left is None:
        left = hooks_at(session.settings.policy, HookPoint.BEFORE_TOOL)
    return () if entry.person.edit is not None or entry.runs else left


def ask_about(draft: CallsDraft, place: int, hooks: tuple[Hook, ...], point: HookPoint) -> CallsDraft:
    """These hooks of the point, in turn, up to the first that is gated."""
    draft, gate = ask_hooks(draft, hooks, _about(draft.session, draft.ledger.entries[place], point))
    return draft.with_ledger(_with_gate(draft.ledger, place, gate))


def ask_call_hook_again(draft: CallsDraft, place: int, gate: OpenHook) -> CallsDraft:
    """The process was restarted: the hook of the call that was being asked is asked again."""
    about = _about(draft.session, draft.ledger.entries[place], gate.hook.point)
    draft, again = ask_again(draft, gate, about)
    return draft.with_ledger(_with_gate(_without_gate(draft.ledger, place), place, again))


def pass_call_hook(draft: CallsDraft, place: int, gate: OpenHook) -> CallsDraft:
    """The hook has answered, or is asked no longer: before its run the call takes its place in the schedule again."""
    ledger = _without_gate(draft.ledger, place)
    entry = ledger.entries[place]
    if entry.status is CallStatus.QUEUED:
        queued = entry.with_hooks(evolve(entry.hooks, left=gate.left))
        plan = None if ledger.plan is None else look_again(ledger.plan, 1 << place)
        ledger = ledger.updated(ledger.entries.replace(place, queued), plan=plan)
    return draft.with_ledger(ledger)


def abort_call_hook(draft: CallsDraft, place: int) -> CallsDraft:
    """Who is asked about the call, if anybody is, is told to stop."""
    return abort_gate(without_call_hook(draft, place), draft.ledger.entries[place].hooks.open)


def forget_call_hook(draft: CallsDraft, place: int) -> CallsDraft:
    """The open hook of the call, if any, is of no more interest, and nobody is told."""
    return forget_gate(without_call_hook(draft, place), draft.ledger.entries[place].hooks.open)


def without_call_hook(draft: CallsDraft, place: int) -> CallsDraft:
    """Nobody is asked about the call any more; who was, is left to the caller."""
    gate = draft.ledger.entries[place].hooks.open
    return draft if gate is None else draft.with_ledger(_without_gate(draft.ledger, place))


def forget_hooks_before_runs(draft: CallsDraft) -> CallsDraft:
    """The process has died in which hooks were asked about calls that will not run."""
    for place in range(draft.ledger.entries.size):
        if draft.ledger.entries[place].status is CallStatus.QUEUED:
            draft = forget_call_hook(draft, place)
    return draft


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


def close_run_timer(draft: CallsDraft, place: int) -> CallsDraft:
    """The run has ended, and only hooks are between it and its answer: nothing bounds it, and it asks nobody."""
    ledger = draft.ledger
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
    return draft.with_ledger(ledger).close_timer(entry.timer)


def may_repeat(draft: CallsDraft, place: int) -> bool:
    """Whether a hook may have the run repeated: never a dangerous one, and only so often (rules HOOK-2, RESUME-4).

    Nor is one repeated once a budget is spent: nothing new starts then (rule LIMIT-2).
    """
    entry, session, policy = draft.ledger.entries[place], draft.session, draft.session.settings.policy
    effect = class_of(draft.session.settings, entry.tool).worst(entry.effect)
    if entry.child is not None or effect is EffectClass.DANGEROUS or entry.hooks.retries >= MAX_RETRIES:
        return False
    spent = budget_reached(policy, session.usage, draft.stamp.now_ms - draft.ledger.opened_ms)
    return spent is None and may_call(policy, session.started)


def repeat_run(draft: CallsDraft, place: int, given: Json) -> CallsDraft:
    """The call runs once more, as it did, in the place that it holds."""
    ledger = draft.ledger
    entry = ledger.entries[place]
    hooks = CallHooks(left=(), input=entry.hooks.input, retries=entry.hooks.retries + 1)
    entries = ledger.entries.replace(place, evolve(entry, hooks=hooks))
    ledger = ledger.updated(entries, running=ledger.running - 1, plan=ledger.plan)
    return start_run(draft.with_ledger(ledger), place, given, offered(draft.session.settings, entry.tool))
