"""The laws themselves: what they count, that they agree with each other, and what they cost."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import state_to_text
from loopkernel.data.projected import ProjectedMessage
from loopkernel.data.states import State
from loopkernel.data.threads import Thread
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.data.vector import Vector
from loopkernel.judging import KERNEL, check_pairs, check_step, check_trace
from loopkernel.laws import JUDGED, LAWS, Breach, LawKind, Report, retakes
from loopkernel.laws.catalogue import PAIR_CHECKS, RUN_LAWS
from loopkernel.laws.judging import judge_run, judge_steps
from loopkernel.laws.retakes import ALLOWANCE, FIRST_ALLOWANCE, size_of
from loopkernel.laws.shadow.uses import CallsByUse, first, must_not_overlap
from loopkernel.laws.views import extends
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.algorithms.scheduling import Claimant, conflict
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord, fold
from loopkernel.testing.planted.planting import PlantedBug
from loopkernel.testing.played.player import (
    Player,
    play,
)
from loopkernel.testing.played.tools import (
    read,
)

from tests.kernel.catching_runs import ALL_RUNS, runs_for
from tests.kernel.planted.bugs import PLANTED
from tests.kernel.planted.runs import SCRIPTS
from tests.kernel.played import PLAYED, logs

NOT_YET = {"LINEAR"}
CARRYING = [law for law in (*RUN_LAWS, "MIRROR") if law != "WRITE-AHEAD"]  # which judges each step, at a cost
STEP_LAWS = {law.id for law in JUDGED if law.kind is LawKind.STEP}


# --- the catalogue --------------------------------------------------------------------------------------


def test_each_law_has_a_name_of_its_own() -> None:
    assert len({law.id for law in LAWS}) == len(LAWS)


def test_what_is_not_judged_yet_says_why() -> None:
    assert {law.id for law in LAWS if law.not_yet} == NOT_YET
    assert {law.id for law in JUDGED} == {law.id for law in LAWS} - NOT_YET


@pytest.mark.parametrize(
    ("kind", "checks"), [(LawKind.TRACE, RUN_LAWS), (LawKind.PAIR, PAIR_CHECKS)], ids=["trace", "pair"]
)
def test_each_law_of_a_run_has_its_check(kind: LawKind, checks: dict[str, object]) -> None:
    assert set(checks) == {law.id for law in JUDGED if law.kind is kind}


# --- reports ----------------------------------------------------------------------------------------------


def test_a_report_counts_the_checks_by_kind_and_by_law() -> None:
    report = check_trace(PLAYED["reads"])
    counts = dict(report.by_law)
    assert dict(report.checked) == {
        LawKind.STEP: sum(counts[law] for law in counts if law in STEP_LAWS),
        LawKind.TRACE: len(RUN_LAWS),
    }
    assert counts["PAIR"] == counts["ORDER"] == 3  # a request each
    assert counts["TOTAL"] == counts["WHY"] == len(PLAYED["reads"])


def test_every_step_law_has_something_to_judge_in_the_scripted_runs() -> None:
    judged = {law for steps in PLAYED.values() for law, _ in check_trace(steps).by_law}
    assert judged == {law.id for law in JUDGED if law.kind in (LawKind.STEP, LawKind.TRACE)}


def test_a_report_of_nothing_held_says_that_nothing_was_judged() -> None:
    assert str(Report()) == "laws checked: none; all held"


def test_a_report_names_each_breach_by_law_and_step() -> None:
    report = Report(checked=((LawKind.STEP, 2),), breaches=(Breach("PAIR", 7, "call 1.1 has no answer"),))
    assert not report.held
    assert str(report) == "laws checked: step 2; 1 broken\nlaw PAIR is broken at step 7: call 1.1 has no answer"


def test_an_empty_run_breaks_nothing() -> None:
    assert check_trace(()).held
    assert check_pairs(()).held


# --- the laws hold ------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@given(logs)
def test_the_laws_hold_however_ill_timed_the_deltas(log: list[LogRecord]) -> None:
    steps = fold(log)
    assert (check_trace(steps).breaches, check_pairs(steps).breaches) == ((), ())


@pytest.mark.parametrize("script", PLAYED)
def test_the_laws_hold_from_any_step_on(script: str) -> None:
    """Those that carry something from step to step, which they must then learn from the first state."""
    steps = PLAYED[script]
    for cut in range(1, len(steps)):
        rest = steps[cut:]
        assert [breach for law in CARRYING for breach in judge_run(law, rest, KERNEL)] == []


STEP_BUGS = [bug for bug in PLANTED if bug.law in STEP_LAWS]


@pytest.mark.parametrize("bug", STEP_BUGS, ids=[bug.name for bug in STEP_BUGS])
def test_a_step_alone_is_judged_as_in_its_run(bug: PlantedBug) -> None:
    """`check_trace` passes over what an earlier request has shown; `check_step` does not, and finds no more."""
    judged = bug.judged(transition)
    for name, script in runs_for(bug).items():
        steps = play(script, judged.transition)
        if steps == PLAYED[name] and not bug.hidden:
            continue  # as without the bug
        in_run = judge_steps(steps, judged).breaches
        alone = [breach for step, record in enumerate(steps) for breach in check_step(record, step, judged=judged)]
        assert {breach.step for breach in in_run} <= {breach.step for breach in alone}
        assert {breach.law for breach in in_run} == {breach.law for breach in alone}
        if in_run and not ALL_RUNS:
            break  # the other suites play on


def test_a_sub_agent_without_time_is_told_though_no_other_delay_changes() -> None:
    bug = next(bug for bug in STEP_BUGS if bug.name == "child-has-all-the-time")
    judged = bug.judged(transition)
    steps = play(SCRIPTS["delegated"], judged.transition)
    assert {breach.law for breach in judge_steps(steps, judged).breaches} == {"TIMER-DATA"}


# --- cost, counted and not timed ------------------------------------------------------------------------------


def rounds(count: int) -> tuple[StepRecord, ...]:
    """A run of so many rounds of two calls."""
    player = Player(transition)
    player.begin()
    player.say("go")
    for number in range(count):
        player.reply(read(f"a{number}"), read(f"b{number}"))
        player.end()
        player.end()
    player.settle()
    return tuple(player.steps)


def test_a_run_is_projected_about_twice_whatever_its_length() -> None:
    projected: list[int] = []

    def counting(thread: Thread, model: str) -> tuple[ProjectedMessage, ...]:
        projected.append(len(thread))
        return project(thread, model)

    steps = rounds(60)
    assert check_trace(steps, judged=evolve(KERNEL, project=counting)).held
    session = steps[-1].after.session
    assert session is not None
    assert sum(projected) <= 2 * len(session.thread)


def test_a_short_run_has_all_its_states_written_and_a_long_one_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def counting(state: State) -> str:
        written.append(size_of(state))
        return state_to_text(state)

    monkeypatch.setattr(retakes, "state_to_text", counting)
    short, long = PLAYED["reads"], rounds(60)
    assert check_trace(short).held
    assert len(written) == len(short) + 1  # the one that it begins with, too
    written.clear()
    assert check_trace(long).held
    assert 0 < sum(written) <= FIRST_ALLOWANCE + ALLOWANCE * len(long) + size_of(long[-1].after)


# --- what the laws know by themselves ---------------------------------------------------------------------------


@given(st.integers(0, 1_100), st.integers(0, 1_100))
def test_a_grown_sequence_extends_what_it_was_grown_from(size: int, more: int) -> None:
    older = Vector.of(range(size))
    newer = older
    for item in range(size, size + more):
        newer = newer.append(item)
    assert extends(older, newer)
    assert extends(Vector.of(range(size)), newer)  # nothing shared
    assert extends(newer, older) == (more == 0)


@given(st.integers(1, 1_100), st.integers(0, 70), st.data())
def test_a_sequence_with_another_item_extends_nothing(size: int, more: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, size - 1))
    older = Vector.of(range(size))
    newer = older.replace(place, -1)
    for item in range(more):
        newer = newer.append(item)
    assert not extends(older, newer)


KEYS = st.sampled_from(["", ".", "/", "a", "a/", "a/b", "a/b/c", "ab", "/a", "/a/b", "../a", "b"])
CLAIMS = st.none() | st.lists(st.builds(Claim, KEYS, st.sampled_from(AccessMode)), max_size=3).map(tuple)


@pytest.mark.rule("TOOL-2")
@given(st.lists(CLAIMS, max_size=5), CLAIMS)
def test_the_index_of_keys_and_the_scheduler_agree_on_what_conflicts(
    earlier: list[tuple[Claim, ...] | None], claims: tuple[Claim, ...] | None
) -> None:
    held = CallsByUse()
    for place, claimed in enumerate(earlier):
        held.put(place, claimed)
    one = Claimant(claims)
    found = held.conflicting(claims, first, writers_overlap=False)
    pairs = [place for place, other in enumerate(earlier) if conflict(one, Claimant(other))]
    assert [
        place for place, other in enumerate(earlier) if must_not_overlap(claims, other, writers_overlap=False)
    ] == pairs
    assert found in pairs if pairs else found is None
