"""specs/codec.md: its examples read and write as they stand; and the bounds of a policy are kept by what reads one."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from loopkernel import codec
from loopkernel.codec import (
    effects_to_text,
    policy_from_text,
    policy_to_text,
    record_from_text,
    record_to_text,
    state_from_text,
    state_to_text,
)
from loopkernel.codec.upgrades import UPGRADES
from loopkernel.data.errors import CodecError
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.replaying import fold

from scripts.policy_reference import options
from tests.specs.policy_bounds import BOUNDS

PAGE = (Path(__file__).resolve().parents[2] / "specs" / "codec.md").read_text(encoding="utf-8")
LOG, EFFECTS, DOCUMENTS = (
    block.splitlines() for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)


@pytest.mark.rule("RESUME-1")
def test_the_log_of_the_page_leads_to_its_effects_and_its_state() -> None:
    records = [record_from_text(line) for line in LOG]
    assert [record_to_text(record) for record in records] == LOG
    steps = fold(records)
    assert [effects_to_text(step.effects) for step in steps] == EFFECTS
    assert state_to_text(steps[1].after) == DOCUMENTS[0]


def test_the_documents_of_the_page_read_and_write_as_they_stand() -> None:
    state, policy = DOCUMENTS
    assert state_to_text(state_from_text(state)) == state
    assert policy_to_text(policy_from_text(policy)) == policy


def test_the_page_names_the_versions_and_the_upgrades() -> None:
    assert f'"version":{codec.STATE_VERSION},' in DOCUMENTS[0]
    assert f'"version":{codec.POLICY_VERSION},' in DOCUMENTS[1]
    assert f"This kernel folds version {RULES_VERSION}." in PAGE
    rows = re.findall(r"^\| (policy|state) \| ([\d, ]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    told = {(kind, int(version)) for kind, versions in rows for version in versions.split(", ")}
    assert told == {(upgrade.kind, upgrade.before) for upgrade in UPGRADES}


def policy_with(option: str, number: float) -> str:
    """A policy that gives one number, and is sound but for it."""
    outer, _, inner = option.partition(".")
    given: object = [number] if inner == "escalate_to" else number
    value: dict[str, object] = {outer: {inner: given} if inner else given}
    if inner.startswith("keep_") and outer == "compaction":
        value = {outer: {"keep_turns": None, inner: given}}
    if outer == "max_cost_usd":
        value["prices"] = {"input": 1}
    if outer == "result_limit":
        value = {outer: {"chars": 10, "head": 0, "tail": 0, inner: given}}
    return json.dumps({"loopkernel": "policy", "version": codec.POLICY_VERSION, "value": value})


@pytest.mark.parametrize(("option", "bound"), BOUNDS.items(), ids=list(BOUNDS))
def test_a_bound_is_kept(option: str, bound: int) -> None:
    policy_from_text(policy_with(option, bound))
    with pytest.raises(CodecError, match=f"must be a finite number of at least {bound}"):
        policy_from_text(policy_with(option, bound - 1))


def test_every_number_has_a_bound_but_the_seed() -> None:
    numbers = {option.name for option in options() if {int, float} & {option.hint, *get_args(option.hint)}}
    assert set(BOUNDS) == numbers - {"seed"}
