"""The calls of a reply as a region: counted, linked, checked, and why one may not run."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, ToolCall, text_of
from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ToolEnded
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import Ledger, LedgerEntry, Links
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ChildLimits, Policy
from loopkernel.data.states import Executing
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import InvalidCall, UnknownTool, Verdict
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus
from loopkernel.loop.calls.ledger import add_call, ask_check, forget_check, noted, open_check, open_run, take_verdict
from loopkernel.loop.calls.stopping import answer_all_faulty, answer_faulty
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    NOTHING,
    a,
    after,
    asked,
    call_id,
    check,
    completed,
    effects_of,
    ends,
    made_call,
    named,
    of_kind,
    recorded_call,
    run,
    starts,
    working,
)
from tests.kernel.drafts import drafted, fresh
from tests.kernel.loop.calls.ledgers import EMPTY, SESSION, ledger_with, ledgers_of, linked_call
from tests.kernel.plays import plays

# --- what a ledger counts ---------------------------------------------------------------------------------


@pytest.mark.rule("STATE-5")
@pytest.mark.rule("TOOL-4")
@given(plays())
def test_what_a_ledger_counts_is_what_a_scan_of_it_finds(play: Run) -> None:
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
def test_a_terminal_status_never_changes_and_the_calls_stay_in_their_order(play: Run) -> None:
    for step in play.steps:
        before, following = (getattr(state, "ledger", None) for state in (step.before, step.after))
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
        added = add_call(drafted(session, ledger=ledger), recorded_call(position), verdict)
        ledger, session = added.ledger, added.session
        checks += of_kind(CheckCall, added.effects)
    asked_about = [call_id(n) for n, verdict in enumerate(given_verdicts, 1) if verdict is None]
    assert [(found.operation, found.call) for found in checks] == list(enumerate(asked_about, 1))
    assert (ledger.unanswered, ledger.checking) == (len(given_verdicts), len(checks))
    for found in checks:
        place = open_check(ledger, found.operation)
        assert place == found.call.position - 1
        judged = take_verdict(drafted(session, ledger=ledger), place, FREE)
        assert open_check(judged.ledger, found.operation) is None
        assert judged.ledger.checking == ledger.checking - 1
    assert open_check(ledger, check(0)) is None
    assert open_check(ledger, check(len(checks) + 1)) is None


@pytest.mark.rule("TOOL-18")
def test_what_does_not_parse_is_invalid_whatever_verdict_came_along() -> None:
    for verdict in (None, FREE, UnknownTool()):
        added = add_call(drafted(SESSION, ledger=EMPTY), recorded_call(call_input=RawInput("{")), verdict)
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
    again = ask_check(fresh(checked), 0, "write", NOTHING)
    twice = ask_check(forget_check(fresh(again), 0), 0, "read", Json.of({"path": "b"}))
    assert [of_kind(CheckCall, found.effects)[0] for found in (again, twice)] == [
        CheckCall(operation=check(1), call=call_id(1), tool="write", input=NOTHING),
        CheckCall(operation=check(2), call=call_id(1), tool="read", input=Json.of({"path": "b"})),
    ]
    assert [open_check(twice.ledger, check(number)) for number in (1, 2)] == [None, 0]
    assert (again.ledger.checking, twice.ledger.checking) == (1, 1)
    assert list(twice.session.operations.abandoned[1]) == [1]


def test_a_call_without_an_open_check_has_none_to_forget() -> None:
    checked = ledger_with(recorded_call())
    draft = fresh(checked)
    assert forget_check(draft, 0) is draft


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
        (made_call("child"), "no further sub-agents"),
        (made_call(needs=("p0",)), '"p0", which no earlier call'),
        (made_call(call_input=Json.of({"path": {"$result": "p0"}})), '"p0", which no earlier call'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_that_may_not_run_is_answered_and_told_why(call: ModelCall, told: str) -> None:
    found = a(ToolEnded, answer_to(call, evolve(ASKING_NOBODY, child=ChildLimits(depth=0))))
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
        draft = fresh(sound)
        assert answer_faulty(draft, 0) is draft
    faulty = ledger_with(recorded_call(), verdict=UnknownTool())
    answered = answer_faulty(fresh(faulty), 0)
    assert ends(answered.effects) == [(1, CallStatus.ERROR, None)]
    assert answer_faulty(fresh(answered), 0).effects == ()


@pytest.mark.rule("TOOL-5")
def test_every_faulty_call_of_a_complete_reply_is_answered_in_order() -> None:
    found = EMPTY
    for position, verdict in enumerate((FREE, InvalidCall("no"), None, UnknownTool()), 1):
        found = add_call(drafted(SESSION, ledger=found), recorded_call(position), verdict).ledger
    answered = answer_all_faulty(drafted(SESSION, ledger=found))
    assert [place for place, _, _ in ends(answered.effects)] == [2, 4]
    assert [entry.is_open for entry in answered.ledger.entries] == [True, False, True, False]


def test_arguments_that_do_not_parse_never_start_even_where_a_verdict_lets_them() -> None:
    entry = LedgerEntry(call=recorded_call(call_input=RawInput("{")), verdict=FREE)
    state = working(made_call())
    ledger = evolve(state.ledger, entries=Vector.of([entry]), running=0)
    effects = effects_of(evolve(state, ledger=ledger), CancelCall(call_id(9)))
    assert starts(effects) == []
