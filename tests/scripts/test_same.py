"""`make same`: a module that moves changes nothing, and another order of two effects is shown, with its step."""

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from scripts.sameness.corpus import PARTS, CorpusCase, CorpusStep, from_line, of_log, to_line
from scripts.sameness.folding import folded
from scripts.sameness.gathering import cases
from scripts.sameness.telling import Difference, told

ROOT = Path(__file__).resolve().parents[2]
LOGS = 2
MOST = 3  # cases of each part
SMALL = {  # a share of each part that is soon made
    "recordings": (0, 40),
    "logs": (5, 6),
    "states": (0, 4),
    "scenarios": (0, 39),
    "worlds": (0, 300),
    "walks": (0, 200),
    "explorer": (13, 14),
}
VERSIONS = {"state": 5, "policy": 4, "rules": 5}
OUTCOME = {"state": '{"a":1}', "effects": "[]", "requests": "[]"}
ORDER = "(*effects, *entered.effects)"
OTHER_ORDER = "(*entered.effects, *effects)"


def git(project: Path, *words: str) -> None:
    """Run git on the copy."""
    settings = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *words], cwd=project, check=True, capture_output=True)


def same(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script of the copy, on the golden logs that it has."""
    command = [sys.executable, "-m", "scripts.same", "--only", "logs", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, committed, with a few golden logs."""
    copy = tmp_path / "project"
    for folder in ("kernel", "scripts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    vectors = copy / "specs" / "vectors"
    vectors.mkdir(parents=True)
    latest = sorted((ROOT / "specs" / "vectors").glob("release-*.jsonl"))[-1]
    chosen = latest.read_text(encoding="ascii").splitlines()[:LOGS]
    (vectors / latest.name).write_text("".join(f"{line}\n" for line in chosen), encoding="ascii")
    for folder in ("adapters", "tests"):
        (copy / folder).mkdir()
        (copy / folder / "none").touch()
    git(copy, "init", "-q")
    git(copy, "add", "--all")
    git(copy, "commit", "-q", "-m", "as it was")
    return copy


def test_a_module_that_moves_changes_nothing_and_effects_in_another_order_are_shown(project: Path) -> None:
    """The trees are folded each by its own modules, also where those have other names."""
    kernel, folding = project / "kernel" / "loopkernel", project / "scripts" / "sameness" / "folding.py"
    transition = (kernel / "loop" / "transition.py").read_text(encoding="utf-8")
    (kernel / "moved.py").write_text(transition, encoding="utf-8")
    named = folding.read_text(encoding="utf-8")
    folding.write_text(named.replace("loopkernel.loop.transition import", "loopkernel.moved import"), encoding="utf-8")
    moved = same(project)
    assert (moved.returncode, moved.stderr) == (0, ""), moved.stdout
    assert f"the same: {LOGS} cases, " in moved.stdout

    assert ORDER in transition
    (kernel / "moved.py").write_text(transition.replace(ORDER, OTHER_ORDER), encoding="utf-8")
    planted = same(project)
    assert (planted.returncode, planted.stderr) == (1, "")
    assert "NOT THE SAME" in planted.stdout
    assert "--- the effects" in planted.stdout
    assert '-  "type": "message-added"' in planted.stdout
    assert '+  "type": "message-added"' in planted.stdout
    assert "make same BASE=" in planted.stdout.splitlines()[-1]


def test_where_nothing_can_be_compared_nothing_is_said_to_be_the_same(project: Path) -> None:
    """A base that is not there, and a program of the working tree that cannot run."""
    assert (
        same(project, "--base", "HEAD").stdout.splitlines()[-1] == "nothing in kernel/ differs, so nothing was folded"
    )
    unknown = same(project, "--base", "nowhere")
    assert (unknown.returncode, "not compared: git rev-parse" in unknown.stdout) == (2, True)
    (project / "kernel" / "loopkernel" / "loop" / "transition.py").write_text(
        "raise RuntimeError('cannot be imported')\n"
    )
    broken = same(project)
    assert (broken.returncode, broken.stderr) == (2, "")
    assert "folding.py of the working tree has failed" in broken.stdout
    assert "cannot be imported" in broken.stdout


def difference(**here: str) -> Difference:
    """A step that comes out otherwise in these parts."""
    return Difference(case="a", step=3, record="{}", base=OUTCOME, here={**OUTCOME, **here})


def test_an_encoding_that_changes_is_told_from_a_value_that_does() -> None:
    other_value = told(difference(state='{"a":2}'), VERSIONS, VERSIONS, "repeat")
    assert '- "a": 1' in other_value
    assert '+ "a": 2' in other_value
    assert "encoding" not in other_value
    assert "the encoding has changed" in told(difference(state='{"a": 1}'), VERSIONS, VERSIONS, "repeat")


@pytest.mark.parametrize("kind", VERSIONS)
def test_a_version_that_changes_is_told_in_words(kind: str) -> None:
    other = {**VERSIONS, kind: 9}
    found = told(difference(state='{"a":2}'), VERSIONS, other, "repeat")
    assert f"The version of the {kind} is {VERSIONS[kind]} at the base and 9 here." in found


def test_a_long_difference_is_cut() -> None:
    found = told(difference(effects=json.dumps(list(range(1_000)))), VERSIONS, VERSIONS, "repeat")
    assert len(found.splitlines()) < 80
    assert "lines more" in found


def test_a_case_is_read_as_it_was_written() -> None:
    for case in (of_log("a", ["{}", "[]"]), CorpusCase("b", '"\\n', (CorpusStep("1", aside=True), CorpusStep("2")))):
        assert from_line(to_line(case)) == case


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_corpus_is_made_and_folded_by_this_tree(part: str) -> None:
    """It will be the base of a later change, so that its programs have to run when modules have moved."""
    made = list(islice(cases(part, *SMALL[part]), MOST))
    assert made
    for case in made:
        outcomes = list(folded(case))
        assert len(outcomes) == len(case.steps) + 1 > 1
        assert not any(outcome.raised for outcome in outcomes)
        assert len({outcome.digest() for outcome in outcomes}) > 1
