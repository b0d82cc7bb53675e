"""`Initial`: creation, acquisition, `resumed` and disposal are accepted; everything else is refused, and says so."""

import pytest
from loopkernel.data.blocks import OpaqueBlock
from loopkernel.data.effects import CancelTimer, StartTimer
from loopkernel.data.events import ApprovalAsked, MessageAdded, Refused, RunStarted, SessionResumed, ThreadRepaired
from loopkernel.data.foreign import ForeignReply, ForeignUser, Repair, RepairKind
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.states import Idle, Initial
from loopkernel.data.thread_deltas import RULES_VERSION, Acquired, Created, Disposed, Resumed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Correct
from loopkernel.data.words import CallStatus, RefusalReason, UserAction

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    TOOLS,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
    checked,
    completed,
    created,
    effects_of,
    made_call,
    named,
    reads,
    say,
    session_of,
    starts,
    statuses,
    step,
    stopped,
    succeeded,
    text,
    working,
    writes,
)
from tests.kernel.grids import expected_grid, grid

NEW = Initial()
CREATED = a(Initial, after(NEW, created()))
RELEASED = a(Initial, after(at_rest(), say(), completed(), Disposed()))
NOT_NOW = "refused not-now"


@pytest.mark.rule("STATE-3")
@pytest.mark.rule("DELTA-2")
def test_before_its_creation_a_session_takes_nothing_but_that() -> None:
    expected = expected_grid(answers=NOT_NOW, settings=NOT_NOW, Created="Initial", Disposed="Initial")
    assert grid(NEW) == expected


@pytest.mark.rule("STATE-3")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("state", [CREATED, RELEASED])
def test_a_session_that_nobody_owns_takes_what_is_said_of_its_life(state: Initial) -> None:
    lives = {"Acquired": "Idle", "Resumed": "Idle", "Disposed": "Initial"}
    expected = expected_grid(answers=NOT_NOW, settings=NOT_NOW, **lives)
    assert grid(state) == expected


@pytest.mark.rule("DELTA-2")
def test_the_reports_of_what_a_released_session_had_started_are_named() -> None:
    assert grid(RELEASED, 1)["ModelCompleted"] == "refused duplicate"
    assert grid(after(asked(), Disposed()), 1)["ModelCompleted"] == "refused stale"


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("INFER-3")
def test_a_late_bill_is_counted_after_the_release() -> None:
    released = after(asked(), Disposed())
    following, effects = step(released, ModelUsage(ONE, Usage(input=7)))
    assert effects == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert session_of(following).usage == Usage(input=7)
    assert following.stamp == released.stamp


@pytest.mark.rule("STATE-8")
@pytest.mark.rule("DELTA-8")
def test_a_run_starts_with_its_session_and_keeps_what_the_first_record_says() -> None:
    following, effects = step(NEW, created())
    settings = session_of(following).settings
    assert effects == (RunStarted("s"),)
    assert (settings.session_id, settings.policy, settings.tools) == ("s", ASKING_NOBODY, TOOLS)
    assert (settings.instructions, settings.rules_version) == ("be brief", RULES_VERSION)


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("version", [RULES_VERSION - 1, RULES_VERSION + 1])
def test_a_log_of_other_rules_is_refused(version: int) -> None:
    effects = effects_of(NEW, Created(session_id="s", rules_version=version))
    assert effects == (Refused(UserAction.CREATE, RefusalReason.INVALID),)


@pytest.mark.rule("DELTA-7")
def test_the_release_of_nothing_is_accepted() -> None:
    following, effects = step(NEW, Disposed())
    assert (following.session, following.stamp.version, effects) == (None, 1, ())


def test_an_acquired_session_is_at_rest_and_a_resumed_one_says_so() -> None:
    acquired, silent = step(CREATED, Acquired())
    resumed, told = step(RELEASED, Resumed())
    assert (a(Idle, acquired).session, silent) == (CREATED.session, ())
    assert (a(Idle, resumed).session, told) == (RELEASED.session, (SessionResumed(),))


@pytest.mark.rule("RESUME-5")
def test_a_session_can_begin_from_a_conversation_that_is_repaired_first() -> None:
    start = (ForeignUser(text("hi")), ForeignReply(content=text(" ")), ForeignReply(content=text("hello")))
    following, effects = step(NEW, Created(session_id="s", start=start))
    thread = session_of(following).thread
    repaired = ThreadRepaired((Repair(RepairKind.EMPTY, 1),))
    assert effects == (RunStarted("s"), *(MessageAdded(message) for message in thread), repaired)
    assert [type(message).__name__ for message in thread] == ["UserMessage", "AssistantMessage"]


@pytest.mark.rule("RESUME-5")
@pytest.mark.rule("INFER-15")
def test_opaque_blocks_keep_their_model_when_they_are_imported() -> None:
    opaque = OpaqueBlock("other", Json.of({"signed": "x"}))
    start = (ForeignUser(text("hi")), ForeignReply(content=(opaque,), model="other"))
    imported = session_of(after(NEW, Created(session_id="s", start=start))).thread
    assert imported.opaque_models == ("other",)


# --- a thread that was released with calls that wait -------------------------------------------------------

CALLS = (made_call("write", writes("a")), made_call("asks", writes("b")), made_call("asks", writes("c")))
LEFT = a(Initial, after(working(*CALLS, tools=ALL_TOOLS), Disposed()))


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("STATE-3")
def test_a_released_thread_with_waiting_calls_takes_what_any_other_takes() -> None:
    lives = {"Acquired": "Confirming", "Resumed": "Confirming", "Disposed": "Initial"}
    expected = expected_grid(answers=NOT_NOW, settings=NOT_NOW, **lives)
    assert grid(LEFT) == expected
    again = a(Initial, after(LEFT, Disposed()))
    assert again.ledger == LEFT.ledger
    assert LEFT.ledger is not None


@pytest.mark.rule("CANCEL-2")
def test_only_a_resumed_thread_says_so_when_it_shows_its_calls_again() -> None:
    shown = [ApprovalAsked(call_id(2)), ApprovalAsked(call_id(3))]
    silent = effects_of(LEFT, Acquired())
    assert [effect for effect in silent if not isinstance(effect, CancelTimer | StartTimer)] == shown
    assert list(effects_of(LEFT, Resumed())) == [SessionResumed(), *shown]


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-2")
def test_that_a_run_has_stopped_is_taken_while_nobody_owns_the_thread() -> None:
    assert [held.operation for held in session_of(LEFT).held] == [1]
    following, effects = step(LEFT, stopped(1))
    assert named(effects) == ["CancelTimer"]
    assert (session_of(following).held, following.stamp.version) == ((), LEFT.stamp.version + 1)
    assert a(Initial, following).ledger == LEFT.ledger
    following, effects = step(LEFT, succeeded(1))
    assert named(effects) == ["Refused", "CancelTimer"]
    assert (session_of(following).held, following.stamp) == ((), LEFT.stamp)
    assert a(Initial, following).ledger == LEFT.ledger
    assert step(LEFT, succeeded(9)).next is LEFT


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-17")
def test_after_a_resumption_nothing_waits_for_runs_of_before() -> None:
    calls = (made_call("write", writes("a")), made_call("asks", reads("b")))
    corrected = Correct(call=call_id(2), input=Json.of({"path": "a"}))
    state = after(working(*calls, tools=ALL_TOOLS), Disposed(), Resumed(), corrected, checked(1, reads("a")))
    assert session_of(state).held == ()
    assert statuses(state)[1] is CallStatus.IN_PROGRESS


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("ASK-3")
def test_an_edit_that_was_being_checked_at_the_release_is_checked_again() -> None:
    edit = Correct(call=call_id(1), input=Json.of({"path": "b"}))
    released = after(asking(made_call("asks")), edit, Disposed())
    assert effects_of(released, checked(1)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    resumed, effects = step(released, Resumed())
    assert named(effects) == ["SessionResumed", "ApprovalAsked", "CheckCall"]
    assert starts(effects_of(resumed, checked(2))) == [call_id(1)]


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_a_run_in_the_background_is_stopped_by_the_release() -> None:
    rest = a(Idle, after(working(made_call()), succeeded(1, background=True), completed(reply=2), completed(reply=3)))
    following, effects = step(rest, Disposed())
    assert named(effects) == ["AbortTool", "StartTimer"]
    assert isinstance(following, Initial)
    (before,) = session_of(following).held
    acquired, effects = step(following, Acquired())
    (held,) = session_of(a(Idle, acquired)).held
    assert named(effects) == ["CancelTimer", "StartTimer"]  # it may still go on where the thread was released
    assert held.grace is not None
    assert before.grace is not None
    assert held.grace.deadline_ms == before.grace.deadline_ms
    assert session_of(after(following, Resumed())).held == ()


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
def test_a_thread_that_is_taken_over_repeats_its_background_runs() -> None:
    """A snapshot of a thread at rest that nobody released: its process has died."""
    rest = a(Idle, after(working(made_call()), succeeded(1, background=True), completed(reply=2), completed(reply=3)))
    left = Initial(session=rest.session, stamp=rest.stamp)
    assert starts(effects_of(left, Resumed())) == [call_id(1)]
