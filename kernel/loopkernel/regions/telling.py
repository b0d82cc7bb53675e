"""What a parent's change of settings means for its sub-agents under way: they are told (rule ASK-5)."""

from typing import assert_never

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
    Permit,
    Remember,
    SettingsChange,
)
from loopkernel.planning.children import child_policy

Told = ChangeMode | Permit | Remember | ChangePolicy


def tell_children(ledger: Ledger, delta: SettingsChange) -> tuple[Effect, ...]:
    """Mode, rules, policy and approvals hold for sub-agents too; tools and instructions stay as they began."""
    if not ledger.unanswered:
        return ()
    effects: list[Effect] = []
    for entry in ledger.entries:
        told = None if entry.child is None or not entry.has_run else _for_child(delta, entry.child)
        if told is not None and entry.operation is not None:
            effects.append(TellChild(entry.operation, told))
    return tuple(effects)


def told_again(operation: RunOperation, child: ChildRun, settings: Settings) -> tuple[Effect, ...]:
    """A sub-agent is resumed, which may not have heard of the last changes: it is told what holds now."""
    policy = TellChild(operation, ChangePolicy(child_policy(settings.policy, child.reserved)))
    return (policy, *(TellChild(operation, Remember(remembered)) for remembered in settings.remembered))


def _for_child(delta: SettingsChange, child: ChildRun) -> Told | None:
    match delta:
        case ChangeMode() | Permit() | Remember():
            return delta
        case ChangePolicy():
            return ChangePolicy(child_policy(delta.policy, child.reserved))
        case ChangeTools() | ChangeInstructions():
            return None
        case _:
            assert_never(delta)
