"""Folding a log: every step once, the same each time, from any state; and where two runs part."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.blocks import TextBlock
from loopkernel.data.errors import OtherRules
from loopkernel.data.states import Idle, Initial, State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import RULES_VERSION, Acquired, Created
from loopkernel.data.user_deltas import Say
from loopkernel.loop.transition import transition
from loopkernel.replaying import START, LogRecord, StepRecord, first_divergence, fold, fork, replay
from loopkernel.testing.run import log_of

from tests.kernel.played import PLAYED, logs

SCRIPTED = st.sampled_from(sorted(PLAYED)).map(lambda name: PLAYED[name])


def test_an_empty_log_leads_nowhere() -> None:
    assert fold([]) == ()
    assert replay([]) == START == Initial()


@given(logs)
def test_a_fold_is_a_chain_of_steps_one_for_each_record(log: list[LogRecord]) -> None:
    steps = fold(log)
    assert list(log_of(steps)) == log
    assert [step.before for step in steps] == [START, *(step.after for step in steps[:-1])][: len(steps)]
    for step in steps:
        assert Step(step.after, step.effects) == transition(step.before, step.context)


@given(logs)
def test_replay_leads_to_where_the_fold_ends(log: list[LogRecord]) -> None:
    steps = fold(log)
    assert replay(log) == (steps[-1].after if steps else START)


@pytest.mark.rule("RESUME-1")
@given(st.integers(1, 2 * RULES_VERSION).filter(lambda version: version != RULES_VERSION))
def test_a_log_of_other_rules_is_refused_in_words(version: int) -> None:
    log = [LogRecord(Created(session_id="s", rules_version=version), 0), LogRecord(Acquired(), 0)]
    with pytest.raises(OtherRules, match=f"under version {version} of the rules, and .* version {RULES_VERSION}"):
        replay(log)
    with pytest.raises(OtherRules):
        fork(log, at=2, session_id="t", now_ms=0)
    assert is_refused(transition(START, Context(log[0].delta, 0)).effects)


@pytest.mark.rule("RESUME-1")
@given(SCRIPTED)
def test_a_log_that_was_written_down_folds_to_the_same_run(steps: tuple[StepRecord, ...]) -> None:
    lines = [record_to_text(record) for record in log_of(steps)]
    assert first_divergence(fold(record_from_text(line) for line in lines), steps) is None


@pytest.mark.rule("RESUME-2")
@given(SCRIPTED, st.data())
def test_every_prefix_of_a_log_folds_to_the_state_of_that_moment(
    steps: tuple[StepRecord, ...], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(steps)))
    assert fold(log_of(steps)[:cut]) == steps[:cut]


@given(SCRIPTED, st.data())
def test_a_fold_may_begin_at_any_state(steps: tuple[StepRecord, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(steps) - 1))
    assert fold(log_of(steps)[cut:], steps[cut].before) == steps[cut:]
    assert replay(log_of(steps)[cut:], steps[cut].before) == steps[-1].after


def test_another_transition_can_be_folded() -> None:
    def deaf(state: State, _: Context) -> Step[State]:
        return Step(state, ())

    log = [LogRecord(Created(session_id="s"), 0), LogRecord(Acquired(), 0)]
    assert replay(log, transition=deaf) == START
    assert [step.effects for step in fold(log, transition=deaf)] == [(), ()]
    assert isinstance(replay(log), Idle)


@given(SCRIPTED)
def test_a_run_does_not_diverge_from_itself(steps: tuple[StepRecord, ...]) -> None:
    assert first_divergence(steps, fold(log_of(steps))) is None


@given(SCRIPTED, st.data())
def test_runs_diverge_at_the_first_step_that_differs(steps: tuple[StepRecord, ...], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(steps) - 1))
    other = evolve(steps[place], context=Context(Say(content=(TextBlock("?!"),)), -1))
    assert first_divergence(steps, (*steps[:place], other, *steps[place + 1 :])) == place


@given(SCRIPTED, st.data())
def test_a_shorter_run_diverges_where_it_ends(steps: tuple[StepRecord, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(steps) - 1))
    assert first_divergence(steps, steps[:cut]) == cut
    assert first_divergence(steps[:cut], steps) == cut
