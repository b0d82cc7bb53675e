"""A compaction is cut short by an edit, and another one is begun and done in the same step."""

import pytest
from attrs import evolve
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.deltas import Delta
from loopkernel.data.events import CompactionEnded
from loopkernel.data.ids import MessageId
from loopkernel.data.policy import Compaction
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.user_deltas import ChangePolicy, EditMessage
from loopkernel.data.words import ErrorClass
from loopkernel.laws import check_trace
from loopkernel.replay import LogRecord, fold

from tests.kernel.building import ASKING_NOBODY, completed, created, failed, of_kind, say, text


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
