"""Why: each effect has a rule, each open call a reason to wait; and what may be said is exactly what is accepted."""

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from loopkernel.data.blocks import RawInput, ToolResult
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import Refused, ToolEnded, TurnEnded
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import (
    HandoffOperation,
    HookOperation,
    QueueNumber,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import SENT_BY_USER, UserMessage
from loopkernel.data.policy import ApprovalRule, Hook
from loopkernel.data.sessions import Turn
from loopkernel.data.states import (
    AtRest,
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
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolAsked, ToolSucceeded
from loopkernel.data.tools import Decision
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    CompactNow,
    Correct,
    CrashAnswerKind,
    Discard,
    DismissError,
    EditMessage,
    Forget,
    Permit,
    Reject,
    Remember,
    RetryNow,
    StartHandoff,
    Swap,
    UserDelta,
)
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    HookPoint,
    RefusalReason,
    TimerPurpose,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.loop.transition import transition
from loopkernel.testing.run import Run
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.strategies.effects import effects_of_any_kind
from loopkernel.testing.strategies.walks import runs
from loopkernel.views.causes import rule_of
from loopkernel.views.explain import accepted_inputs, explain, interaction_of
from loopkernel.views.waits import waits_of

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
    completed,
    enqueue,
    failed,
    made_call,
    run,
    say,
    session_of,
    steer,
    succeeded,
    text,
    working,
)
from tests.kernel.played import PLAYED
from tests.kernel.plays import plays
from tests.specs.rule_documents import rules

RULES = rules()
SCENARIOS = Path(__file__).resolve().parents[2] / "specs" / "scenarios"


def ledger_of(state: State) -> Ledger | None:
    return state.ledger if isinstance(state, Streaming | Executing | Confirming | Dispatching) else None


# --- causes -----------------------------------------------------------------------------------------------


def scenarios() -> Iterator[Scenario]:
    for file in sorted(SCENARIOS.glob("*.yaml")):
        yield from read_scenario_file(file)


def test_every_effect_of_many_scenarios_has_a_rule_and_every_open_call_a_reason() -> None:
    """Law WHY is judged in every scenario; that the rules exist is seen in every eighth."""
    for scenario in islice(scenarios(), 0, None, 8):
        for record in Drive(scenario, effective_policy(scenario.policy), transition).run().steps:
            assert_told(record.before, record.context)


@given(runs())
def test_every_effect_of_any_run_has_a_rule_and_every_open_call_a_reason(run: Run) -> None:
    for record in run.steps:
        assert_told(record.before, record.context)


@given(plays() | plays(outside=True))
def test_every_effect_of_any_play_has_a_rule(play: Run) -> None:
    for moment in play.steps:
        assert_told(moment.before, moment.context)


def assert_told(before: State, context: Context) -> None:
    """The explanation tells of the step: its effects in order, each with a rule of the specification; its waits."""
    told = explain(before, context)
    following, effects = transition(before, context)
    assert tuple(cause.effect for cause in told.causes) == effects
    for cause in told.causes:
        assert cause.delta == context.delta
        assert cause.rule in RULES
        assert cause.because
    assert told.waits == waits_of(following)  # which tests/kernel/test_waits.py judges


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


# --- the label --------------------------------------------------------------------------------------------

REST = at_rest()
HALF_DONE = after(working(made_call(), made_call()), ToolSucceeded(RunOperation(1)))
SPOKEN = a(Idle, after(REST, say(), failed(ErrorClass.AUTH)))


@pytest.mark.rule("STATE-6")
@pytest.mark.parametrize(
    ("state", "label"),
    [
        (REST, Interaction.USER_MESSAGE_INITIAL),
        (SPOKEN, Interaction.USER_MESSAGE_REPLY),
        (asked(), Interaction.BUSY),
        (after(asked(), CancelAll()), Interaction.BUSY),
        (working(made_call()), Interaction.TOOL_RUNNING),
        (after(asked(TASK), failed(ErrorClass.AUTH)), Interaction.USER_MESSAGE_REPLY),
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


@pytest.mark.rule("STATE-6")
@pytest.mark.rule("STATE-5")
@pytest.mark.parametrize(
    ("state", "label"),
    [
        (asking(made_call("asks")), Interaction.USER_TOOL_APPROVAL),
        (working(made_call("asks"), made_call(), tools=ALL_TOOLS), Interaction.USER_TOOL_APPROVAL),
        (after(working(made_call()), ToolAsked(run(1), "which?")), Interaction.USER_TOOL_APPROVAL),
        (asked(ASKING_NOBODY, made_call("early_read"), tools=ALL_TOOLS), Interaction.BUSY),  # inference runs
        (after(working(made_call()), succeeded(1, background=True), CancelAll()), Interaction.BUSY),
    ],
)
def test_a_call_that_waits_for_a_person_gives_the_label_whatever_else_runs(state: State, label: Interaction) -> None:
    assert interaction_of(state) is label


GATE = OpenHook(operation=HookOperation(1), hook=Hook(point=HookPoint.STOP, name="gate", gated=True))


def phases(state: State) -> tuple[State, ...]:
    """Every phase that no run of this file shows, over the session of a state."""
    session, stamp, turn = session_of(state), state.stamp, Turn(number=1, opened_ms=0)
    ledger, ending = Ledger(reply=ONE), Ending(reason=TurnEndReason.MODEL_STOP)
    return (
        HandingOff(
            session=session, stamp=stamp, within=AtRest(queued=QueueNumber(0)), operation=HandoffOperation(1), goal="g"
        ),
        Thinking(session=session, stamp=stamp, turn=turn, gate=GATE),
        Compacting(session=session, stamp=stamp, within=turn, operation=SummaryOperation(1), cut=Cut(0)),
        Dispatching(session=session, stamp=stamp, turn=turn, ledger=ledger),
        Finishing(session=session, stamp=stamp, turn=turn, ending=ending, gate=GATE),
        Backoff(
            session=session,
            stamp=stamp,
            turn=turn,
            timer=Timer(TimerOperation(1), TimerPurpose.RETRY, 9),
            error=ErrorClass.SERVER,
        ),
    )


@pytest.mark.rule("STATE-6")
def test_the_labels_of_the_other_phases() -> None:
    assert [interaction_of(state) for state in phases(SPOKEN)] == [
        Interaction.HANDOFF,
        Interaction.BUSY,
        Interaction.BUSY,
        Interaction.BUSY,  # sub-agents only, and none runs
        Interaction.BUSY,
        Interaction.BUSY,
    ]
    empty = [Interaction.HANDOFF, Interaction.BUSY, Interaction.BUSY, *[Interaction.USER_MESSAGE_INITIAL] * 3]
    assert [interaction_of(state) for state in phases(REST)] == empty


@pytest.mark.rule("STATE-6")
def test_nothing_waits_where_there_are_no_calls() -> None:
    assert [waits_of(state) for state in (*phases(SPOKEN), REST, Initial())] == [()] * 8


# --- what may be said -------------------------------------------------------------------------------------


def candidates(state: State) -> set[UserDelta]:
    """One of each input that a screen could offer; of each answer, one for each open call."""
    session = state.session
    offered: set[UserDelta] = {say("..."), enqueue("..."), steer("...")}
    offered |= {CancelAll(), RetryNow(), DismissError(), CompactNow(), StartHandoff("..."), Discard()}
    if session is None:
        return offered
    settings = session.settings
    offered |= {Discard(QueueNumber(waiting.number)) for waiting in session.inbox.queue}
    offered |= {ChangeMode(ApprovalMode.DEFAULT), Permit(ApprovalRule(decision=Decision.ALLOW))}
    offered |= {Forget(each) for each in (None, *settings.remembered) if settings.remembered}
    offered |= {ChangePolicy(settings.policy), ChangeTools(settings.tools)}
    offered.add(ChangeInstructions(settings.instructions))
    offered |= {CancelCall(held.call) for held in session.held if held.background}
    sent = [found.id for found in session.thread if isinstance(found, UserMessage) and found.origin in SENT_BY_USER]
    offered |= {EditMessage(message=number, content=text("...")) for number in sent[-1:]}
    ledger = ledger_of(state)
    for entry in () if ledger is None else ledger.entries:
        call, given_input = entry.call.id, entry.given
        if not entry.is_open:
            continue
        offered |= {CancelCall(call), Approve(call=call), Reject(call=call), AnswerQuestion(call=call, value=None)}
        offered |= {AnswerAfterCrash(call=call, kind=kind) for kind in CrashAnswerKind}
        if isinstance(given_input, Json):
            offered |= {Correct(call=call, input=given_input), Swap(call=call, tool=entry.tool, input=given_input)}
    return offered


@pytest.mark.rule("STATE-6")
@given(plays() | plays(outside=True))
def test_what_may_be_said_is_exactly_what_would_not_be_refused(play: Run) -> None:
    state = play.steps[-1].after
    contexts = [Context(delta, state.stamp.now_ms) for delta in candidates(state)]
    accepted = {ctx.delta for ctx in contexts if not is_refused(transition(state, ctx).effects)}
    found = accepted_inputs(state)
    assert set(found) == accepted
    assert len(found) == len(accepted)


BUSY = {"Say", "Enqueue", "Steer", "CancelAll", "EditMessage"}


@pytest.mark.rule("STATE-6")
@pytest.mark.rule("STATE-3")
@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Initial(), set()),
        (REST, {"Say", "Enqueue", "Steer", "StartHandoff"}),
        (SPOKEN, {"Say", "Enqueue", "Steer", "RetryNow", "DismissError", "EditMessage", "StartHandoff"}),
        (after(asked(), enqueue("a")), BUSY | {"Discard"}),
        (
            after(working(made_call(), made_call()), ToolSucceeded(RunOperation(1))),
            BUSY | {"CancelCall"},
        ),
        (
            asking(made_call("asks")),
            BUSY | {"CancelCall", "Approve", "Reject", "Correct", "Swap"},
        ),
        (
            after(working(made_call()), ToolAsked(RunOperation(1), "which?")),
            BUSY | {"CancelCall", "Reject", "AnswerQuestion"},
        ),
        (
            a(Idle, after(working(made_call()), succeeded(1, background=True), completed(reply=2), completed(reply=3))),
            {"Say", "Enqueue", "Steer", "RetryNow", "CancelCall", "EditMessage", "StartHandoff"},
        ),
        (
            asked(ASKING_NOBODY, made_call(call_input=RawInput("{"))),  # there is no input to be corrected
            BUSY | {"CancelCall"},
        ),
        (after(asked(TASK), completed(), completed(reply=2)), set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_be_said_by_phase(state: State, words: set[str]) -> None:
    changes = {"ChangeMode", "Permit", "ChangePolicy", "ChangeTools", "ChangeInstructions"}
    found = {type(delta).__name__ for delta in accepted_inputs(state)}
    assert found == (words | changes if words else set())


@pytest.mark.rule("STATE-6")
def test_every_input_of_a_user_may_be_said_somewhere() -> None:
    """But for what is to be remembered: only a person knows that."""
    states = [step.after for steps in PLAYED.values() for step in steps]
    said = {type(delta) for state in states for delta in accepted_inputs(state)}
    assert said == {*get_args(UserDelta)} - {Remember}
