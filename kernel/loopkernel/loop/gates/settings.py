"""Changes of mode, rules, approvals, policy, tools and instructions: from the next decision on (rule DELTA-8)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.events import ApprovalForgotten, Refused
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
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
from loopkernel.data.words import RefusalReason
from loopkernel.loop.algorithms.redaction import redacted
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.gates.refusals import refusal


def change_settings(draft: Draft[L], delta: SettingsChange) -> Draft[L] | Refused:
    """The change is made, and what it makes forgotten is told; only what is not remembered cannot be taken back."""
    before = draft.session.settings
    if isinstance(delta, Forget) and delta.remembered is not None and delta.remembered not in before.remembered:
        return refusal(delta, RefusalReason.UNKNOWN)
    settings = _changed(before, delta)
    gone = dict.fromkeys(approval for approval in before.remembered if approval not in settings.remembered)
    draft = draft.with_session(evolve(draft.session, settings=settings))
    return draft.tell(*(ApprovalForgotten(_as_shown(approval)) for approval in gone))


def _as_shown(approval: Remembered) -> Remembered:
    """The approval without the secrets in the input that it names, since events are shown on screens."""
    match approval:
        case RememberedCall():
            return evolve(approval, input=redacted(approval.input))
        case RememberedTool() | RememberedPattern():
            return approval
        case _:
            assert_never(approval)


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
        case Forget():
            kept = () if delta.remembered is None else settings.remembered
            return evolve(settings, remembered=tuple(each for each in kept if each != delta.remembered))
        case ChangePolicy():
            return evolve(settings, policy=delta.policy)
        case ChangeTools():
            return evolve(settings, tools=delta.tools)
        case ChangeInstructions():
            return evolve(settings, instructions=delta.instructions)
        case _:
            assert_never(delta)
