"""A person's word on a call: approvals, rejections, edits, answers to questions, and when none of them applies."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ApprovalMode, OnReject, RestartDangerous
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AnswerTool, CancelTimer, CheckCall, StartTimer, StartTool
from loopkernel.data.events import ApprovalRemembered, EditRefused, QuestionAsked, Refused, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Edit, QuestionWait
from loopkernel.data.policy import ApprovalRule, FieldPattern, OnRestart
from loopkernel.data.remembered import RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.states import Confirming, Idle, State, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolProgress
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, Verdict
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelCall,
    ChangeMode,
    ChangeTools,
    Correct,
    CrashAnswerKind,
    Permit,
    Reject,
    RememberCall,
    RememberPattern,
    RememberTool,
    Remembrance,
    Swap,
)
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TimerPurpose, UserAction
from loopkernel.planning.wording import REJECTED_BY_TIME

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    a,
    after,
    asking,
    broken,
    call_id,
    check,
    checked,
    completed,
    effects_of,
    ends,
    entries_of,
    fired,
    ledger_of,
    made_call,
    named,
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
B_PATHS = FieldPattern("path", "b*")
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
    if choice is OnReject.SKIP_REST:
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
def test_what_depends_on_a_rejected_call_is_unreachable_before_the_rest_is_skipped() -> None:
    calls = (made_call("asks"), made_call("asks", provider_id="q", needs=("p",)), made_call("asks", provider_id="r"))
    state = asking(*calls, policy=evolve(ASKING_NOBODY, on_reject=OnReject.SKIP_REST))
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


# --- edits ----------------------------------------------------------------------------------------------

CORRECTED = Correct(call=FIRST, input=PATH_B)
SWAPPED = Swap(call=FIRST, tool="write", input=PATH_B)
edits = pytest.mark.parametrize("edit", [CORRECTED, SWAPPED], ids=["correct", "swap"])


@edits
@pytest.mark.rule("ASK-3")
@pytest.mark.rule("TOOL-18")
def test_an_edit_is_checked_before_anything_else_is_done_with_it(edit: Correct | Swap) -> None:
    following, effects = step(ONE, edit)
    tool = "asks" if edit is CORRECTED else "write"
    assert effects == (CheckCall(operation=check(1), call=FIRST, tool=tool, input=PATH_B),)
    (entry,) = entries_of(a(Confirming, following))
    action = UserAction.CORRECT if edit is CORRECTED else UserAction.SWAP
    assert entry.person.wait == ApprovalWait(Edit(action=action, tool=tool, input=PATH_B))
    assert (entry.status, entry.given, entry.tool) == (WAITING, PATH_A, "asks")


@edits
@pytest.mark.rule("ASK-3")
@pytest.mark.rule("ASK-4")
def test_a_valid_edit_runs_without_a_further_question_and_the_original_is_kept_beside_it(edit: Correct | Swap) -> None:
    following, effects = step(after(ONE, edit), checked(1, writes("b")))
    (start,) = of_kind(StartTool, effects)
    tool = "asks" if edit is CORRECTED else "write"
    assert (start.call, start.tool, start.input, start.key) == (FIRST, tool, PATH_B, "s/1/1.1")
    (entry,) = entries_of(following)
    assert (entry.call.input, entry.given, entry.person.approved) == (PATH_A, PATH_B, True)
    ended = after(following, succeeded(1, "done that"))
    (result,) = results_of(ended)
    note, output = [getattr(block, "text", "") for block in result.content]
    assert (result.tool, result.status, output) == ("asks", DONE, "done that")
    assert PATH_B.text in note
    assert ('"write"' in note) is (edit is SWAPPED)


@edits
@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize("verdict", [InvalidCall("no"), UnknownTool()])
def test_an_edit_that_is_not_valid_is_refused_and_the_call_keeps_waiting(
    edit: Correct | Swap, verdict: Verdict
) -> None:
    following, effects = step(after(ONE, edit), checked(1, verdict))
    action = UserAction.CORRECT if edit is CORRECTED else UserAction.SWAP
    assert effects == (EditRefused(FIRST, action, RefusalReason.INVALID),)
    (entry,) = entries_of(a(Confirming, following))
    assert (entry.person.wait, entry.given, entry.verdict) == (ApprovalWait(), PATH_A, FREE)
    assert starts(effects_of(following, Approve(call=FIRST))) == [FIRST]


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("tool", "reason"),
    [("nothing", RefusalReason.INVALID), ("child", RefusalReason.INVALID), ("denied", RefusalReason.DENIED)],
)
def test_a_swap_to_a_tool_that_may_not_run_is_refused(tool: str, reason: RefusalReason) -> None:
    swapped = after(ONE, Swap(call=FIRST, tool=tool, input=PATH_B))
    following, effects = step(swapped, checked(1))
    assert effects == (EditRefused(FIRST, UserAction.SWAP, reason),)
    assert statuses(following) == [WAITING]


@edits
@pytest.mark.rule("ASK-2")
@pytest.mark.parametrize(
    "again",
    [Approve(call=FIRST), Reject(call=FIRST), CORRECTED, SWAPPED, AnswerQuestion(call=FIRST, value=None)],
    ids=lambda delta: type(delta).__name__,
)
def test_an_answer_while_an_edit_is_being_checked_is_a_duplicate(edit: Correct | Swap, again: Delta) -> None:
    (found,) = of_kind(Refused, effects_of(after(ONE, edit), again))
    assert found.reason is RefusalReason.DUPLICATE


@pytest.mark.rule("ASK-6")
@pytest.mark.rule("CANCEL-5")
def test_a_cancel_or_the_end_of_the_time_comes_before_an_edit_that_is_being_checked() -> None:
    state = after(asking(made_call("asks"), policy=TIMED), CORRECTED)
    for delta, status in ((fired(1), REJECTED), (CancelCall(FIRST), CallStatus.CANCELLED)):
        following, effects = step(state, delta)
        assert [how for _, how, _ in ends(effects)] == [status]
        (late,) = of_kind(Refused, effects_of(following, checked(1)))
        assert late.reason is RefusalReason.STALE


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("TOOL-3")
def test_an_edited_call_takes_its_place_behind_every_call_that_has_started() -> None:
    calls = (made_call("asks", reads("a")), made_call("write", writes("b")), made_call("write", writes("c")))
    state = working(*calls, tools=ALL_TOOLS)
    assert statuses(state) == [WAITING, RUNNING, RUNNING]
    following = after(state, CORRECTED, checked(1, reads("b")))
    assert statuses(following) == [QUEUED, RUNNING, RUNNING]
    assert starts(effects_of(following, succeeded(1))) == [FIRST]


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("TOOL-2")
def test_what_an_edited_call_uses_is_what_its_new_check_says() -> None:
    calls = (made_call("asks", writes("a")), made_call("write", writes("a")))
    state = asking(*calls)
    assert statuses(state) == [WAITING, QUEUED]
    assert starts(effects_of(after(state, CORRECTED), checked(1, writes("b")))) == [FIRST, SECOND]


@pytest.mark.rule("ASK-5")
def test_what_has_changed_while_an_edit_was_checked_is_decided_on_when_it_is_refused() -> None:
    checking = after(ONE, CORRECTED, ChangeMode(ApprovalMode.BYPASS))
    assert statuses(checking) == [WAITING]
    effects = effects_of(checking, checked(1, InvalidCall("no")))
    assert named(effects) == ["EditRefused", "StartTool", "StartTimer"]
    denied = effects_of(after(ONE, CORRECTED, DENY_ALL), checked(1))
    assert denied[0] == EditRefused(FIRST, UserAction.CORRECT, RefusalReason.DENIED)
    assert ends(denied) == [(1, ERROR, None)]


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CALL-1")
def test_an_edit_may_refer_to_what_earlier_calls_have_returned() -> None:
    refers = Json.of({"path": {"$result": "first"}})
    calls = (made_call(provider_id="first"), made_call("asks", provider_id="second"))
    state = working(*calls, tools=ALL_TOOLS)
    early = Correct(call=SECOND, input=refers)
    assert effects_of(state, early) == refused(UserAction.CORRECT, RefusalReason.INVALID)  # it still runs
    unknown = Correct(call=SECOND, input=Json.of({"path": {"$result": "second"}}))
    assert effects_of(state, unknown) == refused(UserAction.CORRECT, RefusalReason.INVALID)
    (asked,) = of_kind(CheckCall, effects_of(after(state, succeeded(1, "b")), early))
    assert asked.input == PATH_B
    failed = after(state, broken(1))
    assert effects_of(failed, early) == refused(UserAction.CORRECT, RefusalReason.INVALID)


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CALL-1")
def test_what_refers_to_a_swapped_call_gets_the_output_without_the_note() -> None:
    second = made_call("read", provider_id="q", call_input=Json.of({"path": {"$result": "p"}}))
    state = after(asking(made_call("asks"), second), SWAPPED, checked(1))
    (asked,) = of_kind(CheckCall, effects_of(state, succeeded(1, "b")))
    assert asked.input == PATH_B


# --- questions of tools -----------------------------------------------------------------------------------

QUESTION = ToolAsked(run(1), "which one?")
ASKED = a(Confirming, after(working(made_call()), QUESTION))
VALUE = Json.of("the second")


@pytest.mark.rule("TOOL-19")
def test_a_question_waits_for_the_answer_which_goes_back_to_the_run() -> None:
    running = working(made_call())
    asked, effects = step(running, QUESTION)
    assert effects == (CancelTimer(timer(1)), QuestionAsked(FIRST, "which one?"))
    (entry,) = entries_of(asked)
    assert (entry.status, entry.question) == (WAITING, "which one?")
    answered, effects = step(asked, AnswerQuestion(call=FIRST, value=VALUE))
    assert effects[0] == AnswerTool(operation=run(1), value=VALUE)
    assert statuses(answered) == [RUNNING]
    (result,) = results_of(after(answered, succeeded(1)))
    assert result.decided


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("TOOL-10")
@given(st.integers(0, 200_000), st.integers(0, 10**6))
def test_the_time_of_a_tool_does_not_run_while_it_waits_for_an_answer(ran_ms: int, waited_ms: int) -> None:
    running = working(made_call())
    begun = running.stamp.now_ms
    asked, _ = step(running, QUESTION, now_ms=begun + ran_ms)
    assert pending_timers(asked) == []
    answered, effects = step(asked, AnswerQuestion(call=FIRST, value=None), now_ms=begun + ran_ms + waited_ms)
    (found,) = of_kind(StartTimer, effects)
    left_ms = max(120_000 - ran_ms, 0)
    assert found.deadline_ms == begun + ran_ms + waited_ms + left_ms
    assert ends(effects_of(answered, fired(found.operation))) == [(1, ERROR, CancelReason.TIMEOUT)]


@pytest.mark.rule("TOOL-19")
def test_a_tool_without_a_time_limit_has_none_after_its_question() -> None:
    state = working(made_call(), policy=evolve(ASKING_NOBODY, tool_timeout_ms=None))
    assert effects_of(state, QUESTION, AnswerQuestion(call=FIRST, value=VALUE)) == (
        AnswerTool(operation=run(1), value=VALUE),
    )


@pytest.mark.rule("TOOL-19")
def test_a_question_that_is_rejected_is_declined_and_the_tool_goes_on() -> None:
    following, effects = step(ASKED, Reject(call=FIRST, why="no"))
    assert effects[0] == AnswerTool(operation=run(1), value=None)
    assert statuses(following) == [RUNNING]


@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize(
    "delta",
    [Approve(call=FIRST), CORRECTED, SWAPPED, AnswerAfterCrash(call=FIRST, kind=CrashAnswerKind.DONE)],
    ids=lambda delta: type(delta).__name__,
)
def test_a_question_is_not_answered_by_an_approval_or_an_edit(delta: Delta) -> None:
    (found,) = of_kind(Refused, effects_of(ASKED, delta))
    assert found.reason is RefusalReason.INVALID


@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize(
    "delta", [AnswerQuestion(call=FIRST, value=VALUE), AnswerAfterCrash(call=FIRST, kind=CrashAnswerKind.DONE)]
)
def test_an_approval_is_not_answered_by_a_value(delta: Delta) -> None:
    (found,) = of_kind(Refused, effects_of(ONE, delta))
    assert found.reason is RefusalReason.INVALID


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("TOOL-10")
def test_a_second_question_takes_the_place_of_the_first_and_keeps_what_was_left_of_the_time() -> None:
    running = working(made_call())
    begun = running.stamp.now_ms
    first, _ = step(running, QUESTION, now_ms=begun + 20_000)
    second, effects = step(first, ToolAsked(run(1), "or which?"), now_ms=begun + 50_000)
    assert effects == (QuestionAsked(FIRST, "or which?"),)
    ledger = ledger_of(second)
    assert (ledger.running, ledger.waiting, ledger.asking) == (0, 1, 1)
    assert ledger.entries[0].person.wait == QuestionWait("or which?", 100_000)


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("TOOL-16")
@pytest.mark.parametrize(("report", "status"), [(succeeded(1), DONE), (broken(1), ERROR)], ids=["succeeded", "failed"])
def test_a_tool_that_ends_without_its_answer_is_answered_for(report: Delta, status: CallStatus) -> None:
    following, effects = step(ASKED, report)
    assert ends(effects) == [(1, status, None)]
    assert isinstance(following, Streaming)
    assert effects_of(following, AnswerQuestion(call=FIRST, value=VALUE)) == refused(
        UserAction.ANSWER, RefusalReason.STALE
    )


@pytest.mark.rule("TOOL-19")
def test_a_tool_that_asks_may_still_say_how_far_it_is() -> None:
    following, effects = step(ASKED, ToolProgress(run(1), "half"))
    assert named(effects) == ["ToolProgressed"]
    assert statuses(following) == [WAITING]


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("ASK-2")
def test_a_call_that_was_approved_may_be_asked_about_again_by_its_tool() -> None:
    state = after(ONE, Approve(call=FIRST), QUESTION)
    assert effects_of(state, AnswerQuestion(call=FIRST, value=VALUE))[0] == AnswerTool(operation=run(1), value=VALUE)


# --- after a crash ----------------------------------------------------------------------------------------

CRASHED = a(
    Confirming,
    after(
        working(
            made_call("danger", call_input=PATH_A),
            policy=evolve(ASKING_NOBODY, on_restart=ASK_DANGEROUS),
            tools=ALL_TOOLS,
        ),
        Resumed(),
    ),
)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
def test_a_person_says_what_becomes_of_a_run_that_a_crash_interrupted() -> None:
    assert entries_of(CRASHED)[0].person.wait == CrashWait()
    done = AnswerAfterCrash(call=FIRST, kind=CrashAnswerKind.DONE, text="it was")
    (result,) = results_of(after(CRASHED, done))
    assert (result.status, text_of(result.content), result.ran, result.decided) == (DONE, "it was", True, True)
    cancel = AnswerAfterCrash(call=FIRST, kind=CrashAnswerKind.CANCEL)
    (result,) = results_of(after(CRASHED, cancel))
    assert (result.status, result.reason) == (CallStatus.CANCELLED, CancelReason.SAFETY)
    following, effects = step(CRASHED, AnswerAfterCrash(call=FIRST, kind=CrashAnswerKind.RERUN))
    assert named(effects) == ["StartTool", "StartTimer"]
    ledger = ledger_of(following)
    assert (ledger.waiting, ledger.running) == (0, 1)
    assert ledger.entries[0].person.approved


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize(
    "delta",
    [Approve(call=FIRST), Reject(call=FIRST), CORRECTED, SWAPPED, AnswerQuestion(call=FIRST, value=None)],
    ids=lambda delta: type(delta).__name__,
)
def test_no_other_word_decides_about_it(delta: Delta) -> None:
    (found,) = of_kind(Refused, effects_of(CRASHED, delta))
    assert found.reason is RefusalReason.INVALID


def test_an_answer_to_a_call_without_a_run_goes_nowhere() -> None:
    """No call asks without one; the type allows it."""
    entry = evolve(entries_of(ASKED)[0], operation=None)
    state = evolve(ASKED, ledger=evolve(ASKED.ledger, entries=ASKED.ledger.entries.replace(0, entry)))
    assert named(effects_of(state, AnswerQuestion(call=FIRST, value=None))) == ["StartTimer"]


@pytest.mark.rule("ASK-4")
@pytest.mark.rule("ASK-1")
def test_an_approval_holds_in_every_mode_that_does_not_forbid_the_call_itself() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    state = after(working(made_call(), made_call("asks"), policy=policy, tools=ALL_TOOLS), Approve(call=SECOND))
    for mode in ApprovalMode:
        effects = effects_of(state, ChangeMode(mode), succeeded(1))
        assert starts(effects) == ([] if mode is ApprovalMode.PLAN else [SECOND])


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CALL-1")
def test_an_edit_that_names_no_call_is_refused() -> None:
    edit = Correct(call=FIRST, input=Json.of({"path": {"$result": 7}}))
    assert effects_of(ONE, edit) == refused(UserAction.CORRECT, RefusalReason.INVALID)


@edits
@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CANCEL-4")
@pytest.mark.parametrize("end", [CancelCall(FIRST), fired(1), broken(1)], ids=["cancel", "timeout", "failure"])
def test_a_note_on_the_edit_stands_before_whatever_ends_its_run(edit: Correct | Swap, end: Delta) -> None:
    state = after(ONE, edit, checked(1), end)
    (result,) = results_of(state)
    assert result.ran
    assert "The user" in getattr(result.content[0], "text", "")
    assert len(result.content) == 2
    waiting = after(asking(made_call("asks")), edit, CancelCall(FIRST))
    assert len(results_of(waiting)[0].content) == 1  # it never ran
