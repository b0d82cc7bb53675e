"""Which calls wait for a person, told from the state: neither one more nor one less, and what each asks."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel import PersonWait, deltas, waiting
from loopkernel.data.blocks import RawInput, ToolCall
from loopkernel.data.children import ChildCall
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import (
    ApprovalWait,
    ChildWait,
    CrashWait,
    Edit,
    Ledger,
    LedgerEntry,
    Person,
    QuestionWait,
)
from loopkernel.data.sessions import Session, Settings, Stamp, Turn
from loopkernel.data.states import Confirming, Dispatching, Executing, Initial, State, Streaming
from loopkernel.data.vector import Vector
from loopkernel.data.waits import ForAnswer, ForApproval, ForChild, ForWord
from loopkernel.data.words import CallStatus, UserAction
from loopkernel.testing.strategies.states import states
from loopkernel.views.explain import accepted_inputs
from loopkernel.views.waits import waits_of

FROM_WAIT = {ApprovalWait: ForApproval, QuestionWait: ForAnswer, CrashWait: ForWord, ChildWait: ForChild}
ANSWERS = {
    ForApproval: deltas.Approve,
    ForAnswer: deltas.AnswerQuestion,
    ForWord: deltas.AnswerAfterCrash,
}


def edit_is_checked(wait: ApprovalWait | QuestionWait | CrashWait | ChildWait | None) -> bool:
    return isinstance(wait, ApprovalWait) and wait.edit is not None


@given(states)
def test_exactly_the_calls_that_are_blocked_on_the_user_are_told(state: State) -> None:
    entries = state.ledger.entries if isinstance(state, Streaming | Executing | Confirming | Dispatching) else ()
    blocked = [
        entry
        for entry in entries
        if entry.status is CallStatus.BLOCKED_ON_USER and not edit_is_checked(entry.person.wait)
    ]
    found = waiting(state)
    assert [wait.call for wait in found] == [entry.call.id for entry in blocked]
    for wait, entry in zip(found, blocked, strict=True):
        assert (wait.tool, wait.input) == (entry.tool, entry.given)
        assert type(wait.reason) is FROM_WAIT[type(entry.person.wait)]


@given(states)
def test_what_is_told_agrees_with_what_each_call_waits_for_and_with_what_would_be_taken(state: State) -> None:
    reasons = {wait.call: wait.reasons for wait in waits_of(state)}
    accepted = {(type(delta), getattr(delta, "call", None)) for delta in accepted_inputs(state)}
    for wait in waiting(state):
        assert wait.reason in reasons[wait.call]
        answer = ANSWERS.get(type(wait.reason))
        assert answer is None or (answer, wait.call) in accepted


@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (ForApproval(), 'call 1.2 waits for your approval: shell {"command":"ls"}'),
        (ForAnswer("Which?"), 'call 1.2 waits for your answer to: Which?: shell {"command":"ls"}'),
        (ForWord(), 'call 1.2 waits for your word on what became of it before the restart: shell {"command":"ls"}'),
        (
            ForChild((ChildCall((CallId(ModelOperation(3), 1), CallId(ModelOperation(1), 1))),)),
            'call 1.2 waits for your answer to its sub-agent (3.1/1.1): shell {"command":"ls"}',
        ),
    ],
)
def test_a_wait_reads_as_a_sentence(wait: ForApproval | ForAnswer | ForWord | ForChild, told: str) -> None:
    asked = PersonWait(call=CallId(ModelOperation(1), 2), tool="shell", input=Json.of({"command": "ls"}), reason=wait)
    assert str(asked) == told
    assert str(evolve(asked, input=RawInput("ls\n"))).endswith(': shell "ls\\n"')


CALL = ToolCall(id=CallId(ModelOperation(1), 1), provider_id="c", tool="shell", input=Json.of({"command": "ls"}))


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (ApprovalWait(), ForApproval()),
        (ApprovalWait(edit=Edit(action=UserAction.CORRECT, tool="shell", input=Json.of({"command": "ls -l"}))), None),
        (QuestionWait("Which?"), ForAnswer("Which?")),
        (CrashWait(), ForWord()),
        (ChildWait((ChildCall((CALL.id,)),)), ForChild((ChildCall((CALL.id,)),))),
    ],
)
def test_each_wait_is_told_with_its_reason_and_none_while_an_edit_is_checked(
    wait: ApprovalWait | QuestionWait | CrashWait | ChildWait,
    reason: ForApproval | ForAnswer | ForWord | ForChild | None,
) -> None:
    entry = LedgerEntry(call=CALL, status=CallStatus.BLOCKED_ON_USER, person=Person(wait=wait, asked=True))
    ledger = Ledger(reply=ModelOperation(1), entries=Vector.of([entry]), unanswered=1, waiting=1)
    session = Session(settings=Settings(session_id="s"))
    turn = Turn(number=1, opened_ms=0)
    confirming = Confirming(session=session, stamp=Stamp(), turn=turn, ledger=ledger)
    told = waiting(confirming)
    assert [each.reason for each in told] == ([] if reason is None else [reason])
    assert all((each.call, each.tool, each.input) == (CALL.id, "shell", CALL.input) for each in told)
    under_way = ledger.put(0, evolve(entry, status=CallStatus.QUEUED))
    assert waiting(evolve(confirming, ledger=under_way)) == ()


def test_nobody_is_waited_for_at_the_start() -> None:
    assert waiting(Initial()) == ()
