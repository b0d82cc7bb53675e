"""What a parent's change of settings means for its sub-agents under way: they are told (rule ASK-5)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.children import ChildRun
from loopkernel.data.effects import Effect, TellChild
from loopkernel.data.ids import RunOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.sessions import Settings
from loopkernel.data.user_deltas import (
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Forget,
    Permit,
    Remember,
    SettingsChange,
)
from loopkernel.loop.algorithms.children import child_policy

Told = ChangeMode | Permit | Remember | Forget | ChangePolicy


def tell_children(ledger: Ledger, delta: SettingsChange) -> tuple[Ledger, tuple[Effect, ...]]:
    """Mode, rules, policy and approvals hold for sub-agents too; tools and instructions stay as they began."""
    if not ledger.unanswered:
        return ledger, ()
    effects: list[Effect] = []
    for place, entry in enumerate(ledger.entries):
        told = None if entry.child is None or not entry.has_run else _for_child(delta, entry.child)
        if told is None or entry.child is None or entry.operation is None:
            continue
        effects.append(TellChild(entry.operation, told))
        if isinstance(told, Forget):
            ledger = ledger.put(place, evolve(entry, child=evolve(entry.child, forgets=True)))
    return ledger, tuple(effects)


def told_again(operation: RunOperation, child: ChildRun, settings: Settings) -> tuple[Effect, ...]:
    """A sub-agent is resumed, which may not have heard of the last changes: it is told what holds now."""
    changes: list[Told] = [ChangePolicy(child_policy(settings.policy, child.reserved))]
    if child.forgets:
        changes.append(Forget())
    changes.extend(map(Remember, settings.remembered))
    return tuple(TellChild(operation, change) for change in changes)


def _for_child(delta: SettingsChange, child: ChildRun) -> Told | None:
    match delta:
        case ChangeMode() | Permit() | Remember() | Forget():
            return delta
        case ChangePolicy():
            return ChangePolicy(child_policy(delta.policy, child.reserved))
        case ChangeTools() | ChangeInstructions():
            return None
        case _:
            assert_never(delta)
