"""A fork: a lineage of its own, at rest; what was open is closed in it, and nothing of the other leaks in."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.blocks import ToolCall
from loopkernel.data.choices import Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import LineageForked, Refused, TurnEnded
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import HookOperation
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText, ModelUsage
from loopkernel.data.policy import Hook
from loopkernel.data.states import Executing, Finishing, Idle, Initial, State, Streaming, Thinking
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Approve, CancelAll, CancelCall, RememberTool, RetryNow
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    HookPoint,
    RefusalReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    TASK,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
    checked,
    effects_of,
    ends,
    enqueue,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    pending_timers,
    results_of,
    say,
    session_of,
    steer,
    step,
    stopped,
    succeeded,
    text,
    working,
    writes,
)
from tests.kernel.plays import plays

FORK = Forked(session_id="t")
LEFT = CancelReason.USER_INTERRUPTED
CALLS = (
    made_call("read"),
    made_call("danger"),
    made_call("asks"),
    made_call("write", verdict=None),
    made_call("read", needs=("p9",)),
)


def forked(state: State) -> tuple[Idle, tuple[Effect, ...]]:
    """The new lineage, which is at rest, and what the fork tells."""
    following, effects = step(state, FORK)
    assert effects[:1] == (LineageForked("t"),) or named(effects)[:2] == ["ErrorCleared", "LineageForked"]
    return a(Idle, following), effects


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize(
    "state",
    [
        at_rest(),
        after(asked(), CancelAll()),
        after(asked(), failed(ErrorClass.AUTH)),
        after(asked(ASKING_NOBODY, enqueue("a"), steer("b")), failed(ErrorClass.AUTH)),
    ],
    ids=["new", "cancelled", "failed", "queue"],
)
def test_a_fork_at_rest_changes_the_lineage_alone(state: State) -> None:
    rest, effects = forked(state)
    before = session_of(state)
    settings = evolve(before.settings, session_id="t", lineage=2)
    assert evolve(rest.session, settings=before.settings) == evolve(before, error=None)
    assert rest.session.settings == settings
    assert [effect for effect in named(effects) if effect != "ErrorCleared"] == ["LineageForked"]
    assert rest.stamp.version == state.stamp.version + 1
    twice = a(Idle, after(rest, Forked(session_id="u")))
    assert (twice.session.settings.session_id, twice.session.settings.lineage) == ("u", 3)


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("state", [Initial(), after(asked(TASK), CancelAll())], ids=["not created", "done"])
def test_there_must_be_a_run_to_fork(state: State) -> None:
    assert effects_of(state, FORK) == (Refused(UserAction.FORK, RefusalReason.NOT_NOW),)


@pytest.mark.rule("RESUME-6")
def test_open_calls_are_closed_and_of_a_dangerous_run_nobody_knows() -> None:
    state = working(*CALLS[:4], tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, schedule=Schedule.ALL))
    state = a(Executing, after(state, enqueue("later"), steer("this way")))
    assert [entry.runs for entry in state.ledger.entries] == [1, 1, 0, 0]
    rest, effects = forked(state)
    assert ends(effects) == [
        (1, CallStatus.CANCELLED, LEFT),
        (2, CallStatus.UNKNOWN, LEFT),
        (3, CallStatus.CANCELLED, LEFT),
        (4, CallStatus.CANCELLED, LEFT),
    ]
    assert not {"AbortTool", "AbortModel", "WorkCancelled", "StartTool", "CallModel"} & set(named(effects))
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.INTERRUPTED]
    assert [result.status for result in results_of(rest)] == [end[1] for end in ends(effects)]
    assert [queued.content for queued in rest.session.inbox.queue] == [text("this way"), text("later")]
    assert (rest.session.held, pending_timers(rest), rest.session.inbox.steers) == ((), [], ())


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("CANCEL-3")
def test_reports_on_what_the_other_lineage_runs_are_stale_here() -> None:
    rest, _ = forked(working(*CALLS[:4], tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, schedule=Schedule.ALL)))
    stale = (Refused(UserAction.REPORT, RefusalReason.STALE),)
    for report in (succeeded(1), succeeded(2), stopped(1), checked(1), fired(1)):
        assert step(rest, report) == (rest, stale)


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("ASK-6")
def test_what_waits_for_a_person_ends_with_the_turn_and_a_word_on_it_is_stale() -> None:
    rest, effects = forked(asking(made_call("asks"), made_call("asks")))
    assert ends(effects) == [(position, CallStatus.CANCELLED, LEFT) for position in (1, 2)]
    assert effects_of(rest, Approve(call=call_id(1))) == (Refused(UserAction.APPROVE, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("ASK-3")
def test_remembered_approvals_are_settings_and_are_copied() -> None:
    state = after(asking(made_call("asks"), made_call("asks")), Approve(call=call_id(1), remember=RememberTool()))
    rest, _ = forked(state)
    assert rest.session.settings.remembered == session_of(state).settings.remembered != ()


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("INPUT-5")
@pytest.mark.parametrize("calls", [0, 2])
def test_a_reply_under_way_is_kept_as_cut_and_is_not_aborted(calls: int) -> None:
    early = [made_call("early_write", writes(f"{number}")) for number in range(calls)]
    pieces: tuple[Delta, ...] = (ModelText(ONE, "so"), *early, ModelText(ONE, " far"), ModelUsage(ONE, Usage(output=3)))
    state = asked(evolve(ASKING_NOBODY, silence_ms=70), *pieces, tools=ALL_TOOLS)
    rest, effects = forked(state)
    assert "ReplyAborted" in named(effects)
    assert of_kind(AbortModel, effects) == []
    reply = a(AssistantMessage, list(rest.session.thread)[1])
    assert (reply.state, len([block for block in reply.content if isinstance(block, ToolCall)])) == (
        ReplyState.CANCELLED,
        calls,
    )
    assert ends(effects) == [(position, CallStatus.CANCELLED, LEFT) for position in range(1, calls + 1)]
    assert rest.session.usage == Usage(output=3)
    assert effects_of(rest, ModelText(ONE, "late")) == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-6")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
def test_runs_that_outlast_their_calls_stay_with_the_other_lineage() -> None:
    background = after(working(made_call(), made_call()), succeeded(1, background=True), CancelCall(call_id(2)))
    assert len(session_of(background).held) == 2
    rest, _ = forked(background)
    assert rest.session.held == ()
    (told,) = rest.session.inbox.background
    assert told.call == call_id(1)
    again = after(rest, say("well"))
    origins = [found.origin for found in session_of(again).thread if isinstance(found, UserMessage)]
    assert origins == [UserOrigin.SAID, UserOrigin.SAID, UserOrigin.BACKGROUND_RESULT]
    assert effects_of(rest, succeeded(1)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)


GATE = OpenHook(operation=HookOperation(1), hook=Hook(point=HookPoint.STOP, name="gate", gated=True))


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("phase", [Thinking, Finishing])
def test_a_fork_at_an_open_gate_ends_the_turn(phase: type[Thinking | Finishing]) -> None:
    streaming = asked()
    session, stamp, turn = streaming.session, streaming.stamp, streaming.turn
    state: State = Thinking(session=session, stamp=stamp, turn=turn, gate=GATE)
    if phase is Finishing:
        ending = Ending(reason=TurnEndReason.MODEL_STOP, natural=True)
        state = Finishing(session=session, stamp=stamp, turn=turn, ending=ending, gate=GATE)
    following, effects = step(state, FORK)
    assert effects[0] == LineageForked("t")
    if phase is Thinking:
        assert isinstance(following, Idle)
        assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.INTERRUPTED]


@pytest.mark.rule("RESUME-6")
def test_a_task_that_is_forked_is_at_rest_and_may_go_on() -> None:
    rest, _ = forked(asked(TASK, enqueue("later")))
    assert len(rest.session.inbox.queue) == 1
    assert isinstance(after(rest, RetryNow()), Streaming)
    assert isinstance(after(rest, say("well")), Streaming)


@pytest.mark.rule("RESUME-6")
@given(plays(most=25))
def test_any_fork_is_at_rest_with_every_call_answered_and_nothing_pending(play: Run) -> None:
    for record in play.steps[1::3]:
        state = record.after
        following, effects = step(state, FORK)
        if isinstance(effects[0], Refused):
            assert isinstance(state, Initial)
            continue
        rest = a(Idle, following)
        assert (rest.session.held, pending_timers(rest), rest.session.inbox.steers) == ((), [], ())
        assert rest.session.settings.lineage == session_of(state).settings.lineage + 1
        before = list(session_of(state).thread)
        assert list(rest.session.thread)[: len(before)] == before
        messages = list(rest.session.thread)
        results = [found for message in messages if isinstance(message, ResultMessage) for found in message.results]
        blocks = [block for found in messages if isinstance(found, AssistantMessage) for block in found.content]
        made = [block.id for block in blocks if isinstance(block, ToolCall)]
        assert [result.call for result in results] == made
