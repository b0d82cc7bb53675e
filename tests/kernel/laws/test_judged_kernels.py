"""What the laws say of kernels that are broken altogether, of requests no projection gives, and of single parts."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.blocks import ToolCall, ToolResult
from loopkernel.data.choices import ApprovalMode, OnToolFailure
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    AnswerTool,
    AskHook,
    CancelTimer,
    CheckCorrection,
    Command,
    HandOff,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
    TellChild,
    TellHook,
)
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    QueueNumber,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import Policy
from loopkernel.data.projected import ProjectedMessage, Role
from loopkernel.data.states import AtRest, Compacting, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Created
from loopkernel.data.threads import Thread
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.user_deltas import ChangeMode, Say
from loopkernel.data.words import CallStatus, CancelReason, HookPoint, TimerPurpose
from loopkernel.judging import KERNEL, check_pairs, check_step, check_trace
from loopkernel.laws import Judged
from loopkernel.laws.call_input import refers
from loopkernel.laws.judging import judge_run
from loopkernel.laws.request_laws import Shown, pair
from loopkernel.laws.retakes import Retakes
from loopkernel.laws.schedule_laws import no_conflict
from loopkernel.laws.shadow.shadow import Shadow
from loopkernel.laws.start_laws import final_args
from loopkernel.laws.views import call_of_run, entry_of_call, started_operation, tool_named, turn_of
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord
from loopkernel.testing.played.player import (
    Player,
)
from loopkernel.testing.played.tools import (
    read,
)
from loopkernel.views.explain import Explanation, explain

from tests.kernel.laws.tampering import CALL, at, changed, more, request_of
from tests.kernel.played import PLAYED

STEPS = PLAYED["reads"]
SAID = STEPS[at(STEPS, Say)]


# --- TOTAL and WHY ----------------------------------------------------------------------------------------------


def told_of(law: str, judged: Judged) -> list[str]:
    """What the law says of one sound step, of which the judged kernel says otherwise."""
    return [breach.detail for breach in check_step(SAID, judged=judged) if breach.law == law]


def giving(outcome: object) -> Judged:
    """A kernel whose every step is this."""

    def broken(state: State, ctx: Context) -> Step[State]:
        return outcome  # type: ignore[return-value]  # not what was promised: that is what is judged

    return evolve(KERNEL, transition=broken)


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (None, "Say in Idle gives no state"),
        ((None, ()), "Say in Idle gives no state"),
        ((SAID.after, None), "Say in Idle gives something that is not an effect"),
        ((SAID.after, ("effect",)), "Say in Idle gives something that is not an effect"),
    ],
)
def test_a_step_that_is_none_is_a_breach_of_total(outcome: object, says: str) -> None:
    assert told_of("TOTAL", giving(outcome)) == [says]


def test_a_version_that_jumps_is_a_breach_of_total() -> None:
    jumped = evolve(SAID, after=evolve(SAID.after, stamp=evolve(SAID.after.stamp, version=9)))
    told = [breach.detail for breach in check_step(jumped) if breach.law == "TOTAL"]
    assert told == ["Say in Idle moves the version by 7, not by 1"]


def explaining_with(change: Callable[[Explanation], Explanation]) -> Judged:
    """The real kernel, explained otherwise."""
    return evolve(KERNEL, explain=lambda state, ctx: change(explain(state, ctx)))


def test_an_explanation_that_raises_explains_nothing() -> None:
    def mute(told: Explanation) -> Explanation:
        raise LookupError("no such rule")

    assert told_of("WHY", explaining_with(mute)) == ["explain raises LookupError for Say in Idle: no such rule"]


def test_every_effect_has_a_cause() -> None:
    told = told_of("WHY", explaining_with(lambda told: evolve(told, causes=())))
    assert told == ["the effects of Say in Idle are not those explained: none"]


def test_every_cause_names_the_delta() -> None:
    other = Say(content=())
    told = told_of(
        "WHY",
        explaining_with(lambda told: evolve(told, causes=tuple(evolve(cause, delta=other) for cause in told.causes))),
    )
    assert told[0] == "InputSettled is put down to another delta"


@pytest.mark.parametrize(("rule", "because"), [("because", "so"), ("TOOL-5", " ")])
def test_every_cause_names_a_rule_and_says_it(rule: str, because: str) -> None:
    told = told_of(
        "WHY",
        explaining_with(
            lambda told: evolve(told, causes=tuple(evolve(cause, rule=rule, because=because) for cause in told.causes))
        ),
    )
    assert told[0] == "InputSettled is explained by no rule"


# --- kernels that raise: only TOTAL says so ---------------------------------------------------------------------


def raising_at(*kinds: type) -> Judged:
    """A kernel that raises at deltas of these kinds."""

    def broken(state: State, ctx: Context) -> Step[State]:
        if isinstance(ctx.delta, kinds):
            raise LookupError(type(ctx.delta).__name__)
        return transition(state, ctx)

    def explain_broken(state: State, ctx: Context) -> Explanation:
        broken(state, ctx)
        return explain(state, ctx)

    return evolve(KERNEL, transition=broken, explain=explain_broken)


def test_what_raises_is_for_total_to_say() -> None:
    judged = raising_at(ToolChecked, ToolSucceeded)
    assert {breach.law for breach in check_trace(STEPS, judged=judged).breaches} == {"TOTAL"}
    assert check_pairs(STEPS, judged=judged).held
    assert check_pairs(PLAYED["imported"], judged=raising_at(Created)).held


def test_reports_that_cannot_be_swapped_are_not_compared() -> None:
    """The second report raises where the first has come before it, or only then."""

    def picky(state: State, ctx: Context) -> Step[State]:
        if isinstance(ctx.delta, ToolSucceeded) and ctx.delta.operation == 3 and ctx.now_ms > STEPS[12].context.now_ms:
            raise LookupError("too late")
        return transition(state, ctx)

    assert judge_run("ADDRESS", STEPS[12:14], evolve(KERNEL, transition=picky)) == ()


def test_reports_that_cancel_siblings_may_not_be_swapped() -> None:
    player = Player(transition)
    player.begin(Policy(on_tool_failure=OnToolFailure.CANCEL_SIBLINGS))
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end(fails=True)
    player.end()
    other = evolve(KERNEL, transition=lambda state, ctx: Step(state, ()))  # would answer nobody, if it were asked
    assert judge_run("ADDRESS", player.steps, other) == ()


def test_a_long_run_is_compared_too() -> None:
    player = Player(transition)
    player.begin()
    player.say("go")
    for _ in range(120):
        player.reply(read("a"))
        player.end()
    assert check_pairs(player.steps).held
    assert check_trace(player.steps).held


def knowing_its_own(change: Callable[[State], State]) -> Judged:
    """A kernel that changes where a step leads if it has not made the state before it."""
    made = {id(step.after) for step in STEPS}

    def broken(state: State, ctx: Context) -> Step[State]:
        after, effects = transition(state, ctx)
        return Step(after if id(state) in made or state is STEPS[0].before else change(after), effects)

    return evolve(KERNEL, transition=broken)


def test_a_restored_run_that_is_in_another_state_is_a_breach_of_fork_eq() -> None:
    judged = knowing_its_own(lambda state: evolve(state, stamp=state.stamp.at(state.stamp.now_ms + 1)))
    told = judge_run("FORK-EQ", STEPS, judged)
    assert told[0].detail == "the run that is restored is in another state after Created in Initial"
    assert judge_run("PURE", STEPS, judged) == ()


def test_a_restored_run_that_raises_is_a_breach_of_fork_eq() -> None:
    def raising(state: State) -> State:
        raise LookupError("whose state is this?")

    told = judge_run("FORK-EQ", STEPS, knowing_its_own(raising))
    assert "raises LookupError: whose state is this? where the run is restored" in told[0].detail
    assert check_trace(STEPS, judged=knowing_its_own(raising)).held


def test_a_state_that_cannot_be_written_is_not_restored() -> None:
    """That is for WRITE-AHEAD to say."""
    session = SAID.before.session
    assert session is not None
    unwritable = evolve(session, settings=evolve(session.settings, instructions="\ud800"))
    before: State = evolve(SAID.before, session=unwritable)
    after, effects = transition(before, SAID.context)
    assert judge_run("FORK-EQ", [StepRecord(before, SAID.context, after, effects)], KERNEL) == ()


# --- requests ---------------------------------------------------------------------------------------------------


def test_results_are_the_users_and_calls_the_models() -> None:
    call = ToolCall(id=CALL, provider_id="p", tool="read", input=Json.of({}))
    result = ToolResult(call=CALL, provider_id="p", tool="read", status=CallStatus.DONE)
    confused = (ProjectedMessage(Role.USER, (call,)), ProjectedMessage(Role.ASSISTANT, (result,)))
    assert pair([Shown(request_of("reads").request, confused, Thread())]) == [
        "in request 1, call 1.1 is not in a message of the model",
        "in request 1, the answer to call 1.1 is not in a message of the user",
    ]


def test_calls_at_the_very_end_have_no_answers() -> None:
    call = ToolCall(id=CALL, provider_id="p", tool="read", input=Json.of({}))
    unanswered = (ProjectedMessage(Role.ASSISTANT, (call,)),)
    assert pair([Shown(request_of("reads").request, unanswered, Thread())]) == [
        "in request 1, call 1.1 (read) has 0 answers right after it"
    ]


# --- steps that say less than they should ------------------------------------------------------------------------


def test_a_start_without_a_ledger_is_not_a_conflict_but_unfounded() -> None:
    start = next(effect for step in STEPS for effect in step.effects if isinstance(effect, StartTool))
    step = changed("reads", Say, more(start))[-1]
    resting = Shadow(step.before, Retakes(KERNEL)).follow(evolve(step, after=SAID.before))
    assert no_conflict(resting) is None
    assert final_args(resting) == ["call 1.1 starts, but the ledger has no such call"]


def test_a_verdict_without_a_ledger_is_no_verdict() -> None:
    checked = evolve(STEPS[at(STEPS, ToolChecked)], before=SAID.before, effects=())
    assert final_args(Shadow(SAID.before, Retakes(KERNEL)).follow(checked)) == []


def test_a_failure_of_no_known_run_has_no_siblings() -> None:
    failure = Context(ToolFailed(RunOperation(99)), 0)
    assert judge_run("SIBLING", [StepRecord(SAID.after, failure, SAID.after, ())], KERNEL) == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"$result": "p1"}, True),
        ({"of": [1, {"$result": "p1"}]}, True),
        ({"name": "$result"}, False),
        ({"$result": "p1", "and": 1}, False),
        ({"plain": 1}, False),
        (["$result"], False),
    ],
)
def test_a_reference_is_an_object_with_one_key(value: JsonValue, found: bool) -> None:
    assert refers(Json.of(value)) is found


# --- views ------------------------------------------------------------------------------------------------------

NOTHING = Json.of({})
THREAD = Thread()
STOP_HOOK = HookContext(point=HookPoint.STOP, name="h", thread=THREAD)


@pytest.mark.rule("DELTA-3")
@pytest.mark.parametrize(
    ("command", "started"),
    [
        (
            StartChild(
                operation=RunOperation(1),
                call=CALL,
                run=1,
                tool="t",
                input=NOTHING,
                created=Created(session_id="child"),
                task="look",
            ),
            (OperationKind.RUN, 1),
        ),
        (
            StartTimer(operation=TimerOperation(2), purpose=TimerPurpose.RETRY, deadline_ms=0),
            (OperationKind.TIMER, 2),
        ),
        (AskHook(HookOperation(3), STOP_HOOK), (OperationKind.HOOK, 3)),
        (CheckCorrection(CorrectionOperation(4), THREAD), (OperationKind.CORRECTION, 4)),
        (Summarise(operation=SummaryOperation(5), thread=THREAD, cut=Cut(0)), (OperationKind.SUMMARY, 5)),
        (HandOff(operation=HandoffOperation(6), goal="g", thread=THREAD), (OperationKind.HANDOFF, 6)),
        (request_of("reads"), (OperationKind.MODEL, 1)),
        (AbortModel(ModelOperation(1)), None),
        (AbortTool(RunOperation(1), CancelReason.EDITED), None),
        (AbortOther(OperationKind.HOOK, 1), None),
        (AnswerTool(operation=RunOperation(1), value=None), None),
        (CancelTimer(TimerOperation(1)), None),
        (TellHook(STOP_HOOK), None),
        (TellChild(RunOperation(1), ChangeMode(ApprovalMode.PLAN)), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_command_that_starts_something_names_its_operation(
    command: Command, started: tuple[OperationKind, int] | None
) -> None:
    assert started_operation(command) == started


def test_a_turn_goes_on_while_it_is_compacted() -> None:
    turn, session = turn_of(SAID.after), SAID.after.session
    assert turn is not None
    assert session is not None
    stamp = SAID.after.stamp
    waiting = Compacting(session=session, stamp=stamp, within=turn, operation=SummaryOperation(1), cut=Cut(0))
    assert turn_of(waiting) == turn
    assert turn_of(evolve(waiting, within=AtRest(queued=QueueNumber(0)))) is None


def test_what_is_not_there_is_not_found() -> None:
    assert entry_of_call(None, CALL) is None
    assert call_of_run(SAID.before, RunOperation(1)) is None
    assert SAID.before.session is not None
    assert tool_named(SAID.before.session.settings, "nothing") is None
