"""Runs that are started, questions that are put, and calls that start while their reply streams."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import ApprovalMode, EarlyStart, OutputCalls, RunCalls, Schedule, WriteConflict
from loopkernel.data.effects import StartTimer, StartTool
from loopkernel.data.events import ApprovalAsked
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry, Links, Person, QuestionWait
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import Executing
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.data.user_deltas import CancelCall, ChangeTools
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, StopReason, TimerPurpose
from loopkernel.loop.calls.ledger import set_timer
from loopkernel.loop.calls.schedule import holder_elsewhere, may_start_early, start_ready
from loopkernel.loop.calls.starting import ask, start_run, time_approval, timeout_of

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    BARE,
    CHILD,
    EARLY_READ,
    EARLY_WRITE,
    FREE,
    NOTHING,
    READ,
    TWO,
    a,
    after,
    asked,
    at_rest,
    call_id,
    checked,
    completed,
    effects_of,
    entries_of,
    ledger_of,
    made_call,
    named,
    of_kind,
    reads,
    recorded_call,
    session_of,
    starts,
    statuses,
    step,
    stopped,
    succeeded,
    timer,
    working,
    writes,
)
from tests.kernel.drafts import drafted, fresh, unspent

DONE, QUEUED, RUNNING, WAITING = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.BLOCKED_ON_USER,
)
SESSION = at_rest(tools=ALL_TOOLS).session


def under(schedule: Schedule) -> Policy:
    """The policy in which nobody is asked, with that schedule."""
    return evolve(ASKING_NOBODY, schedule=schedule)


A, B = ("write", writes("a")), ("write", writes("b"))

# --- runs of other replies --------------------------------------------------------------------------------


def second_reply(*calls: ModelCall, policy: Policy = ASKING_NOBODY) -> Executing:
    """A reply behind one whose only call, a write of `a`, goes on in the background."""
    first = working(made_call(*A), policy=policy, tools=ALL_TOOLS)
    made = [evolve(call, operation=TWO) for call in calls]
    return a(Executing, after(first, succeeded(1, background=True), *made, completed(StopReason.TOOL_USE, reply=2)))


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
@pytest.mark.parametrize("more", [0, 1])
def test_a_call_waits_for_a_run_of_an_earlier_reply_that_holds_what_it_needs(more: int) -> None:
    state = second_reply(made_call("read", reads("a")), *[made_call(*B)] * more)
    assert statuses(state) == [QUEUED, *[RUNNING] * more]
    assert holder_elsewhere(state.ledger, state.session, 0) == 0
    assert starts(effects_of(state, succeeded(1))) == [call_id(1, reply=2)]


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize(
    ("policy", "call", "waits"),
    [
        (ASKING_NOBODY, made_call(*A), True),
        (ASKING_NOBODY, made_call(*B), False),
        (ASKING_NOBODY, made_call("serial"), True),
        (under(Schedule.ALL), made_call(*A), False),
        (evolve(ASKING_NOBODY, write_conflict=WriteConflict.LAST_WRITE), made_call(*A), False),
        (evolve(ASKING_NOBODY, write_conflict=WriteConflict.LAST_WRITE), made_call("read", reads("a")), True),
    ],
)
def test_what_a_call_waits_for_elsewhere_is_what_it_conflicts_with(
    policy: Policy, call: ModelCall, waits: bool
) -> None:
    state = second_reply(call, policy=policy)
    assert (statuses(state) == [QUEUED]) is waits
    assert holder_elsewhere(state.ledger, state.session, 0) == (0 if waits else None)


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-8")
def test_a_run_that_has_not_stopped_keeps_what_it_took_when_its_tool_is_offered_otherwise() -> None:
    state = after(working(made_call("bare"), made_call(*A)), CancelCall(call_id(1)))  # it may use anything
    tools = session_of(state).settings.tools
    changed = ChangeTools(tuple(evolve(tool, profile=tool.profile or ToolProfile()) for tool in tools))
    assert starts(effects_of(state, changed)) == []
    assert starts(effects_of(state, changed, stopped(1))) == [call_id(2)]


@pytest.mark.rule("TOOL-17")
def test_a_held_run_of_the_same_reply_is_the_plans_and_one_that_is_not_known_holds_nothing() -> None:
    state = after(working(made_call(*A), made_call(*A)), CancelCall(call_id(1)))
    assert holder_elsewhere(ledger_of(state), session_of(state), 1) is None
    unchecked = second_reply(made_call(verdict=None))
    assert holder_elsewhere(unchecked.ledger, unchecked.session, 0) is None


# --- starts -----------------------------------------------------------------------------------------------


def timed(timeout_ms: int | None) -> Tool:
    return Tool(name="read", profile=ToolProfile(timeout_ms=timeout_ms))


@pytest.mark.rule("TOOL-10")
@pytest.mark.parametrize(
    ("by_policy", "tool", "limit_ms"),
    [
        (120_000, READ, 120_000),
        (120_000, timed(7), 7),
        (None, timed(7), 7),
        (None, READ, None),
        (120_000, timed(0), 0),
        (9, BARE, 9),
        (9, None, 9),
    ],
)
def test_the_time_of_a_run_is_that_of_its_profile_else_the_policys(
    by_policy: int | None, tool: Tool | None, limit_ms: int | None
) -> None:
    settings = Settings(session_id="s", policy=Policy(tool_timeout_ms=by_policy))
    assert timeout_of(tool, settings) == limit_ms


@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("TOOL-5")
def test_a_run_starts_with_a_timer_that_bounds_it() -> None:
    following, effects = step(asked(ASKING_NOBODY, made_call(), made_call()), completed(), now_ms=1_000)
    assert of_kind(StartTimer, effects) == [
        StartTimer(operation=timer(number), purpose=TimerPurpose.TOOL_TIMEOUT, deadline_ms=121_000) for number in (1, 2)
    ]
    assert [entry.timer for entry in entries_of(following)] == [
        Timer(timer(number), TimerPurpose.TOOL_TIMEOUT, 121_000) for number in (1, 2)
    ]
    untimed = effects_of(asked(evolve(ASKING_NOBODY, tool_timeout_ms=None), made_call()), completed())
    assert named(untimed)[2:] == ["StartTool"]


def ledger_with(entry: LedgerEntry) -> Ledger:
    return Ledger(
        reply=entry.call.id.reply,
        entries=Vector.of([entry]),
        unanswered=1,
        waiting=int(entry.status is WAITING),
        linked=entry.links is not None,
        first_run=1,
        first_timer=1,
    )


@pytest.mark.rule("RESUME-4")
def test_a_call_that_waited_for_a_person_waits_no_more_when_it_starts() -> None:
    entry = LedgerEntry(call=recorded_call(), verdict=FREE, runs=1, status=WAITING)
    started = start_run(drafted(SESSION, ledger=ledger_with(entry)), 0, NOTHING, None)
    assert (started.ledger.waiting, started.ledger.running) == (0, 1)
    (start,) = of_kind(StartTool, started.effects)
    assert (start.run, start.input, start.key) == (2, NOTHING, "s/1/1.1")


# --- questions to a person --------------------------------------------------------------------------------


@pytest.mark.rule("ASK-2")
@pytest.mark.rule("ASK-6")
@pytest.mark.parametrize("limit_ms", [None, 300])
def test_a_call_that_is_put_to_a_person_may_have_only_so_much_time(limit_ms: int | None) -> None:
    session = at_rest(evolve(ASKING_NOBODY, approval_timeout_ms=limit_ms)).session
    ledger = ledger_with(LedgerEntry(call=recorded_call(), person=Person(answered=True)))
    put = ask(drafted(session, 1_000, ledger=ledger), 0, ApprovalWait())
    (entry,) = put.ledger.entries
    assert (entry.status, entry.person) == (WAITING, Person(wait=ApprovalWait(), asked=True, answered=True))
    assert put.ledger.waiting == 1
    if limit_ms is None:
        assert put.effects == (ApprovalAsked(call_id(1)),)
    else:
        assert put.effects == (
            ApprovalAsked(call_id(1)),
            StartTimer(operation=timer(1), purpose=TimerPurpose.APPROVAL_TIMEOUT, deadline_ms=1_300),
        )
        assert put.ledger.place_of_timer(timer(1)) == 0


@pytest.mark.rule("ASK-6")
@pytest.mark.parametrize("wait", [CrashWait(), QuestionWait("?")])
def test_only_an_approval_has_its_time(wait: CrashWait | QuestionWait) -> None:
    session = at_rest(evolve(ASKING_NOBODY, approval_timeout_ms=9)).session
    entry = LedgerEntry(
        call=recorded_call(), person=Person(wait=wait), timer=Timer(timer(1), TimerPurpose.APPROVAL_TIMEOUT, 1)
    )
    untimed = time_approval(drafted(session, ledger=ledger_with(entry)), 0)
    assert (untimed.ledger.entries[0].timer, untimed.effects) == (None, ())


@pytest.mark.rule("ASK-6")
@given(st.integers(0, 9), st.sampled_from(TimerPurpose))
def test_a_timer_belongs_to_its_entry(deadline_ms: int, purpose: TimerPurpose) -> None:
    found = set_timer(drafted(SESSION, ledger=ledger_with(LedgerEntry(call=recorded_call()))), 0, purpose, deadline_ms)
    assert found.ledger.entries[0].timer == Timer(timer(1), purpose, deadline_ms)
    assert found.effects == (StartTimer(operation=timer(1), purpose=purpose, deadline_ms=deadline_ms),)


# --- calls that start early -------------------------------------------------------------------------------


EARLY_CALL = recorded_call(tool="early_read")


def settings_with(*tools: Tool, policy: Policy = ASKING_NOBODY) -> Settings:
    return Settings(session_id="s", policy=policy, tools=tools)


def named_early(tool: Tool, profile: ToolProfile | None = None) -> Tool:
    """The tool under the name that the call asks for."""
    return Tool(name="early_read", profile=profile or tool.profile)


@pytest.mark.rule("TOOL-9")
@pytest.mark.parametrize(
    ("settings", "early"),
    [
        (settings_with(EARLY_READ), True),
        (settings_with(named_early(EARLY_WRITE)), True),
        (settings_with(EARLY_READ, policy=Policy(early_start=EarlyStart.NEVER)), False),
        (settings_with(EARLY_READ, policy=Policy(run_calls=RunCalls.STOP_REASON)), False),
        (settings_with(EARLY_READ, policy=Policy(run_calls=RunCalls.EITHER)), True),
        (settings_with(EARLY_WRITE), False),  # the tool of the call is not offered
        (settings_with(Tool(name="early_read"), EARLY_WRITE), False),  # it has no profile
        (settings_with(named_early(READ), EARLY_WRITE), False),  # it may not start early
        (settings_with(Tool(name="early_read", profile=ToolProfile(early=True))), False),  # it is dangerous
        (settings_with(named_early(CHILD, ToolProfile(effect=EffectClass.READ_ONLY, early=True, child=True))), True),
        (settings_with(EARLY_READ, policy=Policy(approval_rules=(ApprovalRule(decision=Decision.ASK),))), False),
        (settings_with(EARLY_READ, policy=Policy(approval_rules=(ApprovalRule(decision=Decision.DENY),))), False),
        (settings_with(named_early(EARLY_WRITE), policy=Policy(approval_mode=ApprovalMode.PLAN)), False),
    ],
)
def test_what_may_start_while_its_reply_streams(settings: Settings, early: bool) -> None:
    assert may_start_early(LedgerEntry(call=EARLY_CALL, verdict=FREE), Session(settings=settings)) is early


@pytest.mark.rule("TOOL-9")
def test_what_does_not_parse_never_starts_early() -> None:
    entry = LedgerEntry(call=recorded_call(tool="early_read", call_input=RawInput("{")))
    assert not may_start_early(entry, Session(settings=settings_with(EARLY_READ)))


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CALL-2")
def test_a_call_starts_early_as_soon_as_the_schedule_would_start_it() -> None:
    first, early = step(asked(tools=ALL_TOOLS), made_call("early_read", reads("a")))
    assert starts(early) == [call_id(1)]
    behind, none = step(first, made_call("early_write", writes("a")))
    assert starts(none) == []
    beside, some = step(behind, made_call("early_write", writes("b")))
    assert starts(some) == [call_id(3)]
    assert starts(effects_of(beside, succeeded(1))) == [call_id(2)]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CALL-2")
def test_what_may_not_start_early_is_neither_asked_about_nor_denied_before_the_reply_is_complete() -> None:
    calls = (made_call("asks"), made_call("denied"), made_call("read"), made_call("early_read"))
    streaming = asked(ASKING_NOBODY, *calls, tools=ALL_TOOLS)
    assert statuses(streaming) == [QUEUED, QUEUED, QUEUED, RUNNING]
    effects = effects_of(streaming, completed())
    assert named(effects)[2:] == ["ApprovalAsked", "ToolEnded", "StartTool", "StartTimer"]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-18")
def test_a_call_may_start_early_when_its_check_is_in() -> None:
    streaming = asked(ASKING_NOBODY, made_call("early_read", None), tools=ALL_TOOLS)
    assert starts(effects_of(streaming, checked(1))) == [call_id(1)]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CALL-5")
def test_a_call_starts_early_also_beside_an_output_that_is_being_checked() -> None:
    """Whether the output takes the place of the others is seen when the reply is complete."""
    output_first = (made_call("read", None), made_call("early_read", reads("a")))
    policy = evolve(ASKING_NOBODY, output_tool="read", output_calls=OutputCalls.SKIP)
    streaming = asked(policy, *output_first, tools=ALL_TOOLS)
    assert statuses(streaming) == [QUEUED, RUNNING]


@pytest.mark.rule("TOOL-9")
def test_where_nothing_may_start_early_nothing_is_planned_before_the_reply_is_complete() -> None:
    state = asked(ASKING_NOBODY, made_call(), made_call())
    assert state.ledger.plan is None
    assert unspent(start_ready(fresh(state), early=True)).ledger is state.ledger


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-3")
def test_early_starts_keep_to_the_slots() -> None:
    calls = [made_call("early_read")] * 3
    state = asked(evolve(ASKING_NOBODY, max_parallel=2), *calls, tools=ALL_TOOLS)
    assert statuses(state) == [RUNNING, RUNNING, QUEUED]
    assert starts(effects_of(state, succeeded(1))) == [call_id(3)]


@pytest.mark.rule("CALL-1")
def test_an_entry_whose_references_are_open_is_not_looked_at() -> None:
    entry = LedgerEntry(call=recorded_call(), verdict=FREE, links=Links(sources=(), refers=True))
    found = unspent(start_ready(drafted(SESSION, ledger=ledger_with(entry))))
    assert found.effects == ()


def test_a_ledger_without_calls_starts_nothing() -> None:
    ledger = Ledger(reply=recorded_call().id.reply)
    assert unspent(start_ready(drafted(SESSION, ledger=ledger))).effects == ()
