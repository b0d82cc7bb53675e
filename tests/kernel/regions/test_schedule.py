"""Which call is decided on, asked about or started next: from a plan that follows from the calls, and nothing else."""

from typing import TypeVar

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.choices import (
    ApprovalMode,
    EarlyStart,
    NoProfile,
    RunCalls,
    Schedule,
    WriteConflict,
)
from loopkernel.data.effects import StartTimer, StartTool
from loopkernel.data.events import ApprovalAsked, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry, Links, Person, QuestionWait
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Confirming, Executing, Initial, State, Streaming
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, Tool, ToolProfile, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import Approve, CancelCall, ChangePolicy, ChangeTools, Permit
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, StopReason, TimerPurpose
from loopkernel.planning.approval import decide
from loopkernel.planning.scheduling import blockers, places_of
from loopkernel.regions.claims import is_output_call, offered
from loopkernel.regions.schedule import (
    ask,
    forget_plan,
    holder_elsewhere,
    may_start_early,
    planned,
    set_timer,
    start_ready,
    start_run,
    time_approval,
    timeout_of,
)
from loopkernel.transition import transition

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
    ends,
    entries_of,
    ledger_of,
    made_call,
    named,
    of_kind,
    reads,
    recorded_call,
    run,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    timer,
    working,
    writes,
)
from tests.kernel.plays import Play, plays

DONE, QUEUED, RUNNING, WAITING = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.BLOCKED_ON_USER,
)
SESSION = at_rest(tools=ALL_TOOLS).session
S = TypeVar("S", Streaming, Executing, Confirming, Initial)


def under(schedule: Schedule) -> Policy:
    """The policy in which nobody is asked, with that schedule."""
    return evolve(ASKING_NOBODY, schedule=schedule)


# --- the plan -------------------------------------------------------------------------------------------


def restored(state: State) -> State:
    """The state as it is read from its text, in which nothing stands that follows from the rest."""
    if isinstance(state, Streaming | Executing | Confirming | Initial) and state.ledger is not None:
        return evolve(state, ledger=evolve(state.ledger, plan=None, ids=None))
    return state


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("RESUME-1")
@given(plays())
def test_the_plan_follows_from_the_calls_the_settings_and_the_held_runs(play: Play) -> None:
    """Whoever restores a state plans anew, and the same follows, whatever comes."""
    for moment in play.moments:
        again = transition(restored(moment.before), moment.context)
        assert (again.next, again.effects) == (moment.step.next, moment.step.effects)


@pytest.mark.rule("TOOL-3")
@given(plays())
def test_no_call_waits_that_may_start(play: Play) -> None:
    """Of the calls that wait for nothing before them, each is allowed and waits for a slot: none is forgotten."""
    for moment in play.moments:
        state = moment.step.next
        if not isinstance(state, Executing | Confirming):
            continue
        settings, ledger = state.session.settings, planned(forget_plan(state.ledger), state.session)
        assert ledger.plan is not None
        limit = settings.policy.max_parallel
        for place, entry in enumerate(ledger.entries):
            ready = entry.status is QUEUED and entry.check is None and not is_output_call(entry, settings)
            if not ready or blockers(ledger.plan, place) or holder_elsewhere(ledger, state.session, place) is not None:
                continue
            tool = offered(settings, entry.tool)
            assert tool is not None
            assert isinstance(entry.given, Json)
            decision = decide(settings.policy, settings.remembered, tool, entry.given)
            assert decision is Decision.ALLOW or (decision is Decision.ASK and entry.person.approved)
            assert limit is not None
            assert ledger.running + ledger.asking >= limit


def test_a_plan_is_made_once_and_forgotten_when_it_no_longer_holds() -> None:
    ledger = working(made_call(), made_call()).ledger
    assert ledger.plan is not None
    assert planned(ledger, SESSION) is ledger
    forgotten = forget_plan(ledger)
    assert forgotten.plan is None
    assert forgotten == ledger  # a plan is no part of what a ledger is
    assert forget_plan(forgotten) is forgotten


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-19")
def test_a_new_plan_knows_what_runs_what_waits_and_what_has_not_stopped() -> None:
    calls = (made_call("write", writes("a")), made_call("write", writes("b")), made_call("asks", writes("c")))
    state = after(
        working(*calls, made_call("write", writes("a", "b", "c")), made_call(), tools=ALL_TOOLS),
        CancelCall(call_id(1)),
        ToolAsked(run(2), "?"),
        succeeded(3),
    )
    plan = planned(forget_plan(ledger_of(state)), session_of(state)).plan
    assert plan is not None
    assert (list(places_of(plan.held)), list(places_of(plan.running))) == ([0], [1])
    assert list(places_of(plan.open)) == [1, 2, 3]
    assert list(places_of(plan.candidates)) == [3]
    assert list(places_of(blockers(plan, 3))) == [0, 1, 2]


# --- batches --------------------------------------------------------------------------------------------


def batches_of(state: State) -> list[int | None]:
    """The first place of the batch of each call."""
    return [entry.batch for entry in entries_of(state)]


BATCHES = under(Schedule.BATCHES)
A, B = ("write", writes("a")), ("write", writes("b"))


@pytest.mark.rule("TOOL-3")
def test_a_batch_starts_when_the_one_before_has_ended() -> None:
    state: State = working(*(made_call(*call) for call in (A, B, A, B)), policy=BATCHES)
    assert batches_of(state) == [0, 0, 2, 2]
    assert statuses(state) == [RUNNING, RUNNING, QUEUED, QUEUED]
    state = after(state, succeeded(2))
    assert statuses(state) == [RUNNING, DONE, QUEUED, QUEUED]  # b is free, and its batch has to wait
    assert starts(effects_of(state, succeeded(1))) == [call_id(3), call_id(4)]


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize("verdict", [InvalidCall("no"), UnknownTool()])
def test_calls_that_are_answered_without_running_are_passed_over(verdict: Verdict) -> None:
    state = working(made_call(*A), made_call("read", verdict), made_call(*B), policy=BATCHES)
    assert batches_of(state) == [0, None, 0]


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-18")
def test_batches_are_made_as_far_as_it_is_known_what_the_calls_use() -> None:
    state = working(made_call(*A), made_call("write", None), made_call(*B), policy=BATCHES)
    assert batches_of(state) == [0, None, None]
    following, effects = step(state, checked(1, writes("a")))
    assert batches_of(following) == [0, 1, 1]
    assert starts(effects) == []
    assert starts(effects_of(following, succeeded(1))) == [call_id(2), call_id(3)]


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("CALL-1")
@pytest.mark.parametrize(("claims", "batches"), [(reads("c"), [0, 0, 0]), (ValidCall(None), [0, 1, 2])])
def test_a_call_with_references_is_in_a_batch_by_what_its_first_check_says(
    claims: ValidCall, batches: list[int]
) -> None:
    refers = made_call("read", claims, provider_id="q", call_input=Json.of({"path": {"$result": "p"}}))
    state = working(made_call(*A), refers, made_call(*B), policy=BATCHES)
    assert batches_of(state) == batches
    following = after(state, succeeded(1), checked(1, reads("d")))
    assert batches_of(following) == batches
    assert batches_of(after(restored(following), CancelCall(call_id(3)))) == batches


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("RESUME-1")
def test_a_batch_keeps_the_members_that_have_ended() -> None:
    calls = (made_call(*A), made_call("read", reads("b")), made_call("write", None))
    state = after(working(*calls, policy=BATCHES), succeeded(1))
    for waiting in (state, restored(state)):
        assert batches_of(after(waiting, checked(1, writes("a")))) == [0, 0, 2]


@pytest.mark.rule("TOOL-3")
def test_a_batch_is_fixed_whatever_becomes_of_its_calls() -> None:
    state = working(*(made_call(*call) for call in (A, A, B)), policy=BATCHES)
    assert batches_of(state) == [0, 1, 1]
    following = after(state, CancelCall(call_id(2)), ChangePolicy(BATCHES))
    assert batches_of(following) == [0, 1, 1]
    assert statuses(following)[2] is QUEUED


# --- what conflicts ---------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize("no_profile", NoProfile)
def test_a_tool_without_a_profile_conflicts_with_everything_or_by_policy_with_nothing(no_profile: NoProfile) -> None:
    policy = evolve(ASKING_NOBODY, no_profile=no_profile)
    state = working(made_call("bare"), made_call("bare"), made_call("read", reads("a")), policy=policy)
    assert ledger_of(state).running == (3 if no_profile is NoProfile.NO_CONFLICT else 1)


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-2")
def test_a_serial_tool_runs_alone() -> None:
    assert working(made_call("serial"), made_call(), tools=ALL_TOOLS).ledger.running == 1


@pytest.mark.rule("TOOL-2")
def test_a_call_whose_resources_are_not_known_runs_alone() -> None:
    assert working(made_call("read", ValidCall(None)), made_call()).ledger.running == 1
    assert working(made_call(), made_call("read", ValidCall(None))).ledger.running == 1


@pytest.mark.rule("CALL-6")
@pytest.mark.parametrize("choice", WriteConflict)
def test_two_writers_of_one_resource_overlap_by_policy(choice: WriteConflict) -> None:
    policy = evolve(ASKING_NOBODY, write_conflict=choice)
    state = working(made_call(*A), made_call(*A), made_call("read", reads("a")), policy=policy)
    overlap = choice is WriteConflict.LAST_WRITE
    assert statuses(state) == [RUNNING, RUNNING if overlap else QUEUED, QUEUED]


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-18")
def test_behind_a_call_that_is_not_checked_nothing_starts() -> None:
    state = working(made_call(), made_call(verdict=None), made_call())
    assert [entry.runs for entry in entries_of(state)] == [1, 0, 0]
    plan = state.ledger.plan
    assert plan is not None
    assert list(places_of(blockers(plan, 2))) == [1]
    assert starts(effects_of(state, checked(1))) == [call_id(2), call_id(3)]


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("DELTA-8")
def test_a_change_of_policy_or_tools_changes_what_conflicts() -> None:
    policy = evolve(ASKING_NOBODY, no_profile=NoProfile.NO_CONFLICT, max_parallel=1)
    state = working(made_call("bare"), made_call("read", reads("a")), policy=policy)
    more_slots = evolve(policy, max_parallel=None)
    assert len(starts(effects_of(state, ChangePolicy(more_slots)))) == 1
    assert starts(effects_of(state, ChangePolicy(ASKING_NOBODY))) == []
    alone = ChangeTools((BARE, Tool(name="read", profile=ToolProfile(serial=True))))
    assert starts(effects_of(state, alone, ChangePolicy(more_slots))) == []


# --- slots and decisions ----------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-3")
def test_a_run_that_waits_for_an_answer_holds_its_slot_and_a_call_that_waits_for_approval_holds_none() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    state = working(made_call("asks"), made_call(), made_call(), policy=policy, tools=ALL_TOOLS)
    assert statuses(state) == [WAITING, RUNNING, QUEUED]
    following, effects = step(state, ToolAsked(run(1), "?"))
    assert (statuses(following), starts(effects)) == ([WAITING, WAITING, QUEUED], [])
    assert starts(effects_of(following, succeeded(1))) == [call_id(3)]


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-5")
def test_calls_are_asked_about_and_denied_when_all_slots_are_taken() -> None:
    calls = (made_call(), made_call("asks"), made_call("denied"), made_call("child"))
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    effects = effects_of(asked(policy, tools=ALL_TOOLS), *calls, completed())
    assert starts(effects) == [call_id(1)]
    assert of_kind(ApprovalAsked, effects) == [ApprovalAsked(call_id(2))]
    assert [place for place, _, _ in ends(effects)] == [4, 3]


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("ASK-1")
@pytest.mark.rule("DELTA-8")
def test_a_call_that_waits_for_a_slot_is_decided_on_once_more_when_it_starts() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    state = working(made_call(), made_call(), policy=policy)
    denied = effects_of(state, Permit(ApprovalRule(decision=Decision.DENY)), succeeded(1))
    assert (starts(denied), ends(denied)[0][0]) == ([], 1)
    gone = effects_of(state, ChangeTools(()))
    assert [text_of(ended.result.content) for ended in of_kind(ToolEnded, gone)] == [
        'There is no tool named "read". Use one of the tools that are offered.'
    ]
    put = effects_of(state, Permit(ApprovalRule(decision=Decision.ASK)))
    assert named(put) == ["ApprovalAsked"]


@pytest.mark.rule("ASK-4")
@pytest.mark.rule("ASK-1")
def test_an_approved_call_that_waits_for_a_slot_is_not_asked_about_again_and_may_still_be_denied() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    state = after(working(made_call(), made_call("asks"), policy=policy, tools=ALL_TOOLS), Approve(call=call_id(2)))
    assert statuses(state) == [RUNNING, QUEUED]
    assert starts(effects_of(state, succeeded(1))) == [call_id(2)]
    assert ends(effects_of(state, Permit(ApprovalRule(decision=Decision.DENY, tool="asks")))) == [
        (2, CallStatus.ERROR, None)
    ]


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
    settings = Settings(session_id="s", policy=Policy(tool_timeout_ms=by_policy), tools=() if tool is None else (tool,))
    entry = LedgerEntry(call=recorded_call(tool="read" if tool is None else tool.name))
    assert timeout_of(entry, settings) == limit_ms


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
    started = start_run(ledger_with(entry), SESSION, 0, NOTHING, 0)
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
    put = ask(ledger, session, 0, ApprovalWait(), 1_000)
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
    untimed = time_approval(ledger_with(entry), session, 0, 0)
    assert (untimed.ledger.entries[0].timer, untimed.effects) == (None, ())


@pytest.mark.rule("ASK-6")
@given(st.integers(0, 9), st.sampled_from(TimerPurpose))
def test_a_timer_belongs_to_its_entry(deadline_ms: int, purpose: TimerPurpose) -> None:
    found = set_timer(ledger_with(LedgerEntry(call=recorded_call())), SESSION, 0, purpose, deadline_ms)
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
        (settings_with(named_early(CHILD, ToolProfile(effect=EffectClass.READ_ONLY, early=True, child=True))), False),
        (settings_with(EARLY_READ, policy=Policy(approval_rules=(ApprovalRule(decision=Decision.ASK),))), False),
        (settings_with(EARLY_READ, policy=Policy(approval_rules=(ApprovalRule(decision=Decision.DENY),))), False),
        (settings_with(named_early(EARLY_WRITE), policy=Policy(approval_mode=ApprovalMode.PLAN)), False),
    ],
)
def test_what_may_start_while_its_reply_streams(settings: Settings, early: bool) -> None:
    assert may_start_early(LedgerEntry(call=EARLY_CALL, verdict=FREE), settings) is early


@pytest.mark.rule("TOOL-9")
def test_what_does_not_parse_never_starts_early() -> None:
    entry = LedgerEntry(call=recorded_call(tool="early_read", call_input=RawInput("{")))
    assert not may_start_early(entry, settings_with(EARLY_READ))


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
def test_where_nothing_may_start_early_nothing_is_planned_before_the_reply_is_complete() -> None:
    state = asked(ASKING_NOBODY, made_call(), made_call())
    assert state.ledger.plan is None
    assert start_ready(state.ledger, state.session, 0, early=True).ledger is state.ledger


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
    found = start_ready(ledger_with(entry), SESSION, 0)
    assert found.effects == ()


def test_a_ledger_without_calls_starts_nothing() -> None:
    ledger = Ledger(reply=recorded_call().id.reply)
    assert start_ready(ledger, SESSION, 0).effects == ()
