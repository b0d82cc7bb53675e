"""Changes of mode, rules, policy, tools and instructions: from the next decision on (rule DELTA-8)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.sessions import Session, Settings
from loopkernel.data.user_deltas import (
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Permit,
    Remember,
    SettingsChange,
)


def change_settings(session: Session, delta: SettingsChange) -> Session:
    """The session with the change made."""
    return evolve(session, settings=_changed(session.settings, delta))


def _changed(settings: Settings, delta: SettingsChange) -> Settings:
    policy = settings.policy
    match delta:
        case ChangeMode():
            return evolve(settings, policy=evolve(policy, approval_mode=delta.mode))
        case Permit():
            return evolve(settings, policy=evolve(policy, approval_rules=(*policy.approval_rules, delta.rule)))
        case Remember():
            if delta.remembered in settings.remembered:
                return settings
            return evolve(settings, remembered=(*settings.remembered, delta.remembered))
        case ChangePolicy():
            return evolve(settings, policy=delta.policy)
        case ChangeTools():
            return evolve(settings, tools=delta.tools)
        case ChangeInstructions():
            return evolve(settings, instructions=delta.instructions)
        case _:
            assert_never(delta)
