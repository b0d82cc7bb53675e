"""The golden logs of every release: folded to what they were recorded with, or refused where the rules have changed."""

from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.errors import CodecError, OtherRules
from loopkernel.data.events import Refused
from loopkernel.data.records import StepRecord
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import RULES_VERSION, Created, Resumed
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.judging import check_step
from loopkernel.laws.views import ledger_in
from loopkernel.loop.transition import transition
from loopkernel.replaying import START, fold, fork
from loopkernel.testing.conformance.vectors import GoldenLog, divergence, from_line, main, to_line
from loopkernel_adapters.ports import Restored, RulesDiffer, demand_same_rules

VECTORS = Path(__file__).resolve().parents[2] / "specs" / "vectors"
FILES = sorted(VECTORS.glob("release-*.jsonl"))
SNAPSHOTS = [  # one file for each earlier version of the state
    line for file in sorted(VECTORS.glob("states-*.jsonl")) for line in file.read_text(encoding="ascii").splitlines()
]
LINES = [line for file in FILES for line in file.read_text(encoding="ascii").splitlines()]
GOLDEN = [from_line(line) for line in LINES]


def rules_of(golden: GoldenLog) -> int:
    """The version of the rules that the log was written under, as its first record says."""
    first = golden.log[0].delta
    assert isinstance(first, Created)
    return first.rules_version


OURS = to_line(GOLDEN[-1])
OF_THESE_RULES = [golden for golden in GOLDEN if rules_of(golden) == RULES_VERSION]
OLDER = [golden for golden in GOLDEN if rules_of(golden) != RULES_VERSION]


def test_there_are_golden_logs_of_every_release() -> None:
    assert [file.name for file in FILES] == [f"release-0.{number}.jsonl" for number in range(1, 9)]
    assert {rules_of(golden) for golden in GOLDEN} == set(range(1, RULES_VERSION + 1))
    assert len(OF_THESE_RULES) > 100


@pytest.mark.rule("RESUME-1")
def test_every_golden_log_of_these_rules_folds_to_what_it_was_recorded_with() -> None:
    diverged = {golden.scenario: found for golden in OF_THESE_RULES if (found := divergence(golden))}
    assert diverged == {}


@pytest.mark.rule("RESUME-1")
def test_a_log_of_other_rules_is_never_refolded_in_silence() -> None:
    assert len(OLDER) > 50
    for golden in OLDER:
        with pytest.raises(OtherRules, match=f"under version {rules_of(golden)} of the rules"):
            fold(golden.log)
        assert f"under version {rules_of(golden)} of the rules" in (divergence(golden) or "")
        first = golden.log[0]
        refused = Refused(UserAction.CREATE, RefusalReason.INVALID)
        assert transition(START, Context(first.delta, first.now_ms)) == Step(START, (refused,))


@pytest.mark.rule("RESUME-1")
def test_whoever_opens_or_forks_a_log_of_other_rules_is_told_which_they_are() -> None:
    for golden in OLDER:
        told = f"version {rules_of(golden)} of the rules"
        with pytest.raises(RulesDiffer, match=f"{told}, .* version {RULES_VERSION}. Nothing was changed"):
            demand_same_rules(Restored(records=golden.log))
        with pytest.raises(ValueError, match=told):
            fork(golden.log, len(golden.log), "fork", 0)
    for golden in OF_THESE_RULES:
        demand_same_rules(Restored(records=golden.log))


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("text", SNAPSHOTS)
def test_a_state_of_an_older_release_is_read_and_gone_on_from(text: str) -> None:
    state = state_from_text(text)
    assert state_from_text(state_to_text(state)) == state
    step = transition(state, Context(Resumed(), state.stamp.now_ms))
    assert check_step(StepRecord(state, Context(Resumed(), state.stamp.now_ms), *step), 0) == ()
    ledger = ledger_in(state)
    if ledger is not None:
        assert ledger.checking == sum(entry.check is not None for entry in ledger.entries)


@pytest.mark.rule("RESUME-1")
def test_a_golden_log_is_read_and_written_back_as_it_stands() -> None:
    assert [to_line(from_line(line)) for line in LINES] == LINES


def test_a_golden_log_that_differs_is_told_apart() -> None:
    golden = from_line(OURS)
    assert divergence(evolve(golden, effects="0" * 64)) == "other effects"
    assert divergence(evolve(golden, state="0" * 64)) == "another state at the end"
    assert divergence(evolve(golden, log=golden.log[:-1])) is not None


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"scenario":"a","log":[],"effects":"","state":""}', OURS[:-2]])
def test_what_is_no_golden_log_is_refused(line: str) -> None:
    with pytest.raises(CodecError):
        from_line(line)


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(OURS + "\n", encoding="ascii")
    bad.write_text(to_line(evolve(from_line(OURS), effects="0" * 64)) + "\n", encoding="ascii")
    assert main(["check", str(good)]) == 0
    assert main(["check", str(good), str(bad)]) == 1
    assert main(["check", str(tmp_path / "none.jsonl")]) == 2
    assert "other effects" in capsys.readouterr().out
