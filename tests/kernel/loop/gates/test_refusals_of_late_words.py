"""Why a cancel or an answer does not apply to a call that has ended, or that was asked about before."""

import pytest
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.words import CallStatus, RefusalReason
from loopkernel.loop.gates.refusals import answer_refusal, cancel_refusal

from tests.kernel.building import (
    ALL_TOOLS,
    after,
    broken,
    call_id,
    completed,
    ledger_of,
    made_call,
    run,
    session_of,
    statuses,
    succeeded,
    working,
)

FIRST = call_id(1)


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("CANCEL-5")
@pytest.mark.parametrize(
    ("tool", "deltas", "reason"),
    [
        ("read", (succeeded(1),), RefusalReason.DUPLICATE),
        ("read", (broken(1),), RefusalReason.DUPLICATE),
        ("read", (CancelCall(call=FIRST),), RefusalReason.STALE),
        ("denied", (), RefusalReason.STALE),
        ("unknown", (), RefusalReason.STALE),
    ],
    ids=["ran", "failed", "cancelled", "denied", "unknown"],
)
def test_a_cancel_is_a_duplicate_only_of_the_report_of_a_run(
    tool: str, deltas: tuple[CancelCall, ...], reason: RefusalReason
) -> None:
    """A call that never ran has not ended by itself, so that its cancel comes too late for another reason."""
    state = after(working(made_call(tool), made_call("read"), tools=ALL_TOOLS), *deltas)
    assert cancel_refusal(session_of(state), ledger_of(state), FIRST) is reason
    ended = after(state, succeeded(1), succeeded(2), completed(reply=2))
    if isinstance(ended, Idle):
        assert cancel_refusal(session_of(ended), None, FIRST) is reason


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("ASK-2")
@pytest.mark.rule("RESUME-3")
def test_after_a_restart_a_question_that_the_lost_run_had_asked_is_stale() -> None:
    """The run is repeated, and has not asked again: an answer belongs to the question that was shown before."""
    before = working(made_call("write"))
    assert answer_refusal(before.session, before.ledger, FIRST) is RefusalReason.NOT_NOW
    state = after(before, ToolAsked(run(1), "which?"), Resumed())
    assert statuses(state) == [CallStatus.IN_PROGRESS]
    assert answer_refusal(session_of(state), ledger_of(state), FIRST) is RefusalReason.STALE
