"""A person's edits of a call: checked like any call, and run instead of what the model asked for."""

import pytest
from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import EditRefused, Refused
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Edit
from loopkernel.data.policy import ApprovalRule, ChildLimits
from loopkernel.data.states import Confirming
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, Verdict
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    Approve,
    CancelCall,
    ChangeMode,
    ChangePolicy,
    Correct,
    Permit,
    Reject,
    Swap,
)
from loopkernel.data.words import CallStatus, RefusalReason, UserAction

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
    effects_of,
    ends,
    entries_of,
    fired,
    made_call,
    named,
    of_kind,
    reads,
    results_of,
    starts,
    statuses,
    step,
    succeeded,
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
TIMED = evolve(ASKING_NOBODY, approval_timeout_ms=300)
DENY_ALL = Permit(ApprovalRule(decision=Decision.DENY))


def refused(action: UserAction, reason: RefusalReason) -> tuple[Refused]:
    return (Refused(action, reason),)


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


# No call may start a sub-agent under this policy.
TOO_DEEP = ChangePolicy(evolve(ASKING_NOBODY, child=ChildLimits(depth=0)))


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("tool", "reason"),
    [("nothing", RefusalReason.INVALID), ("child", RefusalReason.INVALID), ("denied", RefusalReason.DENIED)],
)
def test_a_swap_to_a_tool_that_may_not_run_is_refused(tool: str, reason: RefusalReason) -> None:
    swapped = after(ONE, TOO_DEEP, Swap(call=FIRST, tool=tool, input=PATH_B))
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
