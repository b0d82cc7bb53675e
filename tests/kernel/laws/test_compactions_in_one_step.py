"""A compaction is cut short by an edit and another done in the same step; or the policy changes while it goes on."""

import pytest
from attrs import evolve
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.deltas import Delta
from loopkernel.data.events import CompactionEnded, ResultsCleared, ThreadCompacted, ThreadRewritten, TurnEnded
from loopkernel.data.ids import MessageId, ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import SummaryReady
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.states import Compacting
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.user_deltas import ChangePolicy, CompactNow, EditMessage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.judging import KERNEL, check_trace
from loopkernel.laws.judging import judge_run
from loopkernel.replaying import LogRecord, fold, replay

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    completed,
    created,
    failed,
    made_call,
    of_kind,
    say,
    steer,
    succeeded,
    text,
)


@pytest.mark.rule("COMPACT-4")
def test_a_compaction_that_begins_in_the_step_that_cuts_one_short_needs_no_summary() -> None:
    summarise = evolve(ASKING_NOBODY, compaction=Compaction(keep_turns=1))
    window = Compaction(
        strategy=CompactionStrategy.WINDOW, keep_turns=1, when=CompactionMoment.TURN_START, window_tokens=2
    )
    turns: list[Delta] = [delta for reply in (1, 2, 3) for delta in (say("more " * 20), completed(reply=reply))]
    end: list[Delta] = [
        say("more " * 20),
        failed(ErrorClass.PROMPT_TOO_LONG, 4),
        ChangePolicy(evolve(summarise, compaction=window)),
        EditMessage(message=MessageId(5), content=text("other")),
    ]
    steps = fold([LogRecord(delta, 0) for delta in (created(summarise), Acquired(), *turns, *end)])
    assert [ended.done for ended in of_kind(CompactionEnded, steps[-1].effects)] == [False, True]
    assert [str(breach) for breach in check_trace(steps).breaches] == []


@pytest.mark.rule("INPUT-4")
def test_results_that_are_cleared_before_an_edit_puts_messages_back_are_put_back_so() -> None:
    """The edit ends the turn, which clears results at its end, and then puts back what a window took out."""
    window = Compaction(strategy=CompactionStrategy.WINDOW, keep_turns=1, trigger_ratio=None, trigger_tokens=1)
    clear = evolve(window, strategy=CompactionStrategy.CLEAR, when=CompactionMoment.TURN_END)
    deltas: list[Delta] = [
        *(created(evolve(ASKING_NOBODY, compaction=window)), Acquired(), *called(1), completed(reply=2)),
        *(*called(3), completed(reply=4), ChangePolicy(evolve(ASKING_NOBODY, compaction=clear)), *called(5)),
        EditMessage(message=MessageId(1), content=text("other")),
    ]
    steps = fold([LogRecord(delta, 0) for delta in deltas])
    told = [type(effect) for effect in steps[-1].effects if isinstance(effect, ResultsCleared | ThreadRewritten)]
    assert told == [ResultsCleared, ThreadRewritten]
    assert judge_run("CUT-SAFE", steps, KERNEL) == ()


@pytest.mark.rule("INFER-8", "COMPACT-1")
def test_a_compaction_at_the_end_of_a_turn_is_no_way_out_of_its_failure() -> None:
    """A prompt was too long, nothing makes it smaller, and the end of the turn has a compaction of its own."""
    at_end = Compaction(
        strategy=CompactionStrategy.WINDOW,
        when=CompactionMoment.TURN_END,
        trigger_ratio=None,
        trigger_tokens=1,
        keep_turns=None,
        keep_messages=1,
    )
    deltas: list[Delta] = [
        *(created(evolve(ASKING_NOBODY, compaction=at_end)), Acquired(), say()),
        *(ModelText(ModelOperation(1), "so"), steer("on"), completed(), failed(ErrorClass.PROMPT_TOO_LONG, 2)),
    ]
    steps = fold([LogRecord(delta, 0) for delta in deltas])
    ends = [type(effect) for effect in steps[-1].effects if isinstance(effect, CompactionEnded | TurnEnded)]
    assert ends == [CompactionEnded, TurnEnded]
    assert [str(breach) for breach in check_trace(steps).breaches] == []


def called(reply: int) -> tuple[Delta, ...]:
    """The user wants more, and the model calls a tool in this reply, whose output follows."""
    run = (reply + 1) // 2
    return say("more " * 9), made_call("read", reply=reply), completed(StopReason.TOOL_USE, reply=reply), succeeded(run)


@pytest.mark.rule("COMPACT-2")
@pytest.mark.parametrize("later", [None, Compaction(keep_turns=1)], ids=["never more", "less is kept"])
def test_a_summary_is_judged_by_the_policy_under_which_it_was_asked_for(later: Compaction | None) -> None:
    """What is cut is settled when a compaction begins: a policy that changes meanwhile is for the next one."""
    two = evolve(ASKING_NOBODY, compaction=Compaction(keep_turns=2))
    turns: list[Delta] = [
        delta
        for reply in (1, 2, 3)
        for delta in (say("more"), ModelText(ModelOperation(reply), "well"), completed(reply=reply))
    ]
    asked: list[Delta] = [created(two), Acquired(), *turns, CompactNow()]
    compacting = a(Compacting, replay([LogRecord(delta, 0) for delta in asked]))
    end: list[Delta] = [
        ChangePolicy(evolve(two, compaction=later)),
        SummaryReady(compacting.operation, "so far"),
    ]
    steps = fold([LogRecord(delta, 0) for delta in (*asked, *end)])
    assert len(of_kind(ThreadCompacted, steps[-1].effects)) == 1
    assert judge_run("CUT-SAFE", steps, KERNEL) == ()
    assert judge_run("CUT-SAFE", steps[-1:], KERNEL) == ()
    unchanged = [steps[-3], evolve(steps[-1], before=compacting)]
    begun = evolve(unchanged[0], after=with_policy(compacting, evolve(two, compaction=Compaction(keep_turns=1))))
    told = [str(breach) for breach in judge_run("CUT-SAFE", [begun, unchanged[1]], KERNEL)]
    assert any("keeps 2 turns, and 1 are to be kept" in one for one in told)


def with_policy(state: Compacting, policy: Policy) -> Compacting:
    """The state under another policy."""
    return evolve(state, session=evolve(state.session, settings=evolve(state.session.settings, policy=policy)))
