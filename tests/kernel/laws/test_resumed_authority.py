"""What is said at a restart holds before anything goes on, and a log that nobody vouches for allows nothing."""

import pytest
from attrs import evolve
from loopkernel.data.choices import ApprovalMode, RestartDangerous
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartChild, StartTool
from loopkernel.data.events import ApprovalAsked
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ApprovalRule, Hook, OnRestart, Policy
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import Confirming, Executing, Initial, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import Decision, InvalidCall, Tool, ToolOutput, ToolProfile
from loopkernel.data.user_deltas import AnswerAfterCrash, Approve, ChangePolicy, Correct, CrashAnswerKind
from loopkernel.data.words import CallStatus, HookPoint, StopReason
from loopkernel.judging import check_pairs, check_trace
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord, Transition, fold

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    TWO,
    after,
    asked,
    at_rest,
    call_id,
    checked,
    completed,
    created,
    effects_of,
    made_call,
    of_kind,
    run,
    say,
    session_of,
    starts,
    statuses,
)

ASK = evolve(ASKING_NOBODY, approval_mode=ApprovalMode.DEFAULT)
BYPASS = evolve(ASKING_NOBODY, approval_mode=ApprovalMode.BYPASS)
HEADLESS = evolve(ASKING_NOBODY, approval_mode=ApprovalMode.HEADLESS)
DOUBTED = Resumed(policy=ASK, tools=ALL_TOOLS, doubted=True)


def begun(policy: Policy, *calls: str) -> State:
    """The model has made calls of these tools, which were checked."""
    return worked(*(made_call(name) for name in calls), policy=policy)


def worked(*calls: ModelCall, policy: Policy, tools: tuple[Tool, ...] = ALL_TOOLS) -> State:
    """The model has made these calls."""
    return after(asked(policy, tools=tools), *calls, completed(StopReason.TOOL_USE))


def judged(start: State, *deltas: Delta, kernel: Transition = transition) -> set[str]:
    """The laws that the deltas break, from that state on."""
    steps = fold([LogRecord(delta, 0) for delta in deltas], start, transition=kernel)
    return {breach.law for breach in (*check_trace(steps).breaches, *check_pairs(steps).breaches)}


# --- what is given holds at once ------------------------------------------------------------------------


@pytest.mark.rule("RESUME-7")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ApprovalMode.DEFAULT, CallStatus.BLOCKED_ON_USER),
        (ApprovalMode.HEADLESS, CallStatus.ERROR),
        (ApprovalMode.PLAN, CallStatus.ERROR),
        (ApprovalMode.ACCEPT_EDITS, CallStatus.IN_PROGRESS),
        (ApprovalMode.BYPASS, CallStatus.IN_PROGRESS),
    ],
)
def test_a_run_in_flight_starts_again_only_where_the_mode_of_now_lets_it(
    mode: ApprovalMode, expected: CallStatus
) -> None:
    state = begun(BYPASS, "asks", "read")
    assert statuses(state) == [CallStatus.IN_PROGRESS] * 2
    again = Resumed(policy=evolve(BYPASS, approval_mode=mode))
    resumed = after(state, again)
    assert statuses(resumed)[0] is expected
    assert (call_id(1) in starts(effects_of(state, again))) == (expected is CallStatus.IN_PROGRESS)
    assert judged(state, again) == set()


@pytest.mark.rule("RESUME-7")
def test_a_call_that_a_person_has_approved_keeps_that() -> None:
    state = after(begun(ASK, "asks"), Approve(call=call_id(1)))
    again = Resumed(policy=evolve(ASK, max_parallel=1))
    assert starts(effects_of(state, again)) == [call_id(1)]
    assert judged(state, again) == set()


@pytest.mark.rule("RESUME-7")
@pytest.mark.parametrize(("mode", "status"), [(BYPASS, CallStatus.IN_PROGRESS), (HEADLESS, CallStatus.ERROR)])
@pytest.mark.parametrize("released", [False, True])
def test_a_call_that_waits_is_decided_on_anew(mode: Policy, status: CallStatus, released: bool) -> None:
    state = begun(ASK, "asks", "asks")
    assert isinstance(state, Confirming)
    state = after(state, Disposed()) if released else state
    resumed = after(state, Resumed(policy=mode))
    assert isinstance(resumed, Executing) is (status is CallStatus.IN_PROGRESS)
    if isinstance(resumed, Executing):
        assert statuses(resumed) == [status] * 2
    assert judged(state, Resumed(policy=mode)) == set()


@pytest.mark.rule("RESUME-7")
def test_everything_that_is_given_holds_from_that_step_on() -> None:
    given = Resumed(
        policy=HEADLESS, tools=ALL_TOOLS[:1], instructions="other", remembered=(RememberedTool("read"),), nonce="n"
    )
    settings = session_of(after(at_rest(), given)).settings
    assert (settings.policy, settings.tools, settings.instructions) == (HEADLESS, ALL_TOOLS[:1], "other")
    assert (settings.remembered, settings.nonce) == ((RememberedTool("read"),), "n")
    assert session_of(after(at_rest(), Resumed())).settings == session_of(at_rest()).settings


@pytest.mark.rule("RESUME-7")
@pytest.mark.parametrize(("policy", "resumes"), [(None, True), (BYPASS, True), (HEADLESS, False)])
def test_a_sub_agent_goes_on_unless_what_is_given_would_have_it_asked_about(
    policy: Policy | None, resumes: bool
) -> None:
    asks = Tool(name="child", profile=ToolProfile(child=True, approval=Decision.ASK))
    state = worked(made_call("child"), policy=BYPASS, tools=(asks,))
    again = Resumed(policy=policy)
    assert bool(of_kind(StartChild, effects_of(state, again))) is resumes
    assert judged(state, again) == set()


@pytest.mark.rule("RESUME-7")
@pytest.mark.rule("TOOL-20")
@pytest.mark.parametrize(
    ("approved", "given", "repeated"),
    [
        (True, Resumed(), True),
        (True, Resumed(policy=ASK), True),
        (True, DOUBTED, False),
        (False, Resumed(), True),
        (False, Resumed(policy=ASK), False),
        (False, Resumed(policy=BYPASS, tools=()), False),
    ],
)
def test_a_run_in_the_background_is_repeated_only_where_nobody_would_be_asked(
    approved: bool, given: Resumed, repeated: bool
) -> None:
    state = begun(ASK if approved else BYPASS, "asks")
    state = after(state, Approve(call=call_id(1))) if approved else state
    state = after(state, ToolSucceeded(run(1), ToolOutput(background=True)))
    assert len(session_of(state).held) == 1
    assert bool(of_kind(StartTool, effects_of(state, given))) is repeated
    assert judged(state, given) == set()


# --- a log that nobody vouches for ----------------------------------------------------------------------


@pytest.mark.rule("RESUME-8")
def test_nothing_of_the_settings_of_a_doubted_log_holds() -> None:
    hostile = Created(
        session_id="s", policy=BYPASS, tools=ALL_TOOLS, instructions="obey", remembered=(RememberedTool("danger"),)
    )
    resumed = after(Initial(), hostile, Acquired(), Resumed(doubted=True))
    settings = session_of(resumed).settings
    assert (settings.policy, settings.tools, settings.remembered) == (Policy(), (), ())
    assert settings.instructions == ""


def opened(kind: str) -> State:
    """A log with one open call of `asks` that a person is said to have allowed, at various stages."""
    if kind == "remembered":
        first = evolve(created(ASK, ALL_TOOLS), remembered=(RememberedTool("asks"),))
        return after(Initial(), first, Acquired(), say(), made_call("asks"), completed(StopReason.TOOL_USE))
    if kind == "bypass":
        return begun(BYPASS, "asks")
    if kind == "rule":
        return begun(evolve(ASK, approval_rules=(ApprovalRule(decision=Decision.ALLOW),)), "asks")
    if kind == "waiting for a slot":
        state = begun(evolve(ASK, max_parallel=1), "read", "asks")
        return after(state, Approve(call=call_id(2)))
    if kind == "unchecked":
        return worked(made_call("asks", None), policy=ASK)
    state = begun(ASK, "asks")
    if kind == "approved":
        return after(state, Approve(call=call_id(1)))
    if kind == "edited":
        return after(state, Correct(call=call_id(1), input=Json.of({"path": "b"})))
    if kind == "edited and checked":
        return after(state, Correct(call=call_id(1), input=Json.of({"path": "b"})), checked(1))
    if kind == "released":
        return after(state, Disposed())
    if kind == "resumed before":
        return after(begun(BYPASS, "asks"), Resumed(policy=BYPASS, tools=ALL_TOOLS, doubted=True))
    assert kind == "waiting"
    return state


STAGES = (
    "remembered",
    "bypass",
    "rule",
    "waiting for a slot",
    "unchecked",
    "approved",
    "edited",
    "edited and checked",
    "released",
    "resumed before",
    "waiting",
)


def played(state: State, *deltas: Delta) -> tuple[StepRecord, ...]:
    """The deltas, and then every check that is asked for, answered."""
    steps = list(fold([LogRecord(delta, 0) for delta in deltas], state))
    for command in [effect for each in steps for effect in each.effects if isinstance(effect, CheckCall)]:
        steps.extend(fold([LogRecord(checked(command.operation), 0)], steps[-1].after))
    return tuple(steps)


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("stage", STAGES)
def test_what_a_doubted_log_has_open_is_checked_and_asked_anew(stage: str) -> None:
    state = opened(stage)
    steps = played(state, DOUBTED)
    place = 2 if stage == "waiting for a slot" else 1
    started = [call for each in steps for call in starts(each.effects)]
    assert started == []
    shown = [effect.call for each in steps for effect in of_kind(ApprovalAsked, each.effects)]
    assert call_id(place) in shown
    assert not any(each.breaches for each in (check_trace(steps), check_pairs(steps)))
    answered = played(steps[-1].after, *(Approve(call=call) for call in dict.fromkeys(shown)))
    assert call_id(place) in [call for each in answered for call in starts(each.effects)]
    assert not check_trace((*steps, *answered)).breaches


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("mode", ApprovalMode)
def test_no_mode_but_bypass_starts_what_a_doubted_log_has_open(stage: str, mode: ApprovalMode) -> None:
    steps = played(opened(stage), evolve(DOUBTED, policy=evolve(ASK, approval_mode=mode)))
    assert bool([call for each in steps for call in starts(each.effects)]) is (mode is ApprovalMode.BYPASS)
    assert not check_trace(steps).breaches


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("policy", "starts_it"), [(BYPASS, True), (HEADLESS, False)])
def test_a_doubted_log_goes_by_the_mode_that_a_person_gives_now(stage: str, policy: Policy, starts_it: bool) -> None:
    steps = played(opened(stage), evolve(DOUBTED, policy=policy))
    assert bool([call for each in steps for call in starts(each.effects)]) is starts_it
    assert not any(of_kind(ApprovalAsked, each.effects) for each in steps if stage != "released" or starts_it)
    assert not check_trace(steps).breaches


@pytest.mark.rule("RESUME-8")
def test_a_call_that_could_never_run_is_answered_and_not_asked_about() -> None:
    state = begun(ASK, "asks", "no such tool")
    assert statuses(after(state, DOUBTED))[1:] == statuses(state)[1:]


@pytest.mark.rule("RESUME-8")
def test_a_call_that_is_not_valid_is_not_checked_again() -> None:
    policy = evolve(ASK, hooks=(Hook(point=HookPoint.AFTER_MODEL, name="h", gated=True),))
    state = worked(made_call("read", InvalidCall("no such field")), made_call("read"), policy=policy)
    assert isinstance(state, Streaming)
    commands = of_kind(CheckCall, effects_of(state, evolve(DOUBTED, policy=policy)))
    assert [command.call for command in commands] == [call_id(2)]


@pytest.mark.rule("RESUME-7")
def test_a_sub_agent_whose_tool_is_offered_no_more_does_not_go_on() -> None:
    state, given = begun(BYPASS, "child"), Resumed(policy=evolve(BYPASS, max_turns=7), tools=())
    assert not of_kind(StartChild, effects_of(state, given))
    assert judged(state, given) == set()


@pytest.mark.rule("RESUME-8")
def test_a_word_after_a_crash_is_still_asked_for() -> None:
    policy = evolve(ASK, on_restart=OnRestart(dangerous=RestartDangerous.ASK))
    state = after(begun(policy, "danger"), Resumed())
    assert isinstance(state, Confirming)
    again = after(state, evolve(DOUBTED, policy=policy))
    assert statuses(again) == [CallStatus.BLOCKED_ON_USER]
    rerun = AnswerAfterCrash(call=call_id(1), kind=CrashAnswerKind.RERUN)
    assert starts(effects_of(again, rerun)) == [call_id(1)]
    assert judged(state, evolve(DOUBTED, policy=policy), rerun) == set()


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("point", [HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL])
def test_a_call_that_a_hook_looks_at_is_looked_at_again(point: HookPoint) -> None:
    policy = evolve(BYPASS, hooks=(Hook(point=point, name="h", gated=True),))
    state = begun(policy, "asks")
    if point is HookPoint.AFTER_TOOL:
        state = after(state, ToolSucceeded(run(1), ToolOutput()))
    steps = played(state, evolve(DOUBTED, policy=evolve(policy, approval_mode=ApprovalMode.DEFAULT)))
    assert not [call for each in steps for call in starts(each.effects)]
    assert not check_trace(steps).breaches


@pytest.mark.rule("RESUME-8")
def test_the_sub_agent_of_a_doubted_log_does_not_go_on() -> None:
    state = begun(BYPASS, "child")
    assert not of_kind(StartChild, effects_of(state, DOUBTED))
    assert judged(state, DOUBTED) == set()


# --- keys -----------------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-4")
def test_a_key_is_of_the_run_that_the_call_was_made_in_and_stays_its_own() -> None:
    def keys(state: State, *deltas: Delta) -> list[str]:
        return [effect.key for effect in of_kind(StartTool, effects_of(state, *deltas))]

    def made(nonce: str) -> State:
        return after(Initial(), evolve(created(BYPASS, ALL_TOOLS), nonce=nonce), Acquired(), say(), made_call("asks"))

    done = completed(StopReason.TOOL_USE)
    (one,), (other,) = keys(made("a"), done), keys(made("b"), done)
    assert one != other
    state = after(made("a"), done)
    assert keys(state, Resumed(nonce="c")) == [one]  # the same call
    copy = after(state, Resumed(nonce="c"), ToolSucceeded(run(2), ToolOutput()))
    original = after(state, ToolSucceeded(run(1), ToolOutput()))
    assert isinstance(copy, Streaming) and isinstance(original, Streaming)
    later = evolve(made_call("asks"), operation=TWO), completed(StopReason.TOOL_USE, reply=2)
    assert keys(copy, *later) != keys(original, *later)


# --- the law --------------------------------------------------------------------------------------------


def believes(transition: Transition) -> Transition:
    """A kernel that takes a doubted log for one's own."""
    return lambda state, ctx: transition(
        state, evolve(ctx, delta=evolve(ctx.delta, doubted=False)) if isinstance(ctx.delta, Resumed) else ctx
    )


def goes_on_first(transition: Transition) -> Transition:
    """A kernel that goes on, and then takes the settings that were given."""

    def broken(state: State, ctx: Context) -> Step[State]:
        delta = ctx.delta
        if not isinstance(delta, Resumed) or delta.policy is None:
            return transition(state, ctx)
        first = transition(state, evolve(ctx, delta=evolve(delta, policy=None)))
        then = transition(first.next, evolve(ctx, delta=ChangePolicy(delta.policy)))
        return Step(then.next, (*first.effects, *then.effects))

    return broken


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize("stage", ["bypass", "approved", "waiting for a slot"])
def test_the_law_catches_a_kernel_that_believes_a_doubted_log(stage: str) -> None:
    given = evolve(DOUBTED, policy=evolve(ASK, approval_rules=(ApprovalRule(decision=Decision.ALLOW),)))
    assert "ASKED" in judged(opened(stage), given, kernel=believes(transition))
    assert judged(opened(stage), given) == set()


@pytest.mark.rule("RESUME-7")
@pytest.mark.parametrize("calls", [("asks",), ("read", "asks")])
def test_the_law_catches_a_kernel_that_goes_on_before_it_heeds_what_is_given(calls: tuple[str, ...]) -> None:
    state = begun(BYPASS, *calls)
    assert "ASKED" in judged(state, Resumed(policy=ASK), kernel=goes_on_first(transition))
    assert judged(state, Resumed(policy=ASK)) == set()
