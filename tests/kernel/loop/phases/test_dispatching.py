"""`Dispatching`, and sub-agents under any name: what they say, ask, use and come to."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ApprovalMode, Lifetime, RestartChild
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import StartChild, StartTimer, TellChild
from loopkernel.data.events import ChildAsked, ChildFinished, ChildStarted, LimitReached, ToolEnded
from loopkernel.data.ledgers import ChildWait
from loopkernel.data.outside_deltas import ChildProgress
from loopkernel.data.policy import ApprovalRule, ChildLimits, OnRestart, Policy
from loopkernel.data.states import (
    Cancelled,
    Confirming,
    Dispatching,
    Executing,
    Idle,
    Initial,
    State,
    Streaming,
)
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    Permit,
)
from loopkernel.data.waits import ForChild, ForOwnResult
from loopkernel.data.words import NATURAL_ENDS, CallStatus, CancelReason, LimitName, TimerPurpose, TurnEndReason
from loopkernel.views.waits import waits_of

from tests.kernel.building import (
    ASKING_NOBODY,
    WRITE,
    a,
    after,
    asked,
    call_id,
    completed,
    effects_of,
    ends,
    entries_of,
    failed,
    fired,
    ledger_of,
    made_call,
    named,
    of_kind,
    pending_timers,
    results_of,
    run,
    say,
    session_of,
    step,
    stopped,
    succeeded,
)
from tests.kernel.gates import (
    AFTER_TOOL,
    AGENT,
    EARLY_AGENT,
    agent_call,
    asked_of,
    below,
    child_asks,
    child_ended,
    gated,
    hooked,
    says,
)
from tests.kernel.grids import expected_grid, grid

TOOLS = (AGENT, EARLY_AGENT, WRITE)
BILL = Usage(output=9)
UNTIMED = evolve(ASKING_NOBODY, child=ChildLimits(timeout_ms=None))


def dispatched(*names: str, policy: Policy = UNTIMED) -> State:
    """The model has called these tools, of which one is a sub-agent at least."""
    calls = [agent_call(name) if name == "agent" else made_call(name) for name in names or ("agent",)]
    return after(asked(policy, tools=TOOLS), *calls, completed())


ONE_CHILD = a(Dispatching, dispatched())
TWO_CHILDREN = a(Dispatching, dispatched("agent", "agent"))
ASKING = a(Confirming, after(ONE_CHILD, child_asks(1, 1, 2)))


@pytest.mark.rule("STATE-5")
@pytest.mark.rule("DELTA-2")
def test_while_sub_agents_run_input_waits() -> None:
    expected = expected_grid(
        settings="Dispatching",
        Say="Dispatching",
        Enqueue="Dispatching",
        Steer="Dispatching",
        CancelAll="Cancelled",
        Disposed="Initial",
        Resumed="Dispatching",
        Forked="Idle",
    )
    assert grid(ONE_CHILD) == expected
    assert named(effects_of(ONE_CHILD, Acquired())) == ["Refused"]


@pytest.mark.rule("STATE-5")
def test_the_name_of_the_phase_follows_from_what_is_under_way() -> None:
    assert isinstance(dispatched("agent", "write"), Executing)
    assert isinstance(after(dispatched("agent", "write"), succeeded(2)), Dispatching)
    assert isinstance(after(TWO_CHILDREN, child_asks(1, 1)), Dispatching)
    assert isinstance(after(TWO_CHILDREN, child_asks(1, 1), child_asks(2, 1)), Confirming)
    assert isinstance(after(ASKING, child_asks(1)), Dispatching)


# --- a life -----------------------------------------------------------------------------------------------


@pytest.mark.rule("CHILD-1")
def test_a_call_of_a_sub_agent_starts_a_kernel_of_its_own() -> None:
    effects = effects_of(asked(ASKING_NOBODY, tools=TOOLS), agent_call(), completed())
    (start,) = of_kind(StartChild, effects)
    assert (start.call, start.run, start.tool, start.task, start.resumed) == (
        call_id(1),
        1,
        "agent",
        "look it up",
        False,
    )
    assert (start.created.session_id, start.created.tools) == ("s/1/1.1", (WRITE,))
    assert of_kind(ChildStarted, effects) == [ChildStarted(call_id(1))]
    (timed,) = of_kind(StartTimer, effects)
    assert (timed.purpose, timed.deadline_ms - asked().stamp.now_ms) == (TimerPurpose.CHILD_TIMEOUT, 60_000 + 2)


@pytest.mark.rule("CHILD-2")
@pytest.mark.parametrize("reason", TurnEndReason)
def test_how_it_ended_is_the_status_and_what_it_said_the_answer(reason: TurnEndReason) -> None:
    following, effects = step(ONE_CHILD, child_ended(1, reason, "half", BILL, 3))
    assert effects[0] == ChildFinished(call_id(1), reason)
    (ended,) = of_kind(ToolEnded, effects)
    assert ended.result.status is (CallStatus.DONE if reason in NATURAL_ENDS else CallStatus.ERROR)
    words = text_of(ended.result.content)
    assert (words == "half") is (reason in NATURAL_ENDS)
    assert "half" in words
    assert (session_of(following).usage, session_of(following).started) == (BILL, 1 + 3)
    empty = effects_of(ONE_CHILD, child_ended(1, TurnEndReason.MODEL_STOP, ""))
    assert of_kind(ToolEnded, empty)[0].result.content == ()


@pytest.mark.rule("CHILD-3")
def test_after_one_the_parent_goes_on_with_the_others() -> None:
    following = after(TWO_CHILDREN, child_ended(2))
    assert isinstance(following, Dispatching)
    assert isinstance(after(following, child_ended(1)), Streaming)


@pytest.mark.rule("CHILD-2")
@pytest.mark.rule("CHILD-1")
def test_its_time_limit_ends_it_as_an_error_with_what_it_has_said() -> None:
    state = after(dispatched(policy=ASKING_NOBODY), ChildProgress(run(1), "half way"))
    following, effects = step(state, fired(1))
    assert of_kind(ChildFinished, effects) == [ChildFinished(call_id(1), TurnEndReason.BUDGET_EXCEEDED)]
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.status, "half way" in text_of(ended.result.content)) == (CallStatus.ERROR, True)
    late = step(following, child_ended(1, usage=BILL))
    assert named(late.effects)[0] == "Refused"
    assert session_of(late.next).usage == BILL


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    "report", [succeeded(1), ChildProgress(run(2), "a"), child_asks(2, 1), child_ended(2), stopped(1)]
)
def test_a_report_that_is_none_of_a_sub_agent_that_runs_is_refused(report: Delta) -> None:
    assert named(effects_of(ONE_CHILD, report)) == ["Refused"]
    assert named(effects_of(dispatched("write", "agent"), child_ended(1))) == ["Refused"]


@pytest.mark.rule("TOOL-9")
def test_one_may_start_while_the_reply_streams() -> None:
    streaming = asked(UNTIMED, agent_call("early_agent"), tools=TOOLS)
    assert ledger_of(streaming).children == 1
    answered = after(streaming, ChildProgress(run(1), "a"), child_asks(1, 1), child_asks(1), child_ended(1))
    assert [entry.status for entry in entries_of(answered)] == [CallStatus.DONE]
    resumed, effects = step(streaming, Resumed())  # it may have had an effect: the reply is kept as far as it came
    assert isinstance(resumed, Dispatching)
    assert [start.resumed for start in of_kind(StartChild, effects)] == [True]
    assert ledger_of(asked(UNTIMED, agent_call(), tools=TOOLS)).children == 0
    kept = after(streaming, failed())
    assert isinstance(kept, Dispatching)


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("RESUME-3")
def test_one_that_only_reads_is_dropped_with_its_reply_after_a_restart() -> None:
    glance = Tool(name="glance", profile=ToolProfile(effect=EffectClass.READ_ONLY, child=True, early=True))
    state = asked(UNTIMED, made_call("glance"), tools=(glance,))
    following, effects = step(state, Resumed())
    assert of_kind(ChildFinished, effects) == [ChildFinished(call_id(1), TurnEndReason.USER_ABORT)]
    assert ledger_of(a(Streaming, following)).entries.size == 0
    _, effects = step(state, failed())
    assert "AbortTool" in named(effects)


# --- people -----------------------------------------------------------------------------------------------


@pytest.mark.rule("CHILD-2")
def test_what_it_asks_is_shown_once_with_its_address_and_its_time_stands_still() -> None:
    timed = a(Dispatching, dispatched(policy=ASKING_NOBODY))
    (bound,) = pending_timers(timed)
    waiting, effects = step(timed, child_asks(1, 1), now_ms=bound.deadline_ms - 100)
    assert named(effects) == ["CancelTimer", "ChildAsked"]
    assert of_kind(ChildAsked, effects) == [ChildAsked(call_id(1), below(1))]
    (entry,) = entries_of(a(Confirming, waiting))
    assert entry.person.wait == ChildWait((below(1),), 100)
    assert named(effects_of(waiting, child_asks(1, 1))) == []
    assert of_kind(ChildAsked, effects_of(waiting, child_asks(1, 1, 2))) == [ChildAsked(call_id(1), below(2))]
    on, effects = step(waiting, child_asks(1), now_ms=bound.deadline_ms + 900)
    assert [timer.deadline_ms for timer in pending_timers(on)] == [bound.deadline_ms + 1_000]
    assert named(effects) == ["StartTimer"]
    assert named(effects_of(ONE_CHILD, child_asks(1))) == []
    assert named(effects_of(ASKING, child_asks(1))) == []


@pytest.mark.rule("CHILD-2")
def test_what_is_waited_for() -> None:
    assert [wait.reasons for wait in waits_of(ASKING)] == [(ForChild((below(1), below(2))),)]
    assert [wait.reasons for wait in waits_of(ONE_CHILD)] == [(ForOwnResult(),)]


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("CHILD-2")
def test_the_answer_of_a_person_is_not_the_parents() -> None:
    assert named(effects_of(ASKING, AnswerQuestion(call=call_id(1), value=None))) == ["Refused"]
    assert isinstance(after(ASKING, child_ended(1)), Streaming)


@pytest.mark.rule("ASK-5")
def test_a_change_of_mode_or_rules_holds_below_too() -> None:
    mode, permit = ChangeMode(ApprovalMode.PLAN), Permit(ApprovalRule(decision=Decision.ALLOW))
    assert of_kind(TellChild, effects_of(TWO_CHILDREN, mode)) == [TellChild(run(1), mode), TellChild(run(2), mode)]
    assert of_kind(TellChild, effects_of(ASKING, permit)) == [TellChild(run(1), permit)]
    assert of_kind(TellChild, effects_of(ONE_CHILD, ChangeInstructions("x"))) == []
    early = asked(UNTIMED, agent_call("early_agent"), tools=TOOLS)
    assert of_kind(TellChild, effects_of(early, mode)) == [TellChild(run(1), mode)]
    (told,) = of_kind(TellChild, effects_of(ONE_CHILD, ChangePolicy(evolve(UNTIMED, max_turns=7, seed=9))))
    below_it = a(ChangePolicy, told.delta).policy
    assert (below_it.seed, below_it.max_turns, below_it.lifetime) == (9, 10, Lifetime.TASK)
    assert of_kind(TellChild, effects_of(asked(UNTIMED), mode)) == []


# --- budgets ----------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-2")
def test_what_is_left_is_shared_among_the_sub_agents_of_the_reply() -> None:
    policy = evolve(UNTIMED, max_total_tokens=100, max_tool_calls=12)
    effects = effects_of(asked(policy, tools=TOOLS), agent_call(), agent_call(), completed())
    given = [start.created.policy for start in of_kind(StartChild, effects)]
    parts = [(policy.max_total_tokens, policy.max_tool_calls) for policy in given]
    assert parts == [(50, 5), (50, 5)]


@pytest.mark.rule("LIMIT-2")
def test_where_nothing_is_left_to_share_none_starts() -> None:
    spent = evolve(UNTIMED, max_tool_calls=1)
    effects = effects_of(asked(spent, tools=TOOLS), agent_call(), agent_call(), completed())
    assert len(of_kind(StartChild, effects)) <= 1
    used = evolve(UNTIMED, max_total_tokens=10)
    state = dispatched("agent", policy=used)
    following, effects = step(state, child_ended(1, usage=Usage(output=10)))
    assert of_kind(LimitReached, effects) == [LimitReached(LimitName.TOKENS)]
    assert session_of(a(Idle, following)).last_end is TurnEndReason.BUDGET_EXCEEDED


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("DELTA-8")
def test_a_budget_that_was_made_smaller_meanwhile_ends_the_turn_where_one_would_start() -> None:
    asking = Tool(name="agent", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, child=True, approval=Decision.ASK))
    calls = (agent_call(), completed(usage=BILL))
    waiting = a(Confirming, after(asked(UNTIMED, tools=(asking,)), *calls))
    smaller = ChangePolicy(evolve(UNTIMED, max_total_tokens=BILL.total))
    following, effects = step(after(waiting, smaller), Approve(call=call_id(1)))
    assert of_kind(StartChild, effects) == []
    assert session_of(a(Idle, following)).last_end is TurnEndReason.BUDGET_EXCEEDED


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("CHILD-1")
@pytest.mark.parametrize(("own", "left"), [(None, 500), (100, 100), (9_000, 500)])
def test_none_may_take_longer_than_the_turn(own: int | None, left: int) -> None:
    policy = evolve(ASKING_NOBODY, child=ChildLimits(timeout_ms=own), max_wall_ms=502)
    state = a(Dispatching, dispatched(policy=policy))
    (bound,) = pending_timers(state)
    turn_left = state.turn.opened_ms + 502 - state.stamp.now_ms
    assert turn_left == 500
    assert bound.deadline_ms - state.stamp.now_ms == left


# --- hooks, cancels, restarts -----------------------------------------------------------------------------


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("CHILD-2")
def test_the_end_of_a_sub_agent_is_looked_at_as_that_of_a_run() -> None:
    state = dispatched(policy=hooked(gated(AFTER_TOOL), policy=UNTIMED))
    for before in (state, after(state, child_asks(1, 1))):
        looked_at, effects = step(before, child_ended(1, usage=BILL))
        assert asked_of(effects) == [(AFTER_TOOL, "gate")]
        assert (ledger_of(looked_at).running, ledger_of(looked_at).children, ledger_of(looked_at).asking) == (1, 1, 0)
        assert ends(effects_of(looked_at, says(1))) == [(1, CallStatus.DONE, None)]
        assert named(effects_of(looked_at, child_ended(1, usage=BILL))) == ["Refused"]
        assert of_kind(TellChild, effects_of(looked_at, ChangeMode(ApprovalMode.PLAN))) == []
        again = effects_of(looked_at, Resumed())
        assert (asked_of(again), of_kind(StartChild, again)) == ([(AFTER_TOOL, "gate")], [])


@pytest.mark.rule("CHILD-2")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("state", [ONE_CHILD, ASKING], ids=["running", "asking"])
@pytest.mark.parametrize(
    ("cause", "rest", "reason"),
    [(CancelAll(), Cancelled, TurnEndReason.USER_ABORT), (Disposed(), Initial, TurnEndReason.DISPOSED)],
)
def test_a_cancel_goes_down(state: State, cause: Delta, rest: type, reason: TurnEndReason) -> None:
    following, effects = step(state, cause)
    assert type(following) is rest
    assert named(effects)[0] == "AbortTool"
    assert of_kind(ChildFinished, effects) == [ChildFinished(call_id(1), reason)]
    assert [status for _, status, _ in ends(effects)] == [CallStatus.CANCELLED]
    assert len(session_of(following).held) == 1


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("CHILD-2")
@pytest.mark.parametrize("first", [stopped(1), child_ended(1, usage=BILL, tool_calls=2)], ids=["stopped", "ended"])
def test_what_one_that_was_aborted_has_used_is_counted_once(first: Delta) -> None:
    cut = after(ONE_CHILD, CancelCall(call_id(1)))
    state = after(cut, first)
    assert session_of(state).held == ()
    billed = after(state, child_ended(1, usage=BILL, tool_calls=2))
    assert (session_of(billed).usage, session_of(billed).started) == (BILL, 1 + 2)
    assert session_of(after(billed, child_ended(1, usage=BILL, tool_calls=2))).usage == BILL
    assert session_of(after(cut, child_ended(1))).usage == NO_USAGE


@pytest.mark.rule("RESUME-3")
def test_after_a_restart_it_is_resumed_from_its_own_log() -> None:
    timed = a(Dispatching, dispatched(policy=ASKING_NOBODY))
    (before,) = pending_timers(timed)
    for state in (timed, ONE_CHILD, ASKING):
        again, effects = step(state, Resumed())
        (start,) = of_kind(StartChild, effects)
        assert (start.operation, start.resumed, start.run, of_kind(ChildStarted, effects)) == (2, True, 1, [])
        assert isinstance(again, Dispatching)
        assert named(effects_of(again, child_ended(1))) == ["Refused"]
        assert isinstance(after(again, child_ended(2)), Streaming)
    assert [timer.deadline_ms for timer in pending_timers(after(timed, Resumed()))] == [before.deadline_ms]
    waiting = after(timed, child_asks(1, 1))
    assert len(pending_timers(after(waiting, Resumed()))) == 1


@pytest.mark.rule("RESUME-3")
def test_by_policy_it_is_cancelled_after_a_restart() -> None:
    policy = evolve(UNTIMED, on_restart=OnRestart(child=RestartChild.CANCEL))
    effects = effects_of(dispatched(policy=policy), Resumed())
    assert [(status, reason) for _, status, reason in ends(effects)] == [(CallStatus.CANCELLED, CancelReason.SAFETY)]
    assert len(of_kind(ChildFinished, effects)) == 1


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("state", [ONE_CHILD, ASKING], ids=["running", "asking"])
def test_a_fork_leaves_it_to_the_other_branch(state: State) -> None:
    following, effects = step(state, Forked(session_id="t"))
    assert isinstance(following, Idle)
    assert "AbortTool" not in named(effects)
    assert len(results_of(following)) == 1
    assert isinstance(after(following, say("well")), Streaming)
