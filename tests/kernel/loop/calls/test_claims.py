"""What a call uses, and what its tool is, under the settings that hold now."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import NoProfile
from loopkernel.data.ledgers import Edit, LedgerEntry, Links, Person
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import EffectClass, InvalidCall, Tool, ToolProfile, UnknownTool, ValidCall, Verdict
from loopkernel.data.words import UserAction
from loopkernel.loop.algorithms.scheduling import Claimant
from loopkernel.loop.calls.ledger import claimant_of, effect_class, is_output_call, never_runs, offered, only_reads

from tests.kernel.building import BARE, NOTHING, READ, at_rest, recorded_call, writes

CLAIMS = writes("a").claims
profiles = st.none() | st.builds(ToolProfile, effect=st.sampled_from(EffectClass), serial=st.booleans())


def settings_with(*tools: Tool, no_profile: NoProfile = NoProfile.CONFLICT) -> Settings:
    return Settings(session_id="s", policy=Policy(no_profile=no_profile), tools=tools)


def test_the_offered_tool_is_found_by_its_name() -> None:
    settings = at_rest().session.settings
    assert offered(settings, "bare") is BARE
    assert offered(settings, "missing") is None


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-2")
@given(profiles, st.sampled_from((None, (), CLAIMS)), st.sampled_from(NoProfile))
def test_a_call_uses_what_its_check_says_and_without_a_profile_everything_or_nothing(
    profile: ToolProfile | None, claims: tuple[()] | None, no_profile: NoProfile
) -> None:
    entry = LedgerEntry(call=recorded_call(), verdict=ValidCall(claims))
    found = claimant_of(entry, settings_with(Tool(name="read", profile=profile), no_profile=no_profile))
    if profile is None:
        assert found == Claimant(() if no_profile is NoProfile.NO_CONFLICT else None)
    else:
        assert found == Claimant(claims, profile.serial)


@pytest.mark.rule("TOOL-17")
def test_a_tool_that_is_no_longer_offered_still_uses_what_its_check_said() -> None:
    entry = LedgerEntry(call=recorded_call(), verdict=ValidCall(CLAIMS))
    assert claimant_of(entry, settings_with()) == Claimant(CLAIMS)


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("TOOL-2")
def test_what_a_call_uses_is_not_known_before_its_first_check() -> None:
    assert claimant_of(LedgerEntry(call=recorded_call()), settings_with(READ)) is None


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize("verdict", [UnknownTool(), InvalidCall("no")])
def test_a_call_that_was_not_found_valid_never_runs_and_uses_nothing(verdict: Verdict) -> None:
    for settings in (settings_with(READ), settings_with(BARE), settings_with()):
        entry = LedgerEntry(call=recorded_call(), verdict=verdict)
        assert never_runs(entry, settings)
        assert claimant_of(entry, settings) == Claimant(())


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("verdict", [None, ValidCall(CLAIMS), ValidCall(None)])
def test_a_call_that_gives_the_output_never_runs_and_uses_nothing(verdict: Verdict | None) -> None:
    entry = LedgerEntry(call=recorded_call(), verdict=verdict)
    settings = settings_with(Tool(name="read", profile=ToolProfile(serial=True)))
    output = evolve(settings, policy=evolve(settings.policy, output_tool="read"))
    assert (is_output_call(entry, output), never_runs(entry, output)) == (True, True)
    assert claimant_of(entry, output) == Claimant(())
    assert (is_output_call(entry, settings), never_runs(entry, settings)) == (False, False)


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-2")
def test_a_call_with_open_references_uses_what_its_check_says() -> None:
    """A resource that a reference stands for is not known: the check says that the claims are none."""
    for claims in (CLAIMS, None):
        entry = LedgerEntry(call=recorded_call(), verdict=ValidCall(claims), links=Links(sources=(0,), refers=True))
        assert claimant_of(entry, settings_with(READ)) == Claimant(claims)


@pytest.mark.rule("TOOL-1")
@given(profiles)
def test_the_effect_is_that_of_the_profile_and_dangerous_without_one(profile: ToolProfile | None) -> None:
    entry = LedgerEntry(call=recorded_call())
    expected = EffectClass.DANGEROUS if profile is None else profile.effect
    settings = settings_with(Tool(name="read", profile=profile))
    assert effect_class(entry, settings) is expected
    assert only_reads(entry, settings) is (expected is EffectClass.READ_ONLY)
    assert effect_class(entry, settings_with()) is EffectClass.DANGEROUS


@pytest.mark.rule("ASK-3")
def test_a_swapped_call_is_one_of_the_other_tool() -> None:
    edit = Edit(action=UserAction.SWAP, tool="read", input=NOTHING)
    entry = LedgerEntry(call=recorded_call(tool="bare"), verdict=ValidCall(CLAIMS), person=Person(edit=edit))
    settings = settings_with(READ, BARE)
    assert claimant_of(entry, settings) == Claimant(CLAIMS)
    assert only_reads(entry, settings)
    assert is_output_call(entry, evolve(settings, policy=evolve(settings.policy, output_tool="read")))
    assert not is_output_call(entry, evolve(settings, policy=evolve(settings.policy, output_tool="bare")))
