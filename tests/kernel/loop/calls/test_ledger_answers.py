"""What the answer to a call means for the others, and what an entry of the ledger is."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Edit, LedgerEntry, Links, Person, QuestionWait
from loopkernel.data.states import State
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import EffectClass, InvalidCall, UnknownTool, Verdict
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.words import CallStatus, CancelReason, UserAction
from loopkernel.loop.calls.ledger import (
    add_call,
    answer_of,
    cancelled_result,
    close,
    close_alone,
    error_result,
    forget_check,
    open_check,
    outputs_of,
    results,
)
from loopkernel.loop.calls.schedule import planned
from loopkernel.testing.run import Run

from tests.kernel.building import (
    FREE,
    after,
    asked,
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
    statuses,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.drafts import all_of, drafted, fresh
from tests.kernel.loop.calls.ledgers import EMPTY, SESSION, ledger_with, ledgers_of, linked_call
from tests.kernel.plays import plays

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
        found = close(fresh(found), place, result)
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
    found = drafted(SESSION, ledger=EMPTY)
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
            found = add_call(fresh(found), call, verdict)
            failed |= {place} if failed.intersection(graph[place]) else set()
            first: list[tuple[int, CallStatus]] = []
        else:
            status = data.draw(st.sampled_from((CallStatus.DONE, CallStatus.ERROR, CallStatus.CANCELLED)))
            found = close(forget_check(fresh(found), place), place, answer_of(entries[place], status, ()))
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
    closed = close(fresh(first), 0, done)
    added = add_call(fresh(closed), REFERRING, verdict)
    ready = Json.of({"path": "b.txt", "mode": "r"})
    assert [asked.input for asked in of_kind(CheckCall, added.effects)] == [ready]
    entry = added.ledger.entries[1]
    assert (entry.given, entry.refers, entry.verdict, entry.check) == (ready, False, None, 1)


@pytest.mark.rule("CALL-3")
@pytest.mark.rule("CALL-4")
def test_an_unreachable_call_is_told_which_call_failed() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b", after=("a",)), linked_call(3, "c", after=("b",)))
    closed = close(fresh(found), 0, error_result(found.ledger.entries[0], "broken"))
    told = [text_of(effect.result.content) for effect in of_kind(ToolEnded, closed.effects)]
    assert 'call "a", which ended as error' in told[1]
    assert 'call "b", which ended as error' in told[2]


REFERRING = linked_call(2, "b", {"path": {"$result": "a"}, "mode": "r"})


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-18")
def test_when_its_sources_are_done_the_references_of_a_call_are_resolved_and_its_input_is_checked_again() -> None:
    found = ledger_with(linked_call(1, "a"), REFERRING)
    result = answer_of(found.ledger.entries[0], CallStatus.DONE, text("b.txt"))
    closed = close(fresh(found), 0, result)
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
    first = close(fresh(found), 1, answer_of(found.ledger.entries[1], CallStatus.DONE, text("two")))
    assert of_kind(CheckCall, first.effects) == []
    second = close(fresh(first), 0, answer_of(first.ledger.entries[0], CallStatus.DONE, text("one")))
    assert of_kind(CheckCall, second.effects)[0].input == Json.of(["one", "two"])


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("DELTA-2")
def test_a_check_that_was_under_way_when_the_references_were_resolved_is_stale() -> None:
    found = ledger_with(linked_call(1, "a"), REFERRING, verdict=None)
    draft = forget_check(fresh(found), 0)
    closed = close(draft, 0, answer_of(draft.ledger.entries[0], CallStatus.DONE, text("b.txt")))
    assert [open_check(closed.ledger, check(number)) for number in (2, 3)] == [None, 1]
    assert list(closed.session.operations.abandoned[OperationKind.CHECK]) == [1, 2]
    assert closed.ledger.checking == 1


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize("verdict", [UnknownTool(), InvalidCall("no")])
def test_a_call_that_can_never_run_is_not_checked_again(verdict: Verdict) -> None:
    """While its reply streams it is not answered yet."""
    first = ledger_with(linked_call(1, "a"))
    found = add_call(fresh(first), REFERRING, verdict)
    closed = close(fresh(found), 0, answer_of(found.ledger.entries[0], CallStatus.DONE, ()))
    assert named(closed.effects) == ["ToolEnded"]
    assert closed.ledger.entries[1].verdict == verdict


@pytest.mark.rule("CALL-1")
def test_a_call_that_only_declares_what_it_waits_for_is_not_checked_again() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b", after=("a",)))
    closed = close(fresh(found), 0, answer_of(found.ledger.entries[0], CallStatus.DONE, ()))
    assert named(closed.effects) == ["ToolEnded"]


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("ASK-3")
def test_a_reference_gets_what_the_tool_returned_in_full_and_without_a_note() -> None:
    found = ledger_with(linked_call(1, "a"), linked_call(2, "b"), linked_call(3, "c"))
    entries = found.ledger.entries
    ledger, session, _ = all_of(
        close_alone(drafted(SESSION, ledger=found.ledger), 0, error_result(entries[0], "short"), output=text("long"))
    )
    ledger, _, _ = all_of(
        close_alone(drafted(session, ledger=ledger), 1, answer_of(entries[1], CallStatus.DONE, text("told")))
    )
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


DANGEROUS = EffectClass.DANGEROUS


@given(plays())
def test_the_changes_of_an_entry_keep_all_that_they_do_not_name(play: Run) -> None:
    """They are built field by field: a field that is forgotten there shows here."""
    for ledger in ledgers_of(play):
        for entry in ledger.entries:
            judged = evolve(entry, verdict=FREE, check=None, result=None, output=None)
            assert entry.judged(FREE) == judged
            started = evolve(
                entry, status=CallStatus.IN_PROGRESS, operation=run(9), runs=entry.runs + 1, timer=None, check=None
            )
            assert entry.started(run(9), None, DANGEROUS) == evolve(started, result=None, output=None, effect=DANGEROUS)
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
