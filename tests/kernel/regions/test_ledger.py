"""The calls of a reply as a region: linked, checked, answered exactly once, and what an answer means for others."""

from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, TextBlock, ToolCall, text_of
from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import ApprovalWait, Edit, Ledger, LedgerEntry, Links, Person, QuestionWait
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import Policy
from loopkernel.data.states import Executing, State
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import InvalidCall, UnknownTool, Verdict
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, UserAction
from loopkernel.regions.held_runs import Ledgered
from loopkernel.regions.ledger import (
    add_call,
    answer_all_faulty,
    answer_faulty,
    answer_of,
    ask_check,
    cancelled_result,
    close,
    drop_check,
    error_result,
    noted,
    open_check,
    open_run,
    outputs_of,
    results,
    shut,
    take_verdict,
)
from loopkernel.regions.schedule import planned

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    NOTHING,
    a,
    after,
    asked,
    at_rest,
    call_id,
    check,
    checked,
    completed,
    effects_of,
    ends,
    entries_of,
    made_call,
    named,
    of_kind,
    recorded_call,
    run,
    starts,
    statuses,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.plays import Play, plays

EMPTY = Ledger(reply=ModelOperation(1), first_check=1, first_run=1, first_timer=1)
SESSION = at_rest(tools=ALL_TOOLS).session


def linked_call(position: int, name: str, call_input: JsonValue = None, after: tuple[str, ...] = ()) -> ToolCall:
    """A call under that id of its provider."""
    return ToolCall(id=call_id(position), provider_id=name, tool="read", input=Json.of(call_input), after=after)


def ledger_with(*calls: ToolCall, verdict: Verdict | None = FREE) -> Ledgered:
    """A ledger to which these calls were added."""
    found = Ledgered(EMPTY, SESSION)
    for call in calls:
        added = add_call(found.ledger, found.session, call, verdict)
        found = Ledgered(added.ledger, added.session, (*found.effects, *added.effects))
    return found


# --- what a ledger counts ---------------------------------------------------------------------------------


def ledgers_of(play: Play) -> Iterator[Ledger]:
    for moment in play.moments:
        ledger = getattr(moment.step.next, "ledger", None)
        if isinstance(ledger, Ledger):
            yield ledger


@pytest.mark.rule("STATE-5")
@pytest.mark.rule("TOOL-4")
@given(plays())
def test_what_a_ledger_counts_is_what_a_scan_of_it_finds(play: Play) -> None:
    for ledger in ledgers_of(play):
        entries = list(ledger.entries)
        assert ledger.unanswered == sum(entry.is_open for entry in entries)
        assert ledger.running == sum(entry.status is CallStatus.IN_PROGRESS for entry in entries)
        assert ledger.waiting == sum(entry.status is CallStatus.BLOCKED_ON_USER for entry in entries)
        assert ledger.asking == sum(entry.question is not None for entry in entries)
        assert ledger.checking == sum(entry.check is not None for entry in entries)
        assert ledger.linked == any(entry.links is not None for entry in entries)
        for place, entry in enumerate(entries):
            assert (entry.result is None) is entry.is_open
            assert entry.result is None or (entry.result.status is entry.status and entry.result.call == entry.call.id)
            assert (entry.person.wait is not None) == (entry.status is CallStatus.BLOCKED_ON_USER)
            assert entry.is_open or (entry.timer, entry.check) == (None, None)
            assert entry.check is None or open_check(ledger, entry.check) == place
            assert entry.operation is None or ledger.place_of_run(entry.operation) == place
            assert entry.timer is None or ledger.place_of_timer(entry.timer.operation) == place


@pytest.mark.rule("TOOL-4")
@pytest.mark.rule("TOOL-14")
@given(plays())
def test_a_terminal_status_never_changes_and_the_calls_stay_in_their_order(play: Play) -> None:
    for moment in play.moments:
        before, following = (getattr(state, "ledger", None) for state in (moment.before, moment.step.next))
        if isinstance(before, Ledger) and isinstance(following, Ledger) and before.reply == following.reply:
            for entry, later in zip(before.entries, following.entries, strict=False):
                assert later.call == entry.call
                assert entry.is_open or (later.status, later.result) == (entry.status, entry.result)


# --- calls come in ----------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("DELTA-3")
@given(st.lists(st.sampled_from((None, FREE, UnknownTool())), max_size=5))
def test_a_call_is_checked_once_unless_its_verdict_came_along(given_verdicts: list[Verdict | None]) -> None:
    ledger, session = EMPTY, SESSION
    checks: list[CheckCall] = []
    for position, verdict in enumerate(given_verdicts, 1):
        added = add_call(ledger, session, recorded_call(position), verdict)
        ledger, session = added.ledger, added.session
        checks += of_kind(CheckCall, added.effects)
    asked_about = [call_id(n) for n, verdict in enumerate(given_verdicts, 1) if verdict is None]
    assert [(found.operation, found.call) for found in checks] == list(enumerate(asked_about, 1))
    assert (ledger.unanswered, ledger.checking) == (len(given_verdicts), len(checks))
    for found in checks:
        place = open_check(ledger, found.operation)
        assert place == found.call.position - 1
        judged = take_verdict(ledger, session, place, FREE)
        assert open_check(judged.ledger, found.operation) is None
        assert judged.ledger.checking == ledger.checking - 1
    assert open_check(ledger, check(0)) is None
    assert open_check(ledger, check(len(checks) + 1)) is None


@pytest.mark.rule("TOOL-18")
def test_what_does_not_parse_is_invalid_whatever_verdict_came_along() -> None:
    for verdict in (None, FREE, UnknownTool()):
        added = add_call(EMPTY, SESSION, recorded_call(call_input=RawInput("{")), verdict)
        assert isinstance(added.ledger.entries[0].verdict, InvalidCall)
        assert (added.effects, added.ledger.checking) == ((), 0)


@given(st.lists(st.integers(0, 3), max_size=5))
def test_numbers_that_belong_to_no_call_are_passed_over(gaps: list[int]) -> None:
    places, numbers = Vector[int](), list[int]()
    for place, gap in enumerate(gaps):
        numbers.append((numbers[-1] + 1 if numbers else 0) + gap)
        places = noted(places, numbers[-1], place)
    found = {index: place for index, place in enumerate(places) if place >= 0}
    assert found == {number: place for place, number in enumerate(numbers)}


# --- calls that depend on others --------------------------------------------------------------------------

NAMES = ("c0", "c1", "c2", "none")


@st.composite
def linked_calls(draw: st.DrawFn) -> list[ToolCall]:
    """Calls of one reply that name each other, themselves, or none that there is; providers reuse ids."""
    calls: list[ToolCall] = []
    for position in range(1, draw(st.integers(1, 6)) + 1):
        referred = draw(st.lists(st.sampled_from(NAMES), max_size=2))
        value: JsonValue = {f"part {n}": {"$result": name} for n, name in enumerate(referred)}
        declared = draw(st.lists(st.sampled_from(NAMES), max_size=1))
        calls.append(linked_call(position, draw(st.sampled_from(NAMES[:3])), value, tuple(declared)))
    return calls


def named_by(call: ToolCall) -> list[str]:
    assert isinstance(call.input, Json)
    value = call.input.value()
    assert isinstance(value, dict)
    return [*call.after, *(part["$result"] for part in value.values() if isinstance(part, dict))]  # type: ignore[list-item]  # texts, as built


@pytest.mark.rule("CALL-1")
@given(linked_calls())
def test_a_call_depends_on_the_latest_earlier_call_of_each_name(calls: list[ToolCall]) -> None:
    ledger = ledger_with(*calls).ledger
    for place, call in enumerate(calls):
        earlier = {other.provider_id: index for index, other in enumerate(calls[:place])}
        named_ones = named_by(call)
        entry = ledger.entries[place]
        if not named_ones:
            assert entry.links is None
            continue
        sources = tuple(sorted({earlier[name] for name in named_ones if name in earlier}))
        assert entry.links == Links(sources=sources, refers=named_ones[len(call.after) :] != [])
        assert isinstance(entry.verdict, InvalidCall) == any(name not in earlier for name in named_ones)


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-4")
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (linked_call(2, "b", after=("b",)), "depends on itself"),
        (linked_call(2, "b", after=("c",)), '"c"'),
        (linked_call(2, "b", {"path": {"$result": "later"}}), '"later"'),
        (linked_call(2, "b", {"path": {"$result": 1}}), "$result"),
    ],
)
def test_a_structural_error_is_found_before_the_call_is_checked_and_says_which_call_is_meant(
    call: ToolCall, told: str
) -> None:
    found = ledger_with(linked_call(1, "a"), call, verdict=None)
    assert len(of_kind(CheckCall, found.effects)) == 1  # that of the first
    verdict = found.ledger.entries[1].verdict
    assert isinstance(verdict, InvalidCall)
    assert told in verdict.why
    assert '"b"' in verdict.why


@pytest.mark.rule("CALL-1")
def test_arguments_that_do_not_parse_refer_to_nothing_and_may_declare() -> None:
    broken_call = ToolCall(id=call_id(2), provider_id="b", tool="read", input=RawInput('{"$result"'), after=("a",))
    entry = ledger_with(linked_call(1, "a"), broken_call).ledger.entries[1]
    assert entry.links == Links(sources=(0,), refers=False)
    assert isinstance(entry.verdict, InvalidCall)


# --- operations -------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
def test_only_the_run_of_an_open_call_is_open() -> None:
    ledger = working(made_call(), made_call()).ledger
    assert [open_run(ledger, run(number)) for number in range(4)] == [None, 0, 1, None]
    ended = a(Executing, after(working(made_call(), made_call()), ToolSucceeded(run(1)))).ledger
    assert [open_run(ended, run(number)) for number in range(4)] == [None, None, 1, None]


@pytest.mark.rule("TOOL-18")
def test_a_call_can_be_checked_once_more_with_another_tool_or_input() -> None:
    checked = ledger_with(recorded_call())
    again = ask_check(checked.ledger, checked.session, 0, "write", NOTHING)
    twice = ask_check(*drop_check(again.ledger, again.session, 0), 0, "read", Json.of({"path": "b"}))
    assert [of_kind(CheckCall, found.effects)[0] for found in (again, twice)] == [
        CheckCall(operation=check(1), call=call_id(1), tool="write", input=NOTHING),
        CheckCall(operation=check(2), call=call_id(1), tool="read", input=Json.of({"path": "b"})),
    ]
    assert [open_check(twice.ledger, check(number)) for number in (1, 2)] == [None, 0]
    assert (again.ledger.checking, twice.ledger.checking) == (1, 1)
    assert list(twice.session.operations.abandoned[1]) == [1]


def test_a_call_without_an_open_check_has_none_to_drop() -> None:
    checked = ledger_with(recorded_call())
    assert drop_check(checked.ledger, checked.session, 0) == (checked.ledger, checked.session)


# --- why a call may not run -------------------------------------------------------------------------------


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
        (made_call("child"), "a sub-agent is not supported"),
        (made_call(needs=("p0",)), '"p0", which no earlier call'),
        (made_call(call_input=Json.of({"path": {"$result": "p0"}})), '"p0", which no earlier call'),
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
    assert named(effects_of(asked(Policy()), made_call("bare"), completed()))[-1] == "ApprovalAsked"
    allowed = Policy(no_profile_approval=NoProfileApproval.ALLOW)
    assert isinstance(answer_to(made_call("bare"), allowed), StartTool)
    denied = a(ToolEnded, answer_to(made_call("bare"), Policy(approval_mode=ApprovalMode.HEADLESS)))
    assert "denied" in text_of(denied.result.content)
    assert isinstance(answer_to(made_call("bare"), Policy(approval_mode=ApprovalMode.BYPASS)), StartTool)
    assert isinstance(answer_to(made_call("danger"), Policy()), StartTool)


@pytest.mark.rule("TOOL-5")
def test_a_faulty_call_is_answered_once_and_any_other_is_left_as_it_is() -> None:
    for sound in (ledger_with(recorded_call(), verdict=None), ledger_with(recorded_call())):
        assert answer_faulty(sound.ledger, sound.session, 0) == Ledgered(sound.ledger, sound.session)
    faulty = ledger_with(recorded_call(), verdict=UnknownTool())
    answered = answer_faulty(faulty.ledger, faulty.session, 0)
    assert ends(answered.effects) == [(1, CallStatus.ERROR, None)]
    assert answer_faulty(answered.ledger, answered.session, 0).effects == ()


@pytest.mark.rule("TOOL-5")
def test_every_faulty_call_of_a_complete_reply_is_answered_in_order() -> None:
    found = EMPTY
    for position, verdict in enumerate((FREE, InvalidCall("no"), None, UnknownTool()), 1):
        found = add_call(found, SESSION, recorded_call(position), verdict).ledger
    answered = answer_all_faulty(found, SESSION)
    assert [place for place, _, _ in ends(answered.effects)] == [2, 4]
    assert [entry.is_open for entry in answered.ledger.entries] == [True, False, True, False]


def test_arguments_that_do_not_parse_never_start_even_where_a_verdict_lets_them() -> None:
    entry = LedgerEntry(call=recorded_call(call_input=RawInput("{")), verdict=FREE)
    state = working(made_call())
    ledger = evolve(state.ledger, entries=Vector.of([entry]), running=0)
    effects = effects_of(evolve(state, ledger=ledger), CancelCall(call_id(9)))
    assert starts(effects) == []


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-4")
@pytest.mark.rule("TOOL-8")
@given(st.lists(st.booleans(), min_size=1, max_size=3))
def test_an_answer_is_kept_for_ever(cancels: list[bool]) -> None:
    state: State = working(*(made_call() for _ in (*cancels, True)))
    for position, cancelled in enumerate(cancels, 1):
        answers: tuple[Delta, Delta] = (CancelCall(call_id(position)), ToolSucceeded(run(position)))
        state = after(state, answers[0] if cancelled else answers[1])
        for late in answers:
            assert entries_of(step(state, late).next) == entries_of(state)
    expected = [CallStatus.CANCELLED if cancelled else CallStatus.DONE for cancelled in cancels]
    assert statuses(state)[:-1] == expected


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("TOOL-14")
def test_an_answer_that_the_kernel_gives_says_which_call_how_and_why() -> None:
    entry = LedgerEntry(call=recorded_call(2), runs=1, person=Person(asked=True, answered=True))
    found = answer_of(entry, CallStatus.UNKNOWN, text("?"), CancelReason.SAFETY)
    assert (found.call, found.provider_id, found.tool) == (call_id(2), "p", "read")
    assert (found.status, found.content, found.reason) == (CallStatus.UNKNOWN, text("?"), CancelReason.SAFETY)
    assert (found.ran, found.decided) == (True, True)
    failed = error_result(LedgerEntry(call=recorded_call()), "no path")
    assert (failed.status, failed.content, failed.reason) == (CallStatus.ERROR, text("no path"), None)
    assert (failed.ran, failed.decided) == (False, False)
    cut = [cancelled_result(entry, reason) for reason in CancelReason]
    assert [(result.status, result.reason) for result in cut] == [
        (CallStatus.CANCELLED, reason) for reason in CancelReason
    ]
    assert len({text_of(result.content) for result in cut}) == len(cut)


@pytest.mark.rule("TOOL-8")
@given(st.permutations(range(4)), st.integers(0, 4))
def test_answers_are_listed_in_call_order_in_whatever_order_they_come(order: list[int], many: int) -> None:
    found = ledger_with(*(recorded_call(position) for position in range(1, 5)))
    for place in order[:many]:
        result = error_result(found.ledger.entries[place], str(place))
        found = close(found.ledger, found.session, place, result)
    assert [result.call.position - 1 for result in results(found.ledger)] == sorted(order[:many])


# --- what an answer means for others ----------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each call the earlier calls that it depends on."""
    return [
        sorted(draw(st.sets(st.integers(0, place - 1), max_size=2))) if place else []
        for place in range(draw(st.integers(2, 6)))
    ]


@pytest.mark.rule("CALL-3")
@given(graphs(), st.sampled_from((FREE, None)), st.booleans(), st.data())
def test_whatever_depends_on_a_call_that_did_not_succeed_is_answered_and_nothing_else(
    graph: list[list[int]], verdict: Verdict | None, plans: bool, data: st.DataObject
) -> None:
    """Calls come and end in any order: a source may have ended before the call comes that depends on it."""
    found = Ledgered(EMPTY, SESSION)
    failed: set[int] = set()
    coming = list(range(len(graph)))
    while coming or found.ledger.unanswered:
        entries = list(found.ledger.entries)
        waiting = [place for place, entry in enumerate(entries) if entry.is_open]
        place = data.draw(st.sampled_from([*waiting, *coming[:1]]))
        told_before = set(failed)
        if place in coming:
            coming.remove(place)
            call = linked_call(place + 1, f"c{place}", after=tuple(f"c{source}" for source in graph[place]))
            found = add_call(found.ledger, found.session, call, verdict)
            failed |= {place} if failed.intersection(graph[place]) else set()
            first: list[tuple[int, CallStatus]] = []
        else:
            status = data.draw(st.sampled_from((CallStatus.DONE, CallStatus.ERROR, CallStatus.CANCELLED)))
            ledger, session = drop_check(found.ledger, found.session, place)
            found = close(ledger, session, place, answer_of(entries[place], status, ()))
            failed |= {place} if status is not CallStatus.DONE else set()
            for later in waiting:
                failed |= {later} if later != place and failed.intersection(graph[later]) else set()
            first = [(place, status)]
        told = [(position - 1, how) for position, how, _ in ends(found.effects)]
        unreachable = failed - told_before - {place for place, _ in first}
        assert told[: len(first)] == first
        assert {other for other, _ in told[len(first) :]} == unreachable
        assert all(how is CallStatus.ERROR for _, how in told[len(first) :])
        assert found.ledger.unanswered == sum(entry.is_open for entry in found.ledger.entries)
        assert found.ledger.checking == sum(entry.check is not None for entry in found.ledger.entries)
        if plans:
            found = evolve(found, ledger=planned(found.ledger, found.session))


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize("verdict", [None, FREE])
def test_a_call_that_comes_after_its_sources_are_done_is_checked_with_their_outputs(verdict: Verdict | None) -> None:
    first = ledger_with(linked_call(1, "a"))
    done = answer_of(first.ledger.entries[0], CallStatus.DONE, text("b.txt"))
    closed = close(first.ledger, first.session, 0, done)
    added = add_call(closed.ledger, closed.session, REFERRING, verdict)
    ready = Json.of({"path": "b.txt", "mode": "r"})
    assert [asked.input for asked in of_kind(CheckCall, added.effects)] == [ready]
    entry = added.ledger.entries[1]
    assert (entry.given, entry.refers, entry.verdict, entry.check) == (ready, False, None, 1)


@pytest.mark.rule("CALL-3")
@pytest.mark.rule("CALL-4")
def test_an_unreachable_call_is_told_which_call_failed() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b", after=("a",)), linked_call(3, "c", after=("b",)))
    closed = close(found.ledger, found.session, 0, error_result(found.ledger.entries[0], "broken"))
    told = [text_of(effect.result.content) for effect in of_kind(ToolEnded, closed.effects)]
    assert 'call "a", which ended as error' in told[1]
    assert 'call "b", which ended as error' in told[2]


REFERRING = linked_call(2, "b", {"path": {"$result": "a"}, "mode": "r"})


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-18")
def test_when_its_sources_are_done_the_references_of_a_call_are_resolved_and_its_input_is_checked_again() -> None:
    found = ledger_with(linked_call(1, "a"), REFERRING)
    result = answer_of(found.ledger.entries[0], CallStatus.DONE, text("b.txt"))
    closed = close(found.ledger, found.session, 0, result)
    entry = closed.ledger.entries[1]
    ready = Json.of({"path": "b.txt", "mode": "r"})
    assert of_kind(CheckCall, closed.effects) == [
        CheckCall(operation=check(1), call=call_id(2), tool="read", input=ready)
    ]
    assert (entry.given, entry.refers, entry.verdict, entry.check) == (ready, False, FREE, 1)
    assert entry.call == REFERRING  # the model's own input is kept


@pytest.mark.rule("CALL-1")
def test_a_call_with_two_sources_waits_for_both() -> None:
    both = linked_call(3, "c", [{"$result": "a"}, {"$result": "b"}])
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b"), both)
    first = close(found.ledger, found.session, 1, answer_of(found.ledger.entries[1], CallStatus.DONE, text("two")))
    assert of_kind(CheckCall, first.effects) == []
    second = close(first.ledger, first.session, 0, answer_of(first.ledger.entries[0], CallStatus.DONE, text("one")))
    assert of_kind(CheckCall, second.effects)[0].input == Json.of(["one", "two"])


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("DELTA-2")
def test_a_check_that_was_under_way_when_the_references_were_resolved_is_stale() -> None:
    found = ledger_with(linked_call(1, "a"), REFERRING, verdict=None)
    ledger, session = drop_check(found.ledger, found.session, 0)
    closed = close(ledger, session, 0, answer_of(ledger.entries[0], CallStatus.DONE, text("b.txt")))
    assert [open_check(closed.ledger, check(number)) for number in (2, 3)] == [None, 1]
    assert list(closed.session.operations.abandoned[OperationKind.CHECK]) == [1, 2]
    assert closed.ledger.checking == 1


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize("verdict", [UnknownTool(), InvalidCall("no")])
def test_a_call_that_can_never_run_is_not_checked_again(verdict: Verdict) -> None:
    """While its reply streams it is not answered yet."""
    first = ledger_with(linked_call(1, "a"))
    found = add_call(first.ledger, first.session, REFERRING, verdict)
    closed = close(found.ledger, found.session, 0, answer_of(found.ledger.entries[0], CallStatus.DONE, ()))
    assert named(closed.effects) == ["ToolEnded"]
    assert closed.ledger.entries[1].verdict == verdict


@pytest.mark.rule("CALL-1")
def test_a_call_that_only_declares_what_it_waits_for_is_not_checked_again() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b", after=("a",)))
    closed = close(found.ledger, found.session, 0, answer_of(found.ledger.entries[0], CallStatus.DONE, ()))
    assert named(closed.effects) == ["ToolEnded"]


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("ASK-3")
def test_a_reference_gets_what_the_tool_returned_in_full_and_without_a_note() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b"), linked_call(3, "c"))
    entries = found.ledger.entries
    ledger, session, _ = shut(found.ledger, SESSION, 0, error_result(entries[0], "short"), output=text("long"))
    ledger, _, _ = shut(ledger, session, 1, answer_of(entries[1], CallStatus.DONE, text("told")))
    assert outputs_of(ledger, (0, 1, 2)) == {"a": "long", "b": "told", "c": ""}


# --- an entry ---------------------------------------------------------------------------------------------


def test_the_input_of_a_call_is_the_persons_else_the_resolved_one_else_the_models() -> None:
    entry = LedgerEntry(call=REFERRING, links=Links(sources=(0,), refers=True))
    assert (entry.tool, entry.given, entry.refers) == ("read", REFERRING.input, True)
    ready = evolve(entry, links=Links(sources=(0,), refers=True, resolved=Json.of("x")))
    assert (ready.given, ready.refers) == (Json.of("x"), False)
    edit = Edit(action=UserAction.SWAP, tool="write", input=Json.of("y"))
    edited = evolve(ready, person=Person(edit=edit))
    assert (edited.tool, edited.given, edited.refers) == ("write", Json.of("y"), False)
    assert not evolve(entry, person=Person(edit=edit)).refers
    assert not LedgerEntry(call=REFERRING).refers


def test_a_question_is_what_a_running_tool_asks() -> None:
    asking = LedgerEntry(call=REFERRING, person=Person(wait=QuestionWait("which?")))
    waiting = LedgerEntry(call=REFERRING, person=Person(wait=ApprovalWait()))
    assert [entry.question for entry in (asking, waiting)] == ["which?", None]
    assert [entry.is_running for entry in (asking, waiting)] == [True, False]
    assert LedgerEntry(call=REFERRING, status=CallStatus.IN_PROGRESS).is_running


@given(plays())
def test_the_changes_of_an_entry_keep_all_that_they_do_not_name(play: Play) -> None:
    """They are built field by field: a field that is forgotten there shows here."""
    for ledger in ledgers_of(play):
        for entry in ledger.entries:
            judged = evolve(entry, verdict=FREE, check=None, result=None, output=None)
            assert entry.judged(FREE) == judged
            started = evolve(
                entry, status=CallStatus.IN_PROGRESS, operation=run(9), runs=entry.runs + 1, timer=None, check=None
            )
            assert entry.started(run(9), None) == evolve(started, result=None, output=None)
            result = cancelled_result(entry, CancelReason.LIMIT)
            person = evolve(entry.person, wait=None)
            ended = evolve(entry, status=result.status, result=result, output=text("x"), person=person)
            assert entry.ended(result, (TextBlock("x"),)) == evolve(ended, timer=None, check=None)


@pytest.mark.rule("TOOL-14")
def test_a_ledger_with_another_entry_is_the_same_but_for_that() -> None:
    state = working(made_call(), made_call(needs=("p",)), made_call())
    entry = evolve(state.ledger.entries[1], runs=7)
    other = state.ledger.put(1, entry)
    assert other == evolve(state.ledger, entries=state.ledger.entries.replace(1, entry))
    assert (other.plan, other.ids) == (state.ledger.plan, state.ledger.ids)
    assert other.ids is not None
    assert other.plan is not None


@pytest.mark.rule("TOOL-14")
@pytest.mark.rule("CALL-1")
def test_the_session_of_a_call_gives_its_run_a_key_of_its_own() -> None:
    calls = [made_call(call_input=Json.of({"path": path})) for path in ("a", "a")]
    effects = effects_of(asked(), *calls, completed())
    found = of_kind(StartTool, effects)
    assert [(start.operation, start.call, start.run, start.tool) for start in found] == [
        (1, call_id(1), 1, "read"),
        (2, call_id(2), 1, "read"),
    ]
    assert all(start.input == Json.of({"path": "a"}) for start in found)
    assert [start.key for start in found] == ["s/1/1.1", "s/1/1.2"]


@pytest.mark.rule("CALL-1")
def test_a_run_gets_the_output_of_another_in_place_of_the_reference() -> None:
    second = made_call("write", provider_id="q", call_input=Json.of({"path": {"$result": "p"}}))
    state = working(made_call(), second)
    following, effects = step(state, succeeded(1, "b.txt"))
    assert named(effects) == ["CancelTimer", "ToolEnded", "CheckCall"]
    (start,) = of_kind(StartTool, effects_of(following, checked(1)))
    assert start.input == Json.of({"path": "b.txt"})
