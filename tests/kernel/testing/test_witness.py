"""What is rare, and the witness has to foresee: words on calls that left the thread, reports of the wrong kind."""

import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.events import Refused, ThreadCompacted
from loopkernel.data.ids import SummaryOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import SummaryReady
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.user_deltas import Approve, CancelCall, CompactNow
from loopkernel.data.words import RefusalReason, StopReason
from loopkernel.testing.stateful.machine import KernelMachine

from tests.kernel.building import (
    ALL_TOOLS,
    TWO,
    broken,
    call_id,
    completed,
    created,
    made_call,
    say,
    stopped,
    succeeded,
)

SHORT = Policy(compaction=Compaction(keep_turns=None, keep_messages=1))
CALLED = (
    *(created(SHORT, ALL_TOOLS), Acquired(), say(), made_call("asks"), completed(StopReason.TOOL_USE)),
    *(Approve(call_id(1)), succeeded(1), ModelText(TWO, "Done."), completed(reply=2)),
)
COMPACTED = (CompactNow(), SummaryReady(SummaryOperation(1), "a"))


def last_refusal(*deltas: Delta) -> RefusalReason | None:
    """How the last delta is refused. Each of them is taken as the witness foresees, or this fails."""
    machine = KernelMachine()
    for delta in deltas:
        machine.deliver(delta)
    assert any(isinstance(effect, ThreadCompacted) for step in machine.steps for effect in step.effects) == (
        CompactNow() in deltas
    )
    return next((effect.reason for effect in machine.steps[-1].effects if isinstance(effect, Refused)), None)


@pytest.mark.rule("ASK-2")
@pytest.mark.parametrize("word", [Approve(call_id(1)), CancelCall(call_id(1))])
def test_a_word_on_a_call_that_a_compaction_took_out_is_stale_and_a_duplicate_before(word: Delta) -> None:
    assert last_refusal(*CALLED, word) is RefusalReason.DUPLICATE
    assert last_refusal(*CALLED, *COMPACTED, word) is RefusalReason.STALE


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize("report", [stopped(1), succeeded(1), broken(1)])
def test_a_sub_agent_that_runs_does_not_report_as_a_tool_does(report: Delta) -> None:
    calls = (created(SHORT, ALL_TOOLS), Acquired(), say(), made_call("child"), completed(StopReason.TOOL_USE))
    assert last_refusal(*calls, report) is RefusalReason.DUPLICATE
