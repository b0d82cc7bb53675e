"""What each open call waits for: a true reason for each, and a sentence for each reason."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import OnToolFailure, OutputCalls, RestartDangerous, Schedule, WriteConflict
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.policy import ApprovalRule, OnRestart
from loopkernel.data.states import Confirming, Executing, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import CancelCall, ChangeTools, Correct, Permit
from loopkernel.data.vector import Vector
from loopkernel.data.waits import (
    ForAnswer,
    ForApproval,
    ForCheck,
    ForChild,
    ForConflict,
    ForHook,
    ForMore,
    ForOthers,
    ForOwnResult,
    ForReply,
    ForShare,
    ForSlot,
    ForSource,
    ForTurn,
    ForWord,
    Reason,
    Wait,
)
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.states import states
from loopkernel.views.waits import MOST, told, waits_of

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    after,
    asked,
    asking,
    at_rest,
    broken,
    call_id,
    completed,
    entries_of,
    made_call,
    reads,
    recorded_call,
    run,
    succeeded,
    working,
    writes,
)
from tests.kernel.plays import plays

FIRST, SECOND, THIRD = call_id(1), call_id(2), call_id(3)
WRITE_A, READ_A = made_call("write", writes("a")), made_call("read", reads("a"))


def reasons(state: State) -> list[tuple[Reason, ...]]:
    """The reasons of each open call, in order."""
    return [wait.reasons for wait in waits_of(state)]


# --- what holds always ------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-3")
@given(plays())
def test_each_open_call_has_a_reason_to_wait_and_no_other_has(play: Run) -> None:
    for step in play.steps:
        state = step.after
        waits = waits_of(state)
        if not isinstance(state, Streaming | Executing | Confirming):
            assert waits == ()
            continue
        entries = [entry for entry in state.ledger.entries if entry.is_open]
        assert [wait.call for wait in waits] == [entry.call.id for entry in entries]
        for wait, entry in zip(waits, entries, strict=True):
            assert wait.reasons
            assert len(set(wait.reasons)) == len(wait.reasons)
            for reason in wait.reasons:
                assert is_true(reason, entry, state), f"{reason} of {entry.call.id}"


def is_true(reason: Reason, entry: LedgerEntry, state: Streaming | Executing | Confirming) -> bool:
    """Whether the reason holds, as far as the entry and its ledger tell."""
    ledger, policy = state.ledger, state.session.settings.policy
    match reason:
        case ForReply():
            return isinstance(state, Streaming)
        case ForCheck():
            return entry.check is not None
        case ForOwnResult():
            return entry.status is CallStatus.IN_PROGRESS
        case ForApproval():
            waits = entry.status is CallStatus.BLOCKED_ON_USER
            return waits or (entry.status is CallStatus.QUEUED and not entry.person.approved)
        case ForAnswer(question):
            return entry.question == question
        case ForWord():
            return entry.runs > 0 and entry.status is CallStatus.BLOCKED_ON_USER and entry.question is None
        case ForSource(call):
            links = entry.links
            return links is not None and call.position - 1 in links.sources and is_open(ledger, call)
        case ForConflict(call, _, _, stopping):
            return call != entry.call.id and (call.reply != ledger.reply or is_open(ledger, call) is not stopping)
        case ForTurn(call):
            return call != entry.call.id and is_open(ledger, call)
        case ForMore(calls):
            return calls > 0
        case ForSlot(slots):
            return slots == policy.max_parallel and ledger.running + ledger.asking >= slots
        case ForHook(name):
            return entry.hooks.open is not None and entry.hooks.open.hook.name == name
        case ForChild(asked):
            return entry.child is not None and asked != ()
        case ForShare():
            return entry.child is None and ledger.children + ledger.asking > 0
        case ForOthers():
            return policy.output_tool == entry.tool and policy.output_calls is OutputCalls.RUN
    return False


def is_open(ledger: Ledger, call: CallId) -> bool:
    return ledger.entries[call.position - 1].is_open


@given(states)
def test_whatever_the_state_its_waits_can_be_told(state: State) -> None:
    """Also states that no run reaches."""
    for wait in waits_of(state):
        assert told(wait).startswith(f"call {wait.call} waits ")


# --- one by one -------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-3")
def test_a_call_waits_for_what_it_must_not_overlap_with() -> None:
    assert reasons(working(WRITE_A, READ_A)) == [(ForOwnResult(),), (ForConflict(FIRST, "a", True),)]
    assert reasons(working(READ_A, WRITE_A))[1] == (ForConflict(FIRST, "a", False),)
    unknown = made_call("write", ValidCall(None))
    assert reasons(working(unknown, READ_A))[1] == (ForConflict(FIRST, None, True),)
    assert reasons(working(READ_A, unknown))[1] == (ForConflict(FIRST, None, True),)


@pytest.mark.rule("TOOL-3")
def test_a_call_waits_for_its_turn_where_nothing_else_is_in_its_way() -> None:
    serial = evolve(ASKING_NOBODY, schedule=Schedule.SERIAL)
    assert reasons(working(made_call(), made_call(), policy=serial))[1] == (ForTurn(FIRST),)
    last_write = evolve(serial, write_conflict=WriteConflict.LAST_WRITE)
    assert reasons(working(WRITE_A, WRITE_A, policy=last_write))[1] == (ForTurn(FIRST),)


@pytest.mark.rule("TOOL-17")
def test_a_call_waits_for_a_run_that_is_stopping() -> None:
    state = after(working(WRITE_A, WRITE_A), CancelCall(FIRST))
    assert reasons(state) == [(ForConflict(FIRST, "a", True, True),)]
    second = completed(StopReason.TOOL_USE, reply=2)
    for call, key in ((WRITE_A, "a"), (made_call("write", ValidCall(None)), None)):
        behind = after(working(WRITE_A), succeeded(1, background=True), evolve(call, operation=THE_SECOND), second)
        assert reasons(behind) == [(ForConflict(FIRST, key, True, True),)]


THE_SECOND = call_id(1, reply=2).reply


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("TOOL-17")
def test_a_call_waits_for_its_sources_and_no_longer_once_they_are_done() -> None:
    calls = (made_call("write", writes("a")), made_call("read", reads("a"), provider_id="q", needs=("p",)))
    assert reasons(working(*calls))[1] == (ForSource(FIRST),)
    behind = after(working(*calls), succeeded(1, background=True))
    assert reasons(behind) == [(ForConflict(FIRST, "a", True, True),)]


@pytest.mark.rule("TOOL-3")
def test_a_call_without_a_slot_says_so() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=2)
    calls = (made_call(), made_call(), made_call(), made_call("write", writes("a")))
    state = working(*calls, policy=policy)
    assert reasons(state)[2:] == [(ForSlot(2),), (ForSlot(2),)]
    questioned = after(state, ToolAsked(run(1), "?"))
    assert reasons(questioned)[2] == (ForSlot(2),)
    conflicting = working(WRITE_A, WRITE_A, policy=evolve(policy, max_parallel=1))
    assert reasons(conflicting)[1] == (ForConflict(FIRST, "a", True),)  # a slot would be of no use


@pytest.mark.rule("TOOL-17")
def test_a_run_that_has_still_to_stop_is_in_the_way_by_what_it_took_whatever_its_tool_is_now() -> None:
    calls = (made_call("read", writes("b")), WRITE_A, made_call("write", writes("b")))
    state = after(working(*calls), CancelCall(FIRST))
    assert reasons(state) == [(ForOwnResult(),), (ForConflict(FIRST, "b", True, True),)]
    other = tuple(evolve(tool, profile=None) if tool.name == "read" else tool for tool in ALL_TOOLS)
    assert reasons(after(state, ChangeTools(other))) == reasons(state)
    behind = after(working(*calls, WRITE_A), CancelCall(FIRST), ChangeTools(other))
    assert reasons(behind)[-1] == (ForConflict(SECOND, "a", True),)


@pytest.mark.rule("TOOL-18")
def test_a_call_that_is_checked_and_one_behind_it_wait_for_the_check() -> None:
    state = working(made_call(verdict=None), made_call())
    assert reasons(state) == [(ForCheck(),), (ForConflict(FIRST, None, True),)]
    edited = after(asking(made_call("asks")), Correct(call=FIRST, input=Json.of({"path": "b"})))
    assert reasons(edited) == [(ForCheck(), ForApproval())]


@pytest.mark.rule("ASK-2")
@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("RESUME-3")
def test_a_call_waits_for_a_person() -> None:
    assert reasons(asking(made_call("asks"))) == [(ForApproval(),)]
    assert reasons(after(working(made_call()), ToolAsked(run(1), "which?"))) == [(ForAnswer("which?"),)]
    policy = evolve(ASKING_NOBODY, on_restart=OnRestart(dangerous=RestartDangerous.ASK))
    crashed = after(working(made_call("danger"), policy=policy, tools=ALL_TOOLS), Resumed())
    assert reasons(crashed) == [(ForWord(),)]


@pytest.mark.rule("ASK-1")
def test_a_call_that_will_be_asked_about_says_so_while_it_waits_for_something_else() -> None:
    calls = (WRITE_A, made_call("asks", writes("a")))
    assert reasons(working(*calls, tools=ALL_TOOLS))[1] == (ForConflict(FIRST, "a", True), ForApproval())
    allowed = after(working(*calls, tools=ALL_TOOLS), Permit(ApprovalRule(decision=Decision.ALLOW)))
    assert reasons(allowed)[1] == (ForConflict(FIRST, "a", True),)
    unchecked = working(WRITE_A, made_call("asks", None), tools=ALL_TOOLS)
    assert reasons(unchecked)[1][0] == ForCheck()
    assert ForApproval() not in reasons(unchecked)[1]


@pytest.mark.rule("ASK-4")
def test_an_approved_call_that_waits_for_a_slot_will_not_be_asked_about_again() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    state = working(made_call(), made_call("asks"), policy=policy, tools=ALL_TOOLS)
    assert reasons(state)[1] == (ForApproval(),)
    approved = evolve(state.ledger.entries[1].person, wait=None, approved=True, asked=True)
    queued = evolve(state.ledger.entries[1], status=CallStatus.QUEUED, person=approved)
    ledger = evolve(state.ledger, entries=state.ledger.entries.replace(1, queued), waiting=0)
    assert reasons(evolve(state, ledger=ledger))[1] == (ForSlot(1),)


@pytest.mark.rule("TOOL-3")
def test_only_so_many_calls_in_the_way_are_named() -> None:
    policy = evolve(ASKING_NOBODY, schedule=Schedule.SERIAL)
    state = working(*[made_call()] * (MOST + 3), policy=policy)
    last = reasons(state)[-1]
    assert last == (*(ForTurn(call_id(position)) for position in range(1, MOST + 1)), ForMore(2))
    assert reasons(state)[MOST] == tuple(ForTurn(call_id(position)) for position in range(1, MOST + 1))


# --- while the reply streams ------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-15")
def test_a_call_that_may_not_start_early_waits_for_the_end_of_the_reply() -> None:
    state = asked(ASKING_NOBODY, made_call(), made_call(verdict=None))
    assert reasons(state) == [(ForReply(),), (ForCheck(), ForReply())]


@pytest.mark.rule("TOOL-9")
def test_a_call_that_may_start_early_waits_for_what_is_in_its_way() -> None:
    early = (made_call("early_write", writes("a")), made_call("early_read", reads("a")))
    state = asked(ASKING_NOBODY, *early, tools=ALL_TOOLS)
    assert reasons(state) == [(ForOwnResult(),), (ForConflict(FIRST, "a", True),)]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize("verdict", [InvalidCall("no"), UnknownTool()])
def test_a_call_that_never_runs_is_answered_with_the_end_of_the_reply(verdict: Verdict) -> None:
    state = asked(ASKING_NOBODY, made_call(verdict=None), made_call("early_read", verdict), tools=ALL_TOOLS)
    assert reasons(state)[1] == (ForReply(),)


@pytest.mark.rule("TOOL-6")
@pytest.mark.rule("TOOL-9")
def test_after_a_failure_that_cancels_siblings_nothing_starts_early() -> None:
    policy = evolve(ASKING_NOBODY, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
    state = asked(policy, made_call("early_read"), broken(1), made_call("early_read"), tools=ALL_TOOLS)
    assert reasons(state) == [(ForReply(),)]


# --- outputs ----------------------------------------------------------------------------------------------

OUTPUT = evolve(ASKING_NOBODY, output_tool="danger")
SKIP = evolve(OUTPUT, output_calls=OutputCalls.SKIP)


@pytest.mark.rule("CALL-5")
def test_an_output_waits_for_the_others_and_for_what_it_depends_on() -> None:
    state = working(made_call("danger"), made_call(), policy=OUTPUT, tools=ALL_TOOLS)
    assert reasons(state) == [(ForOthers(),), (ForOwnResult(),)]
    needing = (made_call(), made_call("danger", provider_id="q", needs=("p",)))
    assert reasons(working(*needing, policy=OUTPUT, tools=ALL_TOOLS))[1] == (ForSource(FIRST), ForOthers())
    assert reasons(working(*needing, policy=SKIP, tools=ALL_TOOLS))[1] == (ForSource(FIRST),)


@pytest.mark.rule("CALL-5")
def test_an_output_that_is_being_checked_waits_for_that_and_holds_the_others_where_they_may_be_skipped() -> None:
    calls = (made_call(), made_call("danger", None))
    assert reasons(working(*calls, policy=OUTPUT, tools=ALL_TOOLS)) == [(ForOwnResult(),), (ForCheck(),)]
    assert reasons(working(*calls, policy=SKIP, tools=ALL_TOOLS)) == [(ForTurn(SECOND),), (ForCheck(),)]


@pytest.mark.rule("CALL-5")
def test_an_output_waits_for_the_end_of_a_reply_that_streams() -> None:
    state = asked(OUTPUT, made_call("danger"), tools=ALL_TOOLS)
    assert reasons(state) == [(ForReply(),)]


# --- where nothing waits ----------------------------------------------------------------------------------


def test_nothing_waits_where_no_call_is_open() -> None:
    rest = at_rest()
    released = after(asking(made_call("asks")), Disposed())
    answered = evolve(working(made_call()), ledger=evolve(working(made_call()).ledger, unanswered=0, entries=Vector()))
    for state in (rest, Initial(), released, asked(), answered):
        assert waits_of(state) == ()
    assert isinstance(rest, Idle)


def test_a_call_that_nobody_can_run_is_not_said_to_be_asked_about() -> None:
    """No run reaches a checked call whose arguments do not parse; one whose tool is gone is about to be answered."""
    policy = evolve(ASKING_NOBODY, max_parallel=1, approval_rules=(ApprovalRule(decision=Decision.ASK),))
    state = working(made_call(verdict=None), policy=policy)
    unparsed = LedgerEntry(call=recorded_call(call_input=RawInput("{")), verdict=FREE)
    missing = LedgerEntry(call=recorded_call(2, tool="gone"), verdict=FREE)
    running = LedgerEntry(call=recorded_call(3), verdict=FREE, status=CallStatus.IN_PROGRESS, operation=run(1))
    ledger = Ledger(reply=ONE, entries=Vector.of([running, unparsed, missing]), unanswered=3, running=1)
    assert reasons(evolve(state, ledger=ledger))[1:] == [(ForSlot(1),), (ForSlot(1),)]


# --- in words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (ForReply(), "for the end of the reply"),
        (ForCheck(), "for the check of its input"),
        (ForOwnResult(), "for its own result"),
        (ForApproval(), "for your approval"),
        (ForAnswer("which one?"), "for your answer to: which one?"),
        (ForWord(), "for your word on what became of it before the restart"),
        (ForSource(SECOND), "for the result of call c2"),
        (ForConflict(FIRST, "b.txt", True), "for call c1, which writes b.txt"),
        (ForConflict(FIRST, "b.txt", False), "for call c1, which reads b.txt"),
        (ForConflict(FIRST, None, True), "for call c1, which must not overlap with it"),
        (ForConflict(FIRST, "b.txt", True, True), "for call c1, which is stopping, and still writes b.txt"),
        (ForConflict(FIRST, None, True, True), "for call c1, which is stopping, and still must not overlap with it"),
        (ForTurn(FIRST), "for its turn behind call c1"),
        (ForMore(2), "for 2 more calls"),
        (ForSlot(10), "for a free slot (all 10 are taken)"),
        (ForOthers(), "for the other calls to end"),
    ],
    ids=repr,
)
def test_each_reason_has_its_words(reason: Reason, words: str) -> None:
    assert told(Wait(THIRD, (reason,)), lambda call: f"c{call.position}") == f"call c3 waits {words}"


def test_several_reasons_make_one_sentence() -> None:
    both = (ForConflict(FIRST, "b.txt", True), ForApproval())
    assert told(Wait(THIRD, both), lambda call: f"c{call.position}") == (
        "call c3 waits for call c1, which writes b.txt, and for your approval"
    )
    assert told(Wait(THIRD, (ForTurn(FIRST), *both))) == (
        "call 1.3 waits for its turn behind call 1.1, for call 1.1, which writes b.txt, and for your approval"
    )


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("ASK-2")
def test_the_sentence_of_the_specification() -> None:
    calls = (made_call("write", writes("b.txt")), made_call(), made_call("asks", writes("b.txt")))
    state = working(*calls, tools=ALL_TOOLS)
    names = {entry.call.id: f"c{place}" for place, entry in enumerate(entries_of(state), 1)}
    assert told(waits_of(state)[2], names.__getitem__) == (
        "call c3 waits for call c1, which writes b.txt, and for your approval"
    )
