"""Every scenario of specs/scenarios holds on the real driver, which writes what the pure kernel was fed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, HandoffFailed
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolChecked, ToolStopped
from loopkernel.data.words import TurnEndReason
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

from tests.adapters.scenario_driver.player import is_checked_in_turn
from tests.adapters.scenario_driver.playing import differences_of, main, play
from tests.adapters.simulation.planted_drivers import PLANTED

FOLDER = Path(__file__).resolve().parents[3] / "specs" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))


def command(scenario: Scenario) -> str:
    file = Path(scenario.source)
    return f"python -m tests.adapters.scenario_driver specs/scenarios/{file.name} {scenario.id}"


# --- likeness: what the driver wrote, and what the pure player was fed -----------------------------------
# That is: a check reports at once and not in its turn; every aborted run says that it has stopped, not only one that
# somebody waits for; a stream that is cut, and a handoff that fails, are told in the driver's words; and a sub-agent
# that is taken up again says anew whom it waits for.


def likeness(written: Sequence[LogRecord], fed: Sequence[LogRecord]) -> str:
    """How the two logs compare: `same`, `like` (the same but for the above), or the first record that is another."""
    if written == fed:
        return "same"
    one, other = list(_comparable(written)), list(_comparable(fed))
    if one == other:
        return "like"
    place = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))
    return f"record {place}: wrote {one[place : place + 1]}, was fed {other[place : place + 1]}"


def _comparable(log: Sequence[LogRecord]) -> Iterator[tuple[Delta, int]]:
    for record in log:
        match record.delta:
            case ToolChecked() | ToolStopped() | ChildAsks():
                continue
            case ChildEnded(reason=TurnEndReason.USER_ABORT):  # it may say that it has stopped instead
                continue
            case ModelFailed() as failed:
                yield evolve(failed, message=""), record.now_ms
            case HandoffFailed() as failed_handoff:
                yield evolve(failed_handoff, why=""), record.now_ms
            case Forked():
                yield Forked(session_id="a fork"), record.now_ms
            case delta:
                yield delta, record.now_ms


# --- the driver and the pure player ---


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_driver_does_what_each_scenario_says(file: Path) -> None:
    wrong = []
    for scenario in read_scenario_file(file):
        played = play(scenario)
        found = differences_of(scenario, played)
        alike = likeness(played.log, Drive(scenario, effective_policy(scenario.policy), transition).run().log)
        if alike not in ("same", "like"):
            found = (*found, alike)
        if found:
            wrong.append(f"{command(scenario)}\n    {found[0]}")
    assert not wrong, "\n".join(wrong)


# Ahead of the verdict on a call it matters to the run whether it may start.
AHEAD_OF_A_VERDICT = {
    "right-behind-a-reply-everything-is-cancelled",
    "right-behind-a-reply-one-call-is-cancelled",
    "right-behind-a-reply-the-mode-becomes-plan",
    "right-behind-a-reply-an-answer-is-too-early",
    "right-behind-a-reply-a-fork-is-made",
    "while-a-correction-is-checked-every-answer-is-a-duplicate",
}


def test_what_comes_right_behind_a_step_comes_ahead_of_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these fails on a driver that has the verdicts at once."""
    scenarios = [one for file in FILES for one in read_scenario_file(file) if one.id in AHEAD_OF_A_VERDICT]
    assert len(scenarios) == len(AHEAD_OF_A_VERDICT)
    assert all(map(is_checked_in_turn, scenarios))
    monkeypatch.setattr("tests.adapters.scenario_driver.player.is_checked_in_turn", lambda _: False)
    assert [scenario.id for scenario in scenarios if not differences_of(scenario, play(scenario))] == []


# Nothing is under way when a scenario is over, so no scenario tells how a driver closes: the simulation does.
NOT_IN_SCENARIOS = {
    *("report-after-close", "task-left", "abandoned-stream-goes-on", "acknowledged-too-early"),
    # Their stores return at once, so nothing is under way in a write.
    *("events-before-the-write", "commands-before-the-write", "sends-before-the-write"),
    *("writes-after-close", "takes-a-step-while-it-writes"),
}


@pytest.mark.parametrize("bug", sorted(PLANTED.keys() - NOT_IN_SCENARIOS))
def test_a_broken_driver_fails_scenarios(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    caught: Counter[bool] = Counter()
    for file in (
        FOLDER / name for name in ("cancel.yaml", "approval.yaml", "restart.yaml", "forks.yaml", "authority.yaml")
    ):
        for scenario in read_scenario_file(file)[:40]:
            try:
                caught[bool(differences_of(scenario, play(scenario)))] += 1
            except Exception:  # whatever it is, it was caught
                caught[True] += 1
        if caught[True]:
            return
    pytest.fail(f"no scenario of {sum(caught.values())} fails with the bug")


def test_a_scenario_is_played_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / "approval.yaml"
    name = read_scenario_file(file)[0].id
    assert main([str(file), name]) == 0
    assert capsys.readouterr().out.startswith(f"pass {name}\n")


def test_a_name_that_the_file_has_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(FOLDER / "approval.yaml"), "nobody"])
    assert "has no scenario nobody" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.yaml")]) == 1
    assert "No such file" in capsys.readouterr().out


def test_a_policy_that_cannot_hold_fails_its_scenario_and_the_rest_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "rules: [LIMIT-1]\nmodel: [{text: Hi}]\nuser: [{at: 0, say: Hello}]\nexpect: {state: Idle}\n"
    impossible = "policy: {result_limit: {chars: 100, head: 90, tail: 90}}\n"
    file = tmp_path / "two.yaml"
    file.write_text(f"scenario: impossible\n{impossible}{said}---\nscenario: possible\n{said}", encoding="utf-8")
    assert main([str(file)]) == 1
    first, why, second = capsys.readouterr().out.splitlines()
    assert (first, second) == ("fail impossible", "pass possible")
    assert "the policy cannot hold: result_limit" in why
