"""A person's word on a call: approvals and rejections, also remembered ones, and when none of them applies."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ApprovalMode, OnReject, RestartDangerous
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CancelTimer
from loopkernel.data.events import ApprovalRemembered, Refused, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern, OnRestart
from loopkernel.data.remembered import RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.states import Idle, State
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    Approve,
    ChangeMode,
    ChangeTools,
    Correct,
    Permit,
    Reject,
    RememberCall,
    RememberPattern,
    RememberTool,
    Remembrance,
    Swap,
)
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TimerPurpose, UserAction
from loopkernel.loop.algorithms.wording import REJECTED_BY_TIME

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    a,
    after,
    asking,
    call_id,
    completed,
    effects_of,
    ends,
    entries_of,
    fired,
    ledger_of,
    made_call,
    of_kind,
    pending_timers,
    reads,
    results_of,
    run,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    timer,
    working,
    writes,
)

DONE, QUEUED, RUNNING, WAITING, REJECTED, ERROR = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.BLOCKED_ON_USER,
    CallStatus.REJECTED_BY_USER,
    CallStatus.ERROR,
)
FIRST, SECOND, THIRD = call_id(1), call_id(2), call_id(3)
PATH_A, PATH_B = Json.of({"path": "a"}), Json.of({"path": "b"})
ONE = asking(made_call("asks", call_input=PATH_A))
TWO = asking(made_call("asks", call_input=PATH_A), made_call("asks", call_input=PATH_B))
ASK_DANGEROUS = OnRestart(dangerous=RestartDangerous.ASK)
TIMED = evolve(ASKING_NOBODY, approval_timeout_ms=300)
DENY_ALL = Permit(ApprovalRule(decision=Decision.DENY))


def refused(action: UserAction, reason: RefusalReason) -> tuple[Refused]:
    return (Refused(action, reason),)


# --- approvals ------------------------------------------------------------------------------------------


@pytest.mark.rule("ASK-2")
@pytest.mark.rule("ASK-3")
@given(st.permutations((1, 2, 3)))
def test_several_calls_wait_at_once_and_are_answered_in_any_order(order: list[int]) -> None:
    state: State = asking(*[made_call("asks")] * 3)
    for number, position in enumerate(order, 1):
        state, effects = step(state, Approve(call=call_id(position)))
        assert starts(effects) == [call_id(position)]
        assert ledger_of(state).waiting == 3 - number
    assert statuses(state) == [RUNNING] * 3


@pytest.mark.rule("ASK-2")
@pytest.mark.parametrize(
    "again",
    [
        Approve(call=FIRST),
        Reject(call=FIRST),
        Correct(call=FIRST, input=PATH_B),
        AnswerQuestion(call=FIRST, value=None),
    ],
    ids=lambda delta: type(delta).__name__,
)
def test_a_second_answer_is_a_duplicate_also_after_the_call_and_the_turn_have_ended(again: Delta) -> None:
    state: State = ONE
    for delta in (Approve(call=FIRST), succeeded(1), completed(reply=2), completed(reply=3)):
        state = after(state, delta)
        (found,) = of_kind(Refused, effects_of(state, again))
        assert found.reason is RefusalReason.DUPLICATE
    assert isinstance(state, Idle)


@pytest.mark.rule("ASK-2")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (call_id(0), RefusalReason.UNKNOWN),
        (call_id(4), RefusalReason.UNKNOWN),
        (call_id(1, reply=2), RefusalReason.UNKNOWN),
        (SECOND, RefusalReason.NOT_NOW),
        (THIRD, RefusalReason.STALE),
    ],
)
def test_a_word_on_a_call_that_does_not_wait_is_named_by_where_it_stands(call: object, reason: RefusalReason) -> None:
    calls = (made_call("asks", writes("a")), made_call("asks", writes("a")), made_call("denied"))
    state = asking(*calls)
    assert statuses(state) == [WAITING, QUEUED, ERROR]
    assert effects_of(state, Approve(call=a(type(FIRST), call))) == refused(UserAction.APPROVE, reason)


@pytest.mark.rule("ASK-4")
@pytest.mark.rule("ASK-6")
def test_an_approval_closes_the_time_that_the_person_had() -> None:
    state = asking(made_call("asks"), policy=TIMED)
    (waiting,) = pending_timers(state)
    following, effects = step(state, Approve(call=FIRST))
    assert effects[0] == CancelTimer(waiting.operation)
    assert [found.purpose for found in pending_timers(following)] == [TimerPurpose.TOOL_TIMEOUT]


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("ASK-5")
@pytest.mark.parametrize(
    ("remember", "remembered", "also"),
    [
        (RememberCall(), RememberedCall("asks", PATH_A), [1, 3]),
        (RememberTool(), RememberedTool("asks"), [1, 2, 3]),
        (
            RememberPattern((FieldPattern("path", "b*"),)),
            RememberedPattern("asks", (FieldPattern("path", "b*"),)),
            [1, 2],
        ),
    ],
    ids=["call", "tool", "pattern"],
)
def test_what_is_remembered_lets_what_waits_run_too_and_what_comes_later(
    remember: Remembrance, remembered: RememberedCall | RememberedTool | RememberedPattern, also: list[int]
) -> None:
    calls = [made_call("asks", call_input=given_input) for given_input in (PATH_A, PATH_B, PATH_A)]
    state = asking(*calls, made_call("write"), policy=evolve(ASKING_NOBODY, approval_rules=(ASK_WRITES,)))
    following, effects = step(state, Approve(call=FIRST, remember=remember))
    assert of_kind(ApprovalRemembered, effects) == [ApprovalRemembered(FIRST, remember)]
    assert session_of(following).settings.remembered == (remembered,)
    assert starts(effects) == [call_id(position) for position in also]
    assert statuses(following)[3] is WAITING  # it is another tool


ASK_WRITES = ApprovalRule(decision=Decision.ASK, tool="write")


@pytest.mark.rule("ASK-3")
def test_an_approval_that_is_not_remembered_is_for_one_call_alone() -> None:
    following, effects = step(TWO, Approve(call=FIRST))
    assert (session_of(following).settings.remembered, of_kind(ApprovalRemembered, effects)) == ((), [])
    assert statuses(following) == [RUNNING, WAITING]


# --- everything that waits is decided on anew -------------------------------------------------------------


FOUR = asking(
    made_call("asks", reads("a")),
    made_call("asks", reads("b")),
    made_call("danger"),
    made_call("bare", reads("c")),
    policy=evolve(
        ASKING_NOBODY, approval_rules=(ApprovalRule(decision=Decision.ASK, tool="*a*"),), approval_timeout_ms=300
    ),
)


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("ASK-1")
def test_a_change_of_mode_decides_on_all_that_waits() -> None:
    assert statuses(FOUR) == [WAITING, WAITING, WAITING, QUEUED]
    bypassed, effects = step(FOUR, ChangeMode(ApprovalMode.BYPASS))
    assert starts(effects) == [FIRST, SECOND, THIRD]
    assert len(of_kind(CancelTimer, effects)) == 3
    assert statuses(bypassed) == [RUNNING, RUNNING, RUNNING, QUEUED]
    edits = effects_of(FOUR, ChangeMode(ApprovalMode.ACCEPT_EDITS))
    assert starts(edits) == [FIRST, SECOND]  # these are idempotent, the third is dangerous
    assert ends(effects_of(FOUR, ChangeMode(ApprovalMode.HEADLESS))) == [(n, ERROR, None) for n in (1, 2, 3, 4)]


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("ASK-1")
def test_a_new_rule_decides_on_what_it_matches() -> None:
    following, effects = step(TWO, Permit(ApprovalRule(decision=Decision.DENY, input=(FieldPattern("path", "a"),))))
    assert ends(effects) == [(1, ERROR, None)]
    assert statuses(following) == [ERROR, WAITING]
    allowed = Permit(ApprovalRule(decision=Decision.ALLOW, tool="asks"))
    assert starts(effects_of(TWO, allowed)) == [FIRST, SECOND]


@pytest.mark.rule("ASK-5")
def test_what_is_still_to_be_asked_keeps_waiting_with_its_time() -> None:
    state = asking(made_call("asks"), policy=TIMED)
    following, effects = step(state, Permit(ApprovalRule(decision=Decision.ASK, tool="asks")))
    assert effects == ()
    assert pending_timers(following) == pending_timers(state)


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("TOOL-5")
def test_a_waiting_call_of_a_tool_that_is_no_longer_offered_is_answered() -> None:
    (ended,) = of_kind(ToolEnded, effects_of(ONE, ChangeTools(())))
    assert ended.result.status is ERROR
    assert 'no tool named "asks"' in text_of(ended.result.content)


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("ASK-2")
def test_an_answer_to_a_wait_that_a_change_of_rules_has_ended_is_stale() -> None:
    denied = after(TWO, Permit(ApprovalRule(decision=Decision.DENY, input=(FieldPattern("path", "a"),))))
    assert effects_of(denied, Approve(call=FIRST)) == refused(UserAction.APPROVE, RefusalReason.STALE)
    running = after(ONE, ChangeMode(ApprovalMode.BYPASS))
    assert effects_of(running, Approve(call=FIRST)) == refused(UserAction.APPROVE, RefusalReason.STALE)


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("RESUME-4")
def test_what_waits_for_another_word_than_an_approval_is_not_decided_on() -> None:
    crashed = after(
        working(made_call("danger"), policy=evolve(ASKING_NOBODY, on_restart=ASK_DANGEROUS), tools=ALL_TOOLS),
        Resumed(),
    )
    questioned = after(working(made_call()), ToolAsked(run(1), "which?"))
    for state in (crashed, questioned):
        for change in (ChangeMode(ApprovalMode.BYPASS), DENY_ALL):
            following, effects = step(state, change)
            assert (entries_of(following), effects) == (entries_of(state), ())


# --- rejections -----------------------------------------------------------------------------------------


REST = (made_call("asks"), made_call(), made_call("asks"), *[made_call("write", writes("a"))] * 2)


@pytest.mark.rule("ASK-7")
@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CANCEL-1")
@pytest.mark.parametrize("choice", OnReject)
def test_after_a_rejection_the_others_go_on_or_those_that_have_not_started_are_skipped(choice: OnReject) -> None:
    state = working(*REST, policy=evolve(ASKING_NOBODY, on_reject=choice), tools=ALL_TOOLS)
    assert statuses(state) == [WAITING, RUNNING, WAITING, RUNNING, QUEUED]
    following, effects = step(state, Reject(call=FIRST, why="not that one"))
    (rejected, *others) = of_kind(ToolEnded, effects)
    assert (rejected.result.status, rejected.result.reason, rejected.result.decided) == (REJECTED, None, True)
    assert "not that one" in text_of(rejected.result.content)
    if choice is not OnReject.CONTINUE:
        assert [(end.result.call.position, end.result.reason) for end in others] == [
            (3, CancelReason.REJECTED),
            (5, CancelReason.REJECTED),
        ]
        assert all(end.result.status is CallStatus.CANCELLED for end in others)
        assert statuses(following)[1::2] == [RUNNING, RUNNING]
    else:
        assert others == []
        assert statuses(following) == [REJECTED, RUNNING, WAITING, RUNNING, QUEUED]


@pytest.mark.rule("CALL-3")
@pytest.mark.rule("ASK-7")
@pytest.mark.parametrize("choice", [OnReject.SKIP_REST, OnReject.HALT])
def test_what_depends_on_a_rejected_call_is_unreachable_before_the_rest_is_skipped(choice: OnReject) -> None:
    calls = (made_call("asks"), made_call("asks", provider_id="q", needs=("p",)), made_call("asks", provider_id="r"))
    state = asking(*calls, policy=evolve(ASKING_NOBODY, on_reject=choice))
    assert ends(effects_of(state, Reject(call=FIRST))) == [
        (1, REJECTED, None),
        (2, ERROR, None),
        (3, CallStatus.CANCELLED, CancelReason.REJECTED),
    ]


@pytest.mark.rule("ASK-6")
@pytest.mark.rule("ASK-7")
def test_an_approval_that_times_out_counts_as_a_rejection() -> None:
    state = asking(made_call("asks"), made_call("asks"), policy=evolve(TIMED, on_reject=OnReject.SKIP_REST))
    following, effects = step(state, fired(1))
    assert ends(effects) == [
        (1, REJECTED, CancelReason.TIMEOUT),
        (2, CallStatus.CANCELLED, CancelReason.REJECTED),
    ]
    (late, _) = results_of(following)
    assert text_of(late.content) == REJECTED_BY_TIME
    assert not late.decided
    assert CancelTimer(timer(1)) not in effects  # it has fired
    assert effects_of(following, Approve(call=FIRST)) == refused(UserAction.APPROVE, RefusalReason.STALE)


CORRECTED = Correct(call=FIRST, input=PATH_B)
SWAPPED = Swap(call=FIRST, tool="write", input=PATH_B)

edits = pytest.mark.parametrize("edit", [CORRECTED, SWAPPED], ids=["correct", "swap"])
