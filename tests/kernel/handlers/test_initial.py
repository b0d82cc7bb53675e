"""`Initial`: creation, acquisition, `resumed` and disposal are accepted; everything else is refused, and says so."""

import pytest
from loopkernel.data.blocks import OpaqueBlock
from loopkernel.data.events import MessageAdded, Refused, RunStarted, SessionResumed, ThreadRepaired
from loopkernel.data.foreign import ForeignReply, ForeignUser
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.states import Idle, Initial
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed
from loopkernel.data.usage import Usage
from loopkernel.data.words import RefusalReason, UserAction

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    TOOLS,
    a,
    after,
    asked,
    at_rest,
    completed,
    created,
    effects_of,
    expected_grid,
    grid,
    say,
    session_of,
    step,
    text,
)

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
    expected = expected_grid(answers=NOT_NOW, settings=NOT_NOW, Acquired="Idle", Resumed="Idle", Disposed="Initial")
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
    assert (settings.instructions, settings.rules_version) == ("be brief", 1)


@pytest.mark.rule("RESUME-1")
def test_a_log_of_other_rules_is_refused() -> None:
    effects = effects_of(NEW, Created(session_id="s", rules_version=2))
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
    assert effects == (RunStarted("s"), *(MessageAdded(message) for message in thread), ThreadRepaired(1))
    assert [type(message).__name__ for message in thread] == ["UserMessage", "AssistantMessage"]


@pytest.mark.rule("RESUME-5")
@pytest.mark.rule("INFER-15")
def test_opaque_blocks_keep_their_model_when_they_are_imported() -> None:
    opaque = OpaqueBlock("other", Json.of({"signed": "x"}))
    start = (ForeignUser(text("hi")), ForeignReply(content=(opaque,), model="other"))
    imported = session_of(after(NEW, Created(session_id="s", start=start))).thread
    assert imported.opaque_models == ("other",)
