"""A run in the background: a restart repeats it as a run of its own, and what it reports is what a tool reports."""

import pytest
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import StartTool
from loopkernel.data.events import Refused
from loopkernel.data.ids import OperationKind
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import Streaming, Thinking
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.user_deltas import Approve, ChangeMode, ChangeTools, Forget, Remember, RememberTool
from loopkernel.data.words import RefusalReason, TurnEndReason, UserAction
from loopkernel.judging import check_trace
from loopkernel.replaying import fold

from tests.kernel.building import (
    ASKS,
    a,
    after,
    at_rest,
    call_id,
    completed,
    effects_of,
    made_call,
    of_kind,
    run,
    say,
    session_of,
    step,
    succeeded,
    working,
)


@pytest.mark.rule("RESUME-3")
def test_a_repeated_run_in_the_background_has_the_next_number() -> None:
    behind = after(working(made_call("write"), made_call("write")), succeeded(1, background=True), succeeded(2))
    before = session_of(behind).operations.minted[OperationKind.RUN]
    assert before == 2
    state, effects = step(behind, Resumed())
    assert [start.operation for start in of_kind(StartTool, effects)] == [run(3)]
    assert session_of(state).operations.minted[OperationKind.RUN] == 3
    assert [held.operation for held in session_of(state).held] == [run(3)]


@pytest.mark.rule("TOOL-20")
def test_a_repeated_run_says_once_more_that_it_goes_on_in_the_background_and_only_once() -> None:
    behind = after(working(made_call("write")), succeeded(1, background=True), Resumed())
    following, effects = step(behind, succeeded(2, background=True))
    assert effects == ()
    assert [(held.operation, held.handle) for held in session_of(following).held] == [(run(2), True)]
    assert effects_of(following, succeeded(2, background=True)) == (
        Refused(UserAction.REPORT, RefusalReason.DUPLICATE),
    )


BYPASS, DEFAULT = ChangeMode(ApprovalMode.BYPASS), ChangeMode(ApprovalMode.DEFAULT)
FOR_GOOD = Approve(call=call_id(1), remember=RememberTool())


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("let_start", "since", "again"),
    [
        ((BYPASS,), (), True),
        ((BYPASS,), (DEFAULT,), False),
        ((BYPASS,), (ChangeTools(()),), False),
        ((Remember(RememberedTool("asks")),), (), True),
        ((Remember(RememberedTool("asks")),), (Forget(),), False),
        ((Approve(call=call_id(1)),), (), True),
        ((FOR_GOOD,), (Forget(),), True),
        ((FOR_GOOD,), (ChangeMode(ApprovalMode.PLAN),), False),
    ],
)
def test_a_run_in_the_background_starts_again_only_by_what_lets_it_start_now(
    let_start: tuple[Delta, ...], since: tuple[Delta, ...], again: bool
) -> None:
    deltas = (say(), made_call("asks"), completed(), *let_start, succeeded(1, background=True), *since, Resumed())
    steps = fold([LogRecord(delta, 0) for delta in deltas], at_rest(tools=(ASKS,)))
    assert [effect.run for effect in of_kind(StartTool, steps[-1].effects)] == ([2] if again else [])
    assert len(session_of(steps[-1].after).held) == again
    assert check_trace(steps).breaches == ()
    assert check_trace(steps[-1:]).breaches == ()  # the law sees in the state what a person has approved


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("DELTA-2")
def test_a_tool_in_the_background_does_not_report_as_a_sub_agent_does() -> None:
    behind = after(working(made_call("write")), succeeded(1, background=True))
    following, effects = step(behind, ChildEnded(operation=run(1), reason=TurnEndReason.MODEL_STOP))
    assert effects == (Refused(UserAction.REPORT, RefusalReason.DUPLICATE),)
    assert following == behind


@pytest.mark.rule("RESUME-3")
def test_a_run_in_the_background_is_repeated_also_before_a_request_that_no_hook_holds() -> None:
    behind = after(working(made_call("write")), succeeded(1, background=True))
    waiting = Thinking(session=session_of(behind), stamp=behind.stamp, turn=a(Streaming, behind).turn)
    state, effects = step(waiting, Resumed())
    assert [start.operation for start in of_kind(StartTool, effects)] == [run(2)]
    assert [held.operation for held in session_of(state).held] == [run(2)]
