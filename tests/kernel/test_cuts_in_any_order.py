"""Compactions, trims, clears, edits, restores and forks in any order: no call is ever parted from its answer."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

import pytest
from attrs import evolve
from hypothesis import settings
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.events import (
    CompactionEnded,
    ResultsCleared,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
    TurnEnded,
)
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.outside_deltas import SummaryReady
from loopkernel.data.policy import Compaction
from loopkernel.data.sessions import Turn
from loopkernel.data.states import Compacting
from loopkernel.data.steps import is_refused
from loopkernel.data.thread_deltas import Acquired, Created, Forked, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import ToolOutput, ValidCall
from loopkernel.data.user_deltas import EditMessage, Say
from loopkernel.data.words import StopReason
from loopkernel.judging import KERNEL
from loopkernel.laws.judging import judge_run
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import StepRecord
from typing_extensions import override

from tests.kernel.building import ASKING_NOBODY, NOTHING, TOOLS, session_of
from tests.kernel.cut_machine import CutMachine, parted
from tests.kernel.loop.algorithms.threads import thread_of

T = TypeVar("T")
SUMMARISE, WINDOW = CompactionStrategy.SUMMARISE, CompactionStrategy.WINDOW
LONG = evolve(ASKING_NOBODY, loop=None, max_turns=None)
SOMETIMES = {
    *("a summary", "a summary within a turn", "a gap note", "a window without a note", "cleared results"),
    *("put back for an edit", "cut behind", "failed", "behind the opening message"),
    *("Forked with open calls", "Resumed with open calls", "EditMessage with open calls"),
    *("Forked in Compacting", "Resumed in Compacting", "EditMessage in Compacting"),
}
MOST_RUNS, MOST_ACTS = 300, 40


def shown(record: StepRecord) -> Iterator[str]:
    """What a step shows of all that is to happen sometimes."""
    delta, before = record.context.delta, record.before
    for effect in record.effects:
        if isinstance(effect, ThreadCompacted):
            note = effect.note if isinstance(effect.note, UserMessage) else None
            summary = note is not None and note.origin is UserOrigin.SUMMARY
            yield "a summary" if summary else "a gap note" if note else "a window without a note"
            if effect.opening is not None:
                yield "behind the opening message"
            if summary and isinstance(before, Compacting) and isinstance(before.within, Turn):
                yield "a summary within a turn"
        elif isinstance(effect, ResultsCleared):
            yield "cleared results"
        elif isinstance(effect, ThreadRewritten):
            yield "put back for an edit"
        elif isinstance(effect, ThreadCut):
            yield "cut behind"
        elif isinstance(effect, CompactionEnded) and not isinstance(delta, SummaryReady):
            yield "failed"
    if isinstance(delta, Forked | Resumed | EditMessage) and not is_refused(record.effects):
        ledger = ledger_in(before)
        if ledger is not None and ledger.entries.size:
            yield f"{type(delta).__name__} with open calls"
        yield f"{type(delta).__name__} in {type(before).__name__}"


TestCuts = pytest.mark.rule("COMPACT-2")(CutMachine.TestCase)
TestCuts.settings = settings(stateful_step_count=25)


class Watched(CutMachine):
    """Driven by dice; what its steps show is crossed off."""

    def __init__(self, missing: set[str]) -> None:
        super().__init__()
        self.missing = missing

    @override
    def judge_step(self, record: StepRecord) -> None:
        self.missing.difference_update(shown(record))


def test_all_that_parts_threads_happens_sometimes() -> None:
    missing, dice = set(SOMETIMES), Random(1)
    for _ in range(MOST_RUNS):
        run = Watched(missing)
        run.start(dice.choice)
        for _ in range(MOST_ACTS):
            run.act(dice.choice)
        if not missing:
            break
    assert missing == set()


@pytest.mark.rule("COMPACT-2")
@pytest.mark.parametrize("strategy", [SUMMARISE, WINDOW])
def test_a_turn_of_200_rounds_under_one_message_is_compacted_time_and_again(strategy: CompactionStrategy) -> None:
    small = Compaction(strategy=strategy, trigger_ratio=None, trigger_tokens=200, keep_turns=4)
    run = Watched(set())
    run.deliver(Created(session_id="s", policy=evolve(LONG, compaction=small), tools=TOOLS))
    run.deliver(Acquired())
    run.deliver(Say(content=(TextBlock("the task"),)))
    longest = 0
    for _ in range(200):
        run.summarise(first)
        operation = run.model
        assert operation is not None
        run.deliver(ModelCall(operation, provider_id="c", tool="read", input=NOTHING, verdict=ValidCall(())))
        run.deliver(ModelCompleted(operation, StopReason.TOOL_USE))
        run.deliver(ToolSucceeded(run.runs[0], ToolOutput(content=(TextBlock("here it is " * 9),))))
        longest = max(longest, len(session_of(run.state).thread))
    assert longest < 30
    assert sum(isinstance(effect, ThreadCompacted) for step in run.steps for effect in step.effects) > 10
    assert not any(isinstance(effect, TurnEnded) for step in run.steps for effect in step.effects)
    assert next(iter(session_of(run.state).thread)).id == 1
    assert judge_run("CUT-SAFE", run.steps, KERNEL) == ()


def first(options: Sequence[T]) -> T:
    """The first of these, where Hypothesis or dice would choose."""
    return options[0]


def test_answers_that_stand_elsewhere_are_told() -> None:
    thread = list(thread_of([(UserOrigin.SAID, [(2, None)])]))
    asked, reply, answers = thread
    assert list(parted(thread)) == []
    assert len(list(parted([asked, reply]))) == 1
    assert len(list(parted([asked, reply, asked, answers]))) == 2
    assert list(parted([answers])) == ["answers come first"]
