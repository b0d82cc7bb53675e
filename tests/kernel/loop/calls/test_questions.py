"""The answer to a question that a tool has asked, and the word on a run that a crash has cut."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ApprovalMode, RestartDangerous
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AnswerTool, CancelTimer, StartTimer
from loopkernel.data.events import QuestionAsked, Refused
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import CrashWait, QuestionWait
from loopkernel.data.policy import OnRestart
from loopkernel.data.states import Confirming, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolProgress
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelCall,
    ChangeMode,
    Correct,
    CrashAnswerKind,
    Reject,
    Swap,
)
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, UserAction

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    a,
    after,
    asking,
    broken,
    call_id,
    checked,
    effects_of,
    ends,
    entries_of,
    fired,
    ledger_of,
    made_call,
    named,
    of_kind,
    pending_timers,
    results_of,
    run,
    starts,
    statuses,
    step,
    succeeded,
    timer,
    working,
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
ASK_DANGEROUS = OnRestart(dangerous=RestartDangerous.ASK)


def refused(action: UserAction, reason: RefusalReason) -> tuple[Refused]:
    return (Refused(action, reason),)


CORRECTED = Correct(call=FIRST, input=PATH_B)
SWAPPED = Swap(call=FIRST, tool="write", input=PATH_B)

edits = pytest.mark.parametrize("edit", [CORRECTED, SWAPPED], ids=["correct", "swap"])

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
