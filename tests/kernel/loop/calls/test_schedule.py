"""Which call is decided on or started next: from a plan that follows from the calls, and nothing else."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import NoProfile, Schedule, WriteConflict
from loopkernel.data.events import ApprovalAsked, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Confirming, Executing, Initial, State, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Decision, InvalidCall, Tool, ToolProfile, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import Approve, CancelCall, ChangePolicy, ChangeTools, Permit
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.approval import decide
from loopkernel.loop.algorithms.scheduling import blockers, places_of
from loopkernel.loop.calls.ledger import is_output_call, offered
from loopkernel.loop.calls.schedule import forget_plan, holder_elsewhere, planned, unjudged_output
from loopkernel.loop.transition import transition
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    BARE,
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
    run,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    working,
    writes,
)
from tests.kernel.plays import plays

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


# --- the plan -------------------------------------------------------------------------------------------


def restored(state: State) -> State:
    """The state as it is read from its text, in which nothing stands that follows from the rest."""
    if isinstance(state, Streaming | Executing | Confirming | Initial) and state.ledger is not None:
        return evolve(state, ledger=evolve(state.ledger, plan=None, ids=None))
    return state


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("RESUME-1")
@given(plays())
def test_the_plan_follows_from_the_calls_the_settings_and_the_held_runs(play: Run) -> None:
    """Whoever restores a state plans anew, and the same follows, whatever comes."""
    for record in play.steps:
        again = transition(restored(record.before), record.context)
        assert (again.next, again.effects) == (record.after, record.effects)


@pytest.mark.rule("TOOL-3")
@given(plays())
def test_no_call_waits_that_may_start(play: Run) -> None:
    """Of the calls that wait for nothing before them, each is allowed and waits for a slot: none is forgotten."""
    for record in play.steps:
        state = record.after
        if not isinstance(state, Executing | Confirming):
            continue
        settings, ledger = state.session.settings, planned(forget_plan(state.ledger), state.session)
        assert ledger.plan is not None
        if unjudged_output(ledger, settings) is not None:  # it may take the place of all others
            continue
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
    assert forgotten == ledger  # a plan is not part of what a ledger is
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


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-3")
def test_a_new_plan_knows_what_is_to_start_again() -> None:
    two = working(made_call(), made_call("write", writes("a")), tools=ALL_TOOLS)
    one_slot = ChangePolicy(evolve(ASKING_NOBODY, max_parallel=1))
    state = after(two, one_slot, Resumed())
    plan = planned(forget_plan(ledger_of(state)), session_of(state)).plan
    assert plan is not None
    assert statuses(state) == [RUNNING, QUEUED]
    assert list(places_of(plan.restarting)) == [1]


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
    assert [place for place, _, _ in ends(effects)] == [3]


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
