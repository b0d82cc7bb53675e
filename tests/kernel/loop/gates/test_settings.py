"""Changes of the settings: each changes its own part, and nothing else."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import CallModel
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import Decision
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
from loopkernel.loop.gates.settings import change_settings
from loopkernel.testing.strategies.deltas import settings_deltas
from loopkernel.testing.strategies.sessions import settings as any_settings

from tests.kernel.building import READ, at_rest, effects_of, of_kind, say
from tests.kernel.drafts import drafted, outcome

ASK_FIRST = ApprovalRule(decision=Decision.ASK)


@pytest.mark.rule("DELTA-8")
@pytest.mark.rule("TOOL-1")
@given(any_settings, settings_deltas)
def test_a_change_is_in_force_and_nothing_else_changes(before: Settings, delta: SettingsChange) -> None:
    session = evolve(at_rest().session, settings=before)
    found, _ = outcome(change_settings(drafted(session), delta), session)
    assert evolve(found, settings=before) == session
    assert found.settings == expected(before, delta)


def expected(before: Settings, delta: SettingsChange) -> Settings:
    policy = before.policy
    match delta:
        case ChangeMode(mode):
            return evolve(before, policy=evolve(policy, approval_mode=mode))
        case Permit(rule):
            return evolve(before, policy=evolve(policy, approval_rules=(*policy.approval_rules, rule)))
        case Remember(word):
            known = word in before.remembered
            return before if known else evolve(before, remembered=(*before.remembered, word))
        case Forget(None):
            return evolve(before, remembered=())
        case Forget(word):
            return evolve(before, remembered=tuple(held for held in before.remembered if held != word))
        case ChangePolicy(other):
            return evolve(before, policy=other)
        case ChangeTools(tools):
            return evolve(before, tools=tools)
        case ChangeInstructions(instructions):
            return evolve(before, instructions=instructions)


CHANGES: tuple[SettingsChange, ...] = (
    ChangeMode(ApprovalMode.PLAN),
    Permit(ASK_FIRST),
    ChangePolicy(Policy(model="other")),
    ChangeTools((READ,)),
    ChangeInstructions("be long"),
)


@pytest.mark.rule("DELTA-8")
@pytest.mark.rule("TOOL-1")
@pytest.mark.parametrize("delta", CHANGES, ids=lambda delta: type(delta).__name__)
def test_every_change_changes_something(delta: SettingsChange) -> None:
    session = at_rest().session
    assert outcome(change_settings(drafted(session), delta), session) != (session, ())


@pytest.mark.rule("DELTA-8")
@pytest.mark.rule("INFER-2")
def test_the_next_request_is_made_under_what_was_changed() -> None:
    (call,) = of_kind(CallModel, effects_of(at_rest(), *CHANGES, say()))
    assert (call.request.model, call.request.tools, call.request.instructions) == ("other", (READ,), "be long")


@pytest.mark.rule("ASK-5")
def test_an_approval_that_is_said_twice_is_remembered_once() -> None:
    word = Remember(RememberedTool("read"))
    once, _ = outcome(change_settings(drafted(at_rest().session), word), at_rest().session)
    assert once.settings.remembered == (RememberedTool("read"),)
    assert outcome(change_settings(drafted(once), word), once) == (once, ())
