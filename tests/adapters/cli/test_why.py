"""`why`, `log --steps`, `policy` and `doctor`: what a person asks when something is not as it was meant."""

import json
import re
from pathlib import Path

import pytest
from loopkernel.codec import policy_from_text
from loopkernel.presets import PRESETS, VARIANTS, preset
from loopkernel_adapters.providers.local import provider as local
from loopkernel_adapters.providers.local.provider import ModelMissing

from tests.adapters.cli.sessions import MODEL, CommandLine, calls, says, script, writes

# --- log --steps, why ---


@pytest.fixture
def refused(loopkernel: CommandLine) -> CommandLine:
    """After a run whose call a rule of the mode has refused."""
    script({"text": "Writing it.", **writes("a")}, calls("nothing"), says("I could not, sorry, really."))
    assert loopkernel("run", "go", *MODEL, "--approve", "never").status == 0
    return loopkernel


def numbers(refused: CommandLine) -> list[str]:
    return [line.split()[0] for line in refused("log", "last", "--steps").out.splitlines()]


def test_the_steps_are_all_records_and_each_number_can_be_forked_at(refused: CommandLine) -> None:
    listed = numbers(refused)
    records = len(refused("log", "last", "--json").out.splitlines())
    covered = [number for each in listed for number in range(int(each.split("-")[0]), int(each.split("-")[-1]) + 1)]
    assert covered == [*range(1, records + 1)]
    run = json.loads(refused("runs", "--json").out.splitlines()[0])["run"]
    for each in (listed[2], listed[-1]):  # the first two have no session to leave
        assert refused("fork", run, "--at", each.split("-")[-1]).status == 0


def test_every_effect_of_a_run_has_its_rule_in_words(refused: CommandLine) -> None:
    told = refused("why", "last").out
    rules = re.findall(r"since .+ \(([A-Z]+-\d+)\)", told)
    listed = set(re.findall(r"^### ([A-Z]+-\d+)", "".join(map(Path.read_text, RULES.glob("*.md"))), re.MULTILINE))
    assert set(rules) <= listed
    assert len(rules) > 20
    assert "denied" in told


RULES = Path(__file__).parents[3] / "specs" / "rules"


def test_one_step_is_told_by_its_number_and_no_other_is(refused: CommandLine) -> None:
    steps = refused("why", "last", "3").out
    assert steps.startswith("step 3")
    assert 'Message 1, said: "go"'.lower() in steps.lower()
    assert "step 4" not in steps
    for wrong in ("0", "999", "x"):
        ended = refused("why", "last", wrong)
        assert ended.status == 2
        assert "loopkernel" in ended.err


def test_what_is_not_there_is_told(loopkernel: CommandLine) -> None:
    for command in (("why", "nobody"), ("log", "nobody", "--steps")):
        assert loopkernel(*command).status == 2


# --- policy ---


@pytest.mark.parametrize("name", [*PRESETS, *VARIANTS])
def test_a_preset_is_printed_as_a_file_that_is_the_same_policy(loopkernel: CommandLine, name: str) -> None:
    shown = loopkernel("policy", "show", name)
    Path("own.json").write_text(shown.out)
    assert policy_from_text(shown.out) == preset(name)
    assert loopkernel("policy", "check", "own.json").status == 0
    assert loopkernel("policy", "diff", name, "own.json").status == 0


def test_what_differs_is_told_with_both_values(loopkernel: CommandLine) -> None:
    ended = loopkernel("policy", "diff", "default", "claude")
    assert ended.status == 1
    assert "max_turns\n  default   100\n  claude    null\n" in ended.out


def test_a_file_with_faults_is_told_each_of_them(loopkernel: CommandLine) -> None:
    text = '{"loopkernel": "policy", "version": 6, "value": {"max_turns": -1, "max_parallel": 0}}'
    Path("own.json").write_text(text)
    ended = loopkernel("policy", "check", "own.json")
    assert ended.status == 2
    assert "max_turns" in ended.err
    assert "max_parallel" in ended.err


# --- doctor ---


def test_the_doctor_names_each_key_and_shows_none(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_model", lambda: (_ for _ in ()).throw(ModelMissing("it is not installed")))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-a-secret-value-1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ended = loopkernel("doctor")
    assert ended.status == 0
    assert "anthropic: ANTHROPIC_API_KEY is set" in ended.out
    assert "as OPENAI_API_KEY" in ended.out
    assert "sk-a-secret" not in ended.out
    assert "it is not installed" in ended.out


def test_a_model_that_is_there_and_does_not_load_is_a_failure(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> object:
        raise ModelMissing("the file is damaged")

    monkeypatch.setattr(local, "find_model", lambda: Path("weights"))
    monkeypatch.setattr(local.LocalProvider, "load", fails)
    ended = loopkernel("doctor")
    assert ended.status == 1
    assert "the file is damaged" in ended.out
