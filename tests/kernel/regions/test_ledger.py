"""The calls of a reply: checked, started by schedule and slots, answered exactly once; judged against a model."""

import pytest
from attrs import evolve, frozen
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.choices import ApprovalMode, NoProfile, NoProfileApproval, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CheckCall, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.operations import Operations
from loopkernel.data.policy import Policy
from loopkernel.data.states import Executing, State
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, Tool, ToolProfile, UnknownTool, Verdict
from loopkernel.data.user_deltas import CancelCall, ChangePolicy, ChangeTools
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.planning.scheduling import Claimant, conflict
from loopkernel.regions.ledger import (
    add_call,
    answer_faulty,
    blocker,
    cancel_open,
    drop,
    offered,
    open_check,
    open_run,
    recheck,
    results,
    take_verdict,
)

from tests.kernel.building import (
    ASKING_NOBODY,
    BARE,
    FREE,
    NOTHING,
    TOOLS,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    effects_of,
    made_call,
    of_kind,
    reads,
    recorded_call,
    step,
    working,
    writes,
)

EMPTY = Ledger(reply=ModelOperation(1), first_check=1, first_run=1)
NONE_MINTED = Operations()
SETTINGS = at_rest().session.settings


# --- which calls run: the schedule against a model --------------------------------------------------------

verdicts = st.sampled_from((reads("a"), writes("a"), reads("a/b"), writes("b"), reads("c"), FREE))


@frozen
class Plan:
    """Calls of one reply with what they touch, how they are scheduled, and in which order runs end."""

    verdicts: tuple[Verdict, ...]
    schedule: Schedule
    slots: int | None
    picks: tuple[int, ...]


plans = st.builds(
    Plan,
    st.lists(verdicts, min_size=1, max_size=5).map(tuple),
    st.sampled_from((Schedule.GRAPH, Schedule.GRAPH, *Schedule)),
    st.sampled_from((None, None, 1, 2, 3)),
    st.lists(st.integers(0, 9), min_size=5, max_size=5).map(tuple),
)


def model_of_starts(plan: Plan, running: set[int], answered: set[int]) -> set[int]:
    """The places that must have started by now: in order, each that nothing unanswered before it holds back."""
    running = set(running)
    claimants = [
        Claimant(place, None if isinstance(verdict, UnknownTool | InvalidCall) else verdict.claims)
        for place, verdict in enumerate(plan.verdicts)
    ]
    for place, claimant in enumerate(claimants):
        earlier = [other for other in claimants[:place] if other.position not in answered]
        held_back = [other for other in earlier if plan.schedule is not Schedule.GRAPH or conflict(other, claimant)]
        free = plan.slots is None or len(running) < plan.slots
        if place not in running | answered and not held_back and free:
            running.add(place)
    return running


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-7")
@given(plans)
@example(Plan((writes("a"), writes("a"), reads("a"), writes("b")), Schedule.GRAPH, None, (0,) * 5))
@example(Plan((reads("a"), reads("a"), writes("a"), reads("a")), Schedule.GRAPH, None, (0,) * 5))
def test_a_call_starts_as_soon_as_nothing_holds_it_back_and_never_before(plan: Plan) -> None:
    policy = Policy(schedule=plan.schedule, max_parallel=plan.slots)
    state: State = working(*(made_call(verdict=verdict) for verdict in plan.verdicts), policy=policy)
    answered: set[int] = set()
    running: set[int] = set()
    for pick in plan.picks[: len(plan.verdicts)]:
        executing = a(Executing, state)
        running = model_of_starts(plan, running - answered, answered)
        entries = list(executing.ledger.entries)
        assert {n for n, entry in enumerate(entries) if entry.status is CallStatus.IN_PROGRESS} == running
        assert_counts(executing.ledger)
        place = sorted(running)[pick % len(running)]
        operation = entries[place].operation
        assert operation is not None
        answered.add(place)
        state = after(state, ToolSucceeded(operation))
    assert not isinstance(state, Executing)


def assert_counts(ledger: Ledger) -> None:
    """What the ledger counts is what a scan of it finds."""
    entries = list(ledger.entries)
    assert ledger.unanswered == sum(entry.is_open for entry in entries)
    assert ledger.running == sum(entry.status is CallStatus.IN_PROGRESS for entry in entries)
    assert all(entry.status is not CallStatus.QUEUED for entry in entries[: ledger.next_queued])
    for entry in entries:
        assert (entry.result is None) is entry.is_open
        assert entry.result is None or entry.result.status is entry.status


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize("no_profile", NoProfile)
def test_a_tool_without_a_profile_conflicts_with_everything_or_by_policy_with_nothing(no_profile: NoProfile) -> None:
    policy = evolve(ASKING_NOBODY, no_profile=no_profile)
    state = working(made_call("bare"), made_call("bare"), made_call("read", reads("a")), policy=policy)
    started = 3 if no_profile is NoProfile.NO_CONFLICT else 1
    assert a(Executing, state).ledger.running == started


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-2")
def test_a_serial_tool_runs_alone() -> None:
    alone = Tool(name="alone", profile=ToolProfile(serial=True))
    state = working(made_call("alone"), made_call(), tools=(*TOOLS, alone))
    assert a(Executing, state).ledger.running == 1


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-18")
def test_behind_a_call_that_is_not_checked_nothing_starts() -> None:
    state = working(made_call(), made_call(verdict=None), made_call())
    assert [entry.runs for entry in a(Executing, state).ledger.entries] == [1, 0, 0]
    assert blocker(a(Executing, state).ledger, 2, SETTINGS) == 1
    assert blocker(a(Executing, state).ledger, 1, SETTINGS) == 0
    assert blocker(a(Executing, state).ledger, 0, SETTINGS) is None


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize(("no_profile", "starts"), [(NoProfile.NO_CONFLICT, [2]), (NoProfile.CONFLICT, [])])
def test_what_an_unchecked_call_cannot_touch_may_start_before_it(no_profile: NoProfile, starts: list[int]) -> None:
    policy = evolve(ASKING_NOBODY, no_profile=no_profile)
    state = asked(policy, made_call("bare", verdict=None), made_call("bare"))
    assert [start.call.position for start in of_kind(StartTool, effects_of(state, completed()))] == starts


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("DELTA-8")
def test_a_change_of_policy_or_tools_changes_what_conflicts() -> None:
    policy = evolve(ASKING_NOBODY, no_profile=NoProfile.NO_CONFLICT, max_parallel=1)
    state = working(made_call("bare"), made_call("read", reads("a")), policy=policy)
    more_slots = evolve(policy, max_parallel=None)
    assert len(of_kind(StartTool, effects_of(state, ChangePolicy(more_slots)))) == 1
    assert of_kind(StartTool, effects_of(state, ChangePolicy(ASKING_NOBODY))) == []
    alone = ChangeTools((BARE, Tool(name="read", profile=ToolProfile(serial=True))))
    assert of_kind(StartTool, effects_of(state, alone, ChangePolicy(more_slots))) == []


@pytest.mark.rule("TOOL-14")
@pytest.mark.rule("TOOL-5")
def test_a_run_is_started_with_the_input_and_a_key_of_its_own_call() -> None:
    calls = [made_call(call_input=Json.of({"path": path})) for path in ("a", "a")]
    effects = effects_of(asked(), *calls, completed())
    starts = of_kind(StartTool, effects)
    assert [(start.operation, start.call, start.run, start.tool) for start in starts] == [
        (1, call_id(1), 1, "read"),
        (2, call_id(2), 1, "read"),
    ]
    assert all(start.input == Json.of({"path": "a"}) for start in starts)
    assert [start.key for start in starts] == ["s/1/1.1", "s/1/1.2"]


# --- why a call may not run -------------------------------------------------------------------------------

DENIED = Tool(name="denied", profile=ToolProfile(approval=Decision.DENY))
ASKS = Tool(name="asks", profile=ToolProfile(approval=Decision.ASK))
CHILD = Tool(name="child", profile=ToolProfile(child=True))
DANGEROUS = Tool(name="dangerous", profile=ToolProfile(effect=EffectClass.DANGEROUS))
ALL_TOOLS = (*TOOLS, DENIED, ASKS, CHILD, DANGEROUS)


def answer_to(call: ModelCall, policy: Policy = ASKING_NOBODY) -> ToolEnded | StartTool:
    """What becomes of the only call of a reply."""
    effects = effects_of(asked(policy, tools=ALL_TOOLS), call, completed())
    (found,) = [effect for effect in effects if isinstance(effect, ToolEnded | StartTool)]
    return found


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("TOOL-1")
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (made_call(verdict=UnknownTool()), 'no tool named "read"'),
        (made_call("missing"), 'no tool named "missing"'),
        (made_call(verdict=InvalidCall("no path")), "no path"),
        (made_call(call_input=RawInput("{")), "not valid JSON"),
        (made_call(verdict=None, call_input=RawInput("{")), "not valid JSON"),
        (made_call("denied"), "denied by policy"),
        (made_call("asks"), "asking a person for approval is not supported"),
        (made_call("child"), "a sub-agent is not supported"),
        (made_call(needs=("p0",)), "depends on another call is not supported"),
        (made_call(call_input=Json.of({"path": {"$result": "p0"}})), "depends on another call is not supported"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_that_may_not_run_is_answered_and_told_why(call: ModelCall, told: str) -> None:
    found = a(ToolEnded, answer_to(call))
    assert (found.result.status, found.result.ran, found.result.reason) == (CallStatus.ERROR, False, None)
    assert told in text_of(found.result.content)


@pytest.mark.rule("TOOL-1")
@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("ASK-1")
def test_a_tool_without_a_profile_needs_a_person_unless_policy_says_otherwise() -> None:
    refused = a(ToolEnded, answer_to(made_call("bare"), Policy()))
    assert "asking a person" in text_of(refused.result.content)
    allowed = Policy(no_profile_approval=NoProfileApproval.ALLOW)
    assert isinstance(answer_to(made_call("bare"), allowed), StartTool)
    denied = a(ToolEnded, answer_to(made_call("bare"), Policy(approval_mode=ApprovalMode.HEADLESS)))
    assert "denied" in text_of(denied.result.content)
    assert isinstance(answer_to(made_call("bare"), Policy(approval_mode=ApprovalMode.BYPASS)), StartTool)
    assert isinstance(answer_to(made_call("dangerous"), Policy()), StartTool)


def test_the_offered_tool_is_found_by_its_name() -> None:
    assert offered(SETTINGS, "bare") is BARE
    assert offered(SETTINGS, "missing") is None


def test_an_entry_that_waits_or_is_answered_is_left_as_it_is() -> None:
    unchecked = add_call(EMPTY, NONE_MINTED, recorded_call(), None).ledger
    assert answer_faulty(unchecked, 0, SETTINGS) == (unchecked, ())
    answered, _ = answer_faulty(take_verdict(unchecked, 0, UnknownTool()), 0, SETTINGS)
    assert answer_faulty(answered, 0, SETTINGS) == (answered, ())


def test_arguments_that_do_not_parse_never_start_even_where_a_verdict_lets_them() -> None:
    call = recorded_call(call_input=RawInput("{"))
    ledger = evolve(
        add_call(EMPTY, NONE_MINTED, call, None).ledger,
        entries=EMPTY.entries.append(LedgerEntry(call=call, verdict=FREE)),
    )
    answered, effects = answer_faulty(ledger, 0, SETTINGS)
    assert answered.unanswered == 0
    assert len(effects) == 1


# --- operations -------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("DELTA-3")
@given(st.lists(st.sampled_from((None, FREE, UnknownTool())), max_size=5))
def test_a_call_is_checked_once_unless_its_verdict_came_along(given_verdicts: list[Verdict | None]) -> None:
    ledger, operations = EMPTY, NONE_MINTED
    checks: list[CheckCall] = []
    for position, verdict in enumerate(given_verdicts, 1):
        added = add_call(ledger, operations, recorded_call(position), verdict)
        ledger, operations = added.ledger, added.operations
        checks += of_kind(CheckCall, added.effects)
    asked_about = [call_id(n) for n, verdict in enumerate(given_verdicts, 1) if verdict is None]
    assert [(check.operation, check.call) for check in checks] == list(enumerate(asked_about, 1))
    for check in checks:
        place = open_check(ledger, check.operation)
        assert place == check.call.position - 1
        assert open_check(take_verdict(ledger, place, FREE), check.operation) is None
    assert open_check(ledger, CheckOperation(0)) is None
    assert open_check(ledger, CheckOperation(len(checks) + 1)) is None
    assert ledger.unanswered == len(given_verdicts)


@pytest.mark.rule("DELTA-2")
def test_only_the_run_of_an_open_call_is_open() -> None:
    ledger = working(made_call(), made_call()).ledger
    assert [open_run(ledger, RunOperation(number)) for number in range(4)] == [None, 0, 1, None]
    ended = a(Executing, after(working(made_call(), made_call()), ToolSucceeded(RunOperation(1)))).ledger
    assert [open_run(ended, RunOperation(number)) for number in range(4)] == [None, None, 1, None]


@pytest.mark.rule("TOOL-18")
def test_a_call_can_be_checked_once_more() -> None:
    checked = add_call(EMPTY, NONE_MINTED, recorded_call(), FREE)
    again = recheck(checked.ledger, checked.operations, 0, NOTHING)
    twice = recheck(again.ledger, again.operations, 0, NOTHING)
    assert [of_kind(CheckCall, step.effects)[0].operation for step in (again, twice)] == [1, 2]
    assert [open_check(twice.ledger, CheckOperation(number)) for number in (1, 2)] == [None, 0]
    assert twice.ledger.entries[0].verdict is None


@pytest.mark.rule("TOOL-15")
def test_a_retracted_reply_leaves_no_check_open() -> None:
    added = add_call(EMPTY, NONE_MINTED, recorded_call(), None)
    dropped = drop(add_call(added.ledger, added.operations, recorded_call(2), FREE).ledger, added.operations)
    assert [list(kind) for kind in dropped.abandoned[:3]] == [[], [1], []]


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-4")
@pytest.mark.parametrize("reason", CancelReason)
def test_a_cancel_aborts_first_then_answers_each_open_call_once(reason: CancelReason) -> None:
    calls = (made_call(), made_call(verdict=UnknownTool()), made_call(), made_call(verdict=None))
    state = working(*calls)
    cut = cancel_open(state.ledger, state.session.operations, reason)
    assert cut.effects[:2] == (AbortTool(RunOperation(1), reason), AbortTool(RunOperation(2), reason))
    ended = [effect.result for effect in of_kind(ToolEnded, cut.effects[2:])]
    assert len(ended) == len(cut.effects) - 2
    assert [(result.call, result.status, result.reason, result.ran) for result in ended] == [
        (call_id(1), CallStatus.CANCELLED, reason, True),
        (call_id(3), CallStatus.CANCELLED, reason, True),
        (call_id(4), CallStatus.CANCELLED, reason, False),
    ]
    assert cut.ledger.unanswered == cut.ledger.running == 0
    assert_counts(cut.ledger)
    assert [result.call.position for result in results(cut.ledger)] == [1, 2, 3, 4]
    assert [list(kind) for kind in cut.operations.abandoned[:3]] == [[], [1], [1, 2]]


@pytest.mark.rule("TOOL-4")
@pytest.mark.rule("TOOL-8")
@given(st.lists(st.booleans(), min_size=1, max_size=3))
def test_an_answer_is_kept_for_ever(cancels: list[bool]) -> None:
    state: State = working(*(made_call() for _ in (*cancels, True)))
    for position, cancelled in enumerate(cancels, 1):
        answers: tuple[Delta, Delta] = (CancelCall(call_id(position)), ToolSucceeded(RunOperation(position)))
        state = after(state, answers[0] if cancelled else answers[1])
        assert [step(state, late).next for late in answers] == [state, state]
    statuses = [entry.status for entry in a(Executing, state).ledger.entries]
    assert statuses[:-1] == [CallStatus.CANCELLED if cancelled else CallStatus.DONE for cancelled in cancels]
