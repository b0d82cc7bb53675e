"""A compaction that only clears old results starts where there is one to clear, and nowhere else."""

import pytest
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.words import StopReason
from loopkernel.regions.compaction import planned_cut

from tests.kernel.building import ONE, TWO, after, at_rest, completed, made_call, say, session_of, succeeded
from tests.kernel.gates import compacting

CLEARING = compacting(CompactionStrategy.CLEAR, messages=1, tokens=None)


@pytest.mark.rule("COMPACT-5")
def test_nothing_is_to_be_cleared_where_no_tool_has_returned() -> None:
    talked = after(at_rest(CLEARING), say("hello"), ModelText(ONE, "done"), completed())
    assert planned_cut(session_of(talked)) is None
    called = (made_call(), completed(StopReason.TOOL_USE), succeeded(1), ModelText(TWO, "done"), completed(reply=2))
    assert planned_cut(session_of(after(at_rest(CLEARING), say("hello"), *called))) is not None
