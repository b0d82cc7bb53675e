"""Why: each effect has a rule, each open call a reason to wait; and what may be said is exactly what is accepted."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.causes import rule_of
from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import ApprovalMode, NoProfile, Schedule
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import Refused, ToolEnded, TurnEnded
from loopkernel.data.ids import (
    CheckOperation,
    HandoffOperation,
    HookOperation,
    QueueNumber,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.ledgers import Ledger
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.sessions import Turn
from loopkernel.data.states import (
    Backoff,
    Compacting,
    Confirming,
    Dispatching,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context, is_refused
from loopkernel.data.thread_deltas import Acquired, Disposed
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import Decision
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import (
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    CompactNow,
    Discard,
    DismissError,
    Permit,
    Reject,
    RetryNow,
    StartHandoff,
    UserDelta,
)
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, RefusalReason, TurnEndReason, UserAction
from loopkernel.explain import accepted_inputs, explain, interaction_of, waits_of
from loopkernel.planning.interaction import Interaction
from loopkernel.testing.drive import Drive
from loopkernel.testing.effective_policy import effective_policy
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_document import read_scenario_file
from loopkernel.testing.strategies.effects import effects_of_any_kind
from loopkernel.testing.strategies.states import states
from loopkernel.testing.strategies.walks import Run, reachable_states, runs
from loopkernel.transition import transition

from tests.kernel.building import (
    ASKING_NOBODY,
    FREE,
    ONE,
    TASK,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    enqueue,
    failed,
    made_call,
    reads,
    say,
    session_of,
    steer,
    working,
    writes,
)
from tests.specs.rule_documents import rules

RULES = rules()
SCENARIOS = Path(__file__).resolve().parents[2] / "specs" / "scenarios"


def ledger_of(state: State) -> Ledger | None:
    return state.ledger if isinstance(state, Streaming | Executing | Confirming | Dispatching) else None


# --- causes -----------------------------------------------------------------------------------------------


def scenarios() -> Iterator[Scenario]:
    for file in sorted(SCENARIOS.glob("*.yaml")):
        yield from read_scenario_file(file)


def test_every_effect_of_every_scenario_has_a_rule_and_every_open_call_a_reason() -> None:
    for scenario in scenarios():
        for record in Drive(scenario, effective_policy(scenario.policy), transition).run().steps:
            assert_told(record.before, record.context)


@given(runs())
def test_every_effect_of_any_run_has_a_rule_and_every_open_call_a_reason(run: Run) -> None:
    for record in run.steps:
        assert_told(record.before, record.context)


def assert_told(before: State, context: Context) -> None:
    """The explanation tells of the step: its effects in order, each with a rule of the specification; its waits."""
    told = explain(before, context)
    following, effects = transition(before, context)
    assert tuple(cause.effect for cause in told.causes) == effects
    for cause in told.causes:
        assert cause.delta == context.delta
        assert cause.rule in RULES
        assert cause.because
    ledger = ledger_of(following)
    entries = () if ledger is None else tuple(ledger.entries)
    assert [wait.call for wait in told.waits] == [entry.call.id for entry in entries if entry.is_open]
    assert all(wait.reasons and all(wait.reasons) for wait in told.waits)


def answered(status: CallStatus, reason: CancelReason | None, ran: bool) -> ToolEnded:
    return ToolEnded(ToolResult(call=call_id(1), provider_id="p", tool="read", status=status, reason=reason, ran=ran))


EVERY_WORD: tuple[Effect, ...] = (
    *(TurnEnded(reason, NO_USAGE) for reason in TurnEndReason),
    *(Refused(UserAction.SAY, reason) for reason in RefusalReason),
    *(answered(*parts) for parts in product(CallStatus, (None, *CancelReason), (False, True))),
)


@pytest.mark.parametrize("effect", EVERY_WORD, ids=lambda effect: type(effect).__name__)
def test_every_word_of_an_effect_has_a_rule(effect: Effect) -> None:
    rule, because = rule_of(effect, Acquired())
    assert rule in RULES
    assert because


@given(effects_of_any_kind)
def test_every_kind_of_effect_has_a_rule(effect: Effect) -> None:
    assert rule_of(effect, Acquired())[0] in RULES


@pytest.mark.parametrize(
    ("effect", "rule"),
    [
        (TurnEnded(TurnEndReason.MAX_TURNS, NO_USAGE), "LIMIT-1"),
        (Refused(UserAction.SAY, RefusalReason.FULL), "DELTA-2"),
        (answered(CallStatus.CANCELLED, CancelReason.USER_CANCELLED, True), "CANCEL-5"),
        (answered(CallStatus.DONE, None, True), "TOOL-8"),
        (answered(CallStatus.ERROR, None, True), "TOOL-6"),
        (answered(CallStatus.ERROR, None, False), "TOOL-5"),
        (answered(CallStatus.LOST, None, False), "TOOL-16"),
    ],
)
def test_the_rule_is_that_of_the_very_case(effect: Effect, rule: str) -> None:
    assert rule_of(effect, Acquired())[0] == rule


# --- waits ------------------------------------------------------------------------------------------------


def reasons(state: State) -> list[tuple[str, ...]]:
    return [wait.reasons for wait in waits_of(state)]


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-3")
def test_a_call_that_is_held_back_names_the_call_that_comes_first() -> None:
    state = working(made_call("write", writes("a")), made_call("read", reads("a")))
    assert reasons(state) == [("its own result",), ("call 1.1, which comes first under the schedule graph",)]
    serial = working(made_call(), made_call(), made_call(), policy=Policy(schedule=Schedule.SERIAL))
    assert reasons(serial)[2] == ("call 1.1, which comes first under the schedule serial",)


@pytest.mark.rule("TOOL-3")
def test_a_call_without_a_slot_says_so() -> None:
    state = working(made_call(), made_call(), policy=Policy(max_parallel=1))
    assert reasons(state)[1] == ("a free slot: all 1 are taken",)


@pytest.mark.rule("TOOL-18")
def test_a_call_that_is_checked_and_one_behind_it_wait_for_the_check() -> None:
    state = working(made_call(verdict=None), made_call())
    assert reasons(state) == [
        ("the check of its input",),
        ("the check of call 1.1, since what that call touches is not known yet",),
    ]


@pytest.mark.rule("TOOL-1")
def test_a_call_behind_an_unchecked_one_that_conflicts_with_nothing_starts() -> None:
    policy = evolve(ASKING_NOBODY, no_profile=NoProfile.NO_CONFLICT)
    calls = (made_call("bare", verdict=None), made_call("bare", verdict=None))
    state = after(working(*calls, policy=policy), ToolChecked(CheckOperation(2), FREE))
    assert reasons(state) == [("the check of its input",), ("its own result",)]


@pytest.mark.rule("TOOL-15")
def test_while_the_reply_streams_every_call_waits_for_its_end() -> None:
    state = after(asked(), made_call(), made_call(verdict=None))
    assert reasons(state) == [("the end of the reply",), ("the end of the reply", "the check of its input")]


@given(states)
def test_whatever_the_state_an_open_call_waits_for_something(state: State) -> None:
    ledger = ledger_of(state)
    entries = () if ledger is None else tuple(ledger.entries)
    waits = {wait.call: wait.reasons for wait in waits_of(state)}
    assert list(waits) == [entry.call.id for entry in entries if entry.is_open]
    asking = [entry.call.id for entry in entries if entry.status is CallStatus.BLOCKED_ON_USER]
    assert all("your approval" in waits[call] for call in asking)


@pytest.mark.rule("TOOL-3")
@given(reachable_states())
def test_what_is_told_to_be_in_the_way_is_in_the_way(state: State) -> None:
    ledger = ledger_of(state)
    if ledger is None or not isinstance(state, Executing):
        return
    open_calls = [str(entry.call.id) for entry in ledger.entries if entry.is_open]
    for wait in waits_of(state):
        (reason,) = wait.reasons
        if reason.startswith("a free slot"):
            assert ledger.running == state.session.settings.policy.max_parallel
        for named in re.findall(r"call (\d+\.\d+)", reason):
            assert open_calls.index(named) < open_calls.index(str(wait.call))


# --- the label --------------------------------------------------------------------------------------------

REST = at_rest()
HALF_DONE = after(working(made_call(), made_call()), ToolSucceeded(RunOperation(1)))
SPOKEN = a(Idle, after(REST, say(), failed()))


@pytest.mark.rule("STATE-6")
@pytest.mark.parametrize(
    ("state", "label"),
    [
        (REST, Interaction.USER_MESSAGE_INITIAL),
        (SPOKEN, Interaction.USER_MESSAGE_REPLY),
        (asked(), Interaction.BUSY),
        (after(asked(), CancelAll()), Interaction.BUSY),
        (working(made_call()), Interaction.TOOL_RUNNING),
        (after(asked(TASK), failed()), Interaction.USER_MESSAGE_REPLY),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_label_follows_from_the_state(state: State, label: Interaction) -> None:
    assert interaction_of(state) is label


@pytest.mark.rule("STATE-6")
@pytest.mark.parametrize(
    ("state", "label"),
    [
        (working(made_call(verdict=None)), Interaction.BUSY),  # a check is open, and no tool runs
        (Initial(), Interaction.USER_MESSAGE_INITIAL),
        (after(SPOKEN, Disposed()), Interaction.USER_MESSAGE_REPLY),
    ],
    ids=["only a check", "not created", "released"],
)
def test_the_label_is_that_of_the_first_line_that_applies(state: State, label: Interaction) -> None:
    assert interaction_of(state) is label


def phases(state: State) -> tuple[State, ...]:
    """Every phase that no run shows yet, over the session of a state."""
    session, stamp, turn = session_of(state), state.stamp, Turn(number=1, opened_ms=0)
    ledger, ending = Ledger(reply=ONE), Ending(reason=TurnEndReason.MODEL_STOP)
    return (
        HandingOff(session=session, stamp=stamp, operation=HandoffOperation(1), goal="g"),
        Thinking(session=session, stamp=stamp, turn=turn, gate=HookOperation(1)),
        Compacting(session=session, stamp=stamp, turn=turn, operation=SummaryOperation(1), until=0),
        Confirming(session=session, stamp=stamp, turn=turn, ledger=ledger),
        Dispatching(session=session, stamp=stamp, turn=turn, ledger=ledger),
        Finishing(session=session, stamp=stamp, turn=turn, ending=ending, hook=HookOperation(1)),
        Backoff(
            session=session,
            stamp=stamp,
            turn=turn,
            timer=TimerOperation(1),
            deadline_ms=9,
            attempt=1,
            error=ErrorClass.SERVER,
        ),
    )


@pytest.mark.rule("STATE-6")
def test_the_labels_of_the_phases_that_no_run_shows_yet() -> None:
    assert [interaction_of(state) for state in phases(SPOKEN)] == [
        Interaction.HANDOFF,
        Interaction.BUSY,
        Interaction.BUSY,
        Interaction.USER_TOOL_APPROVAL,
        Interaction.BUSY,  # sub-agents only, and none runs
        Interaction.BUSY,
        Interaction.BUSY,
    ]
    empty = [Interaction.HANDOFF, Interaction.BUSY, Interaction.BUSY, *[Interaction.USER_MESSAGE_INITIAL] * 4]
    assert [interaction_of(state) for state in phases(REST)] == empty


@pytest.mark.rule("STATE-6")
def test_nothing_waits_where_there_are_no_calls() -> None:
    assert [waits_of(state) for state in (*phases(SPOKEN), REST, Initial())] == [()] * 9


# --- what may be said -------------------------------------------------------------------------------------


def candidates(state: State) -> list[UserDelta]:
    """One of each input that a screen could offer."""
    session, ledger = state.session, ledger_of(state)
    offered: list[UserDelta] = [say("..."), enqueue("..."), steer("...")]
    offered += [CancelAll(), RetryNow(), DismissError(), CompactNow(), StartHandoff("..."), Discard()]
    if session is None:
        return offered
    settings = session.settings
    offered += [Discard(QueueNumber(waiting.number)) for waiting in session.inbox.queue]
    offered += [ChangeMode(ApprovalMode.DEFAULT), Permit(ApprovalRule(decision=Decision.ALLOW))]
    offered += [ChangePolicy(settings.policy), ChangeTools(settings.tools)]
    offered.append(ChangeInstructions(settings.instructions))
    calls = () if ledger is None else (entry.call.id for entry in ledger.entries if entry.is_open)
    for call in calls:
        offered += [CancelCall(call), Approve(call=call), Reject(call=call)]
    return offered


@pytest.mark.rule("STATE-6")
@given(reachable_states())
def test_what_may_be_said_is_exactly_what_would_not_be_refused(state: State) -> None:
    context = [Context(delta, state.stamp.now_ms) for delta in candidates(state)]
    accepted = [ctx.delta for ctx in context if not is_refused(transition(state, ctx).effects)]
    assert list(accepted_inputs(state)) == accepted


@pytest.mark.rule("STATE-6")
@pytest.mark.rule("STATE-3")
@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Initial(), set()),
        (REST, {"Say", "Enqueue", "Steer"}),
        (SPOKEN, {"Say", "Enqueue", "Steer", "RetryNow", "DismissError"}),
        (after(asked(), enqueue("a")), {"Say", "Enqueue", "Steer", "CancelAll", "Discard"}),
        (
            after(working(made_call(), made_call()), ToolSucceeded(RunOperation(1))),
            {"Say", "Enqueue", "Steer", "CancelAll", "CancelCall"},
        ),
        (after(asked(TASK), completed(), completed(reply=2)), set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_be_said_by_phase(state: State, words: set[str]) -> None:
    changes = {"ChangeMode", "Permit", "ChangePolicy", "ChangeTools", "ChangeInstructions"}
    found = {type(delta).__name__ for delta in accepted_inputs(state)}
    assert found == (words | changes if words else set())
