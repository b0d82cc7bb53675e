"""After a restart: what a person decides or was asked, runs that outlasted their calls, and a reply in flight."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import RestartDangerous, RestartSafe
from loopkernel.data.effects import CallModel, CheckCall, StartTimer, StartTool
from loopkernel.data.events import Refused, ReplyRetracted, SessionResumed
from loopkernel.data.ids import RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import OnRestart, Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Confirming, Idle, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolSucceeded
from loopkernel.data.tools import Tool
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Approve, CancelCall, Swap
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, RequestReason, TimerPurpose, UserAction
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.ledger import class_of
from loopkernel.loop.life.restart import after_crash, restart_held_runs

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    TWO,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    enqueue,
    entries_of,
    fired,
    ledger_of,
    made_call,
    named,
    of_kind,
    pending_timers,
    session_of,
    starts,
    statuses,
    steer,
    step,
    succeeded,
    working,
    writes,
)
from tests.kernel.drafts import drafted, outcome
from tests.kernel.grids import grid
from tests.kernel.loop.life.restarting import ANSWERS, DANGER, DANGEROUS_ANSWERS, TOOLS, answer_by_policy, restarts

# --- a person's word that is still waited for ---------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-6")
def test_waiting_approvals_still_wait_and_their_timeouts_start_anew() -> None:
    waiting = asking(made_call("asks"), policy=evolve(ASKING_NOBODY, approval_timeout_ms=50))
    (before,) = pending_timers(waiting)
    following, effects = step(waiting, Resumed(), now_ms=1_000)
    (timer,) = pending_timers(a(Confirming, following))
    assert effects == (
        SessionResumed(),
        StartTimer(operation=timer.operation, purpose=TimerPurpose.APPROVAL_TIMEOUT, deadline_ms=1_050),
    )
    assert timer.operation == before.operation + 1
    assert effects_of(following, TimerFired(before.operation)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert ends(effects_of(following, TimerFired(timer.operation))) == [
        (1, CallStatus.REJECTED_BY_USER, CancelReason.TIMEOUT)
    ]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-4")
def test_an_approved_call_that_waited_for_a_slot_is_not_asked_about_again() -> None:
    calls = (made_call("read"), made_call("asks"))
    state = after(
        working(*calls, policy=evolve(ASKING_NOBODY, max_parallel=1), tools=ALL_TOOLS), Approve(call=call_id(2))
    )
    following, effects = step(state, Resumed())
    assert starts(effects) == [call_id(1)]
    assert starts(effects_of(following, ToolSucceeded(RunOperation(2)))) == [call_id(2)]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-3")
def test_an_edit_that_was_being_checked_is_checked_again() -> None:
    edited = Swap(call=call_id(1), tool="write", input=Json.of({"path": "b"}))
    state = after(asking(made_call("asks"), policy=evolve(ASKING_NOBODY, approval_timeout_ms=50)), edited)
    following, effects = step(state, Resumed())
    assert [timer.operation for timer in pending_timers(following)] == [
        timer.operation for timer in of_kind(StartTimer, effects)
    ]
    (check,) = of_kind(CheckCall, effects)
    assert (check.operation, check.tool, check.input) == (2, "write", Json.of({"path": "b"}))
    (start,) = of_kind(StartTool, effects_of(following, checked(2)))
    assert (start.tool, start.input) == ("write", Json.of({"path": "b"}))


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize("tool", ["read_only", "dangerous"])
def test_a_run_that_had_asked_is_treated_by_its_class_as_any_run(tool: str) -> None:
    state = after(working(made_call(tool), tools=TOOLS), ToolAsked(RunOperation(1), "which?"))
    following, effects = step(state, Resumed())
    if tool == "read_only":
        assert starts(effects) == [call_id(1)]
        (entry,) = entries_of(following)
        assert (entry.status, entry.question) == (CallStatus.IN_PROGRESS, None)
        ledger = ledger_of(following)
        assert (ledger.running, ledger.waiting, ledger.asking) == (1, 0, 0)
    else:
        assert ends(effects) == [(1, CallStatus.CANCELLED, CancelReason.SAFETY)]


# --- runs whose call is answered ---------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-17")
def test_a_restart_forgets_aborted_runs_since_their_process_is_gone() -> None:
    calls = (made_call("write", writes("a")), made_call("write", writes("a")))
    state = after(working(*calls), CancelCall(call_id(1)))
    assert statuses(state) == [CallStatus.CANCELLED, CallStatus.QUEUED]
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "StartTool", "StartTimer"]
    assert starts(effects) == [call_id(2)]
    assert session_of(following).held == ()
    assert effects_of(following, fired(2)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
@given(restarts, st.sampled_from([tool.name for tool in TOOLS]))
def test_a_background_run_is_repeated_or_given_up_by_its_class(policy: OnRestart, tool: str) -> None:
    running = working(made_call(tool), policy=evolve(ASKING_NOBODY, on_restart=policy), tools=TOOLS)
    rest = a(Idle, after(running, succeeded(1, background=True), completed(reply=2), completed(reply=3)))
    following, effects = step(rest, Resumed())
    session = session_of(a(Idle, following))
    if answer_by_policy(tool, policy) is None:
        (start,) = of_kind(StartTool, effects)
        assert (start.operation, start.run, start.call, start.key) == (2, 2, call_id(1), "s/1/1.1")
        (held,) = session.held
        assert (held.operation, held.runs, held.background) == (2, 2, True)
        assert session.inbox.background == ()
        (end,) = session_of(after(following, succeeded(2))).inbox.background
    else:
        assert effects == (SessionResumed(),)
        assert session.held == ()
        (end,) = session.inbox.background
        assert cancelled_text(CancelReason.SAFETY) in text_of(end.content)
    assert end.call == call_id(1)
    late = effects_of(following, succeeded(1))
    assert late == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize("read_only", RestartSafe)
@pytest.mark.parametrize("idempotent", RestartSafe)
@pytest.mark.parametrize("dangerous", RestartDangerous)
def test_the_policy_answers_for_each_class(
    read_only: RestartSafe, idempotent: RestartSafe, dangerous: RestartDangerous
) -> None:
    choices = OnRestart(read_only=read_only, idempotent=idempotent, dangerous=dangerous)
    settings = Settings(session_id="s", policy=Policy(on_restart=choices), tools=TOOLS)
    found = {tool.name: after_crash(class_of(settings, tool.name), settings) for tool in (*TOOLS, Tool(name="missing"))}
    assert found == {
        "read_only": ANSWERS[read_only],
        "idempotent": ANSWERS[idempotent],
        **dict.fromkeys((*DANGER, "missing"), DANGEROUS_ANSWERS[dangerous]),
    }


def test_a_session_that_holds_no_run_is_left_as_it_is() -> None:
    session = at_rest().session
    assert outcome(restart_held_runs(drafted(session), Resumed())) == (session, ())
    assert outcome(restart_held_runs(drafted(session), Resumed()))[0] is session


# --- a reply in flight ------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INFER-12")
@pytest.mark.rule("INFER-3")
def test_a_partial_reply_is_dropped_and_asked_for_again() -> None:
    state = evolve_usage(asked(Policy(), ModelText(ONE, "so"), made_call(verdict=None)), Usage(output=2))
    following, effects = step(state, Resumed())
    assert effects[:2] == (SessionResumed(), ReplyRetracted(ONE))
    (call,) = of_kind(CallModel, effects)
    assert (call.operation, call.request.reason) == (TWO, RequestReason.RESUME)
    assert call.request.thread == state.session.thread
    streaming = a(Streaming, following)
    assert (len(streaming.pieces), streaming.turn.number, streaming.session.usage) == (0, 1, Usage(output=2))
    late = grid(following, 1)
    assert (late["ModelText"], late["ToolChecked"]) == ("refused stale", "refused stale")


def evolve_usage(state: Streaming, usage: Usage) -> Streaming:
    return evolve(state, reply=evolve(state.reply, usage=usage))


@pytest.mark.rule("RESUME-3")
def test_a_reply_that_had_not_begun_is_asked_for_again_without_a_word() -> None:
    assert named(effects_of(asked(), Resumed())) == ["SessionResumed", "CallModel"]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
def test_what_was_queued_stays_queued_and_a_steer_goes_in() -> None:
    following, effects = step(after(asked(), enqueue("later"), steer("left")), Resumed())
    assert [queued.number for queued in session_of(following).inbox.queue] == [1]
    assert named(effects) == ["SessionResumed", "InputSettled", "MessageAdded", "Steered", "CallModel"]
